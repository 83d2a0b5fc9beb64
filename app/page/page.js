"use strict";
// Draws the pictures of a page, each in its empty figure, from the JSON that the page carries, and shows what lies under
// the pointer.  Without this the page has its sentence and all tables.  Texts reach the page as textContent alone.
const data = JSON.parse(document.getElementById("data")?.textContent ?? "null");
// What a colour means, in all pictures: classes c0 to c7 fill, s0 to s7 draw.
const COMPUTE = 0, SLOWER = 1, ROW = 2, COLUMN = 3, INPUT = 4, OTHER = 5, BACKWARD = 6, REST = 7, COLOURS = 8;
const BAR = 14, THIN = 9, LABEL = 20, LINE = 15, GAP = 10, MOST_ROWS = 24; // [pixels] of a bar, of one of several, of what is above it, of a further line there

function add(parent, name, attributes = {}, text = "") {
  const made = document.createElementNS(name === "svg" ? "http://www.w3.org/2000/svg" : parent.namespaceURI, name);
  for (const [key, value] of Object.entries(attributes)) if (value !== undefined) made.setAttribute(key, value);
  made.textContent = text;
  parent.append(made);
  return made;
}
const percent = part => `${(100 * part).toFixed(4)}%`;
const known = value => typeof value === "number";
const numbers = (rows, key) => rows.map(row => row[key]).filter(known);

// ---- quantities, as core/base/unit.c writes them: [from, size, name], of which the last that fits counts ----

const TIMES = [[0, 1, "s"], [1e-10, 1e-9, "ns"], [1e-6, 1e-6, "us"], [1e-3, 1e-3, "ms"], [1, 1, "s"], [600, 60, "min"], [7200, 3600, "h"], [360000, 86400, "days"]];
const SIZES = [[0, 1, "B"], [1e3, 1e3, "kB"], [1e6, 1e6, "MB"], [1e9, 1e9, "GB"], [1e12, 1e12, "TB"]];

function unitOf(key, value) {
  const units = /_s(_low|_high)?$/.test(key) ? TIMES : /_bytes$/.test(key) ? SIZES : /(efficiency|share|top1)$/.test(key) ? [[0, 0.01, "%"]] : [[0, 1, ""]];
  return units.findLast(([from]) => Math.abs(value) >= from);
}
function say(key, value, [, size, name] = unitOf(key, value)) {
  const number = value / size;
  return `${Math.abs(number) >= 1e4 ? Math.round(number) : Number(number.toPrecision(4))}${name && "\u00a0"}${name}`;
}
// @value, which is @row's number @key or an end of its interval, with no digits that the interval makes meaningless.
function likely(row, key, value = row[key]) {
  const centre = row[key] ?? value, [, size, name] = unitOf(key, centre), wide = (row[`${key}_high`] - row[`${key}_low`]) / size;
  if (!(wide > 0)) return say(key, value);
  const step = 10 ** Math.max(Math.floor(Math.log10(wide / 20)), Math.floor(Math.log10(Math.abs(centre) / size)) - 3);
  return `${(Math.round(value / size / step) * step).toFixed(Math.max(0, -Math.round(Math.log10(step))))}${name && "\u00a0"}${name}`;
}
// ", 90 % interval 1 s to 2 s", or nothing.
const interval = (row, key) => known(row[`${key}_low`]) && known(row[`${key}_high`])
  ? `, 90\u00a0% interval ${likely(row, key, row[`${key}_low`])} to ${likely(row, key, row[`${key}_high`])}` : "";

// ---- axes ----

const roundUp = value => {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * [1, 2, 5, 10].find(digit => digit * power >= 0.999 * value);
};

function logTicks(from, to, size, counts) {
  const ticks = [];
  let factor = 2;
  while (factor ** 5 < to / from) factor *= 2;
  for (let value = from; counts && value <= to * 1.001; value *= factor) ticks.push(value); // devices: doubled again and again
  for (let power = Math.floor(Math.log10(from / size)); !counts && 10 ** power * size <= to; power++)
    ticks.push(...(to / from < 10 ? [1, 1.5, 2, 3, 5, 7] : to / from < 300 ? [1, 2, 5] : [1]).map(digit => digit * 10 ** power * size));
  return ticks.filter(value => value >= from * 0.999 && value <= to * 1.001);
}

// An axis of numbers called @key, with @about so many round values in one unit; from 0 unless it is logarithmic, or @exact.
function axis(key, low, high, { log = false, exact = false, about = 5.3 } = {}) {
  let [from, to] = [log || exact ? low : Math.min(0, low), high];
  if (!(from < to)) [from, to] = [log ? low / 2 : Math.min(0, low), low > 0 ? 2 * low : 1];
  const counted = unitOf(key, to), counts = log && !counted[2] && from >= 1 && Number.isInteger(from), ticks = [];
  const step = Math.max(key === "step" ? 1 : 0, counted[1] * roundUp((to - from) / counted[1] / about)); // there is no half a step
  if (!log && !exact) to = step * Math.ceil(to / step - 1e-9);
  const [, size, name] = unitOf(key, log ? Math.sqrt(from * to) : to), decimals = Math.max(0, -Math.floor(Math.log10(step / size) + 1e-9));
  if (log && (counts || to / from > 4)) ticks.push(...logTicks(from, to, size, counts));
  else for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-6; i++) ticks.push(i * step);
  return { ticks, at: value => log ? Math.log(value / from) / Math.log(to / from) : (value - from) / (to - from),
    say: tick => `${Number(log ? (tick / size).toPrecision(4) : (tick / size).toFixed(decimals))}${name && "\u00a0"}${name}` };
}
const wide = values => Math.min(...values) > 0 && Math.max(...values) >= 8 * Math.min(...values);

