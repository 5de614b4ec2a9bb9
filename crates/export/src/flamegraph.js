// Zoom by a click, search by words or Ctrl-F; nothing is fetched.
"use strict";
(function () {
  var root = document.documentElement, full = Number(root.dataset.width), frames = [].slice.call(document.querySelectorAll("g.f"));
  var at = function (g) { return { x: Number(g.dataset.x), w: Number(g.dataset.w), d: Number(g.dataset.d) }; };
  // On a screen that is narrower, as that of a phone, it is as wide as this.
  var wide = root === document.rootElement && innerWidth > 0 ? Math.min(full, Math.max(innerWidth, 200)) : full, height = root.getAttribute("height");
  function fit(g, x, w) {
    x *= wide / full; w *= wide / full;
    var box = g.querySelector("rect"), text = g.querySelector("text"), name = g.dataset.n;
    g.style.display = w < 0.1 ? "none" : "";
    box.setAttribute("x", x); box.setAttribute("width", w);
    text.setAttribute("x", x + 3);
    var room = Math.floor((w - 6) / 7);
    text.textContent = room < 3 ? "" : name.length > room ? name.slice(0, room - 2) + ".." : name;
  }
  function zoom(to) {
    var z = to ? at(to) : { x: 0, w: full, d: -1 };
    frames.forEach(function (g) {
      var p = at(g), outer = p.d < z.d && p.x <= z.x + 1e-6 && p.x + p.w >= z.x + z.w - 1e-6;
      if (outer) { fit(g, 0, full); g.classList.add("outer"); return; }
      g.classList.remove("outer");
      var left = Math.max(p.x, z.x), right = Math.min(p.x + p.w, z.x + z.w);
      if (p.d < z.d || right - left <= 0) { g.style.display = "none"; return; }
      fit(g, (left - z.x) * full / z.w, (right - left) * full / z.w);
    });
  }
  function search(word) {
    var covered = [], sum = 0, end = -1;
    frames.forEach(function (g) {
      var hit = word !== "" && g.dataset.n.toLowerCase().indexOf(word.toLowerCase()) >= 0;
      g.classList.toggle("hit", hit);
      if (hit) covered.push(at(g));
    });
    covered.sort(function (a, b) { return a.x - b.x || b.w - a.w; }).forEach(function (p) {
      if (p.x + p.w > end) { sum += p.x + p.w - Math.max(p.x, end); end = p.x + p.w; }
    });
    document.getElementById("found").textContent = word === "" ? "" : "found: " + (100 * sum / full).toFixed(1) + " %";
  }
  frames.forEach(function (g) { g.addEventListener("click", function () { zoom(g); }); });
  document.getElementById("reset").addEventListener("click", function () { zoom(null); });
  if (wide < full) { root.setAttribute("width", wide); root.setAttribute("viewBox", "0 0 " + wide + " " + height); zoom(null); }
  function ask() { var word = prompt("Search for functions with this in their name", ""); if (word !== null) search(word); }
  document.getElementById("search").addEventListener("click", ask);
  addEventListener("keydown", function (e) {
    if ((e.ctrlKey || e.metaKey) && e.key === "f") { e.preventDefault(); ask(); }
    if (e.key === "Escape") { zoom(null); search(""); }
  });
})();
