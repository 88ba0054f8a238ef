/** What is alive at one place of the memory curve, largest first, each with a bar for its share. */

const ROW = 40;

/** @param {any} tensor @param {boolean} lit @returns {HTMLElement} */
function aliveRow(tensor, lit) {
  const where = [tensor.role, tensor.module_path, tensor.line].filter(Boolean).join(" · ");
  const row = make("div", "idj-alive", "", { role: "option", "data-idj": "alive", "data-node": tensor.node, title: `${tensor.name} ${tensor.spec}\n${where}` });
  row.classList.toggle("idj-lit", lit);
  const bar = make("div", "idj-share");
  bar.style.width = `${(100 * tensor.share).toFixed(1)}%`;
  const head = make("div", "idj-alive-head");
  head.append(make("span", "idj-alive-size", tensor.size), make("span", "idj-alive-name", tensor.name), make("span", "idj-quiet idj-mono", tensor.spec));
  row.append(bar, head, make("div", "idj-quiet idj-alive-where", where));
  return row;
}

function render({ model, el, signal }) {
  el.classList.add("idj", "idj-pane", "idj-alive-pane");
  keepKeys(el);
  showInTabs(model, el, signal);
  const title = make("div", "idj-alive-title", "", { role: "status", "data-idj": "alive-title" });
  const list = new VirtualList({
    name: "alive-list", label: "Tensors alive", height: ROW,
    build: (tensor) => aliveRow(tensor, tensor.node === model.get("selection").node && tensor.selection?.stage === model.get("selection").stage),
    pick: (tensor) => tensor.selection && choose(model, tensor.selection),
    chosen: () => list.items.findIndex((tensor) => tensor.node === model.get("selection").node),
  }, signal);
  const hint = make("div", "idj-quiet idj-alive-hint", "Click the curve: what is alive under the pointer is listed here. Click again to hold it.");
  el.replaceChildren(title, list.element, hint);
  follow(model, ["title"], signal, () => (title.textContent = model.get("title")));
  follow(model, ["rows"], signal, () => list.fill(model.get("rows")));
  follow(model, ["selection"], signal, () => list.draw());
}

export default { render };