// The values of @scale for which the picture has room, at @y.
function addValues(svg, scale, y) {
  const wide = svg.getBoundingClientRect().width || 600;
  let room = -wide;
  for (const tick of scale.ticks) {
    const x = scale.at(tick), words = scale.say(tick);
    if (x * wide < room) continue;
    add(svg, "text", { class: "soft mid", x: percent(x), y }, words);
    room = x * wide + 8 * words.length + 12;
  }
}

// Lines at round values from 0 to @end, and below them the values.
function addRules(svg, scale, end) {
  for (const x of scale.ticks.map(scale.at)) add(svg, "line", { class: "rule", x1: percent(x), x2: percent(x), y2: end });
  addValues(svg, scale, end + 16);
}

// ---- what all pictures have ----

function begin(figure, words, kind, height) {
  const box = add(figure, "div", { class: "scroll", tabindex: 0, role: "region", "aria-label": words });
  const svg = add(box, "svg", { class: `chart ${kind}`, height, role: "img", "aria-label": `${words}; the table below has the numbers` });
  add(figure, "p", { class: "tip", "aria-hidden": "true" });
  return svg;
}

// @parts: [key, label, colour].
function addLegend(figure, parts, name = "rect") {
  const list = add(figure, "ul", { class: "legend" });
  for (const [, label, colour] of parts) {
    const item = add(list, "li"), icon = add(item, "svg", { "aria-hidden": "true" });
    add(icon, name, name === "line" ? { class: `s${colour}`, x2: "100%", y1: "50%", y2: "50%" }
      : { class: `c${colour}`, width: "100%", height: "100%" });
    item.append(label);
  }
}

// What shows the number @key of @row: @words about it come up under the pointer.
function addMark(parent, name, attributes, row, key, words) {
  add(add(parent, name, { ...attributes, "data-key": key, "data-value": row[key] }), "title", {}, words);
}

// @words in lines of about @wide pixels.
const lined = (words, wide) => words.split(" ").reduce((lines, word) => {
  const line = [...lines.splice(-1), word].join(" ");
  return 7 * line.length > wide && line !== word ? [...lines, line.slice(0, -word.length - 1), word] : [...lines, line];
}, []);

// ---- bars: a group for each row, its parts in a row or @beside each other ----

function bars(figure, { words, rows, label, parts, total, most, beside = false }) {
  const shown = rows.slice(0, MOST_ROWS).filter(row => !total || known(row[total]));
  const used = parts.filter(([key]) => rows.some(row => known(row[key]))), thick = beside ? THIN : BAR;
  const long = row => { const all = used.map(([key]) => Math.max(0, row[key] ?? 0)); return beside ? Math.max(...all) : all.reduce((a, b) => a + b, 0); };
  const full = most || Math.max(...shown.map(long)) || 1;
  if (parts.length > 1) addLegend(figure, used);
  const svg = begin(figure, words, "bars", 0), wide = svg.getBoundingClientRect().width || 600;
  let y = 0;
  for (const row of shown) {
    let x = 0;
    if (total) add(svg, "text", { class: "end", x: "100%", y: y + LABEL - 6 }, likely(row, total));
    y += LABEL - LINE;
    for (const line of lined(label(row), wide)) add(svg, "text", { y: (y += LINE) - 6 }, line);
    for (const [i, [key, name, colour]] of parts.entries()) {
      if (most && (beside || !i)) add(svg, "rect", { class: "track", y, width: "100%", height: thick });
      if (!known(row[key])) continue;
      const part = Math.max(0, row[key]) / full;
      addMark(svg, "rect", { class: `c${colour}`, x: percent(x), y, width: percent(part), height: thick }, row, key,
        `${label(row)}, ${name}: ${say(key, row[key])}`);
      if (beside) y += THIN + 2; else x += part;
    }
    y += (beside ? 0 : BAR) + GAP;
  }
  svg.setAttribute("height", y);
}

// ---- ranges: a number with its interval for each row ----

function ranges(figure, { words, rows, label, key, mark, log }) {
  const shown = rows.slice(0, MOST_ROWS), ends = [key, `${key}_low`, `${key}_high`];
  const all = [...ends.flatMap(end => numbers(shown, end)), ...known(mark) ? [mark] : []], margin = log ? 1.05 : 1;
  const scale = axis(key, Math.min(...all) / margin, Math.max(...all) * margin, { log });
  const step = LABEL + BAR + GAP, end = shown.length * step;
  if (numbers(shown, ends[1]).length) add(figure, "p", { class: "small" }, "Bar: 90\u00a0% interval");
  const svg = begin(figure, words, "ranges", end + 24), wide = svg.getBoundingClientRect().width || 600;
  addRules(svg, scale, end);
  if (known(mark)) add(svg, "line", { class: "own", x1: percent(scale.at(mark)), x2: percent(scale.at(mark)), y2: end });
  for (const [i, row] of shown.entries()) {
    const y = i * step + LABEL + 7, [value, low, high] = ends.map(name => row[name]);
    const said = known(value) ? `${label(row)}: ${likely(row, key)}` : label(row);
    add(svg, "text", { y: y - 13 }, 7 * said.length < wide ? said : label(row));
    if (known(low) && known(high))
      add(svg, "line", { class: "s0 whisker", x1: percent(scale.at(low)), x2: percent(scale.at(high)), y1: y, y2: y });
    else if (known(value) && known(mark))
      add(svg, "line", { class: "s0 whisker", x1: percent(scale.at(mark)), x2: percent(scale.at(value)), y1: y, y2: y });
    if (known(value))
      addMark(svg, "circle", { class: "c0", cx: percent(scale.at(value)), cy: y, r: 5 }, row, key,
        said + interval(row, key));
  }
}

