import { make, closest, copyButton } from "./dom.js";
import { VirtualList } from "./list.js";
import { changeRoom, splitters } from "./room.js";
import { sourceLine } from "./source.js";

/** @typedef {import("./store.js").Selection} Selection */

/**
 * Source │ graph │ generated code. Choosing a line, a node or a kernel lights the other two; hovering shows it for a
 * moment, clicking holds it.
 */

const ROW = 20;
const COLUMNS = { source: "Source", nodes: "Graph", text: "Generated code" };
/** Where a kernel computes. */
const ARITHMETIC = /\btmp\d+\b.* = /;
/** How kernels write ops that they do not call by name. @type {Record<string, string>} */
const WRITTEN = { add: "\\+", sub: " - ", mul: "\\*", div: " / ", relu: "relu|clamp_min|max", gelu: "erf|tanh", sum: "sum|acc", mean: "sum|acc", native_layer_norm: "rsqrt|welford", _softmax: "exp" };

/** What a selection touches, in all three columns. A node stands on the model's own line and on the cell's, and both are it.
 *  @param {import("./store.js").Store} store @param {Selection} chosen */
export function touched(store, chosen) {
  const rows = store.get("code_nodes").rows;
  const here = chosen.compile_id === store.get("code_nodes").compile_id && chosen.stage === store.get("code_nodes").stage;
  /** @type {Set<string>} */ const lines = new Set();
  /** @type {Set<string>} */ const names = new Set();
  /** @type {Set<string>} */ const documents = new Set();
  if (chosen.kernel) {
    const entry = store.get("code_documents").find((one) => one.id === chosen.kernel);
    documents.add(chosen.kernel);
    for (const line of entry?.lines ?? []) lines.add(line);
    for (const row of rows) if (row.documents.includes(chosen.kernel)) names.add(row.name);
    return { lines, names, documents };
  }
  const line = chosen.line ? `${chosen.label}:${chosen.line}` : "";
  if (line) lines.add(line);
  for (const row of rows) {
    const hit = chosen.node ? here && row.name === chosen.node : line && row.lines.includes(line);
    if (!hit) continue;
    names.add(row.name);
    for (const each of row.lines) lines.add(each);
    for (const id of row.documents) documents.add(id);
  }
  if (!names.size && line) for (const entry of store.get("code_documents")) if (entry.lines.includes(line)) documents.add(entry.id);
  return { lines, names, documents };
}

/** @param {any} row @returns {HTMLElement} */
function nodeRow(row) {
  const line = make("div", "idj-node", "", { role: "option", "data-idj": "code-node", "data-node": row.name, title: `${row.name} = ${row.text}\n${row.tensor}` });
  line.append(make("span", "idj-node-name", row.name), make("span", "idj-quiet", row.text), make("span", "idj-quiet idj-node-tensor", row.tensor));
  return line;
}

/** @param {string[][]} pieces @param {number} number @returns {HTMLElement} */
function codeLine(pieces, number) {
  const line = make("div", "idj-code-line", "", { "data-idj": "code-line" });
  const code = make("code");
  for (const [cls, text] of pieces) code.append(cls ? make("span", `idj-t-${cls}`, text) : document.createTextNode(text));
  line.append(make("span", "idj-number", String(number)), code);
  return line;
}

/** A column: a bar and what stands below it. @param {string} cls @param {HTMLElement[]} bar @param {HTMLElement} body */
function column(cls, bar, body) {
  const box = make("div", `idj-column ${cls}`);
  const head = make("div", "idj-bar");
  head.append(...bar);
  box.append(head, body);
  return box;
}

