// The table of functions.
"use strict";
/**
 * @param {Page} page
 */
function perfuseFunctions(page) {
  var MOST_ROWS = 200, wanted = MOST_ROWS;
  var looks = page.looks, $ = looks.$, make = looks.make;
  /** @type {NodeListOf<HTMLElement>} */
  var heads = document.querySelectorAll("[data-sort]");

  function draw() {
    var v = page.v, base = v.base, list = perfuseModel.table(v, page.hit, page.sort.by, page.sort.descending), body = $("rows");
    $("table").classList.toggle("compares", !!base);
    body.textContent = "";
    list.slice(0, wanted).forEach(function (of) {
      var row = make("tr"), name = make("td", "name"), total = perfuseModel.part(v, of, false);
      name.append(looks.button(looks.nameOf(of), "Callers and callees", function () { page.choose(of); }));
      row.append(
        make("td", "number", looks.share(perfuseModel.part(v, of, true))), make("td", "number", looks.share(total)),
        make("td", "number change", base ? looks.change(total, perfuseModel.part(base, of, false)) : ""),
        make("td", "number", looks.number(v.functionSamples[of])), name, make("td", "object", page.model.objects[of])
      );
      body.append(row);
    });
    heads.forEach(function (button) {
      var isIt = button.dataset.sort === page.sort.by, head = /** @type {HTMLElement} */ (button.parentElement);
      head.setAttribute("aria-sort", !isIt ? "none" : page.sort.descending ? "descending" : "ascending");
    });
    $("no-rows").textContent = list.length ? "" : "No function is here.";
    looks.more($("more-rows"), list.length - wanted, "functions", function () { wanted += 5 * MOST_ROWS; draw(); });
  }
  heads.forEach(function (button) {
    button.addEventListener("click", function () {
      var by = button.dataset.sort || "total", isText = by === "name" || by === "object";
      page.sort = { by: by, descending: page.sort.by === by ? !page.sort.descending : !isText };
      draw();
      page.remember();
    });
  });

  return { draw: draw, forget: function () { wanted = MOST_ROWS; } };
}