// ---- a tornado: what each row makes of one number at either end of what is uncertain ----

function tornado(figure, { words, rows, label, parts, middle }) {
  const shown = rows.slice(0, MOST_ROWS), all = [middle, ...parts.flatMap(([key]) => numbers(shown, key))];
  const least = Math.min(...all), most = Math.max(...all), margin = most > least ? 0.05 * (most - least) : Math.abs(most) / 2;
  const scale = axis(parts[0][0], least - margin, most + margin, { exact: true });
  addLegend(figure, parts);
  const svg = begin(figure, words, "ranges", 0), wide = svg.getBoundingClientRect().width || 600;
  const names = shown.map(row => lined(label(row), wide)), head = LABEL + LINE * (Math.max(...names.map(name => name.length)) - 1);
  const step = head + 2 * THIN + GAP, end = shown.length * step;
  svg.setAttribute("height", end + 24);
  addRules(svg, scale, end);
  add(svg, "line", { class: "own", x1: percent(scale.at(middle)), x2: percent(scale.at(middle)), y2: end });
  for (const [i, row] of shown.entries()) {
    for (const [k, [key, name, colour]] of parts.entries()) {
      if (!known(row[key])) continue;
      const from = scale.at(Math.min(row[key], middle)), to = scale.at(Math.max(row[key], middle));
      addMark(svg, "rect", { class: `c${colour}`, x: percent(from), y: i * step + head + k * THIN, width: percent(to - from), height: THIN },
        row, key, `${label(row)}, ${name}: ${say(key, row[key])}`);
    }
    for (const [k, line] of names[i].entries()) add(svg, "text", { y: i * step + head - 6 - LINE * (names[i].length - 1 - k) }, line);
  }
}

// ---- a curve: values over x, a line for each series ----

const HEIGHT = 260, BOX = 1000, MOST_POINTS = 600; // [pixels] of the plot; of what is stretched to it

// An interval of what is at most 100 % goes on above an axis that ends where values do.
function curveAxes(points, { key, x, xLog, log, centre, published }) {
  const ends = end => points.map(point => point[end]).filter(known), xs = numbers(points, x);
  const values = [...numbers(points, key), ...known(centre) ? [centre] : []], most = Math.max(...values, ...numbers(published, "value"));
  const highest = Math.max(most, ...ends("high")), least = Math.min(...values, ...ends("low"));
  const high = unitOf(key, 1)[2] === "%" && !log && highest > 1, top = !high ? highest : most > 1 ? 1.02 * most : 1;
  return { cut: high && highest > top,
    across: axis(x, Math.min(...xs), Math.max(...xs), { log: xLog, exact: !xLog && Math.min(...xs) < Math.max(...xs), about: 8 }),
    up: axis(key, log ? least / 1.1 : Math.min(0, least), log ? top * 1.1 : top, { log, exact: high }) };
}

function addCurveAxes(svg, { across, up }, label, x) {
  for (const tick of up.ticks) {
    const y = HEIGHT * (1 - up.at(tick));
    add(svg, "line", { class: "rule", x2: "100%", y1: y, y2: y });
    add(svg, "text", { class: "soft end", x: -6, y: y + 4 }, up.say(tick));
  }
  addValues(svg, across, HEIGHT + 18);
  add(svg, "text", { class: "mid", x: "50%", y: HEIGHT + 38 }, label ?? x.replaceAll("_", " "));
}

// @names: of the series; @bars: intervals are bars, else a band.
function addLines(svg, points, names, { across, up }, { key, x, dots, centre, centreColour }, colourOf, bars) {
  const lines = add(svg, "svg", { width: "100%", height: HEIGHT, viewBox: `0 0 ${BOX} ${BOX}`, preserveAspectRatio: "none" });
  const corners = (list, end) => list.filter(point => known(point[end])).map(point => `${BOX * across.at(point[x])},${BOX * (1 - up.at(point[end]))}`);
  if (!bars) add(lines, "polygon", { class: "band", points: [...corners(points, "high"), ...corners(points, "low").reverse()].join(" ") });
  if (known(centre)) add(lines, "line", { class: `s${centreColour}`, x2: BOX, y1: BOX * (1 - up.at(centre)), y2: BOX * (1 - up.at(centre)) });
  for (const name of dots ? [] : names)
    add(lines, "polyline", { class: `s${colourOf(name)}${names.length === 1 ? " solid" : ""}`,
      points: corners(points.filter(point => point.series === name), key).join(" ") });
}

