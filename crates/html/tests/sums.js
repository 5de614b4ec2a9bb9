// Prints what the page's own model makes of a page, which comes from standard input, as one JSON object.
"use strict";
const fs = require("fs");
// The page's scripts are plain ones.
for (const script of ["data.js", "model.js"]) require("vm").runInThisContext(fs.readFileSync("src/page/" + script, "utf8"), script);
const model = perfuseModel;
const page = fs.readFileSync(0, "utf8");
const text = page.split('<script type="application/json" id="data">')[1].split("</script>")[0];
const of = perfuseData.load(JSON.parse(text));
const everything = (event) => ({ event, thread: -1, cpu: -1, from: 0, to: -1, baseFrom: 0, baseTo: -1 });
const sum = (items, key) => items.reduce((all, item) => all + item[key], 0);
const tell = (event) => {
  const choice = everything(event), v = model.view(of, choice);
  const functions = model.table(v, null, "own", true).map((at) => [
    of.names[at], of.objects[at], v.functionOwn[at], v.functionOwnSamples[at], v.functionTotal[at], v.functionSamples[at],
    model.around(v, at, false).weight, model.around(v, at, true).weight,
  ]);
  const threads = of.threads.map((_, thread) => model.view(of, { ...choice, thread }).count);
  const cpus = of.cpus.map((_, cpu) => model.view(of, { ...choice, cpu }).count);
  const halves = of.time ? [[0, of.time.steps >> 1], [of.time.steps >> 1, of.time.steps]].map(([from, to]) => model.view(of, { ...choice, from, to }).count) : [];
  const boxes = (up) => {
    const list = model.layout(v, model.root(v, up), 1000, 0, 500);
    return list.filter((box) => box.depth === 1).reduce((all, box) => all + box.width, 0);
  };
  return {
    weight: v.weight, samples: v.count, functions, threads, cpus, halves,
    down: sum(model.below(v, model.root(v, false)), "samples"), up: sum(model.below(v, model.root(v, true)), "samples"),
    widths: [boxes(false), boxes(true)],
    covered: model.covered(v, of.names.map(() => 1)).samples,
  };
};
process.stdout.write(JSON.stringify(of.events.map((_, event) => tell(event))));
