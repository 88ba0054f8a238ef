import { make } from "./dom.js";
import { childSlot } from "./child.js";
import { VirtualList } from "./list.js";
import { splitters } from "./room.js";

/** What is alive at one place of the memory curve, largest first, each with a bar for its share. */

const ROW = 40;

/** @param {any} tensor @param {boolean} lit @returns {HTMLElement} */
function aliveRow(tensor, lit) {
  const where = [tensor.spec, tensor.role, tensor.module_path, tensor.line].filter(Boolean).join(" · ");
  const row = make("div", "idj-alive", "", { role: "option", "data-idj": "alive", "data-node": tensor.node, title: `${tensor.name}\n${where}` });
  row.classList.toggle("idj-lit", lit);
  const bar = make("div", "idj-share");
  bar.style.width = `${(100 * tensor.share).toFixed(1)}%`;
  const head = make("div", "idj-alive-head");
  head.append(make("span", "idj-alive-size", tensor.size), make("span", "idj-alive-name", tensor.name));
  row.append(bar, head, make("div", "idj-quiet idj-alive-where", where));
  return row;
}

/** @param {import("./store.js").Context & {manager: any}} context @returns {HTMLElement} */
export function memoryPane({ store, wire, signal, manager }) {
  const el = make("div", "idj idj-pane idj-memory");
  const title = make("div", "idj-alive-title", "", { role: "status", "data-idj": "alive-title" });
  const list = new VirtualList({
    name: "alive-list", label: "Tensors alive", height: ROW,
    build: (tensor) => aliveRow(tensor, tensor.node === store.get("selection").node && tensor.selection?.stage === store.get("selection").stage),
    pick: (tensor) => tensor.selection && wire.choose(tensor.selection),
    chosen: () => list.items.findIndex((tensor) => tensor.node === store.get("selection").node),
  }, signal);
  const hint = make("div", "idj-quiet idj-alive-hint", "Click the curve: what is alive under the pointer is listed here. Click again to hold it.");
  const chooser = make("select", "", "", { "aria-label": "Graph", "data-idj": "memory-graph" });
  chooser.addEventListener("change", () => wire.ask("show_memory", { graph: Number(chooser.value) }, { pane: "memory", words: "Drawing…" }));
  const bar = make("div", "idj-bar");
  bar.append(chooser);
  const [left, right] = [make("div", "idj-memory-left"), make("div", "idj-alive-pane")];
  left.append(bar, childSlot({ store, wire, signal, manager }, "memory", "idj-memory-curve"));
  right.append(title, list.element, hint);
  el.replaceChildren(left, right);
  splitters({ store, wire, signal }, el, () => ({ name: "memory", columns: [left, right] }));
  store.follow(["memory"], signal, () => {
    const memory = store.get("memory");
    chooser.replaceChildren(...memory.choices.map((/** @type {string} */ text, /** @type {number} */ at) => make("option", "", text, { value: at })));
    chooser.value = String(memory.shown);
    title.textContent = memory.title;
    list.fill(memory.rows);
  });
  store.follow(["selection"], signal, () => list.reveal());
  return el;
}
