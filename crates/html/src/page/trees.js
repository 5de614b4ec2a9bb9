// Call trees: a line for each open item. And the callers and callees of a function, which are two of them.
"use strict";
/**
 * @param {Page} page
 */
function perfuseTrees(page) {
  var MOST_CHILDREN = 50, looks = page.looks, $ = looks.$, make = looks.make;

  /**
   * @param {HTMLElement} place
   * @param {Item[]} items
   * @param {string} label
   */
  function draw(place, items, label) {
    place.textContent = "";
    if (!items.length) { place.append(make("p", "note", "none")); return; }
    var list = make("div");
    list.setAttribute("role", "tree");
    list.setAttribute("aria-label", label);
    place.append(list);
    insert(list, null, items, 1, 0);
    list.firstChild.tabIndex = 0;
    if (items.length === 1) open(list.firstChild);
  }
  /**
   * Puts lines of items, from this one on, in front of another line.
   * @param {HTMLElement} list
   * @param {Node | null} before
   * @param {Item[]} items
   * @param {number} level
   * @param {number} start
   */
  function insert(list, before, items, level, start) {
    items.slice(start, start + MOST_CHILDREN).forEach(function (item) { list.insertBefore(lineOf(item, level), before); });
    var left = items.length - start - MOST_CHILDREN;
    if (left <= 0) return;
    var rest = lineFrame(level, "＋");
    rest.append(make("span", "name", looks.number(left) + " more"));
    rest.act = function () {
      var next = rest.nextSibling;
      rest.remove();
      insert(list, next, items, level, start + MOST_CHILDREN);
    };
    list.insertBefore(rest, before);
  }
  /**
   * @param {number} level
   * @param {string} sign
   * @returns {TreeLine}
   */
  function lineFrame(level, sign) {
    var line = make("div", "line");
    line.setAttribute("role", "treeitem");
    line.setAttribute("aria-level", level);
    line.tabIndex = -1;
    line.level = level;
    line.style.paddingLeft = Math.min(level - 1, 40) * (innerWidth < 600 ? 6 : 14) + 4 + "px";
    line.append(make("span", "sign", sign));
    return line;
  }
  function lineOf(/** @type {Item} */ item, /** @type {number} */ level) {
    var v = page.v, isLeaf = !perfuseModel.below(v, item).length, line = lineFrame(level, isLeaf ? "" : "▸");
    var part = perfuseModel.measure(v, item), change = looks.change(part, item.base);
    line.item = item;
    if (!isLeaf) line.setAttribute("aria-expanded", "false");
    line.append(make("span", "share", looks.share(part)));
    if (change) line.append(make("span", "share change", change));
    if (!item.up) line.append(make("span", "own", looks.share(perfuseOwnOf(v, item))));
    line.append(
      make("span", page.hit && page.hit[item.of] ? "name hit" : "name", looks.nameOf(item.of)),
      make("span", "object", page.model.objects[item.of] || "")
    );
    line.title = looks.number(item.samples) + " samples, " + looks.amount(item.weight) + (item.up ? "" : "; the last share is its own");
    var button = looks.button("⇅", "Callers and callees (c)", function () { page.choose(item.of); });
    button.tabIndex = -1;
    line.append(button);
    return line;
  }
  // Opens a line, and those below it as long as each has but one.
  function open(/** @type {TreeLine | null} */ line) {
    for (var left = 60; line && line.item && left > 0; left--) {
      var items = perfuseModel.below(page.v, line.item);
      if (!items.length || line.getAttribute("aria-expanded") === "true") return;
      line.setAttribute("aria-expanded", "true");
      /** @type {HTMLElement} */ (line.firstChild).textContent = "▾";
      insert(/** @type {HTMLElement} */ (line.parentElement), line.nextSibling, items, line.level + 1, 0);
      line = items.length === 1 ? /** @type {TreeLine} */ (line.nextSibling) : null;
    }
  }
  function close(/** @type {TreeLine} */ line) {
    line.setAttribute("aria-expanded", "false");
    /** @type {HTMLElement} */ (line.firstChild).textContent = "▸";
    for (var next; (next = /** @type {TreeLine | null} */ (line.nextSibling)) && next.level > line.level;) next.remove();
  }
  function toggle(/** @type {TreeLine} */ line) {
    if (line.act) {
      var before = line.previousSibling;
      line.act();
      go(/** @type {TreeLine | null} */ (before && before.nextSibling));
    } else if (line.getAttribute("aria-expanded") === "true") close(line);
    else open(line);
  }
  function go(/** @type {TreeLine | null} */ line) {
    if (!line) return;
    /** @type {NodeListOf<HTMLElement>} */
    var others = /** @type {HTMLElement} */ (line.parentElement).querySelectorAll("[tabindex='0']");
    others.forEach(function (other) { other.tabIndex = -1; });
    line.tabIndex = 0;
    line.focus();
  }
  function lineAt(/** @type {Event} */ event) {
    return /** @type {TreeLine | null} */ (/** @type {HTMLElement} */ (event.target).closest(".line"));
  }
  function listen(/** @type {HTMLElement} */ place) {
    place.addEventListener("click", function (event) {
      if (/** @type {HTMLElement} */ (event.target).closest("button")) return;
      var line = lineAt(event);
      if (line) { go(line); toggle(line); }
    });
    place.addEventListener("keydown", function (event) {
      var line = lineAt(event);
      if (!line || event.ctrlKey || event.metaKey || event.altKey) return;
      var isOpen = line.getAttribute("aria-expanded") === "true", key = event.key;
      var list = /** @type {HTMLElement} */ (line.parentElement), next = /** @type {TreeLine | null} */ (line.nextSibling);
      if (key === "ArrowDown") go(next);
      else if (key === "ArrowUp") go(/** @type {TreeLine | null} */ (line.previousSibling));
      else if (key === "ArrowRight") { if (isOpen) go(next); else open(line); }
      else if (key === "ArrowLeft") {
        /** @type {TreeLine | null} */
        var up = line;
        if (isOpen) close(line);
        else { while (up && up.level >= line.level) up = /** @type {TreeLine | null} */ (up.previousSibling); go(up); }
      } else if (key === "Home") go(/** @type {TreeLine | null} */ (list.firstChild));
      else if (key === "End") go(/** @type {TreeLine | null} */ (list.lastChild));
      else if (key === "Enter" || key === " ") toggle(line);
      else if (key === "c" && line.item) page.choose(line.item.of);
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
  }
  ["tree", "callers", "callees"].forEach(function (id) { listen($(id)); });

  function drawTree() { draw($("tree"), perfuseModel.below(page.v, page.top("flame")), "Call tree"); }
  function drawAround() {
    var v = page.v, of = page.chosen;
    if (of < 0) { $("about").textContent = "No samples are chosen."; return; }
    var down = perfuseModel.around(v, of, false), up = perfuseModel.around(v, of, true);
    var part = perfuseModel.measure(v, down), change = looks.change(part, down.base);
    $("about").textContent = looks.nameOf(of) + ": " + looks.share(part) + (change ? " (" + change + ")" : "") + ", itself " +
      looks.share(perfuseModel.part(v, of, true)) + ", " + looks.number(down.samples) + " samples";
    draw($("callers"), perfuseModel.below(v, up), "Callers");
    draw($("callees"), perfuseModel.below(v, down), "Callees");
  }

  return { tree: { draw: drawTree }, around: { draw: drawAround } };
}