// @rows over @x; @series: key of the text that tells lines apart; @marked: key of a text that points have which stand out;
// @centre: a horizontal line; @range: key of what has the interval, if not the value; @published: rows with x and value.
function curve(figure, all) {
  const spec = { published: [], colour: COMPUTE, centreColour: COMPUTE, ...all };
  const { words, rows, x, key, series, marked, published, dots, centre, range = key, colour, label } = spec;
  const points = rows.filter(row => known(row[x]) && known(row[key]) && (!spec.log || row[key] > 0)).slice(0, MOST_POINTS)
    .map(row => ({ ...row, series: series ? row[series] : "", low: row[`${range}_low`], high: row[`${range}_high`] })).sort((a, b) => a[x] - b[x]);
  if (!points.length) return;
  const inOrder = rows.map(row => series ? row[series] : "").filter(name => points.some(point => point.series === name)); // in all pictures
  const names = [...new Set(inOrder)].slice(0, COLOURS), axes = curveAxes(points, spec), { across, up } = axes;
  const colourOf = name => (colour + names.indexOf(name)) % COLOURS, intervals = names.length > 1 || Boolean(dots && series);
  if (names.length > 1) addLegend(figure, names.map(name => [name, name, colourOf(name)]), dots ? "rect" : "line");
  add(figure, "p", { class: "small" }, [label, points.some(point => known(point.low)) && `${intervals ? "bar" : "band"}: 90\u00a0% interval${
    axes.cut ? ", cut off at the top" : ""}`, points.some(point => point[marked]) && `ring: ${spec.markedLabel}`,
  known(centre) && `line: ${spec.centreLabel}`, published.length && "diamond: published"].filter(Boolean).join("; "));
  const svg = begin(figure, words, "axes", HEIGHT + 46);
  addCurveAxes(svg, axes, spec.xLabel, x);
  addLines(svg, points, names, axes, spec, colourOf, intervals);
  for (const row of published) { // larger than a ring above it
    const place = add(svg, "svg", { class: "mark", overflow: "visible", x: percent(across.at(row.x)), y: HEIGHT * (1 - up.at(row.value)) });
    addMark(place, "path", { class: `c${REST}`, d: "M0-10 10 0 0 10-10 0z" }, row, "value", `published: ${say(key, row.value)}`);
  }
  for (const point of points.filter(({ series }) => names.includes(series))) {
    const at = percent(across.at(point[x])), name = colourOf(point.series);
    if (intervals && known(point.low) && known(point.high))
      add(svg, "line", { class: `s${name} whisker`, x1: at, x2: at, y1: HEIGHT * (1 - up.at(point.low)), y2: Math.max(0, HEIGHT * (1 - up.at(point.high))) });
    addMark(svg, "circle", { class: `c${name}${point[marked] ? " own" : ""}`, cx: at, cy: HEIGHT * (1 - up.at(point[key])), r: point[marked] ? 6 : 3.5 },
      point, key, `${point.series}${point.series && ", "}${spec.xLabel ?? x} ${say(x, point[x])}: ${label} ${likely(point, key)}${interval(point, range)}`);
  }
}

// ---- all layouts: memory of a device against the step, a cross for what does not fit ----

function layouts(figure, { words, rows }) {
  const values = key => numbers(rows, key), ends = key => [Math.min(...values(key)) / 1.1, 1.1 * Math.max(...values(key)), { log: true }];
  const across = axis("memory_bytes", ...ends("memory_bytes")), up = axis("step_s", ...ends("step_s"));
  const at = row => [across.at(row.memory_bytes), 1 - up.at(row.step_s)], count = (rows, label) => `${label}: ${rows.length}`;
  const out = rows.filter(row => !row.fits), bounds = rows.filter(row => row.fits && !row.predicted), rest = rows.filter(row => row.fits && row.predicted);
  addLegend(figure, [["", count(rest, "predicted"), COMPUTE], ["", count(bounds, "at least so long"), REST], ["", count(out, "does not fit a device (cross)"), ROW]]);
  add(figure, "p", { class: "small" }, "Time of a step");
  const svg = begin(figure, words, "axes", HEIGHT + 46), wide = BOX * 3 / (svg.getBoundingClientRect().width || 600), high = BOX * 3 / HEIGHT;
  addCurveAxes(svg, { across, up }, "memory of a device");
  const plot = add(svg, "svg", { width: "100%", height: HEIGHT, viewBox: `0 0 ${BOX} ${BOX}`, preserveAspectRatio: "none" });
  const path = (rows, colour, shape) => add(plot, "path", { class: `s${colour} whisker`,
    d: rows.map(row => { const [x, y] = at(row).map(part => Math.round(part * BOX)); return shape(x, y); }).join("") });
  path(bounds, REST, (x, y) => `M${x - wide / 2} ${y}h${wide}`);
  path(out, ROW, (x, y) => `M${x - wide} ${y - high}l${2 * wide} ${2 * high}m${-2 * wide} 0l${2 * wide} ${-2 * high}`);
  for (const row of rest) addMark(svg, "circle", { class: `c${COMPUTE}`, cx: percent(at(row)[0]), cy: HEIGHT * at(row)[1], r: 3.5 }, row, "step_s",
    `${say("memory_bytes", row.memory_bytes)}: ${say("step_s", row.step_s)}`);
}

// ---- what moves: a part of all, from 0 to 1, at once in all pictures of a page ----

const clocks = []; // each shows its picture at @part
let part = 1, until = 0, whole = 12000; // until where it plays; [ms] to play all

// Shows it at @to, and plays from there until @stop if that is later; @last: when it was shown before.
function move(to, stop = 0, last = undefined) {
  [part, until] = [to, stop];
  for (const clock of clocks) clock();
  if (part < until) requestAnimationFrame(now => part < until && move(Math.min(until, part + (now - (last ?? now)) / whole), until, now));
}

// A button and a slider of the time; @show draws, and returns what is seen in words.
function addPlayer(controls, show) {
  const button = add(controls, "button", { type: "button" }), slider = add(controls, "input", { type: "range", max: 1000, "aria-label": "time" });
  button.addEventListener("click", () => move(part < 1 ? part : 0, part < until ? 0 : 1));
  slider.addEventListener("input", () => move(slider.value / 1000));
  clocks.push(() => {
    slider.ariaValueText = show();
    slider.value = 1000 * part;
    button.textContent = part < until ? "pause" : "play";
  });
  return slider;
}

// ---- lanes: one step in time ----

