"use strict";
// The rounds of all-reduces, played; the page says the same in text without this.
const SVG = "http://www.w3.org/2000/svg", BEAT = 900, LONGEST = 16000; // [ms] of a round, and of all
const data = JSON.parse(document.getElementById("data").textContent);
const ranks = data.columns * data.rows;
const timed = data.algorithms[0].rounds.some(round => "seconds" in round);
const across = Math.ceil(Math.sqrt(ranks)), cell = Math.max(3, Math.min(12, Math.floor(72 / across))), box = across * cell, step = box + 26;
const thick = Math.max(3, Math.min(18, 192 / ranks)), inside = Math.max(44, ranks * 4.5); // of a ring: its cells, its radius

function make(name, attributes, parent, text) {
  const svg = ["svg", "g", "rect", "path", "text", "title", "marker", "circle"].includes(name);
  const made = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  parent.append(made);
  return made;
}

// What every rank holds of every chunk before each round, as sets of ranks, and when each round begins.
for (const algorithm of data.algorithms) {
  const own = (rank, i) => data.op !== "all-gather" ? 1n << BigInt(rank) : i === rank ? (1n << BigInt(ranks)) - 1n : 0n;
  let held = Array.from({length: ranks}, (_, rank) => Array.from({length: ranks}, (_, i) => own(rank, i))), at = 0;
  algorithm.held = [held];
  algorithm.begin = [0];
  for (const round of algorithm.rounds) {
    const next = held.map(row => row.slice());
    for (const [from, to, offset, count, adds] of round.messages)
      for (let i = offset; i < offset + count; i++) next[to][i] = adds ? next[to][i] | held[from][i] : held[from][i];
    algorithm.held.push(held = next);
    algorithm.begin.push(at += timed ? round.seconds : 1);
  }
}

// Class and strength of what is held of a chunk: a step for each doubling.
function look(set) {
  let count = 0;
  for (; set; set &= set - 1n) count++;
  return count === ranks ? ["c4", 1] : ["c0", Math.max(0, 0.1 + 0.8 * Math.log2(count) / Math.log2(ranks))];
}

function quantity(value, units, base) {
  let k = 0;
  while (value >= base && k < units.length - 1) { value /= base; k++; }
  return `${Number(value.toPrecision(4))}\u00a0${units[k]}`;
}
const seconds = value => quantity(value * 1e9, ["ns", "us", "ms", "s"], 1000), bytes = value => quantity(value, ["B", "kB", "MB", "GB"], 1000);

// Ranks in rows and columns.  A rank is where transform() of its place() is, and a message on its way where that of way() is.
const grid = {
  box: () => [0, 0, data.columns * step, data.rows * step],
  place: rank => [rank % data.columns * step + 13, Math.floor(rank / data.columns) * step + 18],
  transform: ([x, y]) => `translate(${x} ${y})`,
  frame: { x: -2, y: -2, width: box + 4, height: box + 4, rx: 3 }, label: { x: 0, y: -5 },
  cell: i => ({ x: i % across * cell, y: Math.floor(i / across) * cell, width: cell - 1, height: cell - 1 }),
  bend(a, b) { // longer ways pass beside what lies between
    const far = Math.hypot(b[0] - a[0], b[1] - a[1]), bend = far > 1.5 * step ? Math.min(0.15, 0.7 * step / far) : 0;
    return [(a[0] + b[0]) / 2 + bend * (a[1] - b[1]), (a[1] + b[1]) / 2 + bend * (b[0] - a[0])];
  },
  way(a, b, part) {
    const c = this.bend(a, b);
    return [0, 1].map(i => (1 - part) ** 2 * a[i] + 2 * part * (1 - part) * c[i] + part ** 2 * b[i]);
  },
  line(a, b) { // from edge to edge
    const points = [0.5, 0.5].map((half, end) => [0, 1].map(i => (end ? b : a)[i] + half * box)), c = this.bend(...points);
    const edge = point => point.map((value, i) => value + (c[i] - value) * Math.min(0.9, 0.6 * box / Math.hypot(c[0] - point[0], c[1] - point[1])));
    return `M${edge(points[0])} Q${c} ${edge(points[1])}`;
  },
};

// Ranks in a circle, each a ladder of cells that points outwards.
const outside = inside + ranks * thick, rim = inside - 8, turn = angle => [Math.sin(angle * Math.PI / 180), -Math.cos(angle * Math.PI / 180)].map(value => value * rim);
const ring = {
  box: () => [-1.1 * outside - 9, -1.1 * outside - 9, 2.2 * outside + 18, 2.2 * outside + 18],
  place: rank => [360 * rank / ranks],
  transform: ([angle]) => `rotate(${angle})`,
  frame: { x: -14, y: -outside - 2, width: 28, height: outside - inside + 4, rx: 3 }, label: { y: -outside - 6, class: "soft mid", "font-size": outside / 20 },
  cell: i => ({ x: -12, y: -inside - (i + 1) * thick, width: 24, height: thick - 1 }),
  way: ([a], [b], part) => [a + part * ((b - a + 540) % 360 - 180)],
  line(a, b) {
    return `M${turn(this.way(a, b, 0.2)[0])} A${rim} ${rim} 0 0 1 ${turn(this.way(a, b, 0.8)[0])}`;
  },
};

