import { make, keepKeys } from "./dom.js";
import { childSlot } from "./child.js";
import { Store } from "./store.js";
import { Wire } from "./wire.js";
import { headerBar } from "./header.js";
import { heightGrip, recallRoom, roomTools, splitters } from "./room.js";
import { overviewPane } from "./overview.js";
import { findingsPane } from "./findings.js";
import { budgetPane } from "./budget.js";
import { timePane } from "./time.js";
import { graphPane } from "./graph.js";
import { codePane } from "./code.js";
import { memoryPane } from "./memory.js";
import { placementPane } from "./placement.js";
import { transfersPane } from "./transfers.js";
import { guardsPane } from "./guards.js";
import { detailPane } from "./detail.js";
import { diffPane } from "./kernel_diff.js";
import { comparePane } from "./compare.js";
import { whatIfPane } from "./what_if.js";
import { fixesStrip } from "./fixes.js";

// The panel: header, tabs, and the panes of the open tab. One model has one store and one wire, however many views it has.

/** @typedef {import("./store.js").Context & {manager: any, id: string}} PanelContext */

/** Every pane, by name; made when a tab that shows it is first opened. @type {Record<string, (context: PanelContext) => HTMLElement>} */
const PANES = {
  overview: overviewPane,
  findings: findingsPane,
  budget: budgetPane,
  time: timePane,
  graph: graphPane,
  code: codePane,
  memory: memoryPane,
  placement: placementPane,
  transfers: transfersPane,
  guards: guardsPane,
  diff: diffPane,
  compare: comparePane,
  what_if: whatIfPane,
  detail: detailPane,
};

/** Tab → its panes, from left to right. @type {Record<string, string[]>} */
const TABS = {
  overview: ["overview"],
  findings: ["findings", "graph", "detail"],
  graph: ["graph", "detail"],
  code: ["code"],
  memory: ["memory"],
  placement: ["placement", "detail"],
  transfers: ["transfers", "detail"],
  guards: ["guards", "detail"],
  diff: ["diff"],
  budget: ["budget", "graph", "detail"],
  time: ["time", "graph", "detail"],
  compare: ["compare"],
  what_if: ["what_if"],
};

/** The parts of the state, as in panel_parts.py. */
export const PARTS = [
  "header", "trouble", "tab", "selection", "overview", "findings", "sources", "graph_choices", "graphs_to_come", "graph", "graph_paint", "graph_found", "graph_lit",
  "comparison", "comparison_graphs", "comparison_paints", "comparison_found", "comparison_lit", "node", "binding", "bound", "page", "report", "guards", "guard_inputs", "guard_answer", "code_documents", "code_nodes", "code_document", "placement", "transfers",
  "memory", "diff", "diff_shown", "diff_place", "diff_slice", "diff_point", "budget", "time", "what_if", "trials", "trial_shown", "fixes", "charts", "widgets", "room",
];

let views = 0;

/** The panes of the open tab; the others wait, hidden. @param {PanelContext} context @returns {HTMLElement} */
function body(context) {
  const { store, signal, id } = context;
  const el = make("div", "idj-body", "", { role: "tabpanel", id });
  const wait = make("div", "idj-wait idj-quiet", "", { role: "status" });
  /** @type {Map<string, HTMLElement>} */
  const made = new Map();
  el.append(wait);
  const arrange = splitters(context, el, () => ({ name: store.get("tab"), columns: (TABS[store.get("tab")] ?? []).flatMap((name) => made.get(name) ?? []) }));
  store.follow(["tab"], signal, () => {
    const tab = store.get("tab");
    for (const name of TABS[tab] ?? []) {
      if (made.has(name)) continue;
      const pane = PANES[name](context);
      made.set(name, pane);
      // In the order of PANES, so that what explains stands last.
      const names = Object.keys(PANES);
      const next = names.slice(names.indexOf(name) + 1).find((other) => made.has(other));
      el.insertBefore(pane, made.get(next ?? "") ?? wait);
    }
    for (const [name, pane] of made) pane.classList.toggle("idj-hidden", !TABS[tab]?.includes(name));
    el.setAttribute("aria-labelledby", `${id}-${tab}`);
    arrange();
  });
  store.follow(["busy", "tab"], signal, () => {
    const words = store.get("busy")[store.get("tab")] ?? "";
    wait.textContent = words;
    el.classList.toggle("idj-waiting", Boolean(words));
  });
  return el;
}

/** What is cut off is a tooltip. @param {Event} event */
function tellWhole({ target }) {
  if (!(target instanceof HTMLElement) || target.closest("[title]")) return;
  const row = target.closest(".idj-line, .idj-code-line");
  const box = row?.closest(".idj-source, .idj-list");
  if (row instanceof HTMLElement && box) {
    const code = row.querySelector("code");
    if (code && code.getBoundingClientRect().left + code.scrollWidth > box.getBoundingClientRect().right + 1) row.title = code.textContent?.trim() ?? "";
    return;
  }
  if (target.childElementCount > 3) return;
  if (target.scrollWidth > target.clientWidth + 1 && getComputedStyle(target).textOverflow === "ellipsis") target.title = target.textContent ?? "";
}

/** @param {Store} store @param {Wire} wire @param {any} manager @param {HTMLElement} el @param {AbortSignal} signal */
export function show(store, wire, manager, el, signal) {
  views += 1;
  const context = { store, wire, signal, manager, id: `idj-${views}-${Math.random().toString(36).slice(2, 8)}` };
  const frame = make("div", "idj idj-frame");
  keepKeys(frame);
  frame.addEventListener("pointerover", tellWhole);
  const panes = body(context);
  frame.append(headerBar(context, roomTools(frame, signal)), childSlot(context, "quick_run", "idj-form"), fixesStrip(context), panes, heightGrip(context, frame, panes));
  el.replaceChildren(frame);
}

/** What anywidget asks for: called once for each model. */
function panel() {
  /** @type {Store} */
  let store;
  /** @type {Wire} */
  let wire;
  return {
    /** @param {{model: import("./store.js").Model}} given */
    initialize({ model }) {
      store = new Store(model, PARTS);
      wire = new Wire(model, store);
      recallRoom(store);
    },
    /** @param {{model: import("./store.js").Model, el: HTMLElement}} given */
    render({ model, el }) {
      const leaving = new AbortController();
      show(store, wire, model.widget_manager, el, leaving.signal);
      return () => leaving.abort();
    },
  };
}

export default panel;
