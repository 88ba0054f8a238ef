import { make } from "./dom.js";
import { graphPane } from "./graph.js";
import { VirtualList } from "./list.js";
import { splitters } from "./room.js";

// Two graphs side by side: what differs as a list, and both graphs. They move together, and what is chosen or opened in one
// is in the other. Each side is the graph pane, which sees its half of the comparison as if it were the only graph.

/** @typedef {"before"|"after"} Side @typedef {import("./store.js").Store} Store @typedef {import("./wire.js").Wire} Wire */

/** @type {Side[]} */
const SIDES = ["before", "after"];
/** What became of a node, as a sign. @type {Record<string, string>} */
export const SIGNS = { changed: "≠", new: "+", gone: "−", moved: "⇄" };
const ROW = 58;
const NOTHING = { finding: null, compile_id: "", stage: "", node: "", label: "", line: 0, kernel: "" };
const PANE = "compare-graph";
const SAME = "✓ Nothing differs: the graphs are the same, node by node.";

/** The part of the store in which a side has what the graph pane calls so. @type {Record<string, string>} */
const PART_OF = { graph: "comparison_graphs", graph_paint: "comparison_paints", graph_found: "comparison_found", graph_lit: "comparison_lit", selection: "comparison_lit", graph_choices: "comparison" };

/** One half of the comparison as a store of its own. */
export class SideStore {
  /** @param {Store} store @param {Side} side */
  constructor(store, side) {
    this.store = store;
    this.side = side;
  }

  /** @param {string} part @returns {any} */
  get(part) {
    const { store, side } = this;
    if (part === "busy") return { graph: store.get("busy")[PANE] ?? "" };
    const whole = store.get(PART_OF[part] ?? part);
    if (part === "selection") return whole[side].selection ?? NOTHING;
    if (part === "graph_lit") return { node: whole[side].selection?.node ?? "", line: "", ids: whole[side].ids };
    if (part === "graph_choices") return whole.choices[side].length > 1 ? whole.choices[side] : [];
    return part in PART_OF ? whole[side] : whole;
  }

  /** @param {string[]} parts @param {AbortSignal} signal @param {() => void} draw */
  follow(parts, signal, draw) {
    this.store.follow([...new Set(parts.map((part) => PART_OF[part] ?? part))], signal, draw);
  }
}

/** The wire of one half: what is asked, is asked about that side. */
export class SideWire {
  /** @param {Wire} wire @param {Store} store @param {Side} side */
  constructor(wire, store, side) {
    this.wire = wire;
    this.store = store;
    this.side = side;
  }

  /** @param {string} kind @param {Record<string, any>} [fields] @param {{words?: string, sets?: string}} [how] */
  ask(kind, fields = {}, { words = "", sets = "" } = {}) {
    this.wire.ask(kind, { ...fields, side: this.side }, { pane: PANE, words, sets });
  }

  /** A node: lit here at once; Python tells which it is on the other side. @param {any} selection */
  choose(selection) {
    const { compile_id, stage, node } = selection;
    if (!node) return;
    const both = this.store.get("comparison_lit");
    const other = this.side === "before" ? "after" : "before";
    this.store.put("comparison_lit", { ...both, [this.side]: { selection, ids: [], near: [] }, [other]: { selection: null, ids: [], near: [] }, acting: this.side });
    this.ask("select_node", { compile_id, stage, node }, { sets: "comparison_lit" });
  }
}

/** @param {any} row @param {boolean} lit @returns {HTMLElement} */
export function differenceRow(row, lit) {
  const element = make("div", "idj-difference", "", { role: "option", "data-idj": "difference", "aria-selected": lit, title: [row.status, row.op, row.what, row.where].filter(Boolean).join("\n") });
  element.classList.toggle("idj-lit", lit);
  const head = make("div", "idj-difference-head");
  head.append(make("b", `idj-pair-${row.status}`, `${SIGNS[row.status]} ${row.status}`), make("code", "idj-mono", row.op));
  element.append(head);
  if (row.what) element.append(make("div", "idj-difference-what", row.what));
  if (row.where) element.append(make("div", "idj-quiet idj-difference-what", row.where));
  return element;
}

