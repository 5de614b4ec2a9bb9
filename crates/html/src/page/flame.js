// Flame graphs: callers above their callees, or the other way round.
"use strict";
/**
 * @param {Page} page
 */
function perfuseFlame(page) {
  var ROW = 18, NARROWEST = 0.6, DEEPEST_PIXELS = 12000;
  var looks = page.looks, $ = looks.$, canvas = /** @type {HTMLCanvasElement} */ ($("flame"));
  /** @type {Box[]} */
  var boxes = [];
  /** @type {Box[][]} */
  var levels = [];
  /** @type {Item | null} */
  var cursor = null;
  /** @type {Item} */
  var focus;

  // Finds the zoom again that a way of functions leads to, as far as it is still there.
  function follow(/** @type {Item} */ top, /** @type {number[]} */ way) {
    return way.reduce(function (/** @type {{at: Item, ends: boolean}} */ so, of) {
      var next = so.ends ? undefined : perfuseModel.below(page.v, so.at).find(function (child) { return child.of === of; });
      return next ? { at: next, ends: false } : { at: so.at, ends: true };
    }, { at: top, ends: false }).at;
  }
  function wayTo(/** @type {Item | null} */ item) {
    var way = [];
    for (; item && item.of >= 0; item = item.above) way.unshift(item.of);
    return way;
  }
  function zoom(/** @type {Item} */ item) {
    page.ways[page.shown] = wayTo(item);
    cursor = item;
    draw();
    page.remember();
  }
  function draw() {
    var deepest = Math.floor(DEEPEST_PIXELS / ROW) - 1;
    focus = follow(page.top(page.shown), page.ways[page.shown] || []);
    var width = /** @type {HTMLElement} */ (canvas.parentElement).clientWidth;
    boxes = perfuseModel.layout(page.v, focus, width, NARROWEST, deepest);
    levels = [];
    boxes.forEach(function (box) { (levels[box.depth] = levels[box.depth] || []).push(box); });
    $("deeper").textContent = levels.length > deepest ? "Deeper frames show when one of their callers is zoomed." : "";
    paint();
  }
  function paint() {
    var place = looks.prepare(canvas, Math.max(1, levels.length) * ROW + 2), pen = place.pen, hit = page.hit;
    var mark = looks.colourOf("mark"), text = looks.colourOf("text"), ground = looks.colourOf("ground");
    boxes.forEach(function (box) {
      var of = box.item.of, isHit = hit && of >= 0 && hit[of], y = box.depth * ROW;
      var gap = box.width > 3 ? 1 : 0;
      pen.globalAlpha = box.isAbove ? 0.55 : 1;
      pen.fillStyle = isHit ? mark : looks.colourOfItem(box.item);
      pen.fillRect(box.x, y, Math.max(box.width - gap, 0.5), ROW - 1);
      if (box.width > 24) {
        pen.fillStyle = isHit ? ground : text;
        pen.fillText(looks.shortened(looks.nameOf(of), box.width, place.letter), box.x + 3, y + ROW / 2);
      }
      pen.globalAlpha = 1;
    });
    var at = boxes.find(function (box) { return box.item === cursor; });
    if (at) {
      pen.strokeStyle = text;
      pen.lineWidth = 2;
      pen.strokeRect(at.x + 1, at.depth * ROW + 1, Math.max(at.width - 2, 1), ROW - 2);
    }
    tell(at ? at.item : focus);
  }
  function tell(/** @type {Item} */ item) {
    var object = item.of >= 0 && page.model.objects[item.of] ? " in " + page.model.objects[item.of] : "";
    var part = perfuseModel.measure(page.v, item), change = item.of >= 0 ? looks.change(part, item.base) : "";
    var text = looks.nameOf(item.of) + object + ": " + looks.share(part) + (change ? " (" + change + ")" : "") + ", " +
      looks.number(item.samples) + " samples, " + looks.amount(item.weight);
    if (!item.up && item.of >= 0) text += "; itself " + looks.share(perfuseOwnOf(page.v, item));
    $("told").textContent = text;
  }
  function boxAt(/** @type {MouseEvent} */ event) {
    var level = levels[Math.floor(event.offsetY / ROW)] || [];
    return level.find(function (box) { return event.offsetX >= box.x && event.offsetX < box.x + Math.max(box.width, 1); });
  }
  canvas.addEventListener("pointermove", function (event) { var box = boxAt(event); if (box) tell(box.item); });
  canvas.addEventListener("pointerleave", function () { tell(cursor || focus); });
  canvas.addEventListener("click", function (event) { var box = boxAt(event); if (box) zoom(box.item); });
  canvas.addEventListener("keydown", function (event) {
    var at = boxes.find(function (box) { return box.item === cursor; }) || boxes.find(function (box) { return box.item === focus; });
    if (!at || event.ctrlKey || event.metaKey || event.altKey) return;
    var here = at.item, level = levels[at.depth], place = level.indexOf(at);
    /** @type {Box | undefined} */
    var to;
    if (event.key === "ArrowUp") to = (levels[at.depth - 1] || []).find(function (box) { return box.item === here.above; });
    else if (event.key === "ArrowDown") {
      (levels[at.depth + 1] || []).forEach(function (box) { if (box.item.above === here && (!to || box.width > to.width)) to = box; });
    } else if (event.key === "ArrowLeft") to = level[place - 1];
    else if (event.key === "ArrowRight") to = level[place + 1];
    else if (event.key === "Enter") zoom(here);
    else if (event.key === "c") page.choose(here.of);
    else return;
    event.preventDefault();
    event.stopPropagation();
    if (to) { cursor = to.item; paint(); }
  });

  return { draw: draw, zoom: zoom, forget: function () { cursor = null; } };
}

/**
 * What an item has by itself.
 * @param {View} v
 * @param {Item} item
 */
function perfuseOwnOf(v, item) {
  var own = v.weight > 0 ? v.own : v.ownSamples;
  return item.nodes.reduce(function (sum, node) { return sum + own[node]; }, 0);
}
