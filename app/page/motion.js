"use strict";
// The rounds of all-reduces, played, behind page.js; the page says the same in text without this.
const BEAT = 900, LONGEST = 16000; // [ms] of a round, and of all
const ranks = data.columns * data.rows;
const timed = data.algorithms[0].rounds.some(round => "seconds" in round);
const across = Math.ceil(Math.sqrt(ranks)), cell = Math.max(3, Math.min(12, Math.floor(72 / across))), box = across * cell, step = box + 26;
const thick = Math.max(3, Math.min(18, 192 / ranks)), inside = Math.max(44, ranks * 4.5); // of a ring: its cells, its radius

// What every rank holds of every block before each round, as sets of ranks, and when each round begins.
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

// Class and strength of what is held of a block: a step for each doubling.
function look(set) {
  let count = 0;
  for (; set; set &= set - 1n) count++;
  return count === ranks ? ["c4", 1] : ["c0", Math.max(0, 0.1 + 0.8 * Math.log2(count) / Math.log2(ranks))];
}

// Ranks in rows and columns.  A rank is where transform() of its place() is, and a message on its way where that of way() is.
const grid = {
  box: () => [0, 0, data.columns * step, data.rows * step],
  place: rank => [rank % data.columns * step + 13, Math.floor(rank / data.columns) * step + 18],
  transform: ([x, y]) => `translate(${x} ${y})`,
  frame: { x: -2, y: -2, width: box + 4, height: box + 4, rx: 3 }, label: () => ({ x: 0, y: -5 }),
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
  frame: { x: -14, y: -outside - 2, width: 28, height: outside - inside + 4, rx: 3 },
  label: rank => ({ y: -outside - 6, class: "soft mid", "font-size": outside / 20, transform: `rotate(${-360 * rank / ranks} 0 ${-outside * 61 / 60 - 6})` }), // upright
  cell: i => ({ x: -12, y: -inside - (i + 1) * thick, width: 24, height: thick - 1 }),
  way: ([a], [b], part) => [a + part * ((b - a + 540) % 360 - 180)],
  line(a, b) {
    return `M${turn(this.way(a, b, 0.2)[0])} A${rim} ${rim} 0 0 1 ${turn(this.way(a, b, 0.8)[0])}`;
  },
};

class Panel {
  constructor(parent, chosen) {
    this.section = add(parent, "section", {class: "panel"});
    this.choice = add(add(this.section, "label", {}, "algorithm "), "select", {});
    data.algorithms.forEach((algorithm, i) => add(this.choice, "option", {value: i}, algorithm.name));
    this.choice.value = this.number = chosen;
    this.words = add(this.section, "p", {class: "small words", "aria-live": "polite"});
    this.picture = add(this.section, "svg", {class: "motion", role: "img"});
    this.title = add(this.picture, "title", {});
    this.place();
  }
  place() {
    const {form} = this;
    this.picture.replaceChildren(this.title);
    this.picture.setAttribute("viewBox", form.box().join(" "));
    add(add(this.picture, "marker", {id: `head${this.number}`,
      viewBox: "0 0 8 8", refX: 7, refY: 4, markerWidth: 7, markerHeight: 7, orient: "auto"}), "path", {d: "M0 0 8 4 0 8z", class: "c5"});
    this.cells = [];
    for (let rank = 0; rank < ranks; rank++) {
      const group = add(this.picture, "g", {transform: form.transform(form.place(rank))});
      add(group, "rect", {...form.frame, class: "frame"});
      add(group, "text", {class: "soft", ...form.label(rank)}, rank);
      for (let i = 0; i < ranks; i++) this.cells.push(add(group, "rect", form.cell(i)));
    }
    this.flow = add(this.picture, "g", {});
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
        add(this.flow, "path", {d: form.line(...ends), class: "link way", "marker-end": `url(#head${this.number})`});
        const blocks = add(this.flow, "g", {class: "c2"});
        for (let i = offset; i < offset + count; i++) add(blocks, "rect", form.cell(i));
        return [...ends, blocks];
      });
      this.words.textContent = !round ? `${name}: done after ${rounds.length} rounds${timed ? `, ${say("_s", this.end)}` : ""}` :
        `${name}: round ${now + 1} of ${rounds.length}, ${round.phase}` + (timed ? `; each message ${say("_bytes", round.largest_bytes)}; ` +
          `busiest link: ${say("_bytes", round.busiest_bytes)} (${round.busiest_link}); ${say("_s", round.seconds)}` : "");
      this.title.textContent = this.words.textContent;
    }
    const part = round ? (time - begin[now]) / (begin[now + 1] - begin[now]) : 1;
    for (const [a, b, blocks] of this.sent) blocks.setAttribute("transform", form.transform(form.way(a, b, part)));
  }
}

const place = document.getElementById("motion"), controls = add(place, "p", {class: "controls"});
const end = () => Math.max(...shown.map(panel => panel.end)), rounds = () => shown[0].algorithm.begin;
const button = (text, action) => { const made = add(controls, "button", {type: "button"}, text); made.addEventListener("click", action); return made; };
button("back", () => move((rounds().findLast(begin => begin < part * end() * (1 - 1e-9)) ?? 0) / end()));
const slider = addPlayer(controls, () => {
  whole = Math.min(LONGEST, BEAT * Math.max(...shown.map(panel => panel.algorithm.rounds.length)));
  for (const panel of shown) panel.show(part * end());
  clock.textContent = timed ? `${say("_s", part * end())} of ${say("_s", end())}` : "";
  return shown.map(panel => panel.words.textContent).join("; ");
});
slider.before(button("next", () => { // plays a round of the left picture
  const from = part < 1 ? part : 0;
  move(from, (rounds().find(begin => begin > from * end() * (1 + 1e-9)) ?? end()) / end());
}));
const clock = add(controls, "span", {class: "small"}), panels = add(place, "div", {class: "panels"});
const shown = data.algorithms.slice(0, 2).map((_, i) => new Panel(panels, i));
for (const panel of shown) panel.choice.addEventListener("change", () => { panel.place(); move(part); });
const asked = Number(location.hash.slice(1)); // "#3": in the middle of round 3
move(asked >= 1 && asked < rounds().length ? (rounds()[asked - 1] + rounds()[asked]) / 2 / end() : 0);
