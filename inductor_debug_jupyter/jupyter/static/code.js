/**
 * Source │ graph │ generated code. Choosing a line, a node or a kernel lights the other two; hovering shows it for a
 * moment, clicking holds it.
 */

const ROW = 20;

/** What a selection touches, in all three columns. @param {Model} model @param {Selection} chosen */
function touched(model, chosen) {
  const rows = model.get("nodes").rows;
  const here = chosen.compile_id === model.get("nodes").compile_id && chosen.stage === model.get("nodes").stage;
  /** @type {Set<string>} */ const lines = new Set();
  /** @type {Set<string>} */ const names = new Set();
  /** @type {Set<string>} */ const documents = new Set();
  if (chosen.kernel) {
    const entry = model.get("documents").find((one) => one.id === chosen.kernel);
    documents.add(chosen.kernel);
    for (const line of entry?.lines ?? []) lines.add(line);
    for (const row of rows) if (row.documents.includes(chosen.kernel)) names.add(row.name);
    return { lines, names, documents };
  }
  const line = chosen.line ? `${chosen.label}:${chosen.line}` : "";
  if (line) lines.add(line);
  for (const row of rows) {
    const hit = chosen.node ? here && row.name === chosen.node : line && row.line === line;
    if (!hit) continue;
    names.add(row.name);
    for (const id of row.documents) documents.add(id);
  }
  if (!names.size && line) for (const entry of model.get("documents")) if (entry.lines.includes(line)) documents.add(entry.id);
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
  /** @param {Model} model @param {HTMLElement} el @param {AbortSignal} [signal] */
  constructor(model, el, signal) {
    this.model = model;
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
      build: (line) => sourceLine(line, this.lit.lines.has(`${this.label}:${line.number}`), model),
    }, signal);
    this.nodes = new VirtualList({
      name: "code-nodes", label: "Graph nodes", height: ROW,
      build: (row) => {
        const line = nodeRow(row);
        line.classList.toggle("idj-lit", this.lit.names.has(row.name));
        return line;
      },
      pick: (row) => choose(model, { ...row.selection, kernel: "" }),
      chosen: () => this.nodes.items.findIndex((row) => this.lit.names.has(row.name)),
    }, signal);
    this.code = new VirtualList({
      name: "code-text", label: "Generated code", height: ROW,
      build: (pieces, at) => {
        const line = codeLine(pieces, at + 1);
        line.classList.toggle("idj-lit", this.found.has(at));
        return line;
      },
    }, signal);
    this.label = "";
    /** @type {Set<number>} */
    this.found = new Set();
    this.lit = { lines: new Set(), names: new Set(), documents: new Set() };
    const right = make("div", "idj-column-body");
    right.append(this.note, this.code.element);
    el.replaceChildren(
      column("idj-code-source", [this.file], this.source.element),
      column("idj-code-nodes", [this.stage], this.nodes.element),
      column("idj-code-text", [this.title, this.search, this.tally], right),
    );
    this.listen();
  }

  /** What the pointer moves over is shown for a moment. A row that is drawn anew under a resting pointer is not.
   *  @param {VirtualList} list */
  previewing(list) {
    list.element.addEventListener("pointermove", (event) => {
      if (!event.movementX && !event.movementY) return;
      const row = event.target.closest?.("[data-at]");
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
    this.lit = touched(this.model, this.preview ?? this.model.get("selection"));
  }

  /** The chooser of documents says which of them belong to what is chosen. */
  mark() {
    for (const option of this.title.options) {
      const entry = this.model.get("documents").find((one) => one.id === option.value);
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
    this.stage.addEventListener("change", () => this.want(this.model.get("choices")[Number(this.stage.value)]));
    this.title.addEventListener("change", () => {
      const entry = this.model.get("documents").find((one) => one.id === this.title.value);
      if (entry?.kind === "kernel") choose(this.model, { finding: null, compile_id: entry.compile_id, stage: "", node: "", label: "", line: 0, kernel: entry.id });
      this.want({ document: this.title.value });
    });
    this.search.addEventListener("input", () => this.find());
    this.search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
    });
  }

  /** @param {any} wanted */
  want(wanted) {
    this.model.set("wanted", { ...wanted, at: Date.now() });
    this.model.save_changes();
  }

  fillChoosers() {
    this.file.replaceChildren(...Object.keys(this.model.get("sources")).map((label) => make("option", "", label, { value: label })));
    this.stage.replaceChildren(...this.model.get("choices").map((choice, number) => make("option", "", choice.title, { value: number })));
    this.title.replaceChildren();
    for (const [name, wanted] of [["Kernels, forward", (one) => one.kind === "kernel" && !one.backward], ["Kernels, backward", (one) => one.kind === "kernel" && one.backward], ["IR and code", (one) => one.kind !== "kernel"]]) {
      const entries = this.model.get("documents").filter(wanted);
      if (!entries.length) continue;
      const group = make("optgroup", "", "", { label: name });
      group.append(...entries.map((entry) => make("option", "", entry.title, { value: entry.id })));
      this.title.append(group);
    }
    this.label = this.label || (Object.keys(this.model.get("sources"))[0] ?? "");
  }

  fillSource() {
    this.file.value = this.label;
    this.source.fill(this.model.get("sources")[this.label]?.lines ?? []);
  }

  fillNodes() {
    const { compile_id, stage, rows } = this.model.get("nodes");
    const at = this.model.get("choices").findIndex((choice) => choice.compile_id === compile_id && choice.stage === stage);
    if (at >= 0) this.stage.value = String(at);
    this.relight();
    this.nodes.fill(rows);
    this.nodes.reveal();
    this.mark();
  }

  fillCode() {
    const { id, lines, note } = this.model.get("document");
    this.title.value = id;
    this.note.textContent = note;
    this.note.title = note;
    this.code.fill(lines);
    this.code.element.scrollTop = 0;
    this.find();
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
    const chosen = this.model.get("selection");
    this.preview = null;
    this.relight();
    const line = [...this.lit.lines][0]?.match(/^(.*):(\d+)$/);
    if (line && this.model.get("sources")[line[1]] && line[1] !== this.label && !this.lit.lines.has(`${this.label}:${line[2]}`)) {
      this.label = line[1];
      this.fillSource();
    }
    if (chosen.kernel) this.title.value = chosen.kernel;
    const lit = this.source.items.findIndex((one) => this.lit.lines.has(`${this.label}:${one.number}`));
    this.source.reveal(lit);
    this.nodes.reveal();
    this.mark();
  }
}

function render({ model, el, signal }) {
  el.classList.add("idj", "idj-pane", "idj-code");
  keepKeys(el);
  showInTabs(model, el, signal);
  const pane = new CodePane(model, el, signal);
  follow(model, ["choices", "documents", "sources"], signal, () => {
    pane.fillChoosers();
    pane.fillSource();
  });
  follow(model, ["nodes"], signal, () => pane.fillNodes());
  follow(model, ["document"], signal, () => pane.fillCode());
  follow(model, ["selection"], signal, () => pane.select());
}

export default { render };
