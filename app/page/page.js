"use strict";
// The page is complete without this: it shows what lies under the pointer, and all parts of one bucket, and zooms.
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

// A picture of lanes, wider than the box around it, which scrolls: the axis follows, and the names stay in sight.
function zoomable(svg) {
  const most = 256, apart = 70; // [pixels] between ticks, at least
  const box = svg.parentElement, ticks = svg.querySelector(".ticks"), names = svg.querySelector(".names");
  const whole = [...ticks.children], seconds = Number(ticks.dataset.seconds);
  if (!whole.length) return;
  const below = whole[1].getAttribute("y");
  let zoom = 1, span = 0;
  const make = (name, attributes, text) => {
    const made = document.createElementNS(svg.namespaceURI, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.textContent = text;
    return made;
  };
  const axis = () => {
    const perPixel = seconds / svg.getBoundingClientRect().width, power = 10 ** Math.floor(Math.log10(apart * perPixel));
    const step = power * [1, 2, 5, 10].find(digit => digit * power >= apart * perPixel);
    const [unit, name] = seconds < 1e-3 ? [1e-6, "us"] : seconds < 1 ? [1e-3, "ms"] : [1, "s"];
    const last = Math.min(seconds, (box.scrollLeft + box.clientWidth) * perPixel), made = [];
    for (let i = Math.ceil(box.scrollLeft * perPixel / step); i * step <= last; i++) {
      const x = `${100 * i * step / seconds}%`, digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
      made.push(make("line", { class: "rule", x1: x, x2: x, y2: below - 15 }, ""),
        make("text", { class: "soft mid", x, y: below }, `${(i * step / unit).toFixed(digits)}\u00a0${name}`));
    }
    return made;
  };
  const draw = () => {
    names.setAttribute("transform", `translate(${box.scrollLeft})`);
    ticks.replaceChildren(...zoom > 1 ? axis() : whole);
  };
  const set = (wish, x) => { // keeps what is at @x of the window where it is
    const before = svg.getBoundingClientRect(), part = (x - before.left) / before.width;
    zoom = Math.min(most, Math.max(1, wish));
    svg.style.width = zoom > 1 ? `calc(max(100% - 5.4rem, 40rem) * ${zoom})` : "";
    const after = svg.getBoundingClientRect();
    box.scrollLeft += after.left + part * after.width - x;
    draw();
  };
  const middle = () => { const place = box.getBoundingClientRect(); return place.left + place.width / 2; };
  const keys = { "+": () => set(2 * zoom, middle()), "-": () => set(zoom / 2, middle()), 0: () => set(1, middle()) };
  keys["="] = keys["+"]; // the same key without Shift
  const controls = document.createElement("p");
  controls.className = "controls small";
  for (const [text, key, label] of [["+", "+", "zoom in"], ["\u2212", "-", "zoom out"], ["whole step", "0", "whole step"]]) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: text, ariaLabel: label });
    button.addEventListener("click", keys[key]);
    controls.append(button);
  }
  controls.append("Ctrl + wheel, pinch, or the keys +, \u2212, 0 and arrows");
  box.before(controls);
  box.addEventListener("scroll", draw);
  box.addEventListener("keydown", event => { if (!event.ctrlKey && keys[event.key]) keys[event.key](); });
  box.addEventListener("wheel", event => {
    if (!event.ctrlKey) return; // the page scrolls
    event.preventDefault();
    set(zoom * 2 ** (-event.deltaY / 200), event.clientX);
  }, { passive: false });
  box.addEventListener("touchmove", event => {
    const [a, b] = event.touches, before = span;
    span = b ? Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY) : 0;
    if (b) event.preventDefault();
    if (b && before) set(zoom * span / before, (a.clientX + b.clientX) / 2);
  }, { passive: false });
  box.addEventListener("touchend", () => { span = 0; });
  addEventListener("resize", draw);
  addEventListener("beforeprint", keys[0]);
}
document.querySelectorAll("svg.lanes").forEach(zoomable);