const LANE = 22, PIECE = 16, HEAD = 22, MOST_LANES = 64; // [pixels] from a lane to the next; the line that names a rank
const KINDS = [["forward", "forward and loss", COMPUTE], ["backward", "backward", BACKWARD], ["optimizer", "optimizer", OTHER],
  ["repeat", "many micro-batches, not drawn one by one", REST], ["tensor", "exchange inside of layers", COLUMN],
  ["context", "exchange of keys and values", SLOWER], ["expert", "exchange with experts", SLOWER], ["copies", "all-reduce of experts", ROW], ["world", "all-reduce", ROW], ["row", "all-reduce in rows", ROW], ["column", "all-reduce in columns", COLUMN], ["input", "input", INPUT]];

const MICRO = [COMPUTE, SLOWER, ROW, COLUMN, INPUT, BACKWARD]; // of a stage's micro-batches, in turn

// Ranks that do the same at the same time are drawn once, below a line that names them; a stage's lane has its name, and a
// colour for each micro-batch.  @beside: rows of another picture, with the same axis.
function lanes(figure, { words, rows: all, beside = [] }) {
  const heads = !all[0].lane.startsWith("stage"), micro = row => !heads && known(row.micro_batch);
  const colourOf = row => micro(row) ? MICRO[row.micro_batch % MICRO.length] : KINDS.find(([what]) => what === row.what)?.[2] ?? OTHER;
  const groups = [], own = Math.max(...numbers(all, "end_s")), seconds = Math.max(own, ...numbers(beside, "end_s")), rowsOf = rank => all.filter(row => row.rank === rank);
  const same = (a, b) => a.length === b.length &&
    a.every((row, i) => row.lane === b[i].lane && row.name === b[i].name && Math.abs(row.end_s - b[i].end_s) < seconds / 200);
  for (const rank of new Set(all.map(row => row.rank))) {
    const found = heads && groups.find(([first]) => same(rowsOf(first), rowsOf(rank)));
    if (found) found.push(rank); else groups.push([rank]);
  }
  const rows = groups.flatMap(([first]) => rowsOf(first));
  const place = new Map(), nameOf = row => `${row.rank} ${row.lane}`;
  let height = 0, rank;
  for (const row of rows) {
    if (place.has(nameOf(row)) || place.size === MOST_LANES) continue;
    const first = heads && row.rank !== rank;
    place.set(nameOf(row), { ...row, y: height += first ? HEAD : 0, first });
    height += LANE;
    rank = row.rank;
  }
  const gathers = row => row.name.endsWith("all-gather"), pale = row => gathers(row) || (micro(row) && row.what === "forward");
  addLegend(figure, KINDS.filter(([what]) => rows.some(row => row.what === what && !micro(row))));
  add(figure, "p", { class: "small" }, [rows.some(micro) && "colours: one for each micro-batch, in turn; pale: forward", rows.some(gathers) && "pale: all-gather", rows.some(row => row.busy_s < 0.97 * (row.end_s - row.begin_s)) &&
    "height: how much of a piece is work; the rest are waits"].filter(Boolean).join("; "));
  const svg = begin(figure, words, "axes lanes", height + 22), ticks = add(svg, "g", { class: "ticks" });
  for (const { y } of place.values()) add(svg, "rect", { class: "track", y, width: "100%", height: PIECE });
  const shown = rows.filter(row => place.has(nameOf(row)));
  for (const row of shown) {
    const length = row.end_s - row.begin_s, works = row.busy_s / length, height = works < 0.97 ? Math.max(2, works * PIECE) : PIECE;
    const batch = known(row.micro_batch) ? `micro-batch ${row.micro_batch}` : undefined;
    addMark(svg, "rect", { class: `c${colourOf(row)}${pale(row) ? " pale" : ""}`, x: percent(row.begin_s / seconds),
      y: place.get(nameOf(row)).y + PIECE - height, width: percent(length / seconds), height, "data-bucket": row.bucket ?? batch }, row, "end_s",
    [`rank ${row.rank}`, row.name, known(row.bucket) && `bucket ${row.bucket}`, batch, row.times && `${row.times} times what is before it`].filter(Boolean).join(", ") +
      `: ${say("_s", row.begin_s)} to ${say("_s", row.end_s)}${works < 0.97 ? `, of which ${say("share", works)} are no waits` : ""}`);
  }
  for (const row of shown.filter(row => !gathers(row))) { // from its end to where its bucket goes on, in another lane
    const later = shown.filter(other => known(row.bucket) && other.bucket === row.bucket && other.rank === row.rank && other.lane !== row.lane &&
      other.begin_s >= row.end_s - 1e-9 * seconds), next = later.sort((a, b) => a.begin_s - b.begin_s)[0];
    if (!next) continue;
    const from = place.get(nameOf(row)).y, to = place.get(nameOf(next)).y;
    add(svg, "line", { class: "link", x1: percent(row.end_s / seconds), x2: percent(next.begin_s / seconds),
      y1: from + (from < to ? PIECE : 0), y2: to + (from < to ? 0 : PIECE) });
  }
  const cover = add(svg, "rect", { class: "paper cover", height }), names = add(svg, "g", { class: "names" }); // on paper of their own, in sight while the pieces move below
  add(names, "rect", { class: "paper", x: -74, width: 74, height });
  for (const { y, first, rank, lane } of place.values()) {
    const same = groups.find(([one]) => one === rank);
    if (first) add(names, "text", { x: -72, y: y - 7 }, same.length > 1 ? `ranks ${same.join(", ")}, which are alike` : `rank ${rank}`);
    add(names, "text", { class: "soft end", x: -6, y: y + 13 }, lane);
  }
  const said = add(figure, "p", { class: "small" }), controls = zoomable(svg, ticks, names, seconds, height);
  const works = shown.filter(row => /^(compute|stage)/.test(row.lane)), devices = new Set(works.map(nameOf)).size;
  addPlayer(controls, () => { // what is still to come is covered
    const time = Math.min(own, part * seconds), passed = row => Math.max(0, Math.min(row.end_s, time) - row.begin_s);
    const share = of => Math.round(time && 100 * works.reduce((sum, row) => sum + of(row), 0) / devices / time), filled = share(passed);
    const busy = share(row => passed(row) * row.busy_s / (row.end_s - row.begin_s));
    cover.setAttribute("x", percent(part));
    cover.setAttribute("width", percent(1 - part));
    if (until) svg.parentElement.scrollLeft = part * svg.getBoundingClientRect().width - svg.parentElement.clientWidth / 2; // follows it
    return said.textContent = `Until ${say("_s", time)} there is nothing to compute in ${100 - filled}\u00a0% of the time${
      busy < filled ? `; pieces wait for ${filled - busy}\u00a0%` : ""}.`;
  });
}

