// The flame chart: of each moment the stack that had the most of it, callers above their callees, from left to right as time goes.
"use strict";
/**
 * @param {Page} page
 */
function perfuseChart(page) {
  var ROW = 18, WIDTH = 3, DEEPEST = 300;
  var looks = page.looks, $ = looks.$, canvas = /** @type {HTMLCanvasElement} */ ($("chart-canvas"));
  /** @type {Stack[]} */
  var columns = [];
  /** @type {number[][]} */
  var ways = [];
  var wide = 1, at = { column: -1, depth: 0 };

  // From the outermost caller to a node.
  function wayTo(/** @type {number} */ node) {
    var way = [];
    for (; node >= 0; node = page.model.parent[node]) way.push(node);
    return way.reverse();
  }
  function draw() {
    $("chart-told").textContent = "";
    canvas.hidden = !page.model.time;
    if (!page.model.time) { $("chart-told").textContent = "The profile has no times."; return; }
    var width = /** @type {HTMLElement} */ (canvas.parentElement).clientWidth, count = Math.max(1, Math.floor(width / WIDTH));
    columns = perfuseModel.chart(page.model, page.choice, count);
    ways = columns.map(function (column) { return wayTo(column.node); });
    wide = width / count;
    var deepest = ways.reduce(function (most, way) { return Math.max(most, way.length); }, 1);
    if (at.column >= count) at.column = -1;
    var place = looks.prepare(canvas, Math.min(deepest, DEEPEST) * ROW + 2), pen = place.pen, text = looks.colourOf("text");
    for (var depth = 0; depth < Math.min(deepest, DEEPEST); depth++) {
      for (var first = 0; first < count;) {
        var node = ways[first][depth], next = first + 1;
        while (next < count && ways[next][depth] === node) next++;
        if (node !== undefined) box(pen, node, first, next, depth, place.letter, text);
        first = next;
      }
    }
    if (at.column >= 0) {
      pen.strokeStyle = text;
      pen.strokeRect(at.column * wide + 0.5, at.depth * ROW + 0.5, Math.max(wide - 1, 2), ROW - 2);
    }
    tell();
  }
  /**
   * @param {CanvasRenderingContext2D} pen
   * @param {number} node
   * @param {number} first
   * @param {number} next
   * @param {number} depth
   * @param {number} letter
   * @param {string} text
   */
  function box(pen, node, first, next, depth, letter, text) {
    var of = page.model.of[node], x = first * wide, width = (next - first) * wide, isHit = page.hit && page.hit[of];
    var item = { of: of, weight: 0, samples: 0, base: 0 };
    pen.fillStyle = isHit ? looks.colourOf("mark") : looks.colourOfItem(/** @type {Item} */ (item));
    pen.fillRect(x, depth * ROW, Math.max(width - (width > 6 ? 1 : 0), 0.5), ROW - 1);
    if (width <= 24) return;
    pen.fillStyle = isHit ? looks.colourOf("ground") : text;
    pen.fillText(looks.shortened(looks.nameOf(of), width, letter), x + 3, depth * ROW + ROW / 2);
  }
  function moment(/** @type {number} */ column) {
    var choice = page.choice, steps = page.model.time ? page.model.time.steps : 0;
    var from = choice.to >= 0 ? choice.from : 0, to = choice.to >= 0 ? choice.to : steps;
    return from + column * (to - from) / columns.length;
  }
  function tell() {
    var whose = page.choice.thread >= 0 ? looks.threadName(page.choice.thread) : page.choice.cpu >= 0 ? looks.cpuName(page.choice.cpu) : "all threads together";
    var text = "Of " + whose + ", at each moment the stack with the most samples; a thread is chosen in the timeline.";
    if (at.column >= 0) {
      var node = (ways[at.column] || [])[at.depth], name = node === undefined ? "no samples" : looks.nameOf(page.model.of[node]);
      text = looks.time(moment(at.column)) + ": " + name;
    }
    $("chart-told").textContent = text;
  }
  function go(/** @type {MouseEvent} */ event) {
    at = { column: Math.min(columns.length - 1, Math.floor(event.offsetX / wide)), depth: Math.floor(event.offsetY / ROW) };
    tell();
  }
  function chooseHere() {
    var node = (ways[at.column] || [])[at.depth];
    if (node !== undefined) page.choose(page.model.of[node]);
  }
  canvas.addEventListener("pointermove", go);
  canvas.addEventListener("click", function (event) { go(event); chooseHere(); });
  canvas.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    var key = event.key, isThere = at.column >= 0;
    if (key === "ArrowRight") at.column = Math.min(columns.length - 1, at.column + 1);
    else if (key === "ArrowLeft") at.column = Math.max(0, at.column - 1);
    else if (key === "ArrowDown") at.depth = isThere ? Math.min(at.depth + 1, Math.max(0, ways[at.column].length - 1)) : 0;
    else if (key === "ArrowUp") at.depth = Math.max(0, at.depth - 1);
    else if (key === "Enter" || key === "c") { event.preventDefault(); event.stopPropagation(); chooseHere(); return; }
    else return;
    if (at.column < 0) at.column = 0;
    event.preventDefault();
    draw();
  });

  return { draw: draw };
}
