// The data of the page and all sums of it. It draws nothing and knows no document, so that node can run it too.
"use strict";
var perfuseModel = (function () {
  var DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  var VALUE = new Uint8Array(128);
  for (var digit = 0; digit < 64; digit++) VALUE[DIGITS.charCodeAt(digit)] = digit;

  // Whole numbers from 0 on, five bits a letter, the lowest first; the sixth bit says that more follow.
  function numbers(text) {
    var count = 0, at, sum = 0, unit = 1;
    for (at = 0; at < text.length; at++) if (VALUE[text.charCodeAt(at)] < 32) count++;
    var list = new Float64Array(count), next = 0;
    for (at = 0; at < text.length; at++) {
      var value = VALUE[text.charCodeAt(at)];
      sum += (value & 31) * unit;
      unit *= 32;
      if (value < 32) { list[next++] = sum; sum = 0; unit = 1; }
    }
    return list;
  }

  // Numbers of either sign: 0, -1, 1, -2, 2, ...
  function signed(text) {
    return numbers(text).map(function (n) { return n % 2 === 0 ? n / 2 : -(n + 1) / 2; });
  }

  // Each number is told by its distance from the one before.
  function running(list) {
    for (var at = 1; at < list.length; at++) list[at] += list[at - 1];
    return list;
  }

  // Takes the data apart. A node is a function as it was called by those above it; callers come before their callees.
  function load(data) {
    var model = { data: data, events: data.events, time: data.time, threads: data.threads, cpus: data.cpus };
    var text = function (at) { return data.strings[at]; };
    model.names = Array.from(numbers(data.functions.names), text);
    model.objects = Array.from(numbers(data.functions.objects), text);
    model.kinds = data.functions.kinds;
    model.hues = numbers(data.functions.hues);
    model.lights = numbers(data.functions.lights);
    model.lower = model.names.map(function (name) { return name.toLowerCase(); });
    var back = numbers(data.nodes.parents), count = back.length;
    model.of = Int32Array.from(numbers(data.nodes.functions));
    model.parent = new Int32Array(count);
    model.first = new Int32Array(count).fill(-1);
    model.next = new Int32Array(count).fill(-1);
    // Whether no caller is the same function: sums with all that a function calls count it there only.
    model.isOuter = new Uint8Array(count);
    model.roots = [];
    var last = new Int32Array(count).fill(-1), open = new Int32Array(model.names.length), way = [];
    for (var node = 0; node < count; node++) {
      var parent = back[node] === 0 ? -1 : node - back[node];
      model.parent[node] = parent;
      if (parent < 0) model.roots.push(node);
      else if (last[parent] < 0) model.first[parent] = node;
      else model.next[last[parent]] = node;
      if (parent >= 0) last[parent] = node;
      while (way.length && way[way.length - 1] !== parent) open[model.of[way.pop()]]--;
      model.isOuter[node] = open[model.of[node]] === 0 ? 1 : 0;
      open[model.of[node]]++;
      way.push(node);
    }
    var rows = data.rows, cells = data.cells, sizes = numbers(rows.cells);
    var events = numbers(rows.events), nodes = running(signed(rows.nodes));
    var threads = numbers(rows.threads), cpus = numbers(rows.cpus);
    var steps = numbers(cells.steps), samples = numbers(cells.samples), weights = signed(cells.weights);
    var all = steps.length, at = 0;
    model.cells = {
      count: all, event: new Int32Array(all), node: new Int32Array(all), thread: new Int32Array(all),
      cpu: new Int32Array(all), step: new Int32Array(all), samples: samples, weight: new Float64Array(all)
    };
    for (var row = 0; row < sizes.length; row++) {
      for (var step = 0, left = sizes[row]; left > 0; left--, at++) {
        step += steps[at];
        model.cells.event[at] = events[row];
        model.cells.node[at] = nodes[row];
        model.cells.thread[at] = threads[row];
        model.cells.cpu[at] = cpus[row];
        model.cells.step[at] = step;
        model.cells.weight[at] = weights[at] + samples[at] * data.events[events[row]].usual;
      }
    }
    return model;
  }

  function admits(model, choice, at) {
    var cells = model.cells;
    return cells.event[at] === choice.event && (choice.thread < 0 || cells.thread[at] === choice.thread) &&
      (choice.cpu < 0 || cells.cpu[at] === choice.cpu);
  }

  // Sums of the cells that a choice admits: {event, thread, cpu, from, to}. -1 is all threads or cpus; from and to are steps of
  // time, the last not among them, and samples without a time count only where no span is chosen (to is -1).
  function view(model, choice) {
    var count = model.of.length, cells = model.cells, functions = model.names.length;
    var v = {
      model: model, own: new Float64Array(count), ownSamples: new Float64Array(count),
      total: null, samples: null, weight: 0, count: 0,
      functionOwn: new Float64Array(functions), functionTotal: new Float64Array(functions),
      functionOwnSamples: new Float64Array(functions), functionSamples: new Float64Array(functions)
    };
    var at, node, of;
    for (at = 0; at < cells.count; at++) {
      if (!admits(model, choice, at)) continue;
      if (choice.to >= 0 && (cells.step[at] < choice.from || cells.step[at] >= choice.to)) continue;
      v.own[cells.node[at]] += cells.weight[at];
      v.ownSamples[cells.node[at]] += cells.samples[at];
      v.weight += cells.weight[at];
      v.count += cells.samples[at];
    }
    v.total = v.own.slice();
    v.samples = v.ownSamples.slice();
    for (node = count - 1; node >= 0; node--) {
      if (model.parent[node] >= 0) {
        v.total[model.parent[node]] += v.total[node];
        v.samples[model.parent[node]] += v.samples[node];
      }
    }
    for (node = 0; node < count; node++) {
      of = model.of[node];
      v.functionOwn[of] += v.own[node];
      v.functionOwnSamples[of] += v.ownSamples[node];
      if (model.isOuter[node]) {
        v.functionTotal[of] += v.total[node];
        v.functionSamples[of] += v.samples[node];
      }
    }
    return v;
  }

  // An item stands for nodes of the same function that are reached in the same way. Its children are made when they are asked
  // for: downwards those that the function calls, upwards its callers.
  function item(of, up, above) {
    return { of: of, up: up, above: above, weight: 0, samples: 0, nodes: [], weights: [], counts: [], below: null, named: null };
  }

  function add(to, node, weight, samples) {
    to.nodes.push(node);
    to.weights.push(weight);
    to.counts.push(samples);
    to.weight += weight;
    to.samples += samples;
  }

  function group(v, above, each) {
    var groups = new Map();
    each(function (node, weight, samples) {
      if (samples <= 0) return;
      var of = v.model.of[node], known = groups.get(of);
      if (!known) groups.set(of, known = item(of, above.up, above));
      add(known, node, weight, samples);
    });
    return Array.from(groups.values()).sort(function (a, b) { return b.weight - a.weight || b.samples - a.samples || a.of - b.of; });
  }

  // All: downwards from the outermost callers, or upwards from where the samples were.
  function root(v, up) {
    var all = item(-1, up, null);
    all.weight = v.weight;
    all.samples = v.count;
    all.below = group(v, all, function (take) {
      if (!up) v.model.roots.forEach(function (node) { take(node, v.total[node], v.samples[node]); });
      else for (var node = 0; node < v.own.length; node++) take(node, v.own[node], v.ownSamples[node]);
    });
    return all;
  }

  // A function wherever it is: downwards with all it calls, upwards with all that call it.
  function around(v, of, up) {
    var all = item(of, up, null);
    for (var node = 0; node < v.total.length; node++) {
      if (v.model.of[node] === of && v.model.isOuter[node] && v.samples[node] > 0) add(all, node, v.total[node], v.samples[node]);
    }
    return all;
  }

  // The children of an item, the heaviest first.
  function below(v, of) {
    if (of.below) return of.below;
    var model = v.model;
    of.below = group(v, of, function (take) {
      for (var at = 0; at < of.nodes.length; at++) {
        if (of.up) {
          var caller = model.parent[of.nodes[at]];
          if (caller >= 0) take(caller, of.weights[at], of.counts[at]);
        } else {
          for (var node = model.first[of.nodes[at]]; node >= 0; node = model.next[node]) take(node, v.total[node], v.samples[node]);
        }
      }
    });
    return of.below;
  }

  // The same in the order of the functions' names, which stays when other samples are chosen.
  function named(v, of) {
    if (!of.named) of.named = below(v, of).slice().sort(function (a, b) { return a.of - b.of; });
    return of.named;
  }

  // Boxes to draw of an item in so many pixels: {item, x, width, depth}, callers first. Narrower ones are left out.
  function layout(v, focus, width, narrowest, deepest) {
    var boxes = [], above = [], up;
    for (up = focus.above; up; up = up.above) above.unshift(up);
    above.forEach(function (one, depth) { boxes.push({ item: one, x: 0, width: width, depth: depth, isAbove: true }); });
    var whole = measure(v, focus), left = [{ item: focus, x: 0, width: width, depth: above.length, isAbove: false }];
    if (whole <= 0) return boxes;
    while (left.length) {
      var box = left.pop(), x = box.x, more = [];
      boxes.push(box);
      if (box.depth >= deepest) continue;
      named(v, box.item).forEach(function (child) {
        var part = measure(v, child) * width / whole;
        if (part >= narrowest) more.push({ item: child, x: x, width: part, depth: box.depth + 1, isAbove: false });
        x += part;
      });
      while (more.length) left.push(more.pop());
    }
    return boxes;
  }

  // Widths are weights; where an event has none, samples.
  function measure(v, of) { return v.weight > 0 ? of.weight : of.samples; }

  // Which functions have all these words in their names or objects; null where there are no words.
  function search(model, words) {
    var list = words.toLowerCase().split(/\s+/).filter(Boolean);
    if (!list.length) return null;
    var hit = new Uint8Array(model.names.length);
    model.lower.forEach(function (name, of) {
      var object = model.objects[of].toLowerCase();
      hit[of] = list.every(function (word) { return name.indexOf(word) >= 0 || object.indexOf(word) >= 0; }) ? 1 : 0;
    });
    return hit;
  }

  // The weight and samples that such functions have with all they call; nothing counts twice.
  function covered(v, hit) {
    var model = v.model, inside = new Uint8Array(v.total.length), sum = { weight: 0, samples: 0 };
    for (var node = 0; node < inside.length; node++) {
      var parent = model.parent[node], isInside = parent >= 0 && inside[parent];
      inside[node] = isInside || hit[model.of[node]] ? 1 : 0;
      if (inside[node] && !isInside) { sum.weight += v.total[node]; sum.samples += v.samples[node]; }
    }
    return sum;
  }

  // The functions of a view, without names of threads: by "own", "total", "name" or "object".
  function table(v, hit, by, descending) {
    var model = v.model, list = [];
    for (var of = 0; of < model.names.length; of++) {
      if (model.kinds[of] !== "t" && v.functionSamples[of] > 0 && (!hit || hit[of])) list.push(of);
    }
    var turn = descending ? -1 : 1;
    var texts = by === "name" ? model.names : by === "object" ? model.objects : null;
    var sums = by === "own" ? v.functionOwn : v.functionTotal;
    if (v.weight <= 0) sums = by === "own" ? v.functionOwnSamples : v.functionSamples;
    return list.sort(function (a, b) {
      var order = texts ? (texts[a] < texts[b] ? -1 : texts[a] > texts[b] ? 1 : 0) : sums[a] - sums[b];
      return turn * order || a - b;
    });
  }

  // Weights over time of each thread or cpu: {key, weight, samples, steps}, the heaviest first. The chosen span does not matter.
  function tracks(model, choice, byCpu) {
    var cells = model.cells, steps = model.time ? model.time.steps : 0, known = new Map();
    var wanted = { event: choice.event, thread: byCpu ? choice.thread : -1, cpu: byCpu ? -1 : choice.cpu };
    for (var at = 0; at < cells.count; at++) {
      if (!admits(model, wanted, at)) continue;
      var key = byCpu ? cells.cpu[at] : cells.thread[at], track = known.get(key);
      if (!track) known.set(key, track = { key: key, weight: 0, samples: 0, steps: new Float64Array(steps) });
      track.weight += cells.weight[at];
      track.samples += cells.samples[at];
      if (cells.step[at] < steps) track.steps[cells.step[at]] += cells.weight[at] || cells.samples[at];
    }
    return Array.from(known.values()).sort(function (a, b) { return b.weight - a.weight || b.samples - a.samples || a.key - b.key; });
  }

  return {
    numbers: numbers, signed: signed, load: load, view: view, root: root, around: around, below: below, named: named,
    layout: layout, measure: measure, search: search, covered: covered, table: table, tracks: tracks
  };
})();
if (typeof module !== "undefined") module.exports = perfuseModel;
