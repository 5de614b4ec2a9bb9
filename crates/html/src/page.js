// Draws the page of perfuse's model. Names of strangers become text only, by textContent and fillText.
"use strict";
(function () {
  var ROW = 18, NARROWEST = 0.6, DEEPEST_PIXELS = 12000, MOST_ROWS = 200, MOST_CHILDREN = 50, MOST_TRACKS = 40;
  var root = document.documentElement;
  function $(id) { return document.getElementById(id); }
  function make(tag, className, text) {
    var element = document.createElement(tag);
    if (className) element.className = className;
    if (text !== undefined) element.textContent = text;
    return element;
  }

  var model = perfuseModel.load(JSON.parse($("data").textContent)), data = model.data;
  var choice = { event: 0, thread: -1, cpu: -1, from: 0, to: -1 };
  var byCpu = false, shown = "flame", hit = null, chosen = -1, sort = { by: "total", descending: true }, rowsWanted = MOST_ROWS;
  var v, tops, ways = { flame: [], inverted: [] }, focus, cursor = null, boxes = [], levels = [];

  function number(n) { return Math.round(n).toLocaleString("en"); }
  function whole() { return v.weight > 0 ? v.weight : v.count; }
  function share(of) { var all = whole(); return all > 0 ? (100 * of / all).toFixed(2) + " %" : "0.00 %"; }
  function seconds(ns) { return (ns / 1e9).toFixed(ns < 1e8 ? 6 : 3) + " s"; }
  function nameOf(of) { return of < 0 ? "all" : model.names[of] || "[no name]"; }
  function threadName(at) {
    var thread = model.threads[at];
    return (thread[1] || "[no name]") + (thread[0] === null ? "" : " " + thread[0]);
  }
  function cpuName(at) { return model.cpus[at] === null ? "cpu not told" : "cpu " + model.cpus[at]; }
  function amount(weight) {
    var event = model.events[choice.event];
    return (event.unit === "ns" ? seconds(weight) + " of " : number(weight) + " ") + event.name;
  }
  function colourOf(name) { return getComputedStyle(root).getPropertyValue("--" + name).trim(); }
  function isDark() { return root.dataset.theme === "dark"; }

  // Recording.

  function fact(words, value) {
    var one = make("div");
    one.append(make("dt", "", words), make("dd", "", value));
    $("facts").append(one);
  }
  function tellRecording() {
    document.title = data.title + " - perfuse report";
    $("title").textContent = data.title;
    data.facts.forEach(function (one) { fact(one[0], one[1]); });
    model.events.forEach(function (event) {
      var all = event.unit === "ns" ? seconds(event.weight) : number(event.weight);
      fact(event.name, number(event.samples) + " samples, " + all + " in all; " + number(event.unresolved) + " samples at addresses without a function");
    });
    fact("lost samples", number(data.lost));
    if (model.time) fact("span of the samples", seconds(model.time.end - model.time.start));
    if (data.cut !== null) fact("long callchains", "cut to " + data.cut + " frames, the outermost and the innermost, to keep the page small");
    if (data.missing.length) {
      var more = make("details"), list = make("ul");
      more.append(make("summary", "", "Objects without names: " + data.missing.length), list);
      data.missing.forEach(function (one) { list.append(make("li", "", one[0] + ": " + one[1])); });
      $("missing").append(more);
    }
    model.events.forEach(function (event, at) {
      var option = make("option", "", event.name);
      option.value = at;
      $("event").append(option);
    });
    $("event-label").hidden = model.events.length < 2;
  }

  // Sums of what is chosen, and all views of it.

  function select() {
    v = perfuseModel.view(model, choice);
    tops = {};
    tellChoice();
    search();
    drawTracks();
  }
  function tellChoice() {
    var line = $("chosen"), event = model.events[choice.event], parts = [];
    line.textContent = "";
    line.append(make("span", "", number(v.count) + " of " + number(event.samples) + " samples, " + amount(v.weight)));
    if (choice.thread >= 0) parts.push([threadName(choice.thread), function () { choice.thread = -1; }]);
    if (choice.cpu >= 0) parts.push([cpuName(choice.cpu), function () { choice.cpu = -1; }]);
    if (choice.to >= 0) parts.push([spanText(), function () { choice.from = 0; choice.to = -1; }]);
    parts.forEach(function (part) {
      var button = make("button", "", part[0] + " ✕");
      button.type = "button";
      button.title = "Take this choice back";
      button.addEventListener("click", function () { part[1](); select(); });
      line.append(button);
    });
  }
  // All, downwards for the flame graph and the call tree, upwards for the inverted one; made when it is first shown.
  function top(which) {
    if (!tops[which]) tops[which] = perfuseModel.root(v, which === "inverted");
    return tops[which];
  }
  function show(which) {
    mark(which);
    draw();
  }
  function mark(which) {
    shown = which;
    document.querySelectorAll("#tabs [role=tab]").forEach(function (tab) {
      var isIt = tab.dataset.view === which;
      tab.setAttribute("aria-selected", isIt ? "true" : "false");
      tab.tabIndex = isIt ? 0 : -1;
    });
    $("graph").hidden = which !== "flame" && which !== "inverted";
    $("table").hidden = which !== "table";
    $("tree").hidden = which !== "tree";
    $("around").hidden = which !== "around";
    cursor = null;
  }
  function draw() {
    if (shown === "flame" || shown === "inverted") drawFlame();
    else if (shown === "table") drawTable();
    else if (shown === "tree") drawTree($("tree"), perfuseModel.below(v, top("flame")), "Call tree");
    else drawAround();
  }
  function search() {
    hit = perfuseModel.search(model, $("search").value);
    var text = "";
    if (hit) {
      var sum = perfuseModel.covered(v, hit), found = 0;
      for (var of = 0; of < hit.length; of++) found += hit[of] && v.functionSamples[of] > 0 ? 1 : 0;
      text = share(v.weight > 0 ? sum.weight : sum.samples) + " in " + number(found) + (found === 1 ? " function" : " functions") + " with callees";
    }
    $("found").textContent = text;
    rowsWanted = MOST_ROWS;
    draw();
  }
  function choose(of) {
    if (of < 0) return;
    chosen = of;
    show("around");
    $("tabs").scrollIntoView({ block: "nearest" });
  }

  // A canvas as large as it is shown, in its own pixels.
  function prepare(canvas, height) {
    var scale = window.devicePixelRatio || 1, width = canvas.parentElement.clientWidth;
    canvas.style.height = height + "px";
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
    var pen = canvas.getContext("2d");
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.clearRect(0, 0, width, height);
    pen.font = "12px ui-monospace, Menlo, Consolas, monospace";
    pen.textBaseline = "middle";
    return { pen: pen, width: width, letter: pen.measureText("M").width || 7 };
  }
  function shortened(name, width, letter) {
    var room = Math.floor((width - 6) / letter);
    return room < 3 ? "" : name.length > room ? name.slice(0, room - 2) + ".." : name;
  }

  // Flame graphs: callers above their callees, or the other way round.

  // Finds the zoom again that a way of functions leads to, as far as it is still there.
  function follow(top, way) {
    var at = top;
    for (var step = 0; step < way.length; step++) {
      var next = perfuseModel.below(v, at).find(function (child) { return child.of === way[step]; });
      if (!next) break;
      at = next;
    }
    return at;
  }
  function wayTo(item) {
    var way = [];
    for (; item && item.of >= 0; item = item.above) way.unshift(item.of);
    return way;
  }
  function zoom(item) {
    ways[shown] = wayTo(item);
    cursor = item;
    drawFlame();
  }
  function drawFlame() {
    var canvas = $("flame"), deepest = Math.floor(DEEPEST_PIXELS / ROW) - 1;
    focus = follow(top(shown), ways[shown]);
    var width = canvas.parentElement.clientWidth;
    boxes = perfuseModel.layout(v, focus, width, NARROWEST, deepest);
    levels = [];
    boxes.forEach(function (box) { (levels[box.depth] = levels[box.depth] || []).push(box); });
    $("deeper").textContent = levels.length > deepest ? "Deeper frames show when one of their callers is zoomed." : "";
    paintFlame();
  }
  function paintFlame() {
    var place = prepare($("flame"), Math.max(1, levels.length) * ROW + 2), pen = place.pen, dark = isDark();
    var mark = colourOf("mark"), text = colourOf("text");
    boxes.forEach(function (box) {
      var of = box.item.of, isHit = hit && of >= 0 && hit[of], y = box.depth * ROW;
      var gap = box.width > 3 ? 1 : 0;
      pen.globalAlpha = box.isAbove ? 0.55 : 1;
      if (of < 0) pen.fillStyle = colourOf("line");
      else if (isHit) pen.fillStyle = mark;
      else pen.fillStyle = dark ? "hsl(" + model.hues[of] + " 45% " + (model.lights[of] - 34) + "%)" : "hsl(" + model.hues[of] + " 75% " + model.lights[of] + "%)";
      pen.fillRect(box.x, y, Math.max(box.width - gap, 0.5), ROW - 1);
      if (box.width > 24) {
        pen.fillStyle = isHit ? colourOf("ground") : text;
        pen.fillText(shortened(nameOf(of), box.width, place.letter), box.x + 3, y + ROW / 2);
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
  function tell(item) {
    if (!item) { $("told").textContent = ""; return; }
    var object = item.of >= 0 && model.objects[item.of] ? " in " + model.objects[item.of] : "";
    var text = nameOf(item.of) + object + ": " + share(perfuseModel.measure(v, item)) + ", " + number(item.samples) + " samples, " + amount(item.weight);
    if (!item.up && item.of >= 0) text += "; itself " + share(ownOf(item));
    $("told").textContent = text;
  }
  function ownOf(item) {
    var own = v.weight > 0 ? v.own : v.ownSamples;
    return item.nodes.reduce(function (sum, node) { return sum + own[node]; }, 0);
  }
  function boxAt(event) {
    var level = levels[Math.floor(event.offsetY / ROW)] || [];
    return level.find(function (box) { return event.offsetX >= box.x && event.offsetX < box.x + Math.max(box.width, 1); });
  }
  $("flame").addEventListener("pointermove", function (event) { var box = boxAt(event); if (box) tell(box.item); });
  $("flame").addEventListener("pointerleave", function () { tell(cursor || focus); });
  $("flame").addEventListener("click", function (event) { var box = boxAt(event); if (box) zoom(box.item); });
  $("flame").addEventListener("keydown", function (event) {
    var at = boxes.find(function (box) { return box.item === cursor; }) || boxes.find(function (box) { return box.item === focus; });
    if (!at) return;
    var level = levels[at.depth], place = level.indexOf(at), to = null;
    if (event.key === "ArrowUp") to = (levels[at.depth - 1] || []).find(function (box) { return box.item === at.item.above; });
    else if (event.key === "ArrowDown") {
      (levels[at.depth + 1] || []).forEach(function (box) { if (box.item.above === at.item && (!to || box.width > to.width)) to = box; });
    } else if (event.key === "ArrowLeft") to = level[place - 1];
    else if (event.key === "ArrowRight") to = level[place + 1];
    else if (event.key === "Enter") { event.preventDefault(); zoom(at.item); return; }
    else if (event.key === "c") { choose(at.item.of); return; }
    else return;
    event.preventDefault();
    if (to) { cursor = to.item; paintFlame(); }
  });

  // Table of functions.

  function drawTable() {
    var list = perfuseModel.table(v, hit, sort.by, sort.descending), body = $("rows");
    body.textContent = "";
    list.slice(0, rowsWanted).forEach(function (of) {
      var row = make("tr"), name = make("td", "name"), button = make("button", "", nameOf(of));
      var byWeight = v.weight > 0;
      button.type = "button";
      button.title = "Callers and callees";
      button.addEventListener("click", function () { choose(of); });
      name.append(button);
      row.append(
        make("td", "number", share(byWeight ? v.functionOwn[of] : v.functionOwnSamples[of])),
        make("td", "number", share(byWeight ? v.functionTotal[of] : v.functionSamples[of])),
        make("td", "number", number(v.functionSamples[of])), name, make("td", "object", model.objects[of])
      );
      body.append(row);
    });
    document.querySelectorAll("[data-sort]").forEach(function (button) {
      var isIt = button.dataset.sort === sort.by;
      button.parentElement.setAttribute("aria-sort", !isIt ? "none" : sort.descending ? "descending" : "ascending");
    });
    more($("more-rows"), list.length - rowsWanted, "functions", function () { rowsWanted += 5 * MOST_ROWS; drawTable(); });
  }
  function more(place, left, things, act) {
    place.textContent = "";
    if (left <= 0) return;
    var button = make("button", "", number(left) + " more " + things);
    button.type = "button";
    button.addEventListener("click", act);
    place.append(button);
  }
  document.querySelectorAll("[data-sort]").forEach(function (button) {
    button.addEventListener("click", function () {
      var by = button.dataset.sort, isText = by === "name" || by === "object";
      sort = { by: by, descending: sort.by === by ? !sort.descending : !isText };
      drawTable();
    });
  });

  // Trees: a line for each open item.

  function drawTree(place, items, label) {
    place.textContent = "";
    if (!items.length) { place.append(make("p", "note", "none")); return; }
    var list = make("div");
    list.setAttribute("role", "tree");
    list.setAttribute("aria-label", label);
    place.append(list);
    insert(list, null, items, 1, 0);
    if (list.firstChild) list.firstChild.tabIndex = 0;
    if (items.length === 1) open(list.firstChild);
  }
  // Puts lines of items, from this one on, in front of another line.
  function insert(list, before, items, level, start) {
    items.slice(start, start + MOST_CHILDREN).forEach(function (item) { list.insertBefore(lineOf(item, level), before); });
    var left = items.length - start - MOST_CHILDREN;
    if (left <= 0) return;
    var rest = lineFrame(level, "＋");
    rest.append(make("span", "name", number(left) + " more"));
    rest.act = function () {
      var next = rest.nextSibling;
      rest.remove();
      insert(list, next, items, level, start + MOST_CHILDREN);
    };
    list.insertBefore(rest, before);
  }
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
  function lineOf(item, level) {
    var isLeaf = !perfuseModel.below(v, item).length, line = lineFrame(level, isLeaf ? "" : "▸");
    line.item = item;
    if (!isLeaf) line.setAttribute("aria-expanded", "false");
    line.append(make("span", "share", share(perfuseModel.measure(v, item))));
    if (!item.up) line.append(make("span", "own", share(ownOf(item))));
    line.append(make("span", hit && hit[item.of] ? "name hit" : "name", nameOf(item.of)), make("span", "object", model.objects[item.of] || ""));
    line.title = number(item.samples) + " samples, " + amount(item.weight) + (item.up ? "" : "; the second share is its own");
    var button = make("button", "", "⇅");
    button.type = "button";
    button.tabIndex = -1;
    button.title = "Callers and callees (c)";
    button.addEventListener("click", function (event) { event.stopPropagation(); choose(item.of); });
    line.append(button);
    return line;
  }
  // Opens a line, and those below it as long as each has but one.
  function open(line) {
    for (var left = 60; line && line.item && left > 0; left--) {
      var items = perfuseModel.below(v, line.item);
      if (!items.length || line.getAttribute("aria-expanded") === "true") return;
      line.setAttribute("aria-expanded", "true");
      line.firstChild.textContent = "▾";
      insert(line.parentElement, line.nextSibling, items, line.level + 1, 0);
      line = items.length === 1 ? line.nextSibling : null;
    }
  }
  function close(line) {
    line.setAttribute("aria-expanded", "false");
    line.firstChild.textContent = "▸";
    while (line.nextSibling && line.nextSibling.level > line.level) line.nextSibling.remove();
  }
  function toggle(line) {
    if (line.act) {
      var before = line.previousSibling;
      line.act();
      go(before && before.nextSibling);
    } else if (line.getAttribute("aria-expanded") === "true") close(line);
    else open(line);
  }
  function go(line) {
    if (!line) return;
    line.parentElement.querySelectorAll("[tabindex='0']").forEach(function (other) { other.tabIndex = -1; });
    line.tabIndex = 0;
    line.focus();
  }
  function onTree(place) {
    place.addEventListener("click", function (event) {
      var line = event.target.closest(".line");
      if (line) { go(line); toggle(line); }
    });
    place.addEventListener("keydown", function (event) {
      var line = event.target.closest(".line");
      if (!line) return;
      var isOpen = line.getAttribute("aria-expanded") === "true", key = event.key;
      if (key === "ArrowDown") go(line.nextSibling);
      else if (key === "ArrowUp") go(line.previousSibling);
      else if (key === "ArrowRight") { if (isOpen) go(line.nextSibling); else open(line); }
      else if (key === "ArrowLeft") {
        var up = line;
        if (isOpen) close(line);
        else { while (up && up.level >= line.level) up = up.previousSibling; go(up); }
      } else if (key === "Home") go(line.parentElement.firstChild);
      else if (key === "End") go(line.parentElement.lastChild);
      else if (key === "Enter" || key === " ") toggle(line);
      else if (key === "c" && line.item) { choose(line.item.of); return; }
      else return;
      event.preventDefault();
    });
  }
  ["tree", "callers", "callees"].forEach(function (id) { onTree($(id)); });

  function drawAround() {
    if (chosen < 0) chosen = perfuseModel.table(v, null, "own", true)[0];
    if (chosen === undefined) { chosen = -1; $("about").textContent = "No samples are chosen."; return; }
    var down = perfuseModel.around(v, chosen, false), up = perfuseModel.around(v, chosen, true);
    var own = v.weight > 0 ? v.functionOwn[chosen] : v.functionOwnSamples[chosen];
    $("about").textContent = nameOf(chosen) + ": " + share(perfuseModel.measure(v, down)) + ", itself " + share(own) + ", " + number(down.samples) + " samples";
    drawTree($("callers"), perfuseModel.below(v, up), "Callers");
    drawTree($("callees"), perfuseModel.below(v, down), "Callees");
  }

  // Timeline.

  var plot = { left: 0, width: 0, tracks: [] }, drag = null;
  function stepTime(step) { return step * (model.time.end - model.time.start) / model.time.steps; }
  function spanText() { return seconds(stepTime(choice.from)) + " to " + seconds(stepTime(choice.to)); }
  function drawTracks() {
    var all = perfuseModel.tracks(model, choice, byCpu), tracks = all.slice(0, MOST_TRACKS);
    $("timeline").hidden = !model.time && all.length < 2;
    var place = prepare($("tracks"), (tracks.length + 1) * 20 + 6), pen = place.pen;
    plot.left = Math.min(180, Math.round(place.width * 0.32));
    plot.width = Math.max(1, place.width - plot.left);
    var steps = model.time ? model.time.steps : 0, sum = { key: -1, steps: new Float64Array(steps) };
    all.forEach(function (track) { for (var step = 0; step < steps; step++) sum.steps[step] += track.steps[step]; });
    plot.tracks = [sum].concat(tracks);
    var most = 0, columns = Math.max(1, Math.min(steps, Math.floor(plot.width / 2)));
    var bars = plot.tracks.map(function (track) {
      var list = new Float64Array(columns);
      for (var step = 0; step < steps; step++) list[Math.floor(step * columns / steps)] += track.steps[step];
      if (track.key >= 0) list.forEach(function (bar) { most = Math.max(most, bar); });
      return list;
    });
    var text = colourOf("text"), bar = colourOf("bar"), line = colourOf("line"), raised = colourOf("raised");
    plot.tracks.forEach(function (track, at) {
      var y = at * 20, isChosen = track.key >= 0 && track.key === (byCpu ? choice.cpu : choice.thread);
      var top = track.key < 0 ? bars[at].reduce(function (a, b) { return Math.max(a, b); }, 0) : most;
      pen.fillStyle = isChosen ? colourOf("mark") : text;
      var name = track.key < 0 ? "all" : byCpu ? cpuName(track.key) : threadName(track.key);
      pen.fillText(shortened(name, plot.left, place.letter), 2, y + 10);
      pen.fillStyle = raised;
      pen.fillRect(plot.left, y, plot.width, 18);
      pen.fillStyle = bar;
      if (!model.time && track.key >= 0) pen.fillRect(plot.left, y + 4, plot.width * track.weight / Math.max(1, all[0].weight), 10);
      for (var column = 0; column < columns && top > 0; column++) {
        var height = 18 * bars[at][column] / top;
        if (height > 0) pen.fillRect(plot.left + column * plot.width / columns, y + 18 - Math.max(height, 1), plot.width / columns, Math.max(height, 1));
      }
    });
    if (choice.to >= 0) {
      var height = plot.tracks.length * 20, x = plot.left + choice.from * plot.width / steps, end = plot.left + choice.to * plot.width / steps;
      pen.globalAlpha = 0.65;
      pen.fillStyle = colourOf("ground");
      pen.fillRect(plot.left, 0, x - plot.left, height);
      pen.fillRect(end, 0, plot.left + plot.width - end, height);
      pen.globalAlpha = 1;
      pen.strokeStyle = colourOf("mark");
      pen.strokeRect(x, 0.5, Math.max(end - x, 1), height - 1);
    }
    pen.fillStyle = line;
    pen.fillRect(plot.left, plot.tracks.length * 20, plot.width, 1);
    $("span").textContent = !model.time ? "The profile has no times." : choice.to >= 0 ? spanText() : seconds(stepTime(steps));
    var left = all.length - tracks.length;
    $("more-tracks").textContent = left > 0 ? number(left) + (byCpu ? " more cpus" : " more threads") + " with fewer samples are part of \"all\"." : "";
  }
  function stepAt(event) {
    var part = (event.offsetX - plot.left) / plot.width;
    return Math.max(0, Math.min(model.time.steps, part * model.time.steps));
  }
  function chooseTrack(track) {
    if (!track || track.key < 0) { choice.thread = choice.cpu = -1; }
    else if (byCpu) choice.cpu = choice.cpu === track.key ? -1 : track.key;
    else choice.thread = choice.thread === track.key ? -1 : track.key;
    select();
  }
  function span(from, to) {
    var steps = model.time.steps;
    choice.from = Math.max(0, Math.min(steps - 1, from));
    choice.to = Math.max(choice.from + 1, Math.min(steps, to));
  }
  $("tracks").addEventListener("pointerdown", function (event) {
    if (event.offsetX < plot.left || !model.time) { chooseTrack(plot.tracks[Math.floor(event.offsetY / 20)]); return; }
    drag = { start: stepAt(event), x: event.offsetX, isFar: false };
    try { $("tracks").setPointerCapture(event.pointerId); } catch (none) { /* The drag then ends at the edge. */ }
  });
  $("tracks").addEventListener("pointermove", function (event) {
    if (!drag) return;
    if (Math.abs(event.offsetX - drag.x) > 3) drag.isFar = true;
    if (!drag.isFar) return;
    var to = stepAt(event);
    span(Math.floor(Math.min(drag.start, to)), Math.ceil(Math.max(drag.start, to)));
    drawTracks();
  });
  $("tracks").addEventListener("pointerup", function () {
    if (!drag) return;
    if (!drag.isFar) { choice.from = 0; choice.to = -1; }
    drag = null;
    select();
  });
  $("tracks").addEventListener("pointercancel", function () { drag = null; select(); });
  $("tracks").addEventListener("keydown", function (event) {
    var by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (!by || !model.time) return;
    event.preventDefault();
    var steps = model.time.steps, far = by * Math.max(1, Math.round(steps / 50));
    if (choice.to < 0) span(0, Math.ceil(steps / 10));
    else if (event.shiftKey) span(choice.from, choice.to + far);
    else {
      var length = choice.to - choice.from, from = Math.max(0, Math.min(steps - length, choice.from + far));
      span(from, from + length);
    }
    select();
  });
  document.querySelectorAll("input[name=tracks]").forEach(function (input) {
    input.addEventListener("change", function () { byCpu = input.value === "cpu" && input.checked; drawTracks(); });
  });

  // The whole page.

  function setTheme(theme) {
    root.dataset.theme = theme;
    $("theme").textContent = theme === "dark" ? "Light" : "Dark";
  }
  var prefersDark = window.matchMedia("(prefers-color-scheme: dark)"), isThemeChosen = false;
  setTheme(prefersDark.matches ? "dark" : "light");
  prefersDark.addEventListener("change", function () { if (!isThemeChosen) { setTheme(prefersDark.matches ? "dark" : "light"); redraw(); } });
  $("theme").addEventListener("click", function () { isThemeChosen = true; setTheme(isDark() ? "light" : "dark"); redraw(); });
  $("keys").addEventListener("click", function () {
    $("help").hidden = !$("help").hidden;
    $("keys").setAttribute("aria-expanded", $("help").hidden ? "false" : "true");
  });
  $("event").addEventListener("change", function () { choice.event = Number($("event").value); select(); });
  var waiting = 0;
  $("search").addEventListener("input", function () { clearTimeout(waiting); waiting = setTimeout(search, 80); });
  document.querySelectorAll("#tabs [role=tab]").forEach(function (tab, at, tabs) {
    tab.addEventListener("click", function () { show(tab.dataset.view); });
    tab.addEventListener("keydown", function (event) {
      var by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
      if (!by) return;
      event.preventDefault();
      var next = tabs[(at + by + tabs.length) % tabs.length];
      next.focus();
      show(next.dataset.view);
    });
  });
  function takeBack() {
    if ($("search").value) { $("search").value = ""; search(); }
    else if ((shown === "flame" || shown === "inverted") && ways[shown].length) zoom(top(shown));
    else if (choice.to >= 0) { choice.from = 0; choice.to = -1; select(); }
    else if (choice.thread >= 0 || choice.cpu >= 0) { choice.thread = choice.cpu = -1; select(); }
  }
  document.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") { takeBack(); return; }
    var tag = event.target.tagName;
    if (tag === "INPUT" && event.target.type === "search" || tag === "SELECT") return;
    if (event.key === "/") { event.preventDefault(); $("search").focus(); }
    else if (event.key === "?") $("keys").click();
    else if (event.key === "d") $("theme").click();
    else if (/^[1-5]$/.test(event.key)) show(["flame", "inverted", "table", "tree", "around"][Number(event.key) - 1]);
  });
  function redraw() {
    if (!model.events.length) return;
    drawTracks();
    if (shown === "flame" || shown === "inverted") drawFlame();
  }
  var resizing = 0;
  window.addEventListener("resize", function () { cancelAnimationFrame(resizing); resizing = requestAnimationFrame(redraw); });
  $("timeline").addEventListener("toggle", redraw);

  if (innerWidth < 700) $("summary").open = false;
  tellRecording();
  if (model.events.length) {
    mark("flame");
    select();
  } else {
    $("chosen").textContent = "The recording has no samples.";
    ["timeline", "tabs", "graph"].forEach(function (id) { $(id).hidden = true; });
  }
})();
