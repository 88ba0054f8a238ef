import { make } from "./dom.js";

// Charts as plain SVG, for pages without ipywidgets: bars, dots with a line through them, or the area under a curve.

/**
 * @typedef {{kind: "bars"|"dots"|"area", title: string, x_title: string, y_title: string, ys: (number|null)[], xs?: number[],
 *            names?: string[], texts?: string[], tones?: string[], allowed?: (number|null)[], limit?: number|null, logarithmic?: boolean,
 *            selections?: any[]}} Chart
 */

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM] = [640, 230, 66, 12, 22, 42];
const TICKS = 5;
const LEAST = 1e-12;
const PREFIXES = [" ", " Ki", " Mi", " Gi", " Ti"];

/** @param {string} tag @param {Record<string, string|number>} attributes @param {string} [text] */
function svgPart(tag, attributes, text = "") {
  const part = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) part.setAttribute(name, String(value));
  if (text) part.textContent = text;
  return part;
}

/** @param {number} value @param {Chart} chart @returns {string} */
export function tickText(value, chart) {
  if (chart.logarithmic) return chart.kind === "bars" ? value.toLocaleString("en") : value.toExponential(0);
  if (chart.y_title !== "bytes") return String(Number(value.toPrecision(3)));
  const power = value < 1 ? 0 : Math.min(PREFIXES.length - 1, Math.floor(Math.log2(value) / 10));
  return value ? `${Number((value / 1024 ** power).toPrecision(3))}${PREFIXES[power]}B` : "0";
}

/** The values at which the vertical axis has ticks. @param {number} low @param {number} high @param {boolean} logarithmic @returns {number[]} */
export function ticksOf(low, high, logarithmic) {
  if (!logarithmic) return Array.from({ length: TICKS }, (_, at) => low + ((high - low) * at) / (TICKS - 1));
  const [first, last] = [Math.floor(Math.log10(low)), Math.ceil(Math.log10(high))];
  const step = Math.max(1, Math.ceil((last - first) / (TICKS - 1)));
  const ticks = [];
  for (let power = first; power <= last; power += step) ticks.push(Number(`1e${power}`));
  return ticks;
}

/** At most ten whole numbers from 0 on. @param {number} last @returns {number[]} */
export function wholeTicks(last) {
  let step = 1;
  for (let at = 0; step * 10 <= last; at += 1) step *= [2, 2.5, 2][at % 3];
  return Array.from({ length: Math.floor(last / step) + 1 }, (_, at) => at * step);
}

/**
 * Draw a chart; `pick` is called with the number of the value that is pressed.
 * @param {Chart} chart @param {(at: number) => void} pick @returns {HTMLElement}
 */
