"use strict";
// The rounds of all-reduces, played; the page says the same in text without this.
const SVG = "http://www.w3.org/2000/svg", BEAT = 900; // [ms] of a round where none has a time
const data = JSON.parse(document.getElementById("data").textContent);
const ranks = data.columns * data.rows, cells = ranks;
const timed = data.algorithms[0].rounds.some(round => "seconds" in round);
const across = Math.ceil(Math.sqrt(cells)), cell = Math.max(3, Math.min(12, Math.floor(72 / across))), box = across * cell, step = box + 26;

function make(name, attributes, parent, text) {
  const svg = ["svg", "g", "rect", "circle", "path", "text", "title"].includes(name);
  const made = svg ? document.createElementNS(SVG, name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

// What every rank holds of every chunk before each round, as sets of ranks, and when each round begins.
for (const algorithm of data.algorithms) {
  let held = Array.from({length: ranks}, (_, rank) => Array(ranks).fill(1n << BigInt(rank))), at = 0;
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

// Class and strength of what is held of a chunk.
function look(set) {
  let count = 0;
  for (; set; set &= set - 1n) count++;
  return count === ranks ? ["c4", 1] : ["c0", 0.12 + 0.75 * (count - 1) / Math.max(1, ranks - 2)];
}

function quantity(value, units, base) {
  let k = 0;
  while (value >= base && k < units.length - 1) { value /= base; k++; }
  return `${Number(value.toPrecision(4))}\u00a0${units[k]}`;
}
const seconds = value => quantity(value * 1e9, ["ns", "us", "ms", "s"], 1000), bytes = value => quantity(value, ["B", "kB", "MB", "GB"], 1000);

class Panel {
  constructor(parent, chosen) {
    this.section = make("section", {class: "panel"}, parent);
    const label = make("label", {}, this.section, "algorithm ");
    this.choice = make("select", {}, label);
    data.algorithms.forEach((algorithm, i) => make("option", {value: i}, this.choice, algorithm.name));
    this.choice.value = chosen;
    this.words = make("p", {class: "small words", "aria-live": "polite"}, this.section);
    const width = data.columns * step, height = data.rows * step;
    this.picture = make("svg", {viewBox: `0 0 ${width} ${height}`, class: "motion", role: "img"}, this.section);
    this.title = make("title", {}, this.picture);
    this.cells = [];
    for (let rank = 0; rank < ranks; rank++) {
      const [x, y] = this.corner(rank);
      make("rect", {x: x - 2, y: y - 2, width: box + 4, height: box + 4, rx: 3, class: "frame"}, this.picture);
      make("text", {x, y: y - 5, class: "soft"}, this.picture, rank);
      for (let i = 0; i < cells; i++)
        this.cells.push(make("rect", {x: x + i % across * cell, y: y + Math.floor(i / across) * cell, width: cell - 1, height: cell - 1}, this.picture));
    }
    this.flow = make("g", {}, this.picture);
    this.shown = -1;
  }
  corner(rank) { return [rank % data.columns * step + 13, Math.floor(rank / data.columns) * step + 18]; }
  get algorithm() { return data.algorithms[this.choice.value]; }
  get end() { return this.algorithm.begin[this.algorithm.rounds.length]; }
  round(time) {
    const {begin, rounds} = this.algorithm;
    let round = 0;
    while (round < rounds.length && time >= begin[round + 1] - 1e-15) round++;
    return round;
  }
  show(time) {
    const {held, begin, rounds, name} = this.algorithm, now = this.round(time), key = `${name}/${now}`;
    if (key !== this.shown) {
      this.shown = key;
      held[now].forEach((row, rank) => row.forEach((set, i) => {
        const [name, strength] = look(set), rect = this.cells[rank * cells + i];
        rect.setAttribute("class", name);
        rect.setAttribute("fill-opacity", strength);
      }));
      this.flow.replaceChildren();
      this.dots = now < rounds.length ? rounds[now].messages.filter(message => message[3] > 0).map(([from, to]) => {
        const middle = rank => this.corner(rank).map(value => value + box / 2), [a, b] = [middle(from), middle(to)];
        const far = Math.hypot(b[0] - a[0], b[1] - a[1]);
        const bend = far > 1.5 * step ? Math.min(0.15, 0.7 * step / far) : 0; // longer ways pass beside what lies between
        const c = [(a[0] + b[0]) / 2 + bend * (a[1] - b[1]), (a[1] + b[1]) / 2 + bend * (b[0] - a[0])];
        make("path", {d: `M ${a} Q ${c} ${b}`, class: "link way"}, this.flow);
        return [a, c, b];
      }) : [];
      for (const dot of this.dots) dot.push(make("circle", {r: 4, class: "c2"}, this.flow));
      const round = rounds[now];
      this.words.textContent = !round ? `${name}: done after ${rounds.length} rounds${timed ? `, ${seconds(this.end)}` : ""}` :
        `${name}: round ${now + 1} of ${rounds.length}, ${round.phase}` + (timed ? `; messages of ${bytes(round.largest_bytes)}, ` +
          `${bytes(round.busiest_bytes)} on ${round.busiest_link}, ${seconds(round.seconds)}` : "");
      this.title.textContent = this.words.textContent;
    }
    const part = now < rounds.length ? (time - begin[now]) / (begin[now + 1] - begin[now]) : 1;
    for (const [a, c, b, dot] of this.dots)
      for (const i of [0, 1])
        dot.setAttribute(["cx", "cy"][i], (1 - part) ** 2 * a[i] + 2 * part * (1 - part) * c[i] + part ** 2 * b[i]);
  }
}

const place = document.getElementById("motion"), controls = make("p", {class: "controls"}, place);
const button = (text, action) => { const made = make("button", {type: "button"}, controls, text); made.addEventListener("click", action); return made; };
let time = 0, playing = false, last = 0;
button("back", () => move(-1));
const play = button("play", () => { playing = !playing; if (time >= end()) time = 0; last = 0; draw(); });
button("next", () => move(1));
const slider = make("input", {type: "range", min: 0, max: 1000, value: 0, step: 1, "aria-label": "time"}, controls);
slider.addEventListener("input", () => { playing = false; time = slider.value / 1000 * end(); draw(); });
const clock = make("span", {class: "small"}, controls), panels = make("div", {class: "panels"}, place);
const shown = [new Panel(panels, 0), new Panel(panels, 1)];
const end = () => Math.max(...shown.map(panel => panel.end));
for (const panel of shown) panel.choice.addEventListener("change", () => { time = Math.min(time, end()); draw(); });

// To where a round of either picture begins.
function move(way) {
  playing = false;
  const begins = shown.flatMap(panel => panel.algorithm.begin).sort((a, b) => a - b), tick = end() * 1e-9;
  const next = way > 0 ? begins.find(begin => begin > time + tick) : begins.findLast(begin => begin < time - tick);
  time = next ?? (way > 0 ? end() : 0);
  draw();
}

function draw() {
  for (const panel of shown) panel.show(time);
  play.textContent = playing ? "pause" : "play";
  slider.value = 1000 * time / end();
  clock.textContent = timed ? `${seconds(time)} of ${seconds(end())}` : `round ${Math.floor(time + 1e-9)} of ${end()}`;
  if (playing) requestAnimationFrame(frame);
}

function frame(now) {
  const whole = timed ? 12000 : BEAT * end(); // [ms] of the whole
  if (playing && last) time = Math.min(end(), time + (now - last) / whole * end());
  last = now;
  if (time >= end()) playing = false;
  draw();
}
const asked = Number(location.hash.slice(1)); // "#3": in the middle of round 3
if (asked >= 1 && asked < shown[0].algorithm.begin.length) time = (shown[0].algorithm.begin[asked - 1] + shown[0].algorithm.begin[asked]) / 2;
draw();
