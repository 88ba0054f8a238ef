import { make } from "./dom.js";
import { sharesList } from "./shares.js";

/**
 * The Error budget tab, left pane: the ops that make a result inexact, largest share first, each with a bar, its line, and
 * what was predicted beside what a run showed. The graph beside it is coloured by the shares.
 */

/** @param {import("./store.js").Context} context @returns {HTMLElement} */
export function budgetPane({ store, wire, signal }) {
  const el = make("div", "idj idj-pane idj-budget");
  const head = make("div", "idj-budget-head", "", { role: "status", "data-idj": "budget-head" });
  const kept = make("div", "idj-budget-kept idj-mono", "", { "data-idj": "prescription", tabindex: 0 });
  const notes = make("div", "idj-quiet idj-budget-notes");
  const list = sharesList({ store, wire, signal }, "shares", "Ops by their share of the error");
  el.replaceChildren(head, kept, list.element, notes);
  store.follow(["budget"], signal, () => {
    const budget = store.get("budget");
    head.replaceChildren(...budget.head.map((line, at) => make("div", at ? "" : "idj-budget-first", line)), make("div", "idj-quiet idj-budget-keys", budget.keys));
    kept.textContent = budget.prescription.join("\n");
    kept.hidden = !budget.prescription.length;
    notes.replaceChildren(...budget.notes.map((note) => make("div", "", note)));
    list.fill(budget.rows);
  });
  return el;
}
