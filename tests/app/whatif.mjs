// usage: node whatif.mjs PAGE: reads a JSON list of {key: JSON} from stdin and prints what the core of PAGE says to each.
import fs from "fs";
import vm from "vm";

const page = fs.readFileSync(process.argv[2], "utf8");
const scripts = [...page.matchAll(/<script([^>]*)>(.*?)<\/script>/gs)].map(([, words, text]) => ({ words, text }));
const block = id => scripts.find(script => script.words.includes(`id="${id}"`)).text;
const { files, wishes, controls } = JSON.parse(block("whatif-data"));
const context = vm.createContext({ ...Object.fromEntries(["WebAssembly", "DecompressionStream", "Response", "Blob", "TextEncoder",
  "TextDecoder", "atob", "Uint8Array"].map(name => [name, globalThis[name]])), document: { addEventListener() {} } });
vm.runInContext(scripts.at(-1).text, context);
const predict = await context.load(block("core"), files, wishes);
const answers = JSON.parse(fs.readFileSync(0, "utf8")).map(sets => {
  if (Array.isArray(sets)) sets = context.choose(controls, sets);
  try { return { ...predict(sets), sets }; } catch (error) { return { error: error.message, sets }; }
});
process.stdout.write(JSON.stringify(answers));