// The picture becomes wider than the box around it, which scrolls: the axis follows, and the names stay in sight.
function zoomable(svg, ticks, names, seconds, height) {
  const box = svg.parentElement, most = 256;
  let zoom = 1;
  const draw = () => {
    const part = box.clientWidth / svg.getBoundingClientRect().width || 1, from = zoom > 1 ? seconds * part * box.scrollLeft / box.clientWidth : 0;
    const scale = axis("_s", from, zoom > 1 ? Math.min(seconds, from + seconds * part) : seconds, { exact: true, about: zoom > 1 ? box.clientWidth / 70 : 5.3 });
    names.setAttribute("transform", `translate(${box.scrollLeft})`);
    ticks.replaceChildren();
    for (const tick of scale.ticks) {
      const x = percent(tick / seconds);
      add(ticks, "line", { class: "rule", x1: x, x2: x, y2: height });
      add(ticks, "text", { class: "soft mid", x, y: height + 15 }, scale.say(tick));
    }
  };
  const set = (wish, x) => { // keeps what is at @x of the window where it is
    const before = svg.getBoundingClientRect(), part = (x - before.left) / before.width;
    zoom = Math.min(most, Math.max(1, wish));
    svg.style.width = zoom > 1 ? `calc(max(100% - 6.4rem, 40rem) * ${zoom})` : "";
    const after = svg.getBoundingClientRect();
    box.scrollLeft += after.left + part * after.width - x;
    draw();
  };
  const middle = () => { const place = box.getBoundingClientRect(); return place.left + place.width / 2; };
  const keys = { "+": () => set(2 * zoom, middle()), "-": () => set(zoom / 2, middle()), 0: () => set(1, middle()) };
  keys["="] = keys["+"]; // the same key without Shift
  const controls = add(svg.closest("figure"), "p", { class: "controls small" });
  for (const [text, key, label] of [["+", "+", "zoom in"], ["\u2212", "-", "zoom out"], ["whole step", "0", "whole step"]])
    add(controls, "button", { type: "button", "aria-label": label }, text).addEventListener("click", keys[key]);
  controls.append("Ctrl + wheel, or the keys +, \u2212, 0 and arrows");
  box.before(controls);
  box.addEventListener("scroll", draw);
  box.addEventListener("keydown", event => { if (!event.ctrlKey && keys[event.key]) keys[event.key](); });
  box.addEventListener("wheel", event => {
    if (!event.ctrlKey) return; // the page scrolls
    event.preventDefault();
    set(zoom * 2 ** (-event.deltaY / 200), event.clientX);
  }, { passive: false });
  addEventListener("beforeprint", () => { keys[0](); move(1); });
  draw();
  return controls;
}

// ---- the machine: groups of nodes, the nodes of one, the links and devices in a node, by the load of the busiest link ----

const LEVELS = [[0, "below 10\u00a0% of the step"], [0.1, "10 to 25\u00a0%"], [0.25, "25 to 50\u00a0%"], [0.5, "50 to 75\u00a0%"], [0.75, "more"]];
const MOST_BOXES = 8, FALL = 26; // [pixels] of the lines from a row to the next

function machine(figure, { words, links, nodes, devices }) {
  addLegend(figure, LEVELS.map(([, label], level) => ["", label, `${ROW} load l${level}`]));
  const svg = begin(figure, words, "bars", 0), outside = links.filter(link => link.places).sort((a, b) => a.places - b.places);
  let y = 0;
  const addFloor = (name, count, link) => {
    const shown = Math.min(count, MOST_BOXES), width = shown === 1 ? 1 : 0.96 / shown, level = LEVELS.findLastIndex(([from]) => link?.share >= from);
    add(svg, "text", { y: y + LABEL - 6 }, name);
    if (link) add(svg, "text", { class: "end", x: "100%", y: y + LABEL - 6 }, say("busy_s", link.busy_s));
    for (let i = 0; i < shown; i++) {
      const place = { x: percent(i / shown), y: y + LABEL, width: percent(width), height: BAR };
      if (link) addMark(svg, "rect", { ...place, class: `c${ROW} load l${level}` }, link, "share",
        `${link.link}: busy ${say("busy_s", link.busy_s)}, ${say("share", link.share)} of the step`);
      else add(svg, "rect", { ...place, class: `c${COMPUTE}` });
    }
    y += LABEL + BAR;
    return width;
  };
  const open = width => { // the first box, from below its corners to the whole next row
    for (const x of [0, 1]) add(svg, "line", { class: "link", x1: percent(x * width), y1: y, x2: percent(x), y2: y + FALL - 6 });
    y += FALL;
  };
  let around = 1;
  for (const link of outside) {
    const count = Math.round(link.places / around);
    open(addFloor(`${link.link}: ${link.places}${around > 1 ? `, ${count} in each` : ""}`, count, link));
    around = link.places;
  }
  for (const link of links.filter(link => !link.places)) {
    addFloor(outside.length ? `${link.link}, in each node` : link.link, 1, link);
    y += GAP;
  }
  addFloor(`${devices / nodes} device${devices === nodes ? "" : "s"} in each node`, devices / nodes);
  svg.setAttribute("height", y);
}