class CodePane {
  /** @param {import("./store.js").Context} context @param {HTMLElement} el */
  constructor({ store, wire, signal }, el) {
    this.store = store;
    this.wire = wire;
    this.signal = signal;
    /** @type {Record<string, HTMLElement>} */
    this.switches = {};
    this.arranged = "";
    /** @type {Selection|null} what the pointer is over */
    this.preview = null;
    /** @type {Selection|null} */
    this.over = null;
    this.file = make("select", "", "", { "aria-label": "Cell or file", "data-idj": "code-file" });
    this.stage = make("select", "", "", { "aria-label": "Graph", "data-idj": "code-stage" });
    this.title = make("select", "", "", { "aria-label": "Kernel, IR or code", "data-idj": "code-document" });
    this.search = make("input", "", "", { type: "search", placeholder: "Search code", "aria-label": "Search code", "data-idj": "code-search" });
    this.tally = make("span", "idj-quiet idj-tally");
    this.note = make("div", "idj-quiet idj-code-note");
    this.source = new VirtualList({
      name: "code-source", label: "Source", height: ROW,
      build: (line) => sourceLine(line, this.lit.lines.has(`${this.label}:${line.number}`), wire),
      chosen: () => this.source.items.findIndex((line) => this.lit.lines.has(`${this.label}:${line.number}`)),
    }, signal);
    this.nodes = new VirtualList({
      name: "code-nodes", label: "Graph nodes", height: ROW,
      build: (row) => {
        const line = nodeRow(row);
        line.classList.toggle("idj-lit", this.lit.names.has(row.name));
        return line;
      },
      pick: (row) => wire.choose({ ...row.selection, kernel: "" }),
      chosen: () => this.nodes.items.findIndex((row) => this.lit.names.has(row.name)),
    }, signal);
    this.code = new VirtualList({
      name: "code-text", label: "Generated code", height: ROW,
      build: (pieces, at) => {
        const line = codeLine(pieces, at + 1);
        line.classList.toggle("idj-lit", this.found.has(at) || this.mentioned.has(at));
        return line;
      },
      chosen: () => [...this.mentioned][0] ?? -1,
    }, signal);
    this.label = "";
    /** @type {Set<number>} */
    this.found = new Set();
    /** Lines of the document that name what is chosen. @type {Set<number>} */
    this.mentioned = new Set();
    this.lit = { lines: new Set(), names: new Set(), documents: new Set() };
    const right = make("div", "idj-column-body");
    const copySource = copyButton(this.source.element, () => (store.get("sources")[this.label]?.lines ?? []).map((line) => line.text).join("\n"));
    copySource.title = "Copy this source";
    const copyText = copyButton(this.code.element, () => this.code.items.map((pieces) => pieces.map((piece) => piece[1]).join("")).join("\n"));
    copyText.title = "Copy this kernel, IR or code";
    right.append(this.note, this.code.element);
    /** @type {Record<string, HTMLElement>} */
    this.columns = {
      source: column("idj-code-source", [this.file, copySource], this.source.element),
      nodes: column("idj-code-nodes", [this.stage], this.nodes.element),
      text: column("idj-code-text", [this.title, this.search, this.tally, copyText], right),
    };
    const inner = make("div", "idj-columns");
    inner.append(...Object.values(this.columns));
    const switches = make("div", "idj-bar idj-switches", "", { role: "group", "aria-label": "Columns" });
    for (const [name, title] of Object.entries(COLUMNS)) switches.append(this.switchOf(name, title));
    el.replaceChildren(switches, inner);
    const context = { store, wire, signal };
    const shown = () => Object.keys(COLUMNS).filter((name) => !this.isOff(name));
    const arrange = splitters(context, inner, () => ({ name: `code ${shown().join(" ")}`, columns: shown().map((name) => this.columns[name]) }));
    store.follow(["room"], signal, () => {
      for (const [name, box] of Object.entries(this.columns)) {
        box.classList.toggle("idj-off", this.isOff(name));
        this.switches[name].setAttribute("aria-pressed", String(!this.isOff(name)));
      }
      if (this.arranged !== shown().join(" ")) arrange();
      this.arranged = shown().join(" ");
    });
    this.listen();
  }

  /** @param {string} name */
  isOff(name) {
    return (this.store.get("room").hidden ?? []).includes(name);
  }

