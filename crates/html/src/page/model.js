// All sums of the page's data. It draws nothing and knows no document, so that node can run it too.
"use strict";
var perfuseModel = (function () {
  /**
   * @param {Model} model
   * @param {{event: number, thread: number, cpu: number}} choice
   * @param {number} at
   */
  function admits(model, choice, at) {
    var cells = model.cells;
    return cells.event[at] === choice.event && (choice.thread < 0 || cells.thread[at] === choice.thread) &&
      (choice.cpu < 0 || cells.cpu[at] === choice.cpu);
  }

  /**
   * Sums of the cells that a choice admits, and of those of its second span, if it has one. Samples without a time count only where
   * no span is chosen.
   * @param {Model} model
   * @param {Choice} choice
   * @returns {View}
   */
  function view(model, choice) {
    var v = sums(model, choice, choice.from, choice.to);
    if (choice.baseTo >= 0) v.base = sums(model, choice, choice.baseFrom, choice.baseTo);
    return v;
  }

  /**
   * @param {Model} model
   * @param {Choice} choice
   * @param {number} from
   * @param {number} to
   * @returns {View}
   */
  function sums(model, choice, from, to) {
    var count = model.of.length, cells = model.cells, functions = model.names.length;
    var own = new Float64Array(count), ownSamples = new Float64Array(count);
    /** @type {View} */
    var v = {
      model: model, base: null, own: own, ownSamples: ownSamples, total: own, samples: ownSamples, weight: 0, count: 0,
      lineWeight: new Float64Array(model.lines.count), lineSamples: new Float64Array(model.lines.count),
      functionOwn: new Float64Array(functions), functionTotal: new Float64Array(functions),
      functionOwnSamples: new Float64Array(functions), functionSamples: new Float64Array(functions)
    };
    var at, node, of, above;
    // All in names of their own, as this is what a page waits for when another span is chosen.
    var event = cells.event, thread = cells.thread, cpu = cells.cpu, step = cells.step, nodes = cells.node, lines = cells.line;
    var weights = cells.weight, counts = cells.samples, least = to >= 0 ? from : 0, most = to >= 0 ? to : Infinity;
    for (at = 0; at < cells.count; at++) {
      if (step[at] < least || step[at] >= most || event[at] !== choice.event) continue;
      if (choice.thread >= 0 && thread[at] !== choice.thread || choice.cpu >= 0 && cpu[at] !== choice.cpu) continue;
      own[nodes[at]] += weights[at];
      ownSamples[nodes[at]] += counts[at];
      v.weight += weights[at];
      v.count += counts[at];
      if (lines[at] < 0) continue;
      v.lineWeight[lines[at]] += weights[at];
      v.lineSamples[lines[at]] += counts[at];
    }
    var total = v.total = own.slice(), samples = v.samples = ownSamples.slice(), parent = model.parent;
    for (node = count - 1; node >= 0; node--) {
      above = parent[node];
      if (above < 0 || samples[node] === 0) continue;
      total[above] += total[node];
      samples[above] += samples[node];
    }
    for (node = 0; node < count; node++) {
      if (samples[node] === 0) continue;
      of = model.of[node];
      if (ownSamples[node] > 0) {
        v.functionOwn[of] += own[node];
        v.functionOwnSamples[of] += ownSamples[node];
      }
      if (model.isOuter[node]) {
        v.functionTotal[of] += total[node];
        v.functionSamples[of] += samples[node];
      }
    }
    return v;
  }

  /**
   * An item stands for nodes of the same function that are reached in the same way. Its children are made when they are asked
   * for: downwards those that the function calls, upwards its callers.
   * @param {number} of
   * @param {boolean} up
   * @param {Item | null} above
   * @returns {Item}
   */
  function item(of, up, above) {
    return {
      of: of, up: up, above: above, weight: 0, samples: 0, base: 0, nodes: [], weights: [], counts: [], bases: [], below: null,
      named: null
    };
  }

  /**
   * The base of an item is what it has in the second span: by weight, or by samples where there is no weight.
   * @param {Item} to
   * @param {number} node
   * @param {number} weight
   * @param {number} samples
   * @param {number} base
   */
  function add(to, node, weight, samples, base) {
    to.nodes.push(node);
    to.weights.push(weight);
    to.counts.push(samples);
    to.bases.push(base);
    to.weight += weight;
    to.samples += samples;
    to.base += base;
  }

  /**
   * @param {View} v
   * @param {Item} above
   * @param {(take: (node: number, weight: number, samples: number, base: number) => void) => void} each
   */
  function group(v, above, each) {
    var groups = new Map();
    each(function (node, weight, samples, base) {
      if (samples <= 0 && base <= 0) return;
      var of = v.model.of[node], known = groups.get(of);
      if (!known) groups.set(of, known = item(of, above.up, above));
      add(known, node, weight, samples, base);
    });
    return Array.from(groups.values()).sort(heavier);
  }
  function heavier(/** @type {Item} */ a, /** @type {Item} */ b) {
    return b.weight - a.weight || b.samples - a.samples || b.base - a.base || a.of - b.of;
  }

  /**
   * What a node has in the second span with all that it calls, or by itself.
   * @param {View} v
   * @param {number} node
   * @param {boolean} isOwn
   */
  function baseOf(v, node, isOwn) {
    if (!v.base) return 0;
    if (v.base.weight > 0) return isOwn ? v.base.own[node] : v.base.total[node];
    return isOwn ? v.base.ownSamples[node] : v.base.samples[node];
  }

  /**
   * All: downwards from the outermost callers, or upwards from where the samples were.
   * @param {View} v
   * @param {boolean} up
   */
  function root(v, up) {
    var all = item(-1, up, null);
    all.weight = v.weight;
    all.samples = v.count;
    all.base = v.base ? v.base.weight || v.base.count : 0;
    all.below = group(v, all, function (take) {
      if (!up) v.model.roots.forEach(function (node) { take(node, v.total[node], v.samples[node], baseOf(v, node, false)); });
      else for (var node = 0; node < v.own.length; node++) take(node, v.own[node], v.ownSamples[node], baseOf(v, node, true));
    });
    return all;
  }

  /**
   * A function wherever it is: downwards with all it calls, upwards with all that call it.
   * @param {View} v
   * @param {number} of
   * @param {boolean} up
   */
  function around(v, of, up) {
    var all = item(of, up, null);
    for (var node = 0; node < v.total.length; node++) {
      if (v.model.of[node] !== of || !v.model.isOuter[node]) continue;
      var base = baseOf(v, node, false);
      if (v.samples[node] > 0 || base > 0) add(all, node, v.total[node], v.samples[node], base);
    }
    return all;
  }

  /**
   * The children of an item, the heaviest first.
   * @param {View} v
   * @param {Item} of
   * @returns {Item[]}
   */
  function below(v, of) {
    if (of.below) return of.below;
    var model = v.model;
    if (!of.up && of.nodes.length === 1) return of.below = belowOne(v, of).slice().sort(heavier);
    return of.below = group(v, of, function (take) {
      for (var at = 0; at < of.nodes.length; at++) {
        if (of.up) {
          var caller = model.parent[of.nodes[at]];
          if (caller >= 0) take(caller, of.weights[at], of.counts[at], of.bases[at]);
        } else {
          for (var node = model.first[of.nodes[at]]; node >= 0; node = model.next[node]) take(node, v.total[node], v.samples[node], baseOf(v, node, false));
        }
      }
    });
  }

  /**
   * What one node calls, where each function is one node: in the order of their names, as the data has it.
   * @param {View} v
   * @param {Item} of
   * @returns {Item[]}
   */
  function belowOne(v, of) {
    var model = v.model, list = [];
    for (var node = model.first[of.nodes[0]]; node >= 0; node = model.next[node]) {
      var base = baseOf(v, node, false);
      if (v.samples[node] <= 0 && base <= 0) continue;
      list.push({
        of: model.of[node], up: false, above: of, weight: v.total[node], samples: v.samples[node], base: base, nodes: [node],
        weights: [v.total[node]], counts: [v.samples[node]], bases: [base], below: null, named: null
      });
    }
    return of.named = list;
  }

  /**
   * The same in the order of the functions' names, which stays when other samples are chosen.
   * @param {View} v
   * @param {Item} of
   * @returns {Item[]}
   */
  function named(v, of) {
    if (!of.named) below(v, of);
    return of.named = of.named || below(v, of).slice().sort(function (a, b) { return a.of - b.of; });
  }

  /**
   * Boxes to draw of an item in so many pixels, callers first. Narrower ones are left out.
   * @param {View} v
   * @param {Item} focus
   * @param {number} width
   * @param {number} narrowest
   * @param {number} deepest
   * @returns {Box[]}
   */
  function layout(v, focus, width, narrowest, deepest) {
    /** @type {Box[]} */
    var boxes = [];
    /** @type {Item[]} */
    var above = [];
    /** @type {Item | null} */
    var up;
    for (up = focus.above; up; up = up.above) above.unshift(up);
    above.forEach(function (one, depth) { boxes.push({ item: one, x: 0, width: width, depth: depth, isAbove: true }); });
    var whole = measure(v, focus), left = [{ item: focus, x: 0, width: width, depth: above.length, isAbove: false }];
    if (whole <= 0) return boxes;
    while (left.length) {
      var box = /** @type {Box} */ (left.pop()), x = box.x;
      /** @type {Box[]} */
      var more = [];
      boxes.push(box);
      if (box.depth >= deepest) continue;
      /** @param {Item} child */
      var place = function (child) {
        var part = measure(v, child) * width / whole;
        if (part >= narrowest) more.push({ item: child, x: x, width: part, depth: box.depth + 1, isAbove: false });
        x += part;
      };
      named(v, box.item).forEach(place);
      left.push.apply(left, more.reverse());
    }
    return boxes;
  }

  /**
   * Widths are weights; where an event has none, samples.
   * @param {View} v
   * @param {{weight: number, samples: number}} of
   */
  function measure(v, of) { return v.weight > 0 ? of.weight : of.samples; }

  /**
   * Which functions have all these words in their names or objects, or fit an expression; null where there is nothing to look for.
   * @param {Model} model
   * @param {string} words
   * @param {RegExp | null} expression
   */
  function search(model, words, expression) {
    var list = words.toLowerCase().split(/\s+/).filter(Boolean);
    if (!list.length) return null;
    var hit = new Uint8Array(model.names.length);
    model.lower.forEach(function (name, of) {
      var object = model.objects[of].toLowerCase();
      var isIt = expression ? expression.test(model.names[of]) || expression.test(model.objects[of]) :
        list.every(function (word) { return name.indexOf(word) >= 0 || object.indexOf(word) >= 0; });
      hit[of] = isIt ? 1 : 0;
    });
    return hit;
  }

  /**
   * The weight and samples that such functions have with all they call; nothing counts twice.
   * @param {View} v
   * @param {ArrayLike<number>} hit
   */
  function covered(v, hit) {
    var model = v.model, inside = new Uint8Array(v.total.length), sum = { weight: 0, samples: 0 };
    for (var node = 0; node < inside.length; node++) {
      var parent = model.parent[node], isInside = parent >= 0 && inside[parent];
      inside[node] = isInside || hit[model.of[node]] ? 1 : 0;
      if (inside[node] && !isInside) { sum.weight += v.total[node]; sum.samples += v.samples[node]; }
    }
    return sum;
  }

  /**
   * The functions of a view, without names of threads: by "own", "total", "change", "name" or "object".
   * @param {View} v
   * @param {Uint8Array | null} hit
   * @param {string} by
   * @param {boolean} descending
   * @returns {number[]}
   */
  function table(v, hit, by, descending) {
    var model = v.model, base = v.base, list = [];
    for (var of = 0; of < model.names.length; of++) {
      var isThere = v.functionSamples[of] > 0 || base && base.functionSamples[of] > 0;
      if (model.kinds[of] !== "t" && isThere && (!hit || hit[of])) list.push(of);
    }
    var turn = descending ? -1 : 1, texts = by === "name" ? model.names : model.objects;
    var isText = by === "name" || by === "object", keys = new Float64Array(isText ? 0 : model.names.length);
    if (!isText) list.forEach(function (of) { keys[of] = by === "change" ? change(v, of) : part(v, of, by === "own"); });
    return list.sort(function (a, b) {
      var order = isText ? (texts[a] < texts[b] ? -1 : texts[a] > texts[b] ? 1 : 0) : keys[a] - keys[b];
      return turn * order || a - b;
    });
  }

  /**
   * What a function has of a view: by itself, or with all that it calls.
   * @param {View} v
   * @param {number} of
   * @param {boolean} isOwn
   */
  function part(v, of, isOwn) {
    if (v.weight > 0) return isOwn ? v.functionOwn[of] : v.functionTotal[of];
    return isOwn ? v.functionOwnSamples[of] : v.functionSamples[of];
  }

  /**
   * By how much of all a function has more than in the second span.
   * @param {View} v
   * @param {number} of
   */
  function change(v, of) {
    return v.base ? difference(v, part(v, of, false), part(v.base, of, false)) : 0;
  }

  /**
   * The same of any part of a view and of its base.
   * @param {View} v
   * @param {number} now
   * @param {number} before
   */
  function difference(v, now, before) {
    var all = v.weight || v.count, base = v.base ? v.base.weight || v.base.count : 0;
    return (all > 0 ? now / all : 0) - (base > 0 ? before / base : 0);
  }

  /**
   * Weights over time of each thread or cpu in so many columns, the heaviest first. The chosen span does not matter.
   * @param {Model} model
   * @param {Choice} choice
   * @param {boolean} byCpu
   * @param {number} columns
   * @returns {Track[]}
   */
  function tracks(model, choice, byCpu, columns) {
    var cells = model.cells, steps = model.time ? model.time.steps : 0, known = new Map();
    var wanted = { event: choice.event, thread: byCpu ? choice.thread : -1, cpu: byCpu ? -1 : choice.cpu };
    for (var at = 0; at < cells.count; at++) {
      if (!admits(model, wanted, at)) continue;
      var key = byCpu ? cells.cpu[at] : cells.thread[at], track = known.get(key);
      if (!track) known.set(key, track = { key: key, weight: 0, samples: 0, columns: new Float64Array(columns) });
      track.weight += cells.weight[at];
      track.samples += cells.samples[at];
      if (cells.step[at] < steps) track.columns[Math.floor(cells.step[at] * columns / steps)] += cells.weight[at] || cells.samples[at];
    }
    return Array.from(known.values()).sort(function (a, b) { return b.weight - a.weight || b.samples - a.samples || a.key - b.key; });
  }

  /**
   * Samples by time, of which each column is so many steps, from its lowest row on; at most fifty rows. The chosen span does not
   * matter.
   * @param {Model} model
   * @param {Choice} choice
   * @param {number} perColumn
   * @returns {Heat}
   */
  function heat(model, choice, perColumn) {
    var cells = model.cells, steps = model.time ? model.time.steps : 0;
    var columns = Math.ceil(steps / perColumn), rows = Math.min(50, perColumn), perCell = Math.ceil(perColumn / rows);
    var map = {
      columns: columns, rows: rows, perColumn: perColumn, perCell: perCell, most: 0,
      weights: new Float64Array(columns * rows), samples: new Float64Array(columns * rows)
    };
    for (var at = 0; at < cells.count; at++) {
      if (cells.step[at] >= steps || !admits(model, choice, at)) continue;
      var column = Math.floor(cells.step[at] / perColumn), row = Math.floor((cells.step[at] % perColumn) / perCell);
      map.samples[column * rows + row] += cells.samples[at];
      map.weights[column * rows + row] += cells.weight[at] || cells.samples[at];
    }
    map.weights.forEach(function (weight) { map.most = Math.max(map.most, weight); });
    return map;
  }

  /**
   * Of each of so many columns of the chosen span, or of all time, the node that has the most there; -1 where there is none.
   * @param {Model} model
   * @param {Choice} choice
   * @param {number} columns
   * @returns {Stack[]}
   */
  function chart(model, choice, columns) {
    var cells = model.cells, steps = model.time ? model.time.steps : 0;
    var from = choice.to >= 0 ? choice.from : 0, to = choice.to >= 0 ? choice.to : steps;
    var piles = Array.from({ length: columns }, function () { return new Map(); });
    for (var at = 0; at < cells.count; at++) {
      var step = cells.step[at];
      if (step < from || step >= to || !admits(model, choice, at)) continue;
      // A step that is wider than a column is in all of its columns.
      var last = Math.max(Math.ceil((step + 1 - from) * columns / (to - from)), 1);
      for (var column = Math.floor((step - from) * columns / (to - from)); column < Math.min(last, columns); column++) {
        piles[column].set(cells.node[at], (piles[column].get(cells.node[at]) || 0) + (cells.weight[at] || cells.samples[at]));
      }
    }
    return piles.map(function (sum) {
      var most = { node: -1, weight: 0 };
      sum.forEach(function (weight, node) { if (weight > most.weight || weight === most.weight && node < most.node) most = { node: node, weight: weight }; });
      return most;
    });
  }

  return {
    view: view, root: root, around: around, below: below, named: named, layout: layout, measure: measure, search: search,
    covered: covered, table: table, part: part, change: change, difference: difference, tracks: tracks, heat: heat, chart: chart
  };
})();