// ---- rows of pictures that the page has in another form ----

// The inputs with a share worth a bar, the largest first.
function shares() {
  const keys = ["step", "weak_scaling", "strong_scaling", "time_to_train"], { interval_shares: all, unknown_inputs: unknown = [] } = data.result;
  const largest = row => Math.max(...keys.map(key => row[key] ?? 0));
  const range = ({ input }) => unknown.filter(one => one.input === input).map(one => `: ${one.range.replaceAll(/(\d) /g, "$1\u00a0")}`).join("");
  return all.filter(row => largest(row) >= 0.01).sort((a, b) => largest(b) - largest(a)).slice(0, 10)
    .map(row => ({ input: row.input + range(row), ...Object.fromEntries(keys.map(key => [`${key}_share`, row[key]])) }));
}

// Points of a sweep: @axis is the key with most values if they are numbers; the others name a line.
function points() {
  const keys = Object.keys(data.points[0].set), values = key => [...new Set(data.points.map(point => point.set[key]))];
  const numeric = keys.filter(key => values(key).length > 1 && values(key).every(value => value !== "" && Number.isFinite(Number(value))));
  const axis = numeric.sort((a, b) => values(b).length - values(a).length)[0];
  const name = (set, some) => some.map(key => `${key} ${set[key]}`).join(", ");
  return { axis, rows: data.points.map(point => ({ ...point, x: Number(point.set[axis]), name: name(point.set, keys),
    line: name(point.set, keys.filter(key => key !== axis)), front: data.front.includes(point.point) })) };
}

// ---- which pictures there are, by the name of their figure; @row: of a list, where a page has several ----

const STEP_PARTS = [["compute_s", "compute", COMPUTE], ["slowed_s", "slowed by the all-reduce", BACKWARD],
  ["slower_ranks_s", "waits for slower devices", SLOWER], ["exposed_row_s", "waits for rows", ROW], ["exposed_column_s", "waits for columns", COLUMN],
  ["exposed_world_s", "waits for the all-reduce", ROW], ["exposed_tensor_s", "waits inside of layers", COLUMN], ["bubble_s", "waits for other stages", REST],
  ["input_wait_s", "waits for input", INPUT], ["other_s", "optimizer and other", OTHER]];
const MEMORY_PARTS = [["weights_bytes", "weights", COMPUTE], ["gradients_bytes", "gradients", BACKWARD], ["optimizer_bytes", "optimizer", OTHER],
  ["activations_bytes", "activations", INPUT], ["loss_bytes", "loss", COLUMN], ["input_bytes", "input", REST], ["workspace_bytes", "workspace", SLOWER],
  ["reserve_bytes", "allocator", ROW]];

