import { make, pressable } from "./dom.js";
import { VirtualList } from "./list.js";
import { splitters } from "./room.js";

/** Ops by what becomes of them │ the stretches of the graph on device and CPU, and what moves between them. */

const ROW = 40;
const TRANSFER = 22;
const WORDS = { supported: "on the target", decomposable: "decomposed", fallback: "on the CPU", refused: "refused" };

/** @param {any} op @param {boolean} lit @returns {HTMLElement} */
function opRow(op, lit) {
  const row = make("div", `idj-op idj-op-${op.status}`, "", { role: "option", "data-idj": "op", "data-op": op.op, "aria-selected": lit, title: [op.op, op.reason, ...op.lines].filter(Boolean).join("\n") });
  row.classList.toggle("idj-lit", lit);
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
  const all = graph.segments.reduce((sum, segment) => sum + segment.nodes.length, 0);
  for (const segment of graph.segments) {
    const where = segment.side === "cpu" ? "CPU" : "device";
    const part = make("div", `idj-segment idj-segment-${segment.side}`, segment.nodes.length >= all / 12 ? where : "", { title: `segment ${segment.index}, ${where}, ${segment.nodes.length} ops\n${segment.nodes.slice(0, 12).join(", ")}${segment.nodes.length > 12 ? ", …" : ""}` });
    part.style.flexGrow = String(Math.max(1, segment.nodes.length));
    box.append(part);
  }
  return box;
}

/** The ledger: every op that leaves the target, and what that moves. @param {import("./wire.js").Wire} wire @param {any} entry @returns {HTMLElement} */
function ledgerRow(wire, entry) {
  const kind = entry.status === "refused" ? "error" : "warning";
  const row = make("div", "idj-ledger", "", { "data-idj": "ledger", "data-op": entry.op, title: entry.text });
  row.append(make("span", `idj-icon idj-${kind}`, entry.icon), make("span", "idj-ledger-text", entry.text));
  if (entry.selection) pressable(row, () => wire.choose(entry.selection));
  return row;
}

/** @param {any} transfer @param {boolean} lit @returns {HTMLElement} */
function transferRow(transfer, lit) {
  const row = make("div", "idj-transfer idj-mono", "", { role: "option", "data-idj": "planned-transfer", "aria-selected": lit, title: `${transfer.words} → ${transfer.to}: ${transfer.name} (${transfer.value}) ${transfer.spec}` });
  row.classList.toggle("idj-lit", lit);
  row.append(
    make("span", "idj-transfer-way", transfer.to === "cpu" ? "→ CPU" : "→ device"),
    make("span", "idj-quiet idj-transfer-kind", transfer.words),
    make("span", "idj-transfer-value", transfer.name),
    make("span", "idj-transfer-size", transfer.size || "symbolic"),
    make("span", "idj-quiet idj-transfer-size", transfer.seconds),
  );
  return row;
}

/** @param {import("./store.js").Context} context @returns {HTMLElement} */
export function placementPane({ store, wire, signal }) {
  const el = make("div", "idj idj-pane idj-placement");
  const chooser = make("select", "", "", { "aria-label": "Graph", "data-idj": "placement-graph" });
  const filter = make("input", "", "", { type: "search", placeholder: "Filter ops", "aria-label": "Filter ops" });
  const left = make("div", "idj-placement-left");
  const bar = make("div", "idj-bar");
  bar.append(chooser, filter);
  /** Whether a row stands for the chosen node. @param {any} row */
  const lit = (row) => Boolean(row.selection && row.selection.node && ["compile_id", "stage", "node"].every((key) => row.selection[key] === store.get("selection")[key]));
  /** @param {string} name @param {string} label @param {number} height @param {(row: any, lit: boolean) => HTMLElement} build @returns {VirtualList} */
  const listed = (name, label, height, build) => {
    const list = new VirtualList({
      name, label, height,
      build: (row) => build(row, lit(row)),
      pick: (row, at) => {
        cursor.set(name, at);
        if (row.selection) wire.choose(row.selection);
        list.reveal(at);
      },
      chosen: () => cursor.get(name) ?? list.items.findIndex(lit),
    }, signal);
    return list;
  };
  /** Where the arrow keys are in each list: not every row selects something. @type {Map<string, number>} */
  const cursor = new Map();
  const ops = listed("ops", "Ops", ROW, opRow);
  left.append(bar, ops.element);
  const right = make("div", "idj-placement-right");
  const told = make("div", "idj-placement-told", "", { role: "status", "data-idj": "placement-told" });
  const picture = make("div");
  const ledger = make("div", "idj-ledgers");
  const moved = make("div", "idj-quiet idj-moved", "", { "data-idj": "moved" });
  const transfers = listed("planned-transfers", "Transfers that this would take", TRANSFER, transferRow);
  right.append(told, picture, ledger, moved, transfers.element);
  el.replaceChildren(left, right);
  splitters({ store, wire, signal }, el, () => ({ name: "placement ops", columns: [left, right] }));

  const draw = () => {
    const graph = store.get("placement")[Number(chooser.value || 0)];
    if (!graph) return;
    const wanted = filter.value.toLowerCase();
    ops.fill(graph.rows.filter((op) => `${op.op} ${op.status} ${op.reason}`.toLowerCase().includes(wanted)));
    const counts = Object.entries(graph.counts).filter(([, number]) => number).map(([status, number]) => `${number} ${WORDS[status] ?? status}`);
    told.textContent = `${counts.join(" · ")} · ${graph.segments.length} ${graph.segments.length === 1 ? "segment" : "segments"}`;
    ledger.replaceChildren(...graph.ledger.map((entry) => ledgerRow(wire, entry)));
    moved.replaceChildren(...graph.moved.map((text) => make("div", "", text)));
    picture.replaceChildren(strip(graph), ...graph.narrowed.map((text) => make("div", "idj-quiet idj-narrowed", text)));
    transfers.fill(graph.transfers);
  };
  const redraw = () => {
    cursor.clear();
    draw();
  };
  chooser.addEventListener("change", redraw);
  filter.addEventListener("input", redraw);
  store.follow(["placement"], signal, () => {
    chooser.replaceChildren(...store.get("placement").map((graph, at) => make("option", "", graph.title, { value: at })));
    redraw();
  });
  store.follow(["selection"], signal, () => {
    for (const list of [ops, transfers]) {
      const { name } = list.options;
      // Chosen elsewhere: the keys go on from there.
      if (!lit(list.items[cursor.get(name) ?? -1] ?? {})) cursor.delete(name);
      list.reveal();
    }
  });
  return el;
}
