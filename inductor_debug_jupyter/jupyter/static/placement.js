/** Ops by what becomes of them │ the stretches of the graph on device and CPU, and what moves between them. */

const ROW = 40;
const TRANSFER = 22;
const WORDS = { supported: "on the target", decomposable: "in parts", fallback: "on the CPU", refused: "refused" };

/** @param {any} op @returns {HTMLElement} */
function opRow(op) {
  const row = make("div", `idj-op idj-op-${op.status}`, "", { role: "option", "data-idj": "op", "data-op": op.op, title: [op.op, op.reason, ...op.lines].filter(Boolean).join("\n") });
  const kind = { refused: "error", fallback: "warning" }[op.status] ?? "good";
  const head = make("div", "idj-op-head");
  head.append(make("span", `idj-icon idj-${kind}`, op.icon), make("span", "idj-op-name", op.op), make("span", "idj-quiet", `×${op.count}`), make("span", `idj-op-status idj-${kind}`, WORDS[op.status] ?? op.status));
  const parts = op.parts.length ? `as ${op.parts.join(", ")}` : "";
  row.append(head, make("div", "idj-quiet idj-op-why", [op.reason, parts, op.lines[0]].filter(Boolean).join(" · ")));
  return row;
}

/** @param {any} graph @returns {HTMLElement} */
function strip(graph) {
  const box = make("div", "idj-strip", "", { "data-idj": "segments" });
  for (const segment of graph.segments) {
    const where = segment.side === "cpu" ? "CPU" : "device";
    const part = make("div", `idj-segment idj-segment-${segment.side}`, segment.nodes.length > 4 ? where : "", { title: `segment ${segment.index}, ${where}, ${segment.nodes.length} ops\n${segment.nodes.slice(0, 12).join(", ")}${segment.nodes.length > 12 ? ", …" : ""}` });
    part.style.flexGrow = String(Math.max(1, segment.nodes.length));
    box.append(part);
  }
  return box;
}

/** @param {any} transfer @returns {HTMLElement} */
function transferRow(transfer) {
  const row = make("div", "idj-transfer idj-mono", "", { role: "option", title: `${transfer.kind} → ${transfer.to}: ${transfer.value} ${transfer.spec}` });
  row.append(
    make("span", "idj-transfer-way", transfer.to === "cpu" ? "device → CPU" : "CPU → device"),
    make("span", "idj-quiet idj-transfer-kind", transfer.kind),
    make("span", "idj-transfer-value", transfer.value),
    make("span", "idj-transfer-size", transfer.size || "symbolic"),
    make("span", "idj-quiet idj-transfer-size", transfer.seconds),
  );
  return row;
}

function render({ model, el, signal }) {
  el.classList.add("idj", "idj-pane", "idj-placement");
  keepKeys(el);
  showInTabs(model, el, signal);
  const chooser = make("select", "", "", { "aria-label": "Graph", "data-idj": "placement-graph" });
  const filter = make("input", "", "", { type: "search", placeholder: "Filter ops", "aria-label": "Filter ops" });
  const left = make("div", "idj-placement-left");
  const bar = make("div", "idj-bar");
  bar.append(chooser, filter);
  const ops = new VirtualList({ name: "ops", label: "Ops", height: ROW, build: opRow, pick: (op) => op.selection && choose(model, op.selection) }, signal);
  left.append(bar, ops.element);
  const right = make("div", "idj-placement-right");
  const told = make("div", "idj-placement-told", "", { role: "status", "data-idj": "placement-told" });
  const picture = make("div");
  const transfers = new VirtualList({ name: "transfers", label: "Transfers", height: TRANSFER, build: transferRow }, signal);
  right.append(told, picture, transfers.element);
  el.replaceChildren(left, right);

  const draw = () => {
    const graph = model.get("graphs")[Number(chooser.value || 0)];
    if (!graph) return;
    const wanted = filter.value.toLowerCase();
    ops.fill(graph.rows.filter((op) => `${op.op} ${op.status} ${op.reason}`.toLowerCase().includes(wanted)));
    const counts = Object.entries(graph.counts).filter(([, number]) => number).map(([status, number]) => `${number} ${WORDS[status] ?? status}`);
    const border = graph.transfers.filter((one) => one.kind === "border").length;
    told.textContent = `${counts.join(" · ")} · ${graph.segments.length} ${graph.segments.length === 1 ? "segment" : "segments"} · ${graph.transfers.length} transfers, ${border} between segments`;
    picture.replaceChildren(strip(graph), ...graph.narrowed.map((text) => make("div", "idj-quiet idj-narrowed", text)));
    transfers.fill(graph.transfers);
  };
  chooser.addEventListener("change", draw);
  filter.addEventListener("input", draw);
  follow(model, ["graphs"], signal, () => {
    chooser.replaceChildren(...model.get("graphs").map((graph, at) => make("option", "", graph.title, { value: at })));
    draw();
  });
}

export default { render };
