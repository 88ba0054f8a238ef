import { make } from "./dom.js";
import { sharesList } from "./shares.js";

/**
 * The Time tab, left pane: the kernels of a call, slowest first; the same on the machine's roofline and along the call;
 * and modules eager beside compiled. The graph beside it is coloured by the time.
 */

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [560, 300, 58, 14, 12, 40];
const LANES = ["forward", "backward"];

/** @param {string} tag @param {Record<string, string|number>} attributes @param {string} [text] @returns {SVGElement} */
function part(tag, attributes, text = "") {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  if (text) element.textContent = text;
  return element;
}

/** Powers of ten that span some numbers. @param {number[]} values @returns {[number, number]} */
export function decades(values) {
  const logs = values.filter((value) => value > 0).map(Math.log10);
  return logs.length ? [Math.floor(Math.min(...logs)), Math.max(Math.ceil(Math.max(...logs)), Math.floor(Math.min(...logs)) + 1)] : [0, 1];
}

/** A time in words: seconds as s, ms or µs. @param {number} seconds @returns {string} */
export function timeText(seconds) {
  const [factor, unit] = seconds >= 1 ? [1, "s"] : seconds >= 1e-3 ? [1e3, "ms"] : [1e6, "µs"];
  return `${Number((seconds * factor).toPrecision(3))} ${unit}`;
}

/** @typedef {{row: any, place: (mark: SVGElement) => void, tag: string}} Mark */

/**
 * Kernels by operations a byte and operations a second, under what this machine can do.
 * @param {any} time @param {(row: any, mark: SVGElement) => SVGElement} marked @returns {SVGElement}
 */