/** What changed between two runs besides graphs. @param {any} changes @returns {HTMLElement[]} */
function changeLines(changes) {
  if (!changes.headline) return [];
  /** @type {HTMLElement[]} */
  const lines = [make("div", "idj-changes-head", changes.headline)];
  for (const each of changes.changes) {
    const line = make("div", "idj-change", "", { "data-idj": "change" });
    line.append(make("span", `idj-icon idj-${each.severity}`, each.sign), make("span", "", ` ${each.title} `), make("code", "idj-quiet", each.kind));
    if (each.where) line.append(make("div", "idj-quiet", [each.where, each.code].filter(Boolean).join(" · ")));
    if (each.follows.length) {
      const more = make("details");
      more.append(make("summary", "", `${each.follows.length} ${each.follows.length === 1 ? "thing follows" : "things follow"} from it`), ...each.follows.map((/** @type {string} */ text) => make("div", "idj-quiet", text)));
      line.append(more);
    }
    lines.push(line);
  }
  if (changes.figures.length) {
    const table = make("table", "idj-figures-table");
    for (const [name, before, after] of changes.figures) {
      const row = make("tr");
      row.append(make("th", "", name), make("td", "", before), make("td", "", `→ ${after}`));
      table.append(row);
    }
    lines.push(table);
  }
  lines.push(...changes.environment.map((/** @type {string} */ text) => make("div", "idj-quiet", text)));
  if (changes.unknown.length) {
    const more = make("details");
    more.append(make("summary", "idj-quiet", `Not compared (${changes.unknown.length})`), ...changes.unknown.map((/** @type {string} */ text) => make("div", "idj-quiet", text)));
    lines.push(more);
  }
  return lines;
}

/** @param {import("./store.js").Context} context @returns {HTMLElement} */
export function comparePane({ store, wire, signal }) {
  const el = make("div", "idj idj-pane idj-compare", "", { "data-idj": "compare" });
  const bar = make("div", "idj-bar");
  const chooser = make("select", "", "", { "aria-label": "What is compared", "data-idj": "pair" });
  const counts = make("span", "idj-compare-counts", "", { "data-idj": "pair-counts" });
  const told = make("span", "idj-compare-told", "", { role: "status", "data-idj": "pair-told" });
  bar.append(chooser, counts, told);
  const left = make("div", "idj-compare-left");
  const changes = make("div", "idj-changes", "", { "data-idj": "changes" });
  const list = new VirtualList({
    name: "differences",
    label: "What differs",
    height: ROW,
    build: (row, at) => differenceRow(row, at === store.get("comparison_lit").row),
    pick: (_, at) => {
      store.put("comparison_lit", { ...store.get("comparison_lit"), row: at, acting: "" });
      wire.ask("show_difference", { difference: at }, { pane: PANE, sets: "comparison_lit" });
      list.reveal(at);
    },
    chosen: () => store.get("comparison_lit").row,
  }, signal);
  const more = make("div", "idj-quiet idj-compare-more");
  left.append(changes, list.element, more);
  /** The two panes, which look at the same place. @type {{panes: import("./graph.js").GraphPane[]}} */
  const linked = { panes: [] };
  const heads = SIDES.map(() => make("div", "idj-side-title"));
  const columns = SIDES.map((side, at) => {
    const column = make("div", "idj-compare-side", "", { "data-side": side });
    const half = /** @type {any} */ ({ store: new SideStore(store, side), wire: new SideWire(wire, store, side), signal, linked });
    column.append(heads[at], graphPane(half));
    return column;
  });
  const body = make("div", "idj-compare-body");
  body.append(left, ...columns);
  el.append(bar, body);
  const arrange = splitters({ store, wire, signal }, body, () => ({ name: "compare", columns: [left, ...columns] }));

  chooser.addEventListener("change", () => wire.ask("show_pair", { pair: Number(chooser.value) }, { pane: PANE, words: "Matching the two graphs…" }));
  store.follow(["comparison"], signal, () => {
    const shown = store.get("comparison");
    chooser.replaceChildren(...shown.pairs.map((/** @type {string} */ title, /** @type {number} */ at) => make("option", "", title, { value: at })));
    chooser.value = String(shown.shown);
    chooser.title = shown.pairs[shown.shown] ?? "";
    chooser.hidden = !shown.pairs.length;
    counts.textContent = shown.counts;
    heads.forEach((head, at) => {
      head.textContent = shown.heads[at];
      head.title = shown.heads[at];
    });
    changes.replaceChildren(...changeLines(shown.changes));
    changes.hidden = !shown.changes.headline;
    for (const column of columns) column.hidden = !shown.pairs.length;
    list.element.hidden = !shown.rows.length;
    list.fill(shown.rows);
    more.textContent = shown.left_out ? `… and ${shown.left_out.toLocaleString("en")} more` : shown.rows.length ? "" : SAME;
    el.classList.toggle("idj-compare-alone", !shown.pairs.length);
    arrange();
  });
  store.follow(["comparison", "comparison_lit"], signal, () => {
    const lit = store.get("comparison_lit");
    told.textContent = told.title = lit.told;
    list.reveal();
    alignLit(linked.panes, SIDES.indexOf(lit.acting ?? ""));
    SIDES.forEach((side, at) => linked.panes[at]?.bringNear(lit[side].near));
  });
  return el;
}

/** What is lit stands at the same height on both sides. @param {import("./graph.js").GraphPane[]} panes @param {number} acting the side that the user chose in, which stays where it is */
function alignLit(panes, acting) {
  const from = panes[Math.max(0, acting)];
  const level = from?.levelOfLit();
  if (level === undefined) return;
  for (const pane of panes) if (pane !== from) pane.bringLitTo(level);
}

