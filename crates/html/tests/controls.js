// Uses pages as people do, in Chromium: node tests/controls.js WHAT FILE. Prints a line for each thing that was seen, and ends with a
// status that is not 0 where one was not as it should be.
"use strict";
const assert = require("assert");
const { open } = require("./browser.js");
const [what, file] = process.argv.slice(2);
const url = "file://" + file;

let page;
let failed = 0;
async function see(name, act) {
  try {
    await act();
    console.log("ok: " + name);
  } catch (why) {
    failed++;
    console.log("NOT: " + name + ": " + String(why.message || why).slice(0, 2000));
  }
}
const text = (id) => page.evaluate(`document.getElementById("${id}").textContent`);
const visible = (id) => page.evaluate(`document.getElementById("${id}").checkVisibility()`);
const box = (selector) => page.evaluate(`(() => { const one = document.querySelector(${JSON.stringify(selector)}); one.scrollIntoView({ block: "center" }); const r = one.getBoundingClientRect(); return { x: r.x, y: r.y, width: r.width, height: r.height }; })()`);
const rest = () => page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 120)))");
async function clickOn(selector) {
  const { x, y, width, height } = await box(selector);
  assert(width > 0 && height > 0, selector + " is not to be seen");
  await page.click(x + width / 2, y + height / 2);
  await rest();
}
async function focus(selector) { await page.evaluate(`document.querySelector(${JSON.stringify(selector)}).focus()`); }
async function keys(...names) { for (const name of names) await page.key(name.replace("Shift+", ""), { shift: name.startsWith("Shift+") }); await rest(); }
async function choose(id, value) { await page.evaluate(`(() => { const one = document.getElementById("${id}"); one.value = ${JSON.stringify(value)}; one.dispatchEvent(new Event("change", { bubbles: true })); })()`); await rest(); }
async function write(words) {
  await page.evaluate(`(() => { const one = document.getElementById("search"); one.focus(); one.select(); })()`);
  await page.send("Input.insertText", { text: words });
  await rest();
}
const rows = () => page.evaluate(`Array.from(document.querySelectorAll("#rows tr"), (row) => Array.from(row.children, (cell) => cell.textContent))`);
const back = async () => { await page.evaluate("history.back()"); await rest(); await rest(); };
const fresh = async (place = "") => { await page.go(url + (place ? "#" + place : "")); await rest(); };

