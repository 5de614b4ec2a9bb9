// The heat map: each column is a second, or another length, and each of its rows a part of that, from below; the colour is the number
// of samples. So what comes again every second, or at some moment only, becomes a pattern. A span is chosen by its first and last cell.
"use strict";
/**
 * @param {Page} page
 */
function perfuseHeat(page) {
  var HEIGHT = 150, FOOT = 18, SECOND = 1e9;
  var looks = page.looks, $ = looks.$, model = page.model, choice = page.choice, canvas = /** @type {HTMLCanvasElement} */ ($("heat-canvas"));
  var left = 56, wide = 1, high = 1, cursor = -1, anchor = -1, isDown = false, hasMoved = false, known = "";
  /** @type {Heat} */
  var map;

  // Columns of these lengths have whole numbers of steps, and are neither one alone nor too narrow.
  function lengths() {
    var time = model.time, list = [], room = Math.max(60, (parentWidth() - left) * 2);
    if (!time) return [];
    for (var length = 1; length <= 1e15; length *= 10) {
      var columns = (time.end - time.start) / length;
      if (length % time.step === 0 && length / time.step >= 5 && columns > 1 && columns <= room) list.push(length);
    }
    return list.length ? list : [Math.pow(10, Math.ceil(Math.log10(Math.max(time.end - time.start, time.step * 5))))];
  }
  // Seconds, if there are a few of them.
  function usual(/** @type {number[]} */ list) {
    var time = model.time, few = list.filter(function (length) { return time && (time.end - time.start) / length >= 5; });
    return list.indexOf(SECOND) >= 0 && few.indexOf(SECOND) >= 0 ? SECOND : few.length ? few[few.length - 1] : list[0];
  }
  function parentWidth() { return /** @type {HTMLElement} */ (canvas.parentElement).clientWidth; }
  function lengthText(/** @type {number} */ ns) {
    return ns === 0 ? "0" : ns >= 1e9 ? ns / 1e9 + " s" : ns >= 1e6 ? ns / 1e6 + " ms" : ns >= 1e3 ? ns / 1e3 + " µs" : ns + " ns";
  }

  function draw() {
    $("heat").hidden = !model.time;
    if (!model.time) return;
    var list = lengths(), length = list.indexOf(page.column) >= 0 ? page.column : usual(list), select = $("column");
    select.textContent = "";
    list.forEach(function (one) {
      var option = looks.make("option", "", lengthText(one));
      option.value = String(one);
      option.selected = one === length;
      select.append(option);
    });
    // The chosen span does not matter to it.
    var key = [choice.event, choice.thread, choice.cpu, length].join();
    if (key !== known) map = perfuseModel.heat(model, choice, length / model.time.step);
    known = key;
    var place = looks.prepare(canvas, HEIGHT + FOOT), pen = place.pen, text = looks.colourOf("dim");
    wide = Math.min(40, Math.max(1, place.width - left - 1) / map.columns);
    high = HEIGHT / map.rows;
    pen.fillStyle = looks.colourOf("raised");
    pen.fillRect(left, 0, wide * map.columns, HEIGHT);
    pen.fillStyle = looks.colourOf("bar");
    for (var cell = 0; cell < map.weights.length; cell++) {
      if (map.weights[cell] <= 0) continue;
      pen.globalAlpha = 0.15 + 0.85 * Math.sqrt(map.weights[cell] / map.most);
      fill(pen, cell);
    }
    pen.globalAlpha = 1;
    mark(pen, choice.from, choice.to, "mark");
    mark(pen, choice.baseFrom, choice.baseTo, "second");
    if (anchor >= 0) outline(pen, anchor, page.isSecond ? "second" : "mark");
    if (cursor >= 0) outline(pen, cursor, "text");
    pen.fillStyle = text;
    pen.fillText(lengthText(length), 2, 8);
    pen.fillText("0", 2, HEIGHT - 8);
    ticks(pen, length);
    tell();
  }
  function ticks(/** @type {CanvasRenderingContext2D} */ pen, /** @type {number} */ length) {
    var every = 1;
    for (var at = 0; every * wide < 64; at++) every *= at % 3 === 1 ? 2.5 : 2;
    for (var column = 0; column < map.columns; column += every) {
      var x = left + column * wide, label = lengthText(column * length), end = x + pen.measureText(label).width + 4;
      pen.fillRect(x, HEIGHT, 1, 4);
      if (end < left + Math.max(wide * map.columns, 40)) pen.fillText(label, x + 2, HEIGHT + 10);
    }
  }
  function xOf(/** @type {number} */ cell) { return left + Math.floor(cell / map.rows) * wide; }
  function yOf(/** @type {number} */ cell) { return HEIGHT - (cell % map.rows + 1) * high; }
  function fill(/** @type {CanvasRenderingContext2D} */ pen, /** @type {number} */ cell) {
    pen.fillRect(xOf(cell), yOf(cell), Math.max(wide - (wide > 4 ? 1 : 0), 0.5), Math.max(high - (high > 4 ? 0.5 : 0), 0.5));
  }
  function outline(/** @type {CanvasRenderingContext2D} */ pen, /** @type {number} */ cell, /** @type {string} */ colour) {
    pen.lineWidth = 2;
    pen.strokeStyle = looks.colourOf(colour);
    pen.strokeRect(xOf(cell), yOf(cell), Math.max(wide, 3), Math.max(high, 3));
  }
  // A chosen span is a band that goes from the first cell up, through whole columns, to the last cell.
  function mark(/** @type {CanvasRenderingContext2D} */ pen, /** @type {number} */ from, /** @type {number} */ to, /** @type {string} */ colour) {
    if (to < 0) return;
    var first = Math.floor(from / map.perCell), last = Math.min(Math.ceil(to / map.perCell) - 1, map.columns * map.rows - 1);
    var one = Math.floor(first / map.rows), end = Math.floor(last / map.rows);
    pen.strokeStyle = pen.fillStyle = looks.colourOf(colour);
    pen.lineWidth = 1.5;
    for (var column = one; column <= end; column++) {
      var low = column === one ? first % map.rows : 0, top = column === end ? last % map.rows : map.rows - 1;
      var x = left + column * wide, y = HEIGHT - (top + 1) * high, height = (top - low + 1) * high;
      pen.globalAlpha = 0.22;
      pen.fillRect(x, y, wide, height);
      pen.globalAlpha = 1;
      pen.beginPath();
      if (column === one || low > 0) { pen.moveTo(x, y); pen.lineTo(x, y + height); }
      if (column === end) { pen.moveTo(x + wide, y); pen.lineTo(x + wide, y + height); }
      pen.moveTo(x, y); pen.lineTo(x + wide, y);
      pen.moveTo(x, y + height); pen.lineTo(x + wide, y + height);
      pen.stroke();
    }
  }
  function startOf(/** @type {number} */ cell) { return Math.floor(cell / map.rows) * map.perColumn + (cell % map.rows) * map.perCell; }
  function tell() {
    var what = page.isSecond ? "the second span" : "a span", most = map.samples.reduce(function (a, b) { return Math.max(a, b); }, 0);
    var text = "The first and the last cell choose " + what + ". No cell has more than " + looks.number(most) + (most === 1 ? " sample." : " samples.");
    if (anchor >= 0) text = "From " + looks.time(startOf(anchor)) + ": the last cell ends " + what + ".";
    if (cursor >= 0) text = looks.time(startOf(cursor)) + ": " + looks.number(map.samples[cursor]) + " samples. " + (anchor >= 0 ? text : "");
    $("heat-told").textContent = text;
  }
  function choose(/** @type {number} */ cell) {
    if (anchor < 0) { anchor = cell; draw(); return; }
    var steps = model.time ? model.time.steps : 0, first = Math.min(anchor, cell), last = Math.max(anchor, cell);
    anchor = -1;
    page.span(startOf(first), Math.min(steps, startOf(last) + map.perCell));
    page.select();
    page.remember();
  }
  function cellAt(/** @type {MouseEvent} */ event) {
    var column = Math.floor((event.offsetX - left) / wide), row = map.rows - 1 - Math.floor(event.offsetY / high);
    if (column < 0 || column >= map.columns || event.offsetY >= HEIGHT) return -1;
    return column * map.rows + Math.max(0, Math.min(map.rows - 1, row));
  }
  canvas.addEventListener("pointerdown", function (event) {
    var cell = cellAt(event);
    if (cell < 0) return;
    isDown = true;
    hasMoved = false;
    cursor = cell;
    if (anchor < 0) choose(cell);
    else hasMoved = true;
    try { canvas.setPointerCapture(event.pointerId); } catch (none) { /* The drag then ends at the edge. */ }
  });
  canvas.addEventListener("pointermove", function (event) {
    var cell = cellAt(event);
    if (cell < 0 || cell === cursor) return;
    if (isDown) hasMoved = true;
    cursor = cell;
    draw();
  });
  canvas.addEventListener("pointerleave", function () { if (!isDown) { cursor = -1; draw(); } });
  canvas.addEventListener("pointerup", function () {
    if (!isDown) return;
    isDown = false;
    // A click begins a span, and another one ends it; a drag does both.
    if (hasMoved && cursor >= 0) choose(cursor);
  });
  canvas.addEventListener("pointercancel", function () { isDown = false; anchor = -1; draw(); });
  canvas.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    var key = event.key, by = key === "ArrowUp" ? 1 : key === "ArrowDown" ? -1 : key === "ArrowRight" ? map.rows : key === "ArrowLeft" ? -map.rows : 0;
    var last = map.columns * map.rows - 1;
    if (by) cursor = cursor < 0 ? 0 : Math.max(0, Math.min(last, cursor + by));
    else if (key === "Home") cursor = 0;
    else if (key === "End") cursor = last;
    else if (key === "Enter" || key === " ") { event.preventDefault(); choose(Math.max(0, cursor)); return; }
    else if (key === "Escape" && anchor >= 0) { event.stopPropagation(); anchor = -1; }
    else return;
    event.preventDefault();
    draw();
  });
  $("column").addEventListener("change", function () {
    page.column = Number($("column").value);
    cursor = anchor = -1;
    draw();
    page.remember();
  });
  /** @type {NodeListOf<HTMLInputElement>} */
  var inputs = document.querySelectorAll("input[name=which]");
  inputs.forEach(function (input) {
    input.addEventListener("change", function () { page.isSecond = input.value === "second" && input.checked; anchor = -1; draw(); });
  });

  return { draw: draw };
}
