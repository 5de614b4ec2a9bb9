// Puts the parts of the page together: what is chosen, the overview, tabs and keys.
"use strict";
(function () {
  var root = document.documentElement;
  var VIEWS = ["flame", "inverted", "table", "tree", "around", "source", "chart"];
  /** @type {HTMLElement} */
  var holder = /** @type {HTMLElement} */ (document.getElementById("data"));
  var model = perfuseData.load(JSON.parse(holder.textContent || "")), data = model.data;
  /** @type {{[which: string]: Item}} */
  var tops = {};
  var page = /** @type {Page} */ ({
    model: model, choice: { event: 0, thread: -1, cpu: -1, from: 0, to: -1, baseFrom: 0, baseTo: -1 }, hit: null, shown: "flame",
    chosen: -1, colours: "function", ways: { flame: [], inverted: [] }, byCpu: false, sort: { by: "total", descending: true }, column: 0,
    isExpression: false, isSecond: false,
    top: top, select: select, choose: choose, show: show, search: search, remember: function () {}, span: span
  });
  var choice = page.choice, looks = page.looks = perfuseLooks(page), $ = looks.$, make = looks.make, number = looks.number;

  // All, downwards for the flame graph and the call tree, upwards for the inverted one; made when it is first shown.
  function top(/** @type {string} */ which) {
    var key = which === "inverted" ? which : "flame";
    return tops[key] = tops[key] || perfuseModel.root(page.v, key === "inverted");
  }
  function sum() {
    page.v = perfuseModel.view(model, choice);
    tops = {};
    if (page.v.base && page.colours === "function") page.colours = "change";
    if (!page.v.base && page.colours === "change") page.colours = "function";
    $("colours").value = page.colours;
    $("colours-change").hidden = !page.v.base;
  }
  function select() {
    sum();
    tellChoice();
    search();
    timeline.draw();
    heat.draw();
  }
  function span(/** @type {number} */ from, /** @type {number} */ to) {
    var steps = model.time ? model.time.steps : 1;
    from = Math.max(0, Math.min(steps - 1, from));
    to = Math.max(from + 1, Math.min(steps, to));
    if (page.isSecond) choice.baseFrom = from, choice.baseTo = to;
    else choice.from = from, choice.to = to;
  }
  function noSpan() { choice.from = 0; choice.to = -1; }
  function noSecond() { choice.baseFrom = 0; choice.baseTo = -1; }
  function tellChoice() {
    var line = $("chosen"), event = model.events[choice.event], v = page.v;
    line.textContent = "";
    line.append(make("span", "", number(v.count) + " of " + number(event.samples) + " samples, " + looks.amount(v.weight)));
    /** @type {(text: string, act: () => void, title?: string) => void} */
    var part = function (text, act, title) {
      line.append(looks.button(text, title || "Take this choice back", function () { act(); select(); page.remember(); }));
    };
    if (choice.thread >= 0) part(looks.threadName(choice.thread) + " ✕", function () { choice.thread = -1; });
    if (choice.cpu >= 0) part(looks.cpuName(choice.cpu) + " ✕", function () { choice.cpu = -1; });
    if (choice.to >= 0) part(looks.spanText(choice.from, choice.to) + " ✕", noSpan);
    if (!v.base) return;
    line.append(make("span", "second", "compared with " + number(v.base.count) + " samples of"));
    part(looks.spanText(choice.baseFrom, choice.baseTo) + " ✕", noSecond);
    if (choice.to < 0) return;
    part("⇄ swap", function () {
      var from = choice.from, to = choice.to;
      choice.from = choice.baseFrom; choice.to = choice.baseTo; choice.baseFrom = from; choice.baseTo = to;
    }, "The second span takes the place of the first");
  }

  // Views.

  function mark() {
    /** @type {NodeListOf<HTMLElement>} */
    var tabs = document.querySelectorAll("#tabs [role=tab]");
    tabs.forEach(function (tab) {
      var isIt = tab.dataset.view === page.shown;
      tab.setAttribute("aria-selected", isIt ? "true" : "false");
      tab.tabIndex = isIt ? 0 : -1;
    });
    $("graph").hidden = page.shown !== "flame" && page.shown !== "inverted";
    $("colours-label").hidden = $("graph").hidden && page.shown !== "chart";
    ["table", "tree", "around", "source", "chart"].forEach(function (view) { $(view).hidden = page.shown !== view; });
    if ((page.shown === "around" || page.shown === "source") && page.chosen < 0) {
      var hottest = perfuseModel.table(page.v, null, "own", true)[0];
      page.chosen = hottest === undefined ? -1 : hottest;
    }
    flame.forget();
  }
  function draw() {
    if (page.shown === "flame" || page.shown === "inverted") flame.draw();
    else if (page.shown === "table") functions.draw();
    else if (page.shown === "tree") trees.tree.draw();
    else if (page.shown === "around") trees.around.draw();
    else if (page.shown === "source") source.draw();
    else chart.draw();
  }
  function show(/** @type {string} */ which) {
    page.shown = which;
    mark();
    draw();
    page.remember();
  }
  function choose(/** @type {number} */ of) {
    if (of < 0) return;
    page.chosen = of;
    show("around");
    $("tabs").scrollIntoView({ block: "nearest" });
  }
  function search() {
    var words = $("search").value, text = "", expression = null;
    $("expression").setAttribute("aria-pressed", page.isExpression ? "true" : "false");
    $("search").removeAttribute("aria-invalid");
    page.hit = null;
    try {
      if (page.isExpression && words) expression = new RegExp(words, words === words.toLowerCase() ? "iu" : "u");
      page.hit = perfuseModel.search(model, words, expression);
    } catch (why) {
      $("search").setAttribute("aria-invalid", "true");
      text = "no regular expression";
    }
    if (page.hit) {
      var inside = perfuseModel.covered(page.v, page.hit), found = 0;
      for (var of = 0; of < page.hit.length; of++) found += page.hit[of] && page.v.functionSamples[of] > 0 ? 1 : 0;
      text = looks.share(page.v.weight > 0 ? inside.weight : inside.samples) + " in " + number(found) + (found === 1 ? " function" : " functions") + " with callees";
    }
    $("found").textContent = text;
    functions.forget();
    draw();
  }

  // The overview of the recording.

  function fact(/** @type {string} */ words, /** @type {string} */ value) {
    var one = make("div");
    one.append(make("dt", "", words), make("dd", "", value));
    $("facts").append(one);
  }
  function tellRecording() {
    document.title = data.title + " - perfuse report";
    $("title").textContent = data.title;
    data.facts.forEach(function (one) { fact(one[0], one[1]); });
    model.events.forEach(function (event, at) {
      var all = event.unit === "ns" ? looks.seconds(event.weight) : number(event.weight);
      fact(event.name, number(event.samples) + " samples, " + all + " in all; " + number(event.unresolved) + " samples at addresses without a function");
      var option = make("option", "", event.name);
      option.value = String(at);
      $("event").append(option);
    });
    fact("lost samples", number(data.lost));
    if (model.time) fact("span of the samples", looks.seconds(model.time.end - model.time.start));
    if (data.cut !== null) fact("long callchains", "cut to " + data.cut + " frames, the outermost and the innermost, to keep the page small");
    if (data.lines.left) fact("source lines", "the " + number(data.lines.count) + " with the most samples; " + number(data.lines.left) + " are left out");
    if (data.missing.length) {
      var more = make("details"), list = make("ul");
      more.append(make("summary", "", "Objects without names: " + data.missing.length), list);
      data.missing.forEach(function (one) { list.append(make("li", "", one[0] + ": " + one[1])); });
      $("missing").append(more);
    }
    $("event-label").hidden = model.events.length < 2;
  }

  // Light and dark; paper is light.

  var isThemeChosen = false, prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  function setTheme(/** @type {string} */ theme) {
    root.dataset.theme = theme;
    $("theme").textContent = theme === "dark" ? "Light" : "Dark";
  }
  function ownTheme() { setTheme(prefersDark.matches ? "dark" : "light"); }
  ownTheme();
  prefersDark.addEventListener("change", function () { if (!isThemeChosen) { ownTheme(); redraw(); } });
  $("theme").addEventListener("click", function () { isThemeChosen = true; setTheme(looks.isDark() ? "light" : "dark"); redraw(); });
  var before = "";
  window.addEventListener("beforeprint", function () { before = root.dataset.theme || "light"; setTheme("light"); redraw(); });
  window.addEventListener("afterprint", function () { setTheme(before); redraw(); });

  // Controls and keys.

  function help() {
    $("help").hidden = !$("help").hidden;
    $("keys").setAttribute("aria-expanded", $("help").hidden ? "false" : "true");
  }
  $("keys").addEventListener("click", help);
  $("event").addEventListener("change", function () { choice.event = Number($("event").value); select(); page.remember(); });
  $("colours").addEventListener("change", function () { page.colours = $("colours").value; draw(); page.remember(); });
  $("expression").addEventListener("click", function () { page.isExpression = !page.isExpression; search(); page.remember(); });
  var waiting = 0;
  $("search").addEventListener("input", function () {
    clearTimeout(waiting);
    waiting = setTimeout(function () { search(); page.remember(true); }, 80);
  });
  /** @type {NodeListOf<HTMLElement>} */
  var tabs = document.querySelectorAll("#tabs [role=tab]");
  tabs.forEach(function (tab, at) {
    tab.addEventListener("click", function () { show(tab.dataset.view || "flame"); });
    tab.addEventListener("keydown", function (event) {
      var by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
      if (!by) return;
      event.preventDefault();
      var next = tabs[(at + by + tabs.length) % tabs.length];
      next.focus();
      show(next.dataset.view || "flame");
    });
  });
  function takeBack() {
    if ($("search").value) { $("search").value = ""; search(); }
    else if ((page.ways[page.shown] || []).length) { flame.zoom(top(page.shown)); return; }
    else if (choice.baseTo >= 0) { noSecond(); select(); }
    else if (choice.to >= 0) { noSpan(); select(); }
    else if (choice.thread >= 0 || choice.cpu >= 0) { choice.thread = choice.cpu = -1; select(); }
    page.remember();
  }
  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") { takeBack(); return; }
    var target = /** @type {HTMLInputElement} */ (event.target);
    if (target.tagName === "INPUT" && target.type === "search" || target.tagName === "SELECT") return;
    var view = VIEWS[Number(event.key) - 1];
    if (event.key === "/") { event.preventDefault(); $("search").focus(); }
    else if (event.key === "?") help();
    else if (event.key === "d") $("theme").click();
    else if (view && model.events.length) show(view);
  });
  function redraw() {
    if (!model.events.length) return;
    timeline.draw();
    heat.draw();
    if (page.shown === "flame" || page.shown === "inverted" || page.shown === "chart") draw();
  }
  var resizing = 0;
  window.addEventListener("resize", function () { cancelAnimationFrame(resizing); resizing = requestAnimationFrame(redraw); });
  $("timeline").addEventListener("toggle", redraw);
  $("heat").addEventListener("toggle", redraw);

  // Somebody comes to a place: at first, by a link, or by the back button.
  function arrive() {
    var by = /** @type {HTMLInputElement} */ (document.querySelector("input[name=tracks][value=" + (page.byCpu ? "cpu" : "thread") + "]"));
    by.checked = true;
    $("event").value = String(choice.event);
    sum();
    mark();
    select();
  }
  var timeline = perfuseTimeline(page), heat = perfuseHeat(page), flame = perfuseFlame(page), chart = perfuseChart(page);
  var functions = perfuseFunctions(page), trees = perfuseTrees(page), source = perfuseSource(page);
  if (innerWidth < 700) $("summary").open = false;
  tellRecording();
  if (model.events.length) {
    page.remember = perfusePlace(page, arrive).remember;
    arrive();
  } else {
    $("chosen").textContent = "The recording has no samples.";
    ["timeline", "heat", "tabs", "graph"].forEach(function (id) { $(id).hidden = true; });
  }
})();
