"use strict";
// The job in closed form for other numbers: load() starts the core, the rest moves sliders.

// Predicts: (sets) => {key: {value, words}} where sets is {key: JSON}; throws what the core refuses.
async function load(packed, files, wishes) {
  const bytes = Uint8Array.from(atob(packed), c => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  const module = await WebAssembly.compile(await new Response(stream).arrayBuffer());
  const imports = {};
  for (const { module: from, name } of WebAssembly.Module.imports(module)) // all that libc asks of a system
    (imports[from] ??= {})[name] = name === "proc_exit" ? () => { throw new Error("out of memory"); } : () => 8; // EBADF
  let core = null;
  const put = string => {
    const coded = new TextEncoder().encode(string + "\0"), at = core.text(coded.length);
    new Uint8Array(core.memory.buffer, at, coded.length).set(coded);
    return at;
  };
  const start = () => {
    core = new WebAssembly.Instance(module, imports).exports;
    for (const [name, node] of Object.entries(files)) core.file(put(name), put(JSON.stringify(node)));
  };
  start();
  return sets => {
    let said;
    try {
      const at = core.predict(put(Object.entries(sets).map(([key, json]) => `${key}=${json}`).join("\n")), ...wishes);
      const all = new Uint8Array(core.memory.buffer); // which may have grown
      said = new TextDecoder().decode(all.subarray(at, all.indexOf(0, at)));
    } catch (error) {
      start(); // a core that broke off cannot go on
      throw new Error(`the core stopped: ${error.message}`);
    }
    if (said.startsWith("! ")) throw new Error(said.slice(2).split("\n")[0]);
    const rows = said.trim().split("\n").map(line => line.split("\t"));
    return Object.fromEntries(rows.map(([key, value, words]) => [key, { value: Number(value), words }]));
  };
}

// What the controls at @place ask for, beyond the job.
function choose(controls, place) {
  const sets = {};
  controls.forEach(({ key, values, start }, i) => { if (place[i] !== start) sets[key] = values[place[i]][0]; });
  if (!sets["allreduce.grid"] && (sets["cluster.nodes"] || sets["allreduce.algorithm"])) sets["allreduce.grid"] = "null";
  return sets;
}

// A control with its name and, in words, its value; of the grid the words say which one is used.
function build(parent, { key, label, values, start }, moved) {
  const few = key.startsWith("allreduce.") && key !== "allreduce.bucket";
  const outer = add(parent, "label", { class: "slider" }, label), words = document.createElement("output");
  const input = add(outer, few ? "select" : "input", few ? { name: key } : { name: key, type: "range", min: 0, max: values.length - 1 });
  if (few) for (const [i, [, name]] of values.entries()) input.add(new Option(name, i));
  outer.append(words);
  input.value = start;
  const say = () => {
    if (!few) input.ariaValueText = words.textContent = values[input.value][1];
  };
  input.addEventListener("input", () => { say(); moved(); });
  say();
  return input;
}

// The curve again, with a line for @sets, a few points at a time; @stale: whether the sliders moved on.
async function redraw(predict, sets, stale) {
  const figure = document.querySelector("figure[data-picture=curve]"), [draw, spec] = pictures.curve(), rows = [];
  const own = Number(sets["cluster.nodes"] ?? data.result.nodes), moved = Object.keys(sets).length > 0;
  for (const nodes of figure && moved ? new Set([...spec.rows.map(row => row.nodes), own]) : []) {
    await new Promise(done => setTimeout(done));
    if (stale()) return;
    try {
      const now = predict(nodes === own ? sets : { ...sets, "cluster.nodes": nodes, "allreduce.grid": "null" });
      rows.push({ devices: now.devices.value, scaling_efficiency: now.scaling_efficiency.value, line: "with the sliders", own: nodes === own });
    } catch { /* a number of nodes without an answer has no point */ }
  }
  const job = spec.rows.map(row => ({ ...row, line: "this job" }));
  figure?.replaceChildren();
  if (figure) draw(figure, rows.length ? { ...spec, rows: [...job, ...rows], series: "line", markedLabel: "nodes of the job" } : spec);
}

// The bar of a device's memory, with one more for @now unless that is the job itself.
function redrawMemory(now, moved) {
  const figure = document.querySelector("figure[data-picture=memory]"), [draw, spec] = pictures.memory();
  const parts = Object.fromEntries(MEMORY_PARTS.map(([key]) => [key, now[key]?.value]));
  const row = { ...parts, total_bytes: now.memory_bytes?.value, label: "with the sliders" };
  figure?.replaceChildren();
  if (figure) draw(figure, { ...spec, rows: [...spec.rows, ...moved ? [row] : []], label: row => row.label ?? spec.label(row) });
}

async function startSliders() {
  const place = document.getElementById("whatif"), said = add(place, "p", { id: "whatif-said", role: "status" });
  try {
    const { controls, files, wishes } = JSON.parse(document.getElementById("whatif-data").textContent);
    const predict = await load(document.getElementById("core").textContent, files, wishes), first = predict({});
    const panels = add(place, "div", { class: "panels" }), box = add(place, "div", { class: "scroll" }), table = add(box, "table");
    add(table, "caption", {}, "Closed form");
    let asked = 0, turn = 0;
    const show = () => {
      const mine = ++turn;
      asked = 0;
      const sets = choose(controls, inputs.map(input => Number(input.value)));
      let now = {};
      try { now = predict(sets); } catch (error) { said.textContent = error.message; }
      if (now.sentence) said.textContent = now.sentence.words;
      for (const cell of table.querySelectorAll("[data-now]")) {
        cell.textContent = now[cell.dataset.now]?.words ?? "";
        cell.dataset.number = now[cell.dataset.now]?.value ?? "";
      }
      const grid = panels.querySelector("[name='allreduce.grid']");
      if (grid) grid.nextSibling.textContent = now.grid ? `used: ${now.grid.words}` : "";
      redrawMemory(now, Object.keys(sets).length > 0);
      redraw(predict, sets, () => mine !== turn);
    };
    const line = add(table, "tr");
    for (const heading of ["quantity", "this job", "with the sliders"]) add(line, "th", { scope: "col" }, heading);
    for (const key of Object.keys(first).filter(key => !["devices", "grid", "sentence"].includes(key) && !MEMORY_PARTS.some(([part]) => part === key))) {
      const line = add(table, "tr");
      add(line, "th", { scope: "row" }, key.replace(/_(s|bytes)$/, "").replaceAll("_", " ").replace(/^(images|samples) per$/, "throughput"));
      add(line, "td", { "data-value": first[key].value }, first[key].words);
      add(line, "td", { "data-now": key });
    }
    const inputs = controls.map(control => build(panels, control, () => { asked ||= setTimeout(show); }));
    show();
  } catch (error) {
    said.textContent = `No sliders: ${error.message}`;
  }
}
document.addEventListener("DOMContentLoaded", startSliders);