const pictures = {
  // predict
  curve: () => [curve, { words: "Scaling efficiency against the number of devices", rows: data.curve, x: "devices", key: "scaling_efficiency",
    label: "Scaling efficiency", marked: "own", markedLabel: "this job", xLog: true, published: data.published }],
  steps: () => [bars, { words: "Parts of a step by number of devices", rows: data.curve, parts: STEP_PARTS, total: "step_s",
    label: row => `${row.devices} device${row.devices === 1 ? "" : "s"}` }],
  stages: () => [lanes, { words: "One training step of a device of each stage", rows: data.stages }],
  memory: () => [bars, { words: "Parts of a device's memory", rows: data.memory, parts: MEMORY_PARTS, total: "total_bytes",
    most: data.memory[0].device_bytes, label: row => `of ${say("device_bytes", row.device_bytes)}` }],
  lanes: () => [lanes, { words: "One training step of a few ranks", rows: data.lanes }],
  machine: () => [machine, { words: "The machine, and how busy its links are", links: data.links, nodes: data.result.nodes, devices: data.result.devices }],
  toll: () => [bars, { words: "Parts of the time to train", rows: [{ ...data.result.failures, time_to_train_s: data.result.time_to_train_s }],
    label: () => "time to train", total: "time_to_train_s",
    parts: [["without_s", "without both", COMPUTE], ["saving_s", "saves checkpoints", OTHER], ["failing_s", "restarts, and works again", REST]] }],
  checkpoints: () => [curve, { words: "Time to train by work between checkpoints", rows: data.checkpoints, x: "interval_s", key: "time_to_train_s",
    label: "Expected time to train", xLabel: "work between checkpoints", marked: "own", markedLabel: "this job", xLog: true }],
  shares: () => [bars, { words: "Uncertain inputs by their part in the variance", rows: shares(), label: row => row.input, most: 1, beside: true,
    parts: [["step_share", "of the step", COMPUTE], [`${data.result.scaling}_scaling_share`, "of the scaling efficiency", ROW],
      ["time_to_train_share", "of the time to train", INPUT]] }],
  // compare
  ratios: () => [ranges, { words: "Ratios of times", rows: data.pairs, label: pair => `${pair.b} over ${pair.a}`, key: "ratio", mark: 1, log: true }],
  times: () => [ranges, { words: "Time to train of each job", rows: data.jobs, label: job => job.name, key: "time_to_train_s" }],
  factors: index => [ranges, { words: `Factors of ${data.pairs[index].b} over ${data.pairs[index].a}`, rows: data.pairs[index].factors,
    label: factor => factor.name, key: "factor", mark: 1, log: true }],
  // sweep
  points: () => {
    const { rows, axis } = points(), all = { words: "Time of each point", rows, key: "time_to_train_s" };
    return axis ? [curve, { ...all, x: "x", xLabel: axis, label: "Time to train or to the target", series: "line",
      xLog: wide(numbers(rows, "x")), log: wide(numbers(rows, all.key)) }] : [ranges, { ...all, label: row => row.name }];
  },
  sweep_front: () => [curve, { words: "Time against device-hours", rows: points().rows, x: "device_hours", key: "time_to_train_s", dots: true,
    label: "Time against device-hours", series: "line", marked: "front", markedLabel: "no other point is better in both",
    xLog: wide(numbers(data.points, "device_hours")), log: wide(numbers(data.points, "time_to_train_s")) }],
  // plan
  layouts: () => [layouts, { words: "Memory of a device and time of a step with each layout of these nodes", rows: data.layouts }],
  front: () => {
    const price = data.price_unit === "device-hours" ? "device_hours" : "cost";
    const rows = [data.best, ...data.next ? [data.next] : [], ...data.front.filter(({ name }) => ![data.best.name, data.next?.name].includes(name))];
    return [curve, { words: "The front: no other plan is better in all of time, cost and energy", rows, x: price, xLabel: data.price_unit,
      key: "time_to_train_s", label: "Time", series: "platform", marked: "plan", markedLabel: "best and next best", dots: true,
      centre: data.within_s, centreLabel: "the deadline", centreColour: OTHER, xLog: wide(numbers(rows, price)),
      log: wide([...numbers(rows, "time_to_train_s"), ...known(data.within_s) ? [data.within_s] : []]) }];
  },
  sensitivity: () => {
    const time = data.aim === "time", key = time ? "time_to_train_s" : "price", what = time ? "time" : data.price_unit;
    const end = name => [time ? `${name}_time_s` : `${name}_price`, `${what} at the ${name} end`];
    return [tornado, { words: "What each uncertain input moves", label: row => row.input, parts: [[...end("low"), COMPUTE], [...end("high"), ROW]],
      rows: data.sensitivity.map(row => ({ ...row, [end("low")[0]]: row.low[key], [end("high")[0]]: row.high[key] })),
      middle: data.best[time ? key : data.price_unit === "device-hours" ? "device_hours" : "cost"] }];
  },
  // validate
  predicted_lanes: () => [lanes, { words: "A step as it was predicted", rows: data.predicted_lanes, beside: data.measured_lanes }],
  measured_lanes: () => [lanes, { words: "A step as it really ran", rows: data.measured_lanes, beside: data.predicted_lanes }],
  measured: () => [curve, { words: "Measured steps and what was predicted", x: "step", key: "measured_s", range: "predicted_s", colour: ROW, dots: true,
    label: "Measured time of a step", centre: data.rows[0].predicted_s, centreLabel: "predicted",
    rows: data.step_times_s.map((measured_s, i) => ({ step: i + 1, measured_s, predicted_s_low: data.step_s_low, predicted_s_high: data.step_s_high })) }],
  rows: () => [bars, { words: "Predicted and measured times of one step", label: row => row.name, beside: true,
    rows: data.rows.filter(row => Math.max(row.predicted_s, row.measured_s) >= 0.01 * data.rows[0].measured_s),
    parts: [["predicted_s", "predicted", COMPUTE], ["measured_s", "measured (median)", ROW], ["lower_quartile_s", "measured (lower quartile)", OTHER]] }],
};

for (const figure of data ? document.querySelectorAll("figure[data-picture]") : []) {
  const [draw, spec] = pictures[figure.dataset.picture](figure.dataset.row);
  draw(figure, spec);
}
move(1);

// On a narrow screen a cell stands below the heading of its column.
for (const table of document.querySelectorAll("main table")) {
  const headings = table.tHead.rows[0].cells;
  for (const row of headings.length > 2 ? table.tBodies[0].rows : []) for (const [i, cell] of [...row.cells].entries()) cell.dataset.label = headings[i].textContent;
}

// A word that the page explains says so where it is met first; one that is not met goes.
for (const word of document.querySelectorAll("dt")) {
  let met = false;
  for (const name of word.textContent.split(", ")) {
    const texts = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT), pattern = new RegExp(`(?<![-.\\w])${name}(?![-\\w])`, "i");
    let text;
    while ((text = texts.nextNode()) && (!text.parentElement.matches("h1, h2, p, li, td, th, caption, label") || !pattern.test(text.data)));
    if (!text) continue;
    const found = text.splitText(text.data.search(pattern)), rest = found.splitText(name.length), mark = document.createElement("abbr");
    mark.title = word.nextElementSibling.textContent;
    mark.tabIndex = 0;
    mark.append(found);
    rest.before(mark);
    met = true;
  }
  if (met) continue;
  word.nextElementSibling.remove();
  word.remove();
}

function show(target) {
  const item = target.closest("[data-bucket]"), mark = target.closest("svg.chart [data-value]");
  const tip = target.closest("figure")?.querySelector(".tip");
  for (const old of document.querySelectorAll(".on")) old.classList.remove("on");
  document.body.classList.toggle("marked", item !== null);
  if (item)
    for (const same of document.querySelectorAll(`[data-bucket="${CSS.escape(item.dataset.bucket)}"]`)) same.classList.add("on");
  if (target.matches("abbr")) target.classList.add("on");
  if (tip && mark) tip.textContent = mark.querySelector("title").textContent;
}
for (const kind of ["pointerover", "click"]) document.addEventListener(kind, event => show(event.target));
