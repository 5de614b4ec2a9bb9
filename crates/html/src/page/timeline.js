// The timeline: samples of threads or cpus over time, of which a span, a thread or a cpu is chosen.
"use strict";
/**
 * @param {Page} page
 */
function perfuseTimeline(page) {
  var ROW = 20, FEW = 8, wanted = FEW;
  var looks = page.looks, $ = looks.$, model = page.model, choice = page.choice, canvas = /** @type {HTMLCanvasElement} */ ($("tracks"));
  var steps = model.time ? model.time.steps : 0, left = 0, width = 1;
  /** @type {{key: number, weight: number, columns: Float64Array}[]} */
  var shown = [];
  var known = { key: "", tracks: /** @type {Track[]} */ ([]) };
  /** @type {{start: number, x: number, isFar: boolean} | null} */
  var drag = null;

  function draw() {
    var parent = /** @type {HTMLElement} */ (canvas.parentElement).clientWidth;
    left = Math.min(180, Math.round(parent * 0.32));
    width = Math.max(1, parent - left);
    var columns = Math.max(1, Math.min(steps, Math.floor(width / 2)));
    // The chosen span does not matter to them.
    var key = [choice.event, page.byCpu, page.byCpu ? choice.thread : choice.cpu, columns].join();
    if (key !== known.key) known = { key: key, tracks: perfuseModel.tracks(model, choice, page.byCpu, columns) };
    var all = known.tracks, tracks = all.slice(0, wanted);
    $("timeline").hidden = !model.time && all.length < 2;
    var place = looks.prepare(canvas, (tracks.length + 1) * ROW + 6), pen = place.pen;
    var sum = { key: -1, weight: 0, samples: 0, columns: new Float64Array(columns) }, most = 0;
    all.forEach(function (track) { track.columns.forEach(function (bar, at) { sum.columns[at] += bar; }); });
    tracks.forEach(function (track) { track.columns.forEach(function (bar) { most = Math.max(most, bar); }); });
    shown = [sum].concat(tracks);
    var text = looks.colourOf("text"), bar = looks.colourOf("bar"), raised = looks.colourOf("raised");
    shown.forEach(function (track, at) {
      var y = at * ROW, isChosen = track.key >= 0 && track.key === (page.byCpu ? choice.cpu : choice.thread);
      var top = track.key < 0 ? track.columns.reduce(function (a, b) { return Math.max(a, b); }, 0) : most;
      pen.fillStyle = isChosen ? looks.colourOf("mark") : text;
      var name = track.key < 0 ? "all" : page.byCpu ? looks.cpuName(track.key) : looks.threadName(track.key);
      pen.fillText(looks.shortened(name, left, place.letter), 2, y + ROW / 2);
      pen.fillStyle = raised;
      pen.fillRect(left, y, width, ROW - 2);
      pen.fillStyle = bar;
      if (!model.time && track.key >= 0) pen.fillRect(left, y + 4, width * track.weight / Math.max(1, all[0].weight), 10);
      for (var column = 0; model.time && column < columns && top > 0; column++) {
        var height = (ROW - 2) * track.columns[column] / top;
        if (height > 0) pen.fillRect(left + column * width / columns, y + ROW - 2 - Math.max(height, 1), width / columns, Math.max(height, 1));
      }
    });
    frame(pen, choice.from, choice.to, "mark");
    frame(pen, choice.baseFrom, choice.baseTo, "second");
    pen.fillStyle = looks.colourOf("line");
    pen.fillRect(left, shown.length * ROW, width, 1);
    $("span").textContent = !model.time ? "The profile has no times." : choice.to >= 0 ? looks.spanText(choice.from, choice.to) : looks.time(steps);
    var rest = all.length - tracks.length;
    looks.more($("more-tracks"), rest, page.byCpu ? "cpus" : "threads", function () { wanted += 5 * FEW; draw(); });
  }
  // What is not in the chosen span is pale; a second span has a frame alone.
  function frame(/** @type {CanvasRenderingContext2D} */ pen, /** @type {number} */ from, /** @type {number} */ to, /** @type {string} */ colour) {
    if (to < 0) return;
    var height = shown.length * ROW, x = left + from * width / steps, end = left + Math.min(to, steps) * width / steps;
    if (colour === "mark") {
      pen.globalAlpha = 0.65;
      pen.fillStyle = looks.colourOf("ground");
      pen.fillRect(left, 0, x - left, height);
      pen.fillRect(end, 0, left + width - end, height);
      pen.globalAlpha = 1;
    }
    pen.lineWidth = 1.5;
    pen.strokeStyle = looks.colourOf(colour);
    pen.strokeRect(x, 0.5, Math.max(end - x, 1), height - 1);
  }
  function stepAt(/** @type {MouseEvent} */ event) {
    return Math.max(0, Math.min(steps, (event.offsetX - left) / width * steps));
  }
  function chooseTrack(/** @type {{key: number} | undefined} */ track) {
    if (!track || track.key < 0) { choice.thread = choice.cpu = -1; }
    else if (page.byCpu) choice.cpu = choice.cpu === track.key ? -1 : track.key;
    else choice.thread = choice.thread === track.key ? -1 : track.key;
    page.select();
    page.remember();
  }
  canvas.addEventListener("pointerdown", function (event) {
    if (event.offsetX < left || !model.time) { chooseTrack(shown[Math.floor(event.offsetY / ROW)]); return; }
    drag = { start: stepAt(event), x: event.offsetX, isFar: false };
    try { canvas.setPointerCapture(event.pointerId); } catch (none) { /* The drag then ends at the edge. */ }
  });
  canvas.addEventListener("pointermove", function (event) {
    if (!drag) return;
    if (Math.abs(event.offsetX - drag.x) > 3) drag.isFar = true;
    if (!drag.isFar) return;
    var to = stepAt(event);
    page.span(Math.floor(Math.min(drag.start, to)), Math.ceil(Math.max(drag.start, to)));
    draw();
  });
  function ends() {
    if (!drag) return;
    if (!drag.isFar && page.isSecond) choice.baseFrom = 0, choice.baseTo = -1;
    else if (!drag.isFar) choice.from = 0, choice.to = -1;
    drag = null;
    page.select();
    page.remember();
  }
  canvas.addEventListener("pointerup", ends);
  canvas.addEventListener("pointercancel", ends);
  canvas.addEventListener("keydown", function (event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    var key = event.key;
    if (key === "ArrowUp" || key === "ArrowDown") {
      var current = page.byCpu ? choice.cpu : choice.thread;
      var at = shown.findIndex(function (track) { return track.key === current; }) + (key === "ArrowUp" ? -1 : 1);
      event.preventDefault();
      if (at < 0 || at >= shown.length) return;
      if (page.byCpu) choice.cpu = shown[at].key; else choice.thread = shown[at].key;
      page.select();
      page.remember();
      return;
    }
    var by = key === "ArrowLeft" ? -1 : key === "ArrowRight" ? 1 : 0;
    if (!by || !model.time) return;
    event.preventDefault();
    var from = page.isSecond ? choice.baseFrom : choice.from, to = page.isSecond ? choice.baseTo : choice.to;
    var far = by * Math.max(1, Math.round(steps / 50));
    if (to < 0) page.span(0, Math.ceil(steps / 10));
    else if (event.shiftKey) page.span(from, to + far);
    else {
      var length = to - from, start = Math.max(0, Math.min(steps - length, from + far));
      page.span(start, start + length);
    }
    page.select();
    page.remember(true);
  });
  /** @type {NodeListOf<HTMLInputElement>} */
  var inputs = document.querySelectorAll("input[name=tracks]");
  inputs.forEach(function (input) {
    input.addEventListener("change", function () { page.byCpu = input.value === "cpu" && input.checked; draw(); page.remember(); });
  });

  return { draw: draw };
}