  /** A button that shows and hides a column; one always stays. @param {string} name @param {string} title @returns {HTMLElement} */
  switchOf(name, title) {
    const button = make("button", "idj-switch", title, { "data-idj": "code-column", "data-column": name, title: `Show or hide: ${title.toLowerCase()}` });
    this.switches[name] = button;
    button.addEventListener("click", () => {
      const hidden = this.store.get("room").hidden ?? [];
      const next = this.isOff(name) ? hidden.filter((/** @type {string} */ one) => one !== name) : [...hidden, name];
      if (next.length < Object.keys(COLUMNS).length) changeRoom({ store: this.store, wire: this.wire, signal: this.signal }, { hidden: next });
    });
    return button;
  }

  /** What the pointer moves over is shown for a moment. A row that is drawn anew under a resting pointer is not.
   *  @param {VirtualList} list */
  previewing(list) {
    list.element.addEventListener("pointermove", (event) => {
      if (!event.movementX && !event.movementY) return;
      const row = closest(event, "[data-at]");
      const selection = row ? list.items[Number(row.getAttribute("data-at"))]?.selection : null;
      if (selection !== this.over) this.show(selection ? { ...selection, kernel: "" } : null);
      this.over = selection;
    });
    list.element.addEventListener("pointerleave", () => {
      this.over = null;
      this.show(null);
    });
  }

  /** @param {Selection|null} preview */
  show(preview) {
    this.preview = preview;
    this.relight();
    for (const list of [this.source, this.nodes]) {
      for (const row of list.sheet.children) {
        const item = list.items[Number(row.getAttribute("data-at"))];
        const on = list === this.source ? this.lit.lines.has(`${this.label}:${item.number}`) : this.lit.names.has(item.name);
        row.classList.toggle("idj-lit", on);
      }
    }
    this.mark();
  }

  relight() {
    this.lit = touched(this.store, this.preview ?? this.store.get("selection"));
  }

  /** The chooser of documents says which of them belong to what is chosen. */
  mark() {
    for (const option of this.title.options) {
      const entry = this.store.get("code_documents").find((one) => one.id === option.value);
      option.textContent = `${this.lit.documents.has(option.value) ? "● " : ""}${entry?.title ?? option.value}`;
    }
  }

