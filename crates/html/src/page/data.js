// Takes the data of the page apart. It knows no document, so that node can run it too.
"use strict";
var perfuseData = (function () {
  var DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  var VALUE = new Uint8Array(128);
  for (var digit = 0; digit < 64; digit++) VALUE[DIGITS.charCodeAt(digit)] = digit;

  /**
   * Whole numbers from 0 on, five bits a letter, the lowest first; the sixth bit says that more follow. After = there is one number,
   * which all of them are.
   * @param {string} text
   * @param {number} count
   * @returns {Float64Array}
   */
  function numbers(text, count) {
    var list = new Float64Array(count), next = 0, at, sum = 0, unit = 1;
    if (text[0] === "=") return list.fill(numbers(text.slice(1), 1)[0]);
    for (at = 0; at < text.length; at++) {
      var value = VALUE[text.charCodeAt(at)];
      sum += (value & 31) * unit;
      unit *= 32;
      if (value < 32) { list[next++] = sum; sum = 0; unit = 1; }
    }
    return list;
  }

  /**
   * Numbers of either sign: 0, -1, 1, -2, 2, ...
   * @param {string} text
   * @param {number} count
   */
  function signed(text, count) {
    return numbers(text, count).map(function (n) { return n % 2 === 0 ? n / 2 : -(n + 1) / 2; });
  }

  /**
   * Each number is told by its distance from the one before.
   * @param {Float64Array} list
   */
  function running(list) {
    for (var at = 1; at < list.length; at++) list[at] += list[at - 1];
    return list;
  }

  /**
   * Takes the data apart. A node is a function as it was called by those above it; callers come before their callees.
   * @param {PageData} data
   * @returns {Model}
   */
  function load(data) {
    var functions = data.functions.kinds.length, count = data.nodes.count;
    var text = function (/** @type {number} */ at) { return data.strings[at]; };
    var names = Array.from(numbers(data.functions.names, functions), text);
    var objects = Array.from(numbers(data.functions.objects, functions), text);
    var back = numbers(data.nodes.parents, count), of = Int32Array.from(numbers(data.nodes.functions, count));
    /** @type {Model} */
    var model = {
      data: data, events: data.events, time: data.time, threads: data.threads, cpus: data.cpus,
      names: names, objects: objects, kinds: data.functions.kinds, lower: names.map(function (name) { return name.toLowerCase(); }),
      hues: numbers(data.functions.hues, functions), lights: numbers(data.functions.lights, functions),
      of: of, parent: new Int32Array(count), first: new Int32Array(count).fill(-1), next: new Int32Array(count).fill(-1),
      isOuter: new Uint8Array(count), roots: [], cells: loadCells(data), lines: loadLines(data)
    };
    /** @type {number[]} */
    var way = [];
    var last = new Int32Array(count).fill(-1), open = new Int32Array(functions);
    for (var node = 0; node < count; node++) {
      var parent = back[node] === 0 ? -1 : node - back[node];
      model.parent[node] = parent;
      if (parent < 0) model.roots.push(node);
      else if (last[parent] < 0) model.first[parent] = node;
      else model.next[last[parent]] = node;
      if (parent >= 0) last[parent] = node;
      while (way.length && way[way.length - 1] !== parent) open[of[/** @type {number} */ (way.pop())]]--;
      model.isOuter[node] = open[of[node]] === 0 ? 1 : 0;
      open[of[node]]++;
      way.push(node);
    }
    return model;
  }

  // Samples of a node, thread, cpu, line and step of time.
  function loadCells(/** @type {PageData} */ data) {
    var rows = data.rows, cells = data.cells, sizes = numbers(rows.cells, rows.count);
    var events = numbers(rows.events, rows.count), nodes = running(signed(rows.nodes, rows.count));
    var threads = numbers(rows.threads, rows.count), cpus = numbers(rows.cpus, rows.count), lines = numbers(rows.lines, rows.count);
    var all = cells.count, steps = numbers(cells.steps, all), samples = numbers(cells.samples, all), weights = signed(cells.weights, all);
    var list = {
      count: all, event: new Int32Array(all), node: new Int32Array(all), thread: new Int32Array(all), cpu: new Int32Array(all),
      line: new Int32Array(all), step: new Int32Array(all), samples: samples, weight: new Float64Array(all)
    };
    for (var row = 0, at = 0; row < sizes.length; row++) {
      for (var step = 0, left = sizes[row]; left > 0; left--, at++) {
        step += steps[at];
        list.event[at] = events[row];
        list.node[at] = nodes[row];
        list.thread[at] = threads[row];
        list.cpu[at] = cpus[row];
        list.line[at] = lines[row] - 1;
        list.step[at] = step;
        list.weight[at] = weights[at] + samples[at] * data.events[events[row]].usual;
      }
    }
    return list;
  }

  // Lines that samples were in, in the order of their functions, files and numbers.
  function loadLines(/** @type {PageData} */ data) {
    var count = data.lines.count;
    return {
      count: count, functions: numbers(data.lines.functions, count), files: numbers(data.lines.files, count),
      numbers: numbers(data.lines.numbers, count),
      texts: data.sources.map(function (file) { return new Map(file[1]); }),
      paths: data.sources.map(function (file) { return file[0]; })
    };
  }

  return { numbers: numbers, signed: signed, load: load };
})();