// The recording of known counts: 70 samples in alpha, 30 in beta, 11 in gamma, and 10 of a second event; ten seconds.
async function controls() {
  await page.screen();
  await fresh();
  await see("the overview tells all", async () => {
    const facts = await text("facts");
    for (const part of ["command", "faults111 samples, 111,000 in all; 0 samples at addresses without a function", "others10 samples, 50 in all", "lost samples7", "span of the samples9.6"]) assert(facts.includes(part), part + " is not in " + facts);
    assert.equal(await text("title"), "a <title>");
  });
  await see("all samples are chosen at first", async () => assert.equal(await text("chosen"), "111 of 111 samples, 111,000 faults"));
  await see("tabs by click, by number and by arrow", async () => {
    for (const [at, view] of ["graph", "graph", "table", "tree", "around", "source", "chart"].entries()) {
      await clickOn(`#tabs button:nth-child(${at + 1})`);
      assert(await visible(view), view);
      await page.evaluate("document.activeElement.blur()");
      await keys("1");
      assert(await visible("graph"));
      await keys(String(at + 1));
      assert(await visible(view), view + " by key");
    }
    await focus("#tabs [aria-selected=true]");
    await keys("ArrowRight");
    assert(await visible("graph"), "behind the last comes the first");
    await keys("ArrowLeft", "ArrowLeft");
    assert(await visible("source"));
  });
  await see("functions with exact counts, in the order of each column", async () => {
    await fresh("view=table");
    const all = await rows();
    const of = (name) => all.find((row) => row[4] === name);
    assert.deepEqual(of("main").slice(0, 4), ["0.00 %", "100.00 %", "", "111"]);
    assert.deepEqual(of("alpha").slice(0, 4), ["63.06 %", "63.06 %", "", "70"]);
    assert.deepEqual(of("beta").slice(0, 4), ["27.03 %", "27.03 %", "", "30"]);
    assert.deepEqual(of("gamma").slice(0, 4), ["9.91 %", "9.91 %", "", "11"]);
    const names = async () => (await rows()).map((row) => row[4]).join(" ");
    await clickOn("[data-sort=name]");
    assert.equal(await names(), "alpha beta gamma main");
    await clickOn("[data-sort=name]");
    assert.equal(await names(), "main gamma beta alpha");
    await clickOn("[data-sort=own]");
    assert.equal(await names(), "alpha beta gamma main");
    await clickOn("[data-sort=total]");
    assert.equal(await names(), "main alpha beta gamma");
    await clickOn("[data-sort=object]");
    assert((await page.evaluate("document.querySelector('th.object').getAttribute('aria-sort')")) === "ascending");
  });
  await see("search by words and by an expression", async () => {
    await fresh("view=table");
    await keys("/");
    assert.equal(await page.evaluate("document.activeElement.id"), "search");
    await write("ALPH");
    assert.equal(await text("found"), "63.06 % in 1 function with callees");
    assert.equal((await rows()).length, 1);
    await write("^(beta|gamma)$");
    assert.equal(await text("found"), "0.00 % in 0 functions with callees");
    assert.equal(await text("no-rows"), "No function is here.");
    await clickOn("#expression");
    assert.equal(await text("found"), "36.94 % in 2 functions with callees");
    await write("(");
    assert.equal(await text("found"), "no regular expression");
    assert.equal((await rows()).length, 4);
    await keys("Escape");
    assert.equal(await page.evaluate("document.getElementById('search').value"), "");
  });
  await see("zoom by click and by keys, and the back button", async () => {
    await fresh();
    const { x, y, width } = await box("#flame");
    await page.click(x + width * 0.2, y + 18 * 3 + 9);
    await rest();
    assert((await text("told")).startsWith("alpha in /bin/prog: 63.06 %, 70 samples, 70,000 faults; itself 63.06 %"), await text("told"));
    const place = await page.evaluate("location.hash");
    assert(place.includes("zoom="), place);
    await back();
    assert((await text("told")).startsWith("all: 100.00 %, 111 samples"), await text("told"));
    await focus("#flame");
    await keys("ArrowDown", "ArrowDown", "ArrowDown");
    assert((await text("told")).startsWith("alpha"), await text("told"));
    await keys("Enter");
    assert.equal(await page.evaluate("location.hash"), place);
    await keys("Escape");
    assert.equal(await page.evaluate("location.hash"), "");
    await fresh(place.slice(1));
    assert((await text("told")).startsWith("alpha"), "a link leads to the zoom");
  });
  await see("the heat map by keys: a span, a second one, their difference", async () => {
    await fresh("view=table");
    await focus("#heat-canvas");
    await keys("Home");
    assert(/^0\.000000 s: 7 samples\./.test(await text("heat-told")), await text("heat-told"));
    await keys("ArrowRight", "ArrowRight", "Enter", "ArrowRight", "ArrowRight", ...Array(49).fill("ArrowUp"), "Enter");
    assert((await text("chosen")).startsWith("41 of 111 samples, 41,000 faults2.000 s to 5.000 s"), await text("chosen"));
    await clickOn("input[name=which][value=second]");
    await focus("#heat-canvas");
    await keys("Home", ...Array(5).fill("ArrowRight"), "Enter", "ArrowRight", ...Array(49).fill("ArrowUp"), "Enter");
    assert((await text("chosen")).includes("compared with 20 samples of5.000 s to 7.000 s"), await text("chosen"));
    const change = (list, name) => list.find((row) => row[4] === name)[2];
    assert.deepEqual(["main", "alpha", "beta", "gamma"].map(change.bind(null, await rows())), ["±0.00 %", "−18.78 %", "−8.05 %", "+26.83 %"]);
    await clickOn("[data-sort=change]");
    assert.equal((await rows())[0][4], "gamma");
    await keys("1");
    assert.equal(await page.evaluate("document.getElementById('colours').value"), "change");
    await keys("3");
    await clickOn("#chosen button:last-child");
    assert((await text("chosen")).startsWith("20 of 111 samples"), "swapped");
    // What is in the second span alone is there too, without samples.
    assert.deepEqual((await rows()).find((row) => row[4] === "gamma").slice(0, 4), ["0.00 %", "0.00 %", "−26.83 %", "0"]);
    await back();
    assert((await text("chosen")).startsWith("41 of 111 samples"), "the back button swaps again");
    await page.evaluate("document.activeElement.blur()");
    await keys("Escape");
    assert(!(await text("chosen")).includes("compared"));
    await keys("Escape");
    assert.equal(await text("chosen"), "111 of 111 samples, 111,000 faults");
  });
  await see("the heat map by mouse: two clicks, a drag, other columns", async () => {
    await fresh();
    const { x, y } = await box("#heat-canvas");
    const cell = (column, row) => [x + 56 + column * 40 + 20, y + 150 - row * 3 - 1.5];
    await page.click(...cell(4, 15));
    await rest();
    assert((await text("heat-told")).includes("11 samples"), await text("heat-told"));
    await page.click(...cell(4, 16));
    await rest();
    assert((await text("chosen")).startsWith("11 of 111 samples"), await text("chosen"));
    await page.drag(...cell(0, 30), ...cell(1, 0));
    await rest();
    assert((await text("chosen")).startsWith("10 of 111 samples"), await text("chosen"));
    await choose("column", "100000000");
    assert((await page.evaluate("location.hash")).includes("column=100000000"));
    await keys("Escape");
  });
  await see("the timeline: a drag, keys, threads and cpus", async () => {
    await fresh();
    const { x, y, width } = await box("#tracks");
    const at = (part) => x + 180 + (width - 180) * part;
    await page.drag(at(0.41), y + 8, at(0.5), y + 8);
    await rest();
    assert((await text("chosen")).startsWith("21 of 111 samples"), await text("chosen"));
    await page.click(at(0.9), y + 8);
    await rest();
    assert((await text("chosen")).startsWith("111 of 111"), "a click takes the span back");
    await focus("#tracks");
    await keys("ArrowRight");
    assert((await text("chosen")).startsWith("10 of 111"), await text("chosen"));
    await keys("Shift+ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft");
    const first = await text("chosen");
    assert(/ of 111 samples/.test(first) && (await text("span")).includes(" to "), first);
    await page.evaluate("document.activeElement.blur()");
    await keys("Escape");
    await page.click(x + 10, y + 30);
    await rest();
    assert((await text("chosen")).startsWith("70 of 111 samples, 70,000 faultsone 10 ✕"), await text("chosen"));
    await clickOn("#chosen button");
    assert.equal(await text("chosen"), "111 of 111 samples, 111,000 faults");
    await focus("#tracks");
    await keys("ArrowDown", "ArrowDown");
    assert((await text("chosen")).startsWith("41 of 111"), await text("chosen"));
    await clickOn("input[name=tracks][value=cpu]");
    await keys("Escape");
    await page.click(x + 10, y + 50);
    await rest();
    assert((await text("chosen")).startsWith("41 of 111 samples, 41,000 faultscpu 1 ✕"), await text("chosen"));
  });
  await see("the call tree by keys and by mouse", async () => {
    await fresh("view=tree");
    const lines = () => page.evaluate(`Array.from(document.querySelectorAll("#tree .line"), (line) => line.querySelector(".share").textContent + " " + line.querySelector(".name").textContent)`);
    assert.deepEqual(await lines(), ["63.06 % one", "36.94 % two"]);
    await focus("#tree .line");
    await keys("ArrowRight");
    assert.deepEqual(await lines(), ["63.06 % one", "63.06 % main", "63.06 % alpha", "36.94 % two"]);
    await keys("End", "Enter");
    assert.deepEqual((await lines()).slice(3), ["36.94 % two", "36.94 % main", "27.03 % beta", "9.91 % gamma"]);
    await keys("Home", "ArrowLeft");
    assert.equal((await lines()).length, 5);
    await clickOn("#tree .line:nth-child(2)");
    assert.equal((await lines()).length, 2, "a click closes");
    await keys("c");
    assert((await text("about")).startsWith("two: 36.94 %"), await text("about"));
  });
  await see("callers and callees", async () => {
    await fresh("view=table");
    await clickOn("#rows tr:nth-child(3) button");
    assert.equal(await text("about"), "beta: 27.03 %, itself 27.03 %, 30 samples");
    assert((await text("callers")).includes("main") && (await text("callees")) === "none");
    await back();
    assert(await visible("table"), "the back button leads to the table");
  });
  await see("source lines follow what is chosen", async () => {
    await fresh("view=source");
    assert.equal(await text("source-about"), "alpha: itself 63.06 %");
    const cells = () => page.evaluate(`Array.from(document.querySelectorAll("#lines tr"), (row) => Array.from(row.children, (cell) => cell.textContent))`);
    const all = await cells();
    assert.deepEqual(all.find((row) => row[2] === "3"), ["63.06 %", "70", "3", "line 3 </script><script>hurt()</script>"]);
    assert.deepEqual(all.find((row) => row[2] === "4"), ["", "", "4", "line 4 </script><script>hurt()</script>"]);
    await choose("source-function", await page.evaluate("document.querySelectorAll('#source-function option')[1].value"));
    assert.equal(await text("source-about"), "beta: itself 27.03 %");
    await back();
    assert.equal(await text("source-about"), "alpha: itself 63.06 %");
    await fresh("view=source&span=0-500");
    assert.deepEqual((await cells()).find((row) => row[2] === "3").slice(0, 2), ["70.00 %", "7"]);
  });
  await see("the flame chart", async () => {
    await fresh("view=chart");
    assert((await text("chart-told")).startsWith("Of all threads together"));
    await focus("#chart-canvas");
    await keys("ArrowRight", "ArrowDown", "ArrowDown");
    assert(/: alpha$/.test(await text("chart-told")), await text("chart-told"));
    await keys("Enter");
    assert((await text("about")).startsWith("alpha"), await text("about"));
  });
  await see("colours, light and dark, help, another event", async () => {
    await fresh();
    const picture = () => page.evaluate("document.getElementById('flame').toDataURL()");
    const seen = new Set([await picture()]);
    for (const colours of ["kind", "object"]) { await choose("colours", colours); seen.add(await picture()); }
    await keys("d");
    seen.add(await picture());
    assert.equal(seen.size, 4, "each looks different");
    assert.equal(await page.evaluate("document.documentElement.dataset.theme"), "dark");
    await clickOn("#theme");
    assert.equal(await page.evaluate("document.documentElement.dataset.theme"), "light");
    await keys("?");
    assert(await visible("help"));
    await clickOn("#keys");
    assert(!(await visible("help")));
    await choose("event", "1");
    assert.equal(await text("chosen"), "10 of 10 samples, 50 others");
    assert.equal(await text("more-tracks"), "2 more threads");
    await clickOn("#more-tracks button");
    assert.equal(await text("more-tracks"), "");
    await back();
    assert.equal(await text("chosen"), "111 of 111 samples, 111,000 faults");
  });
  await see("every control can be reached by Tab", async () => {
    await fresh("view=table&span=1000-2000");
    const wanted = await page.evaluate(`Array.from(document.querySelectorAll("button, select, input, canvas[tabindex], summary")).filter((one) => one.checkVisibility() && one.tabIndex >= 0 && !(one.type === "radio" && !one.checked)).map((one, at) => { one.dataset.test = at; return String(at); })`);
    await page.evaluate("document.body.focus()");
    const reached = new Set();
    for (let step = 0; step < wanted.length + 5; step++) {
      await page.key("Tab");
      const found = await page.evaluate("document.activeElement.dataset.test");
      if (found) reached.add(found);
    }
    assert.deepEqual(wanted.filter((one) => !reached.has(one)), []);
  });
  await see("a place that is none of this page is as the beginning", async () => {
    for (const place of ["view=__proto__&event=99&thread=-7&span=9-3&zoom=x.y.1e9&function=1e99&sort=constructor&column=7", "%E0%A4%A&&==&view=", "second=0-99999999999999999999"]) {
      await fresh(place);
      assert.equal(await text("chosen"), "111 of 111 samples, 111,000 faults", place);
    }
  });
  await see("paper is light, and shows what is chosen", async () => {
    await page.screen({ isDark: true });
    await fresh("view=table");
    const { data } = await page.send("Page.printToPDF", { printBackground: true });
    assert(Buffer.from(data, "base64").subarray(0, 5).toString() === "%PDF-");
    assert.equal(await page.evaluate("document.documentElement.dataset.theme"), "dark", "and is as before then");
  });
  await see("no view is wider than a phone", async () => {
    for (const isDark of [false, true]) {
      await page.screen({ width: 390, height: 800, isDark, isPhone: true });
      for (const view of ["flame", "inverted", "table", "tree", "around", "source", "chart"]) {
        await fresh("view=" + view + "&span=1000-2000&second=2000-3000");
        const [wide, screen] = await page.evaluate("[document.documentElement.scrollWidth, innerWidth]");
        assert(wide <= screen, `${view}: ${wide} of ${screen}`);
      }
    }
  });
}