  listen() {
    this.previewing(this.source);
    this.previewing(this.nodes);
    this.file.addEventListener("change", () => {
      this.label = this.file.value;
      this.fillSource();
    });
    this.stage.addEventListener("change", () => {
      const { compile_id, stage } = this.store.get("graph_choices")[Number(this.stage.value)];
      this.wire.ask("show_nodes", { compile_id, stage }, { pane: "code", words: "Opening…" });
    });
    this.title.addEventListener("change", () => {
      const entry = this.store.get("code_documents").find((one) => one.id === this.title.value);
      if (entry?.kind === "kernel") this.wire.choose({ finding: null, compile_id: entry.compile_id, stage: "", node: "", label: "", line: 0, kernel: entry.id });
      this.wire.ask("show_document", { document: this.title.value }, { pane: "code", words: "Opening…" });
    });
    this.search.addEventListener("input", () => this.find());
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
    });
  }

  fillChoosers() {
    this.file.replaceChildren(...Object.keys(this.store.get("sources")).map((label) => make("option", "", label, { value: label })));
    this.stage.replaceChildren(...this.store.get("graph_choices").map((choice, number) => make("option", "", choice.title, { value: number })));
    this.title.replaceChildren();
    /** @param {any} one */
    const groupOf = (one) => (one.kind !== "kernel" ? "IR and code" : one.backward ? "Kernels, backward" : "Kernels, forward");
    for (const name of ["Kernels, forward", "Kernels, backward", "IR and code"]) {
      const entries = this.store.get("code_documents").filter((one) => groupOf(one) === name);
      if (!entries.length) continue;
      const group = make("optgroup", "", "", { label: name });
      group.append(...entries.map((entry) => make("option", "", entry.title, { value: entry.id })));
      this.title.append(group);
    }
    this.label = this.label || (Object.keys(this.store.get("sources"))[0] ?? "");
  }

  fillSource() {
    this.file.value = this.label;
    this.source.fill(this.store.get("sources")[this.label]?.lines ?? []);
  }

  fillNodes() {
    const { compile_id, stage, rows } = this.store.get("code_nodes");
    const at = this.store.get("graph_choices").findIndex((choice) => choice.compile_id === compile_id && choice.stage === stage);
    if (at >= 0) this.stage.value = String(at);
    this.relight();
    this.nodes.fill(rows);
    this.nodes.reveal();
    this.mark();
  }

  fillCode() {
    const { id, lines, note } = this.store.get("code_document");
    this.title.value = id;
    this.note.textContent = note;
    this.note.title = note;
    this.code.fill(lines);
    this.code.element.scrollTop = 0;
    this.find();
    this.mention();
  }

  /** Mark the lines of the document that name what is chosen, and bring the first into sight; else where it computes. */
  mention() {
    const text = this.code.items.map((pieces) => pieces.map((piece) => piece[1]).join(""));
    const kernels = this.store.get("code_documents").filter((one) => this.lit.documents.has(one.id)).map((one) => one.title.replace(/ ×\d+$/, ""));
    const ops = this.store.get("code_nodes").rows.filter((row) => this.lit.names.has(row.name)).map((row) => row.text.split("(")[0].replace(/^aten\.|\.\w+$/g, ""));
    const words = new Set([...this.lit.names, ...ops, ...kernels].filter((word) => word.length > 2));
    const names = [...words].map((word) => word.replace(/[^\w]/g, "\\$&")).join("|");
    const pattern = names ? new RegExp(`(^|[^\\w.])(${names})(?!\\w)`) : null;
    /** @param {(line: string) => boolean} isMeant */
    const linesThat = (isMeant) => text.flatMap((line, at) => (isMeant(line) ? [at] : []));
    let lines = pattern ? linesThat((line) => pattern.test(line)) : [];
    if (!lines.length && this.lit.documents.has(this.store.get("code_document").id)) {
      const written = new RegExp(ops.flatMap((op) => WRITTEN[op] ?? op.split("_").filter((/** @type {string} */ word) => word.length > 2)).join("|") || "$^");
      lines = linesThat((line) => ARITHMETIC.test(line) && written.test(line));
      if (!lines.length) lines = linesThat((line) => ARITHMETIC.test(line)).slice(0, 1);
    }
    this.mentioned = new Set(lines);
    this.code.show(lines[0] ?? -1);
  }

  find() {
    const wanted = this.search.value.toLowerCase();
    this.found = new Set();
    if (wanted) this.code.items.forEach((pieces, at) => pieces.map((piece) => piece[1]).join("").toLowerCase().includes(wanted) && this.found.add(at));
    this.tally.textContent = wanted ? `${this.found.size} ${this.found.size === 1 ? "line" : "lines"}` : "";
    this.at = -1;
    if (wanted) this.next(1);
    else this.code.draw();
  }

  /** @param {number} step */
  next(step) {
    const hits = [...this.found];
    if (!hits.length) return this.code.draw();
    this.at = (this.at + step + hits.length) % hits.length;
    this.code.reveal(hits[this.at]);
  }

  select() {
    const chosen = this.store.get("selection");
    this.preview = null;
    this.relight();
    const line = [...this.lit.lines][0]?.match(/^(.*):(\d+)$/);
    if (line && this.store.get("sources")[line[1]] && line[1] !== this.label && !this.lit.lines.has(`${this.label}:${line[2]}`)) {
      this.label = line[1];
      this.fillSource();
    }
    if (chosen.kernel) this.title.value = chosen.kernel;
    this.source.show(this.source.options.chosen?.() ?? -1);
    this.nodes.reveal();
    this.mark();
    this.mention();
  }
}

/** @param {import("./store.js").Context} context @returns {HTMLElement} */
export function codePane({ store, wire, signal }) {
  const el = make("div", "idj idj-pane idj-code");
  const pane = new CodePane({ store, wire, signal }, el);
  store.follow(["graph_choices", "code_documents", "sources"], signal, () => {
    pane.fillChoosers();
    pane.fillSource();
    pane.select();
  });
  store.follow(["code_nodes"], signal, () => pane.fillNodes());
  store.follow(["code_document"], signal, () => pane.fillCode());
  store.follow(["selection"], signal, () => pane.select());
  return el;
}
