// The place where somebody is in the page, as the part of its address behind #: what is chosen, shown and searched for. So the back
// button takes steps back, and a link leads to a place.
"use strict";
/**
 * @param {Page} page
 * @param {() => void} arrive
 */
function perfusePlace(page, arrive) {
  var last = "", VIEWS = ["flame", "inverted", "table", "tree", "around", "source", "chart"], COLOURS = ["function", "kind", "object", "change"];
  var SORTS = ["own", "total", "change", "name", "object"];

  function text() {
    var choice = page.choice, way = page.ways[page.shown] || [];
    /** @type {string[]} */
    var parts = [];
    /** @type {(key: string, value: string | number, usual: string | number) => void} */
    var tell = function (key, value, usual) { if (value !== usual) parts.push(key + "=" + encodeURIComponent(String(value))); };
    tell("view", page.shown, "flame");
    tell("event", choice.event, 0);
    tell("thread", choice.thread, -1);
    tell("cpu", choice.cpu, -1);
    tell("span", choice.to < 0 ? "" : choice.from + "-" + choice.to, "");
    tell("second", choice.baseTo < 0 ? "" : choice.baseFrom + "-" + choice.baseTo, "");
    tell("zoom", way.join("."), "");
    if (page.shown === "around" || page.shown === "source") tell("function", page.chosen, -1);
    tell("search", page.looks.$("search").value, "");
    tell("expression", page.isExpression ? 1 : 0, 0);
    tell("colours", page.colours, "function");
    tell("sort", (page.sort.descending ? "" : "-") + page.sort.by, "total");
    tell("column", page.column, 0);
    tell("by", page.byCpu ? "cpu" : "thread", "thread");
    return parts.join("&");
  }
  // Reads a place; what is not there, or is none of this page, is as at the beginning.
  function read() {
    var choice = page.choice, model = page.model, known = new Map();
    location.hash.slice(1).split("&").forEach(function (part) {
      var cut = part.indexOf("=");
      try { if (cut > 0) known.set(part.slice(0, cut), decodeURIComponent(part.slice(cut + 1))); } catch (none) { /* Not one of ours. */ }
    });
    /** @type {(key: string, below: number, usual: number) => number} */
    var index = function (key, below, usual) {
      var value = known.get(key);
      return value !== undefined && /^\d{1,15}$/.test(value) && Number(value) < below ? Number(value) : usual;
    };
    /** @type {(key: string, list: string[]) => string} */
    var oneOf = function (key, list) { return list.indexOf(known.get(key)) >= 0 ? known.get(key) : list[0]; };
    /** @type {(key: string) => number[]} */
    var span = function (key) {
      var found = /^(\d{1,9})-(\d{1,9})$/.exec(known.get(key) || ""), steps = model.time ? model.time.steps : 0;
      var from = found ? Number(found[1]) : 0, to = found ? Math.min(Number(found[2]), steps) : -1;
      return from < to ? [from, to] : [0, -1];
    };
    choice.event = index("event", model.events.length, 0);
    choice.thread = index("thread", model.threads.length, -1);
    choice.cpu = index("cpu", model.cpus.length, -1);
    choice.from = span("span")[0];
    choice.to = span("span")[1];
    choice.baseFrom = span("second")[0];
    choice.baseTo = span("second")[1];
    page.shown = oneOf("view", VIEWS);
    page.chosen = index("function", model.names.length, -1);
    page.ways = { flame: [], inverted: [] };
    if (known.has("zoom")) page.ways[page.shown] = known.get("zoom").split(".").slice(0, 20000).map(Number);
    page.looks.$("search").value = (known.get("search") || "").slice(0, 4000);
    page.isExpression = index("expression", 2, 0) === 1;
    page.colours = oneOf("colours", COLOURS);
    var sort = known.get("sort") || "total", by = sort.replace(/^-/, "");
    page.sort = { by: SORTS.indexOf(by) >= 0 ? by : "total", descending: sort[0] !== "-" };
    page.column = index("column", 1e15, 0);
    page.byCpu = known.get("by") === "cpu";
  }
  // Takes down where one is now: as another step, or in place of the last one.
  function remember(/** @type {boolean=} */ replaces) {
    var now = text();
    if (now === last) return;
    last = now;
    var place = "#" + now;
    if (replaces) location.replace(place);
    else location.hash = place;
  }
  window.addEventListener("hashchange", function () {
    if (location.hash.slice(1) === last) return;
    last = location.hash.slice(1);
    read();
    arrive();
  });
  last = location.hash.slice(1);
  read();

  return { remember: remember };
}
