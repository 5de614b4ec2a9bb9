// Words, numbers, colours and canvases, as all parts of the page show them. Names of strangers become text only, by textContent and
// fillText.
"use strict";
/**
 * @param {Page} page
 * @returns {Looks}
 */
function perfuseLooks(page) {
  var root = document.documentElement;
  function $(/** @type {string} */ id) { return document.getElementById(id); }
  function make(/** @type {string} */ tag, /** @type {string=} */ className, /** @type {string=} */ text) {
    var element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  }
  function button(/** @type {string} */ text, /** @type {string} */ title, /** @type {() => void} */ act) {
    var one = /** @type {HTMLButtonElement} */ (make("button", "", text));
    one.type = "button";
    one.title = title;
    one.addEventListener("click", act);
    return one;
  }
  // A button for what a list leaves out.
  function more(/** @type {HTMLElement} */ place, /** @type {number} */ left, /** @type {string} */ things, /** @type {() => void} */ act) {
    place.textContent = "";
    if (left > 0) place.append(button(number(left) + " more " + things, "Show them too", act));
  }
  function number(/** @type {number} */ n) { return Math.round(n).toLocaleString("en"); }
  function whole(/** @type {View} */ v) { return v.weight > 0 ? v.weight : v.count; }
  function percent(/** @type {number} */ part) { return (100 * part).toFixed(2) + " %"; }
  function share(/** @type {number} */ of) { var all = whole(page.v); return percent(all > 0 ? of / all : 0); }
  function changeOf(/** @type {number} */ part, /** @type {number} */ base) { return perfuseModel.difference(page.v, part, base); }
  // What a part has more than in the second span; nothing if there is none.
  function change(/** @type {number} */ part, /** @type {number} */ base) {
    if (!page.v.base) return "";
    var by = changeOf(part, base);
    return (by >= 0.00005 ? "+" : by <= -0.00005 ? "−" : "±") + percent(Math.abs(by));
  }
  function seconds(/** @type {number} */ ns) { return (ns / 1e9).toFixed(ns < 1e8 ? 6 : 3) + " s"; }
  function nameOf(/** @type {number} */ of) { return of < 0 ? "all" : page.model.names[of] || "[no name]"; }
  function threadName(/** @type {number} */ at) {
    var thread = page.model.threads[at];
    return (thread[1] || "[no name]") + (thread[0] === null ? "" : " " + thread[0]);
  }
  function cpuName(/** @type {number} */ at) { return page.model.cpus[at] === null ? "cpu not told" : "cpu " + page.model.cpus[at]; }
  function amount(/** @type {number} */ weight) {
    var event = page.model.events[page.choice.event];
    return (event.unit === "ns" ? seconds(weight) + " of " : number(weight) + " ") + event.name;
  }
  function time(/** @type {number} */ step) {
    var of = page.model.time;
    return of ? seconds(Math.min(step * of.step, of.end - of.start)) : "";
  }
  function spanText(/** @type {number} */ from, /** @type {number} */ to) { return time(from) + " to " + time(to); }

  // Colours.

  function colourOf(/** @type {string} */ name) { return getComputedStyle(root).getPropertyValue("--" + name).trim(); }
  function isDark() { return root.dataset.theme === "dark"; }
  function hsl(/** @type {number} */ hue, /** @type {number} */ strength, /** @type {number} */ light) {
    return isDark() ? "hsl(" + hue + " " + strength * 0.6 + "% " + (light - 34) + "%)" : "hsl(" + hue + " " + strength + "% " + light + "%)";
  }
  /** @type {Map<string, number>} */
  var hues = new Map();
  // Objects get hues that are far from each other, in the order in which they are met.
  function hueOf(/** @type {string} */ object) {
    var known = hues.get(object);
    if (known === undefined) hues.set(object, known = (20 + hues.size * 137.5) % 360);
    return known;
  }
  function colourOfItem(/** @type {Item} */ item) {
    var model = page.model, of = item.of;
    if (of < 0) return colourOf("line");
    if (page.colours === "change" && page.v.base) {
      var now = perfuseModel.measure(page.v, item), by = changeOf(now, item.base), base = whole(page.v.base);
      var most = Math.max(now / (whole(page.v) || 1), base > 0 ? item.base / base : 0) || 1;
      var strength = Math.sqrt(Math.min(1, Math.abs(by) / most));
      return strength < 0.1 ? hsl(0, 0, 82) : hsl(by > 0 ? 5 : 220, 15 + 70 * strength, 82 - 22 * strength);
    }
    var kind = model.kinds[of];
    if (page.colours === "object") return kind === "t" ? hsl(0, 0, 80) : hsl(hueOf(model.objects[of]), 65, 70);
    if (page.colours === "kind") return kind === "k" ? hsl(220, 70, 72) : kind === "t" ? hsl(0, 0, 80) : hsl(30, 80, 68);
    return hsl(model.hues[of], 75, model.lights[of]);
  }

  // A canvas as large as it is shown, in its own pixels.
  function prepare(/** @type {HTMLCanvasElement} */ canvas, /** @type {number} */ height) {
    var scale = window.devicePixelRatio || 1, width = /** @type {HTMLElement} */ (canvas.parentElement).clientWidth;
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    var pen = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "12px ui-monospace, Menlo, Consolas, monospace";
    pen.textBaseline = "middle";
    return { pen: pen, width: width, letter: pen.measureText("M").width || 7 };
  }
  function shortened(/** @type {string} */ name, /** @type {number} */ width, /** @type {number} */ letter) {
    var room = Math.floor((width - 6) / letter);
    return room < 3 ? "" : name.length > room ? name.slice(0, room - 2) + ".." : name;
  }

  return {
    $: $, make: make, button: button, more: more, number: number, share: share, change: change, changeOf: changeOf, whole: whole,
    seconds: seconds, amount: amount, nameOf: nameOf, threadName: threadName, cpuName: cpuName, time: time, spanText: spanText,
    colourOf: colourOf, colourOfItem: colourOfItem, isDark: isDark, prepare: prepare, shortened: shortened
  };
}