export function drawChart(chart, pick) {
  const box = make("div", "idj-chart");
  const svg = svgPart("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": [chart.title, chart.y_title].filter(Boolean).join(": ") });
  const floor = chart.kind === "bars" ? 0.8 : LEAST;
  /** @param {number|null|undefined} value */
  const shown = (value) => (chart.logarithmic ? Math.max(value ?? 1, floor) : (value ?? 0));
  const values = [...chart.ys, ...(chart.allowed ?? []), ...(chart.limit ? [chart.limit] : [])].map(shown);
  const low = chart.logarithmic ? Math.min(...values) : 0;
  const high = Math.max(...values, low * 1.01, chart.logarithmic ? 0 : 1e-9);
  const ticks = ticksOf(low, high, Boolean(chart.logarithmic));
  const [bottom, top] = chart.logarithmic ? [Math.log10(Math.min(low, ticks[0])), Math.log10(Math.max(high, ticks[ticks.length - 1]))] : [0, high];
  const last = Math.max(1, chart.kind === "bars" ? chart.ys.length : (chart.xs?.[chart.xs.length - 1] ?? chart.ys.length - 1));
  /** @param {number} at */
  const x = (at) => LEFT + ((WIDTH - LEFT - RIGHT) * at) / last;
  /** @param {number|null|undefined} value */
  const y = (value) => HEIGHT - BOTTOM - ((HEIGHT - TOP - BOTTOM) * ((chart.logarithmic ? Math.log10(shown(value)) : shown(value)) - bottom)) / (top - bottom || 1);
  if (chart.title) svg.append(svgPart("text", { x: LEFT, y: 13, class: "idj-chart-title" }, chart.title));
  for (const tick of ticks) {
    svg.append(svgPart("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick), class: "idj-chart-grid" }));
    svg.append(svgPart("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, tickText(tick, chart)));
  }
  svg.append(svgPart("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 6, "text-anchor": "middle" }, chart.x_title));
  svg.append(svgPart("text", { x: 0, y: 0, "text-anchor": "middle", transform: `translate(11 ${(HEIGHT - BOTTOM + TOP) / 2}) rotate(-90)` }, chart.y_title));
  const where = chart.ys.map((_, at) => chart.xs?.[at] ?? at);
  const bars = chart.kind === "bars";
  const named = bars ? (chart.names ?? []) : [];
  const places = bars ? named.map((_, at) => at).filter((at) => at % Math.ceil(named.length / 10) === 0) : wholeTicks(last);
  for (const at of places) svg.append(svgPart("text", { x: x(bars ? at + 0.5 : at), y: HEIGHT - BOTTOM + 15, "text-anchor": "middle" }, named[at] ?? at.toLocaleString("en")));
  /** @param {(number|null)[]} ys */
  const line = (ys) => ys.map((value, at) => `${at ? (chart.kind === "area" ? `H${x(where[at])}V` : "L") : "M"}${at && chart.kind === "area" ? y(value) : `${x(where[at])} ${y(value)}`}`).join("");
  if (chart.kind === "area") svg.append(svgPart("path", { d: `${line(chart.ys)}V${y(0)}H${x(0)}Z`, class: "idj-chart-area" }));
  if (chart.kind !== "bars") svg.append(svgPart("path", { d: line(chart.ys), class: "idj-chart-line" }));
  if (chart.allowed) svg.append(svgPart("path", { d: line(chart.allowed), class: "idj-chart-allowed" }));
  if (chart.limit) svg.append(svgPart("path", { d: `M${LEFT} ${y(chart.limit)}H${WIDTH - RIGHT}`, class: "idj-chart-limit" }));
  /** @param {Element} mark @param {number} at */
  const marked = (mark, at) => {
    mark.append(svgPart("title", {}, chart.texts?.[at] ?? ""));
    mark.addEventListener("click", () => pick(at));
    svg.append(mark);
  };
  const tone = (/** @type {number} */ at) => `idj-tone-${chart.tones?.[at] ?? "good"}`;
  const wide = (x(1) - x(0)) * 0.8;
  chart.ys.forEach((value, at) => {
    if (chart.kind === "bars") marked(svgPart("rect", { x: x(at + 0.1), y: y(value), width: wide, height: Math.max(1, HEIGHT - BOTTOM - y(value)), class: tone(at) }), at);
    else if (chart.kind === "dots") marked(svgPart("circle", { cx: x(where[at]), cy: y(value), r: 3.5, class: tone(at) }), at);
  });
  if (chart.kind === "area") {
    const ruler = svgPart("path", { class: "idj-chart-limit" });
    svg.append(ruler);
    svg.addEventListener("click", (event) => {
      const { left, width } = svg.getBoundingClientRect();
      const goal = ((((event.clientX - left) / width) * WIDTH - LEFT) / (WIDTH - LEFT - RIGHT)) * last;
      const at = where.reduce((best, place, number) => (Math.abs(place - goal) < Math.abs(where[best] - goal) ? number : best), 0);
      ruler.setAttribute("d", `M${x(where[at])} ${TOP}V${HEIGHT - BOTTOM}`);
      pick(where[at]);
    });
  }
  box.append(svg);
  return box;
}
