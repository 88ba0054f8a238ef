import { make } from "./dom.js";
import { VirtualList } from "./list.js";

/**
 * The Error budget tab, left pane: the ops that make a result inexact, largest share first, each with a bar, its line, and
 * what was predicted beside what a run showed. The graph beside it is coloured by the shares.
 */

const ROW = 62;

/** @param {any} share @param {boolean} lit @returns {HTMLElement} */
function shareRow(share, lit) {
  const facts = [share.alone, share.without].filter(Boolean).join(" · ");
  const row = make("div", "idj-budget-share", "", { role: "option", "data-idj": "share", "data-op": share.op, "aria-selected": lit, title: [share.op, share.where, share.code, facts].filter(Boolean).join("\n") });
  row.classList.toggle("idj-lit", lit);
  const head = make("div", "idj-budget-share-head");
  head.append(make("span", "idj-budget-share-of", share.share), make("span", "idj-budget-share-op", share.op), make("span", "idj-quiet idj-budget-share-where", share.where));
  const track = make("div", "idj-budget-share-track");
  const bar = make("div", "idj-budget-share-bar");
  bar.style.width = `${share.bar}%`;
  track.append(bar);
  row.append(head, track, make("div", "idj-quiet idj-budget-share-facts", facts));
  return row;
}

/** @param {import("./store.js").Context} context @returns {HTMLElement} */
export function budgetPane({ store, wire, signal }) {
  const el = make("div", "idj idj-pane idj-budget");
  const head = make("div", "idj-budget-head", "", { role: "status", "data-idj": "budget-head" });
  const kept = make("div", "idj-budget-kept idj-mono", "", { "data-idj": "prescription", tabindex: 0 });
  const notes = make("div", "idj-quiet idj-budget-notes");
  let cursor = -1;
  /** Whether a row stands for the chosen node. @param {any} row */
  const lit = (row) => Boolean(row.selection && ["compile_id", "stage", "node"].every((key) => row.selection[key] === store.get("selection")[key]));
  const list = new VirtualList({
    name: "shares",
    label: "Ops by their share of the error",
    height: ROW,
    build: (row) => shareRow(row, lit(row)),
    pick: (row, at) => {
      cursor = at;
      if (row.selection) wire.choose(row.selection);
      list.reveal(at);
    },
    chosen: () => (lit(list.items[cursor] ?? {}) ? cursor : list.items.findIndex(lit)),
  }, signal);
  el.replaceChildren(head, kept, list.element, notes);
  store.follow(["budget"], signal, () => {
    const budget = store.get("budget");
    head.replaceChildren(...budget.head.map((line, at) => make("div", at ? "" : "idj-budget-first", line)), make("div", "idj-quiet idj-budget-keys", budget.keys));
    kept.textContent = budget.prescription.join("\n");
    kept.hidden = !budget.prescription.length;
    notes.replaceChildren(...budget.notes.map((note) => make("div", "", note)));
    list.fill(budget.rows);
  });
  store.follow(["selection"], signal, () => list.reveal());
  return el;
}
