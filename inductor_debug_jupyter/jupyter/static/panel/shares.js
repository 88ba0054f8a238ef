import { make } from "./dom.js";
import { VirtualList } from "./list.js";

// Rows that are parts of a whole, largest first, each with a bar, its line and some facts: shares of an error, of a call's time.

const ROW = 62;

/** @param {any} share @param {boolean} lit @returns {HTMLElement} */
function shareRow(share, lit) {
  const row = make("div", "idj-part", "", { role: "option", "data-idj": "share", "data-op": share.op, "aria-selected": lit, title: [share.op, share.where, share.code, share.facts].filter(Boolean).join("\n") });
  row.classList.toggle("idj-lit", lit);
  const head = make("div", "idj-part-head");
  head.append(make("span", "idj-part-of", share.share), make("span", "idj-part-op", share.op), make("span", "idj-quiet idj-part-where", share.where));
  const track = make("div", "idj-part-track");
  const bar = make("div", "idj-part-bar");
  bar.style.width = `${share.bar}%`;
  track.append(bar);
  row.append(head, track, make("div", "idj-quiet idj-part-facts", share.facts));
  return row;
}

/**
 * A list of such rows; the one whose node is chosen is lit, and a row that is pressed chooses its node.
 * @param {import("./store.js").Context} context @param {string} name @param {string} label @returns {VirtualList}
 */
export function sharesList({ store, wire, signal }, name, label) {
  let cursor = -1;
  /** Whether a row stands for the chosen node. @param {any} row */
  const lit = (row) => Boolean(row.selection && ["compile_id", "stage", "node"].every((key) => row.selection[key] === store.get("selection")[key]));
  const list = new VirtualList({
    name, label,
    height: ROW,
    build: (row) => shareRow(row, lit(row)),
    pick: (row, at) => {
      cursor = at;
      if (row.selection) wire.choose(row.selection);
      list.reveal(at);
    },
    chosen: () => (lit(list.items[cursor] ?? {}) ? cursor : list.items.findIndex(lit)),
  }, signal);
  store.follow(["selection"], signal, () => list.reveal());
  return list;
}
