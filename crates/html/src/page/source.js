// The source lines of the chosen function that samples were in, with the text that was there when the page was made.
"use strict";
/**
 * @param {Page} page
 */
function perfuseSource(page) {
  var looks = page.looks, $ = looks.$, make = looks.make, lines = page.model.lines;
  /** @type {number[][]} */
  var ofFunctions = [];
  for (var at = 0; at < lines.count; at++) (ofFunctions[lines.functions[at]] = ofFunctions[lines.functions[at]] || []).push(at);

  function weightOf(/** @type {number} */ line) { return page.v.weight > 0 ? page.v.lineWeight[line] : page.v.lineSamples[line]; }
  function draw() {
    var of = page.chosen, place = $("lines"), list = (of >= 0 && ofFunctions[of]) || [], told = 0;
    place.textContent = "";
    list.forEach(function (line) { told += weightOf(line); });
    var own = of < 0 ? 0 : perfuseModel.part(page.v, of, true);
    $("source-about").textContent = of < 0 ? "No samples are chosen." : looks.nameOf(of) + ": itself " + looks.share(own);
    $("source-note").textContent = note(list.length > 0, own - told);
    drawOthers();
    var files = Array.from(new Set(list.map(function (line) { return lines.files[line]; })));
    files.sort(function (a, b) { return sum(list, b) - sum(list, a) || a - b; });
    files.forEach(function (file) { drawFile(place, file, list.filter(function (line) { return lines.files[line] === file; })); });
  }
  function sum(/** @type {number[]} */ list, /** @type {number} */ file) {
    return list.reduce(function (all, line) { return all + (lines.files[line] === file ? weightOf(line) : 0); }, 0);
  }
  function note(/** @type {boolean} */ isThere, /** @type {number} */ left) {
    if (!lines.count) return "The page has no source lines: no program has debug information (-g), or the page was made without.";
    if (!isThere) return "Of this function no source lines are known: its program has no debug information (-g), or it is not among the hottest.";
    return left > 0 ? looks.share(left) + " of it at addresses without a line, or at lines with few samples that the page leaves out." : "";
  }
  // Functions with lines, so that one can be chosen from here.
  function drawOthers() {
    var select = $("source-function"), known = [];
    for (var of = 0; of < ofFunctions.length; of++) if (ofFunctions[of] && page.v.functionOwnSamples[of] > 0) known.push(of);
    known.sort(function (a, b) { return perfuseModel.part(page.v, b, true) - perfuseModel.part(page.v, a, true) || a - b; });
    select.textContent = "";
    if (known.indexOf(page.chosen) < 0 && page.chosen >= 0) known.unshift(page.chosen);
    known.forEach(function (of) {
      var option = make("option", "", looks.share(perfuseModel.part(page.v, of, true)) + " " + looks.nameOf(of).slice(0, 120));
      option.value = String(of);
      option.selected = of === page.chosen;
      select.append(option);
    });
  }
  /**
   * A table of the lines of a file: those with samples, and those around them.
   * @param {HTMLElement} place
   * @param {number} file
   * @param {number[]} list
   */
  function drawFile(place, file, list) {
    var text = lines.texts[file], body = make("tbody"), table = make("table", "source"), wide = make("div", "wide");
    var heaviest = Math.max.apply(null, list.map(weightOf)), AROUND = 3;
    place.append(make("h3", "", lines.paths[file] + (text.size ? "" : ": its text was not there when the page was made")));
    var before = 0;
    list.forEach(function (line, at) {
      var number = lines.numbers[line], next = at + 1 < list.length ? lines.numbers[list[at + 1]] : Infinity;
      var from = Math.max(before + 1, number - AROUND);
      if (before && from > before + 1) body.append(gap());
      for (var other = from; other < number; other++) if (text.has(other)) body.append(row(other, "", "", text.get(other)));
      var part = weightOf(line), one = row(number, looks.share(part), looks.number(page.v.lineSamples[line]), text.get(number));
      one.className = part > 0 && part === heaviest ? "hottest" : part > 0 ? "hot" : "";
      body.append(one);
      before = number;
      for (; before < number + AROUND && before + 1 < next && text.has(before + 1); before++) body.append(row(before + 1, "", "", text.get(before + 1)));
    });
    table.append(make("caption", "away", "Share, samples, line and text"), body);
    wide.append(table);
    place.append(wide);
  }
  function row(/** @type {number} */ number, /** @type {string} */ share, /** @type {string} */ samples, /** @type {string=} */ text) {
    var one = make("tr");
    one.append(make("td", "number", share), make("td", "number", samples), make("td", "number dim", String(number)), make("td", "code", text || ""));
    return one;
  }
  function gap() {
    var one = make("tr"), cell = make("td", "gap", "⋯");
    cell.colSpan = 4;
    one.append(cell);
    return one;
  }
  $("source-function").addEventListener("change", function () {
    page.chosen = Number($("source-function").value);
    draw();
    page.remember();
  });

  return { draw: draw };
}