class Panel {
  constructor(parent, chosen) {
    this.section = make("section", {class: "panel"}, parent);
    this.choice = make("select", {}, make("label", {}, this.section, "algorithm "));
    data.algorithms.forEach((algorithm, i) => make("option", {value: i}, this.choice, algorithm.name));
    this.choice.value = this.number = chosen;
    this.words = make("p", {class: "small words", "aria-live": "polite"}, this.section);
    this.picture = make("svg", {class: "motion", role: "img"}, this.section);
    this.title = make("title", {}, this.picture);
    this.place();
  }
  place() {
    const {form} = this;
    this.picture.replaceChildren(this.title);
    this.picture.setAttribute("viewBox", form.box().join(" "));
    make("path", {d: "M0 0 8 4 0 8z", class: "c5"}, make("marker", {id: `head${this.number}`,
      viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto"}, this.picture));
    this.cells = [];
    for (let rank = 0; rank < ranks; rank++) {
      const group = make("g", {transform: form.transform(form.place(rank))}, this.picture);
      make("rect", {...form.frame, class: "frame"}, group);
      make("text", {class: "soft", ...form.label}, group, rank);
      for (let i = 0; i < ranks; i++) this.cells.push(make("rect", form.cell(i), group));
    }
    this.flow = make("g", {}, this.picture);
    this.shown = -1;
  }
  get algorithm() { return data.algorithms[this.choice.value]; }
  get form() { return this.algorithm.name === "ring" && ranks > 2 ? ring : grid; }
  get end() { return this.algorithm.begin.at(-1); }
  round(time) {
    const {begin, rounds} = this.algorithm;
    let round = 0;
    while (round < rounds.length && time >= begin[round + 1] * (1 - 1e-9)) round++;
    return round;
  }
  show(time) {
    const {form, algorithm: {held, begin, rounds, name}} = this, now = this.round(time), round = rounds[now];
    if (this.shown !== now) {
      this.shown = now;
      held[now].forEach((row, rank) => row.forEach((set, i) => {
        const [name, strength] = look(set), rect = this.cells[rank * ranks + i];
        rect.setAttribute("class", name);
        rect.setAttribute("fill-opacity", strength);
      }));
      this.flow.replaceChildren();
      this.sent = (round?.messages ?? []).filter(message => message[3] > 0).map(([from, to, offset, count]) => {
        const ends = [form.place(from), form.place(to)];
        make("path", {d: form.line(...ends), class: "link way", "marker-end": `url(#head${this.number})`}, this.flow);
        const chunks = make("g", {class: "c2"}, this.flow);
        for (let i = offset; i < offset + count; i++) make("rect", form.cell(i), chunks);
        return [...ends, chunks];
      });
      this.words.textContent = !round ? `${name}: done after ${rounds.length} rounds${timed ? `, ${seconds(this.end)}` : ""}` :
        `${name}: round ${now + 1} of ${rounds.length}, ${round.phase}` + (timed ? `; each message ${bytes(round.largest_bytes)}; ` +
          `busiest link: ${bytes(round.busiest_bytes)} (${round.busiest_link}); ${seconds(round.seconds)}` : "");
      this.title.textContent = this.words.textContent;
    }
    const part = round ? (time - begin[now]) / (begin[now + 1] - begin[now]) : 1;
    for (const [a, b, chunks] of this.sent) chunks.setAttribute("transform", form.transform(form.way(a, b, part)));
  }
}

const place = document.getElementById("motion"), controls = make("p", {class: "controls"}, place);
const button = (text, action) => { const made = make("button", {type: "button"}, controls, text); made.addEventListener("click", action); return made; };
let time = 0, playing = false, last = 0, until = 0, next = 0;
button("back", () => { playing = false; time = rounds().findLast(begin => begin < time * (1 - 1e-9)) ?? 0; draw(); });
const play = button("play", () => start(!playing, end()));
button("next", () => start(true, rounds().find(begin => begin > time * (1 + 1e-9)) ?? end()));
const slider = make("input", {type: "range", min: 0, max: 1000, value: 0, step: 1, "aria-label": "time"}, controls);
slider.addEventListener("input", () => { playing = false; time = slider.value / 1000 * end(); draw(); });
const clock = make("span", {class: "small"}, controls), panels = make("div", {class: "panels"}, place);
const shown = data.algorithms.slice(0, 2).map((_, i) => new Panel(panels, i));
const end = () => Math.max(...shown.map(panel => panel.end)), rounds = () => shown[0].algorithm.begin;
for (const panel of shown) panel.choice.addEventListener("change", () => { panel.place(); time = Math.min(time, end()); draw(); });

// Play from here, or where all is done from the start, to @to: "next" plays a round of the left picture.
function start(plays, to) {
  if (time >= end()) [time, to] = [0, to === end() ? to : rounds()[1]];
  [playing, until, last] = [plays, to, 0];
  draw();
}

function draw() {
  for (const panel of shown) panel.show(time);
  play.textContent = playing ? "pause" : "play";
  slider.value = 1000 * time / end();
  slider.ariaValueText = shown.map(panel => panel.words.textContent).join("; ");
  clock.textContent = timed ? `${seconds(time)} of ${seconds(end())}` : "";
  cancelAnimationFrame(next);
  if (playing) next = requestAnimationFrame(frame);
}

function frame(now) {
  const whole = Math.min(LONGEST, BEAT * Math.max(...shown.map(panel => panel.algorithm.rounds.length)));
  if (playing && last) time = Math.min(until, time + (now - last) / whole * end());
  last = now;
  playing &&= time < until;
  draw();
}
const asked = Number(location.hash.slice(1)); // "#3": in the middle of round 3
if (asked >= 1 && asked < rounds().length) time = (rounds()[asked - 1] + rounds()[asked]) / 2;
draw();
