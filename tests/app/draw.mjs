// usage: node draw.mjs PAGE: prints PAGE with the pictures that its script draws.
import fs from "fs";
import vm from "vm";

const escape = text => String(text).replace(/[<>&"']/g, found => `&#${found.charCodeAt()};`);

// As much of an element as pictures need.
class Element {
  constructor(name, dataset = {}) { Object.assign(this, { name, dataset, attributes: {}, children: [], style: {}, scrollLeft: 0, clientWidth: 900 }); }
  setAttribute(key, value) { this.attributes[key] = String(value); }
  set textContent(text) { this.children = text === "" ? [] : [text]; }
  append(...made) { this.children.push(...made); for (const one of made) if (one instanceof Element) one.parentElement = this; }
  before(one) { // @one may be in the page already
    one.parentElement.children = one.parentElement.children.filter(other => other !== one);
    this.parentElement.children.splice(this.parentElement.children.indexOf(this), 0, one);
  }
  replaceChildren() { this.children = []; }
  closest(name) { return this.name === name ? this : this.parentElement.closest(name); }
  getBoundingClientRect() { return { left: 0, width: this.clientWidth }; }
  addEventListener() {}
  toString() {
    const words = Object.entries(this.attributes).map(([key, value]) => ` ${key}="${escape(value)}"`).join("");
    if (this.name === "input") return `<input${words}>`;
    return `<${this.name}${words}>${this.children.map(one => one instanceof Element ? one : escape(one)).join("")}</${this.name}>`;
  }
}

const page = fs.readFileSync(process.argv[2], "utf8"), find = pattern => [...page.matchAll(pattern)];
const blocks = Object.fromEntries(find(/<script [^>]*id="([^"]*)">(.*?)<\/script>/gs).map(([, id, text]) => [id, { textContent: text }]));
const places = find(/<figure data-picture="([^"]*)"(?: data-row="([^"]*)")?>/g);
const figures = places.map(([, picture, row]) => new Element("figure", { picture, row }));
vm.runInContext(find(/<script>(.*?)<\/script>/gs)[0][1], vm.createContext({ addEventListener() {},
  document: { getElementById: id => blocks[id], createElementNS: (space, name) => new Element(name), querySelectorAll: name => name.startsWith("figure") ? figures : [], addEventListener() {} } }));
let index = 0;
process.stdout.write(page.replace(/<figure data-picture="[^>]*>/g, tag => tag + figures[index++].children.join("")));