// Functions, threads, objects, lines and facts with names that hurt, which come as JSON behind the page's name.
async function names() {
  const expected = JSON.parse(require("fs").readFileSync(process.argv[4], "utf8"));
  await page.screen();
  await fresh("view=table");
  await see("each name is there as text with its count", async () => {
    const found = new Map((await rows()).map((row) => [row[4], row[3]]));
    for (const [name, count] of expected) assert.equal(found.get(name), String(count), name.slice(0, 100));
  });
  for (const view of ["flame", "inverted", "table", "tree", "around", "source", "chart"]) {
    await see("nothing runs in the view " + view, async () => {
      await fresh("view=" + view);
      for (const [name] of expected) { await write(name.slice(0, 300)); }
      await clickOn("#expression");
      await write("");
      assert.equal(await page.evaluate("typeof window.hurt"), "undefined");
      assert.equal(await page.evaluate(`document.querySelectorAll("script, img, iframe, svg, a, object, embed, link, form").length`), 2);
    });
  }
}

// How long a large page takes; nothing is asserted.
async function figures() {
  await page.screen();
  const paints = [], redraws = [];
  for (let round = 0; round < 5; round++) {
    await fresh();
    paints.push(await page.evaluate("performance.getEntriesByType('paint').find((one) => one.name === 'first-contentful-paint').startTime"));
    redraws.push(...await page.evaluate(`(async () => {
      const canvas = document.getElementById("tracks"), times = [];
      for (let step = 0; step < 10; step++) {
        const start = performance.now();
        canvas.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight", bubbles: true, cancelable: true }));
        times.push(performance.now() - start);
        await new Promise(requestAnimationFrame);
      }
      return times;
    })()`));
  }
  const middle = (list) => list.sort((a, b) => a - b)[list.length >> 1];
  console.log(`figure: first paint ${(middle(paints)).toFixed(0)} ms, a span redrawn ${middle(redraws).toFixed(1)} ms (most ${Math.max(...redraws).toFixed(1)} ms), page ${(require("fs").statSync(file).size / 1e6).toFixed(2)} MB`);
}

(async () => {
  page = await open();
  try {
    await { controls, names, figures }[what]();
    await see("no error, no dialog, no request", async () => assert.deepEqual(page.wrong, []));
  } finally {
    await page.close();
  }
  process.exit(failed ? 1 : 0);
})().catch((why) => { console.log("NOT: " + (why.stack || why)); process.exit(1); });