function roofline(time, marked) {
  const svg = part("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": "Roofline: operations a second over operations a byte" });
  const shown = time.rows.filter((/** @type {any} */ row) => row.flops && row.nbytes && row.seconds);
  const { memory, product } = time.roofs;
  const [x0, x1] = decades([...shown.map((/** @type {any} */ row) => row.flops / row.nbytes), product / memory]);
  const [y0, y1] = decades([...shown.map((/** @type {any} */ row) => row.flops / row.seconds), product]);
  /** @param {number} value */
  const x = (value) => LEFT + ((WIDTH - LEFT - RIGHT) * (Math.log10(value) - x0)) / (x1 - x0);
  /** @param {number} value */
  const y = (value) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * (Math.log10(value) - y0)) / (y1 - y0);
  for (let power = x0; power <= x1; power += 1) {
    svg.append(part("line", { x1: x(10 ** power), x2: x(10 ** power), y1: TOP, y2: HEIGHT - BOTTOM, class: "idj-time-grid" }));
    svg.append(part("text", { x: x(10 ** power), y: HEIGHT - BOTTOM + 14, "text-anchor": "middle" }, String(Number(`1e${power}`))));
  }
  for (let power = y0; power <= y1; power += 1) {
    svg.append(part("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(10 ** power), y2: y(10 ** power), class: "idj-time-grid" }));
    svg.append(part("text", { x: LEFT - 6, y: y(10 ** power) + 4, "text-anchor": "end" }, String(Number(`1e${power - 9}`))));
  }
  const ridge = product / memory;
  const from = Math.max(10 ** x0, 10 ** y0 / memory);
  svg.append(part("path", { d: `M${x(from)} ${y(memory * from)}L${x(ridge)} ${y(product)}H${WIDTH - RIGHT}`, class: "idj-time-roof" }));
  svg.append(part("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, "operations for each byte"));
  svg.append(part("text", { x: 0, y: 0, "text-anchor": "middle", transform: `translate(12 ${(HEIGHT - BOTTOM + TOP) / 2}) rotate(-90)` }, "GFLOP a second"));
  const slowest = Math.max(...shown.map((/** @type {any} */ row) => row.seconds), 0);
  for (const row of shown) {
    svg.append(marked(row, part("circle", { cx: x(row.flops / row.nbytes), cy: y(row.flops / row.seconds), r: 3 + 9 * Math.sqrt(row.seconds / slowest) })));
  }
  return svg;
}

/**
 * The kernels along one call: the forward's above the backward's.
 * @param {any} time @param {(row: any, mark: SVGElement) => SVGElement} marked @returns {SVGElement}
 */
function timeline(time, marked) {
  const lanes = LANES.filter((lane) => time.rows.some((/** @type {any} */ row) => row.stage === lane));
  const high = 44;
  const bottom = TOP + lanes.length * (high + 22);
  const svg = part("svg", { viewBox: `0 0 ${WIDTH} ${bottom + 24}`, role: "img", "aria-label": "Kernels along one call" });
  const end = Math.max(time.total, ...time.rows.map((/** @type {any} */ row) => row.start + row.seconds)) || 1;
  /** @param {number} seconds */
  const x = (seconds) => 8 + ((WIDTH - 16) * seconds) / end;
  lanes.forEach((lane, at) => svg.append(part("text", { x: 8, y: TOP + at * (high + 22) + 10 }, lane)));
  for (let tick = 0; tick <= 4; tick += 1) {
    svg.append(part("text", { x: x((end * tick) / 4), y: bottom + 14, "text-anchor": tick === 0 ? "start" : tick === 4 ? "end" : "middle" }, timeText((end * tick) / 4)));
  }
  for (const row of time.rows) {
    const y = TOP + lanes.indexOf(row.stage) * (high + 22) + 16;
    svg.append(marked(row, part("rect", { x: x(row.start), y, width: Math.max(0.5, x(row.start + row.seconds) - x(row.start)), height: high })));
  }
  return svg;
}

/** @param {any} time @returns {HTMLElement} */
function modulesTable(time) {
  const table = make("table", "idj-time-modules");
  const head = make("tr");
  for (const title of ["module, forward", "eager", "compiled", "compiled / eager"]) head.append(make("th", "", title, { scope: "col" }));
  table.append(head);
  for (const module of time.modules) {
    const row = make("tr", module.is_slower ? "idj-time-slower" : "");
    for (const text of [`${module.path} (${module.kind})`, module.eager, module.compiled, module.ratio]) row.append(make("td", "", text));
    table.append(row);
  }
  return table;
}

/** @param {import("./store.js").Context} context @returns {HTMLElement} */
export function timePane({ store, wire, signal }) {
  const el = make("div", "idj idj-pane idj-time");
  const head = make("div", "idj-time-head", "", { role: "status", "data-idj": "time-head" });
  const bar = make("div", "idj-time-bar", "", { role: "group", "aria-label": "Shown as" });
  const picture = make("div", "idj-time-picture", "", { "data-idj": "time-picture", tabindex: 0 });
  const notes = make("div", "idj-quiet idj-time-notes");
  const list = sharesList({ store, wire, signal }, "kernels", "Kernels by their share of the time");
  let shown = "Kernels";
  /** A mark of a row: pressed it chooses the row's node. @param {any} row @param {SVGElement} mark */
  const marked = (row, mark) => {
    const { selection } = row;
    const chosen = selection && ["compile_id", "stage", "node"].every((key) => selection[key] === store.get("selection")[key]);
    mark.setAttribute("class", `idj-time-mark${row.bound === "memory" ? " idj-time-memory" : ""}${chosen ? " idj-lit" : ""}`);
    mark.append(part("title", {}, [row.op, row.where, row.facts].filter(Boolean).join("\n")));
    if (selection) mark.addEventListener("click", () => wire.choose(selection));
    return mark;
  };
  const draw = () => {
    const time = store.get("time");
    list.element.hidden = shown !== "Kernels";
    picture.hidden = shown === "Kernels";
    for (const button of bar.children) button.setAttribute("aria-pressed", String(button.textContent === shown));
    if (shown === "Roofline") picture.replaceChildren(time.roofs ? roofline(time, marked) : make("div", "", "This machine's speed was not measured."));
    else if (shown === "Timeline") picture.replaceChildren(timeline(time, marked));
    else if (shown === "Modules") picture.replaceChildren(modulesTable(time));
    else list.draw();
  };
  for (const name of ["Kernels", "Roofline", "Timeline", "Modules"]) {
    const button = make("button", "", name, { "data-idj": `time-${name.toLowerCase()}` });
    button.addEventListener("click", () => {
      shown = name;
      draw();
    });
    bar.append(button);
  }
  el.replaceChildren(head, bar, list.element, picture, notes);
  store.follow(["time"], signal, () => {
    const time = store.get("time");
    head.replaceChildren(...time.head.map((line, at) => make("div", at ? "idj-quiet" : "idj-time-first", line)));
    notes.replaceChildren(...time.notes.map((note) => make("div", "", note)));
    list.fill(time.rows);
    draw();
  });
  store.follow(["selection"], signal, draw);
  return el;
}
