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

function build({ key, label, values, start }, moved) {
  const few = key.startsWith("allreduce.") && key !== "allreduce.bucket";
  const outer = document.createElement("label"), input = document.createElement(few ? "select" : "input");
  const words = document.createElement("output");
  outer.append(`${label} `, words, input);
  outer.className = "slider";
  input.name = key;
  if (few) for (const [i, [, name]] of values.entries()) input.add(new Option(name, i));
  else Object.assign(input, { type: "range", min: 0, max: values.length - 1 });
  input.value = start;
  const say = () => { if (!few) words.textContent = values[input.value][1]; };
  input.addEventListener("input", () => { say(); moved(); });
  say();
  document.getElementById("whatif").append(outer);
  return input;
}

async function begin() {
  const said = document.getElementById("whatif-said");
  try {
    const { controls, files, wishes } = JSON.parse(document.getElementById("whatif-data").textContent);
    const predict = await load(document.getElementById("core").textContent, files, wishes);
    let asked = 0;
    const show = () => {
      asked = 0;
      let now = {};
      said.textContent = "";
      try { now = predict(choose(controls, inputs.map(input => Number(input.value)))); } catch (error) { said.textContent = error.message; }
      for (const cell of document.querySelectorAll("[data-now]")) {
        cell.textContent = now[cell.dataset.now]?.words ?? "";
        cell.dataset.number = now[cell.dataset.now]?.value ?? "";
      }
    };
    const inputs = controls.map(control => build(control, () => { asked ||= setTimeout(show); }));
    show();
  } catch (error) {
    said.textContent = `No sliders: ${error.message}`;
  }
}
document.addEventListener("DOMContentLoaded", begin);
