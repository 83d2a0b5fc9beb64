"use strict";
// The page is complete without this: it shows what lies under the pointer, and all parts of one bucket.
function show(target) {
  const item = target.closest("[data-bucket]"), mark = target.closest("svg.chart [data-value]");
  const figure = target.closest("figure"), tip = figure && figure.querySelector(".tip");
  for (const old of document.querySelectorAll(".on")) old.classList.remove("on");
  document.body.classList.toggle("marked", item !== null);
  if (item)
    for (const same of document.querySelectorAll(`[data-bucket="${CSS.escape(item.dataset.bucket)}"]`)) same.classList.add("on");
  if (tip && mark) tip.textContent = mark.querySelector("title").textContent;
}
for (const kind of ["pointerover", "click"]) document.addEventListener(kind, event => show(event.target));
