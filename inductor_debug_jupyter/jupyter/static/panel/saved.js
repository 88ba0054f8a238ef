// What Python is to a panel, in a page without Python: what it would be asked for lies in the page, packed in pieces (see
// reports/offline_panel.py); a piece is unpacked when it is first needed. The rest of the panel does not know.

/** @typedef {import("./store.js").Selection} Selection */

const NOTHING = { finding: null, compile_id: "", stage: "", node: "", label: "", line: 0, kernel: "" };
const SEARCHED = 200;
const NOT_HERE = "this is a saved page: for that, open the session in a notebook";
const GRAPH_TABS = new Set(["findings", "graph"]);
const COLOURED_TABS = ["budget", "time"];

/** Where a value belongs in a sorted list: the last place that begins at or before it. @param {[number, string][]} units @param {number} position */
export function unitAt(units, position) {
  let [low, high] = [0, units.length - 1];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (units[middle][0] <= position) low = middle;
    else high = middle - 1;
  }
  return units[low]?.[1];
}

/** The boxes around an op, from the innermost out. @param {Record<string, [number, number, string]>} boxes @param {number} position @returns {string[]} */
export function boxesAt(boxes, position) {
  return Object.entries(boxes)
    .filter(([, [start, end]]) => start <= position && position < end)
    .sort(([, one], [, other]) => one[1] - one[0] - (other[1] - other[0]))
    .map(([id]) => id);
}

/** The index of an element that is the nth, counted row by row. @param {number} position @param {number[]} shape @returns {number[]} */
export function indexOf(position, shape) {
  let left = Math.min(position, shape.reduce((all, one) => all * one, 1) - 1);
  const index = [];
  for (const extent of [...shape].reverse()) {
    index.unshift(left % extent);
    left = Math.floor(left / extent);
  }
  return index;
}

/** One graph: which of its pictures is on show, and where its nodes are in it. */
export class SavedGraph {
  /** @param {any} data */
  constructor(data) {
    this.data = data;
    this.name = "first";
    this.anchor = "";
    this.by = data.by;
  }

  get picture() {
    return this.data.pictures[this.name];
  }

  /** Show the picture in which a box is open; without one of its own, that with all boxes open. @param {string} box */
  open(box) {
    this.name = this.data.pictures[box] ? box : "all";
    this.anchor = box;
  }

  /** Show a picture in which a box is closed: that of the box around it, the first one, or that with all closed. @param {string} box */
  close(box) {
    const around = this.data.boxes[box]?.[2] ?? "";
    const { first, pictures } = this.data;
    this.name = first.includes(box) ? "none" : pictures[around] && !first.includes(around) ? around : "first";
    if (!pictures[this.name]) this.name = "first";
    this.anchor = box;
  }

  /** The shapes that show a node. @param {string} node @returns {string[]} */
  shapesOf(node) {
    const position = this.data.positions[node];
    if (this.picture.inputs[node]) return this.picture.inputs[node];
    const unit = position === undefined ? undefined : unitAt(this.picture.units, position);
    return unit === undefined ? [] : [unit];
  }

  /** Open the boxes around a node, if it has no shape of its own. @param {string} node @returns {boolean} whether the picture is another one */
  reveal(node) {
    const before = this.name;
    if (this.shapesOf(node).every((id) => this.picture.nodes[id]?.kind !== "group")) return false;
    const around = boxesAt(this.data.boxes, this.data.positions[node] ?? -1);
    this.open(around.find((box) => !this.data.first.includes(box)) ?? "");
    if (this.name !== "all" && this.shapesOf(node).some((id) => this.picture.nodes[id]?.kind === "group")) this.name = "all";
    return this.name !== before;
  }

  /** @param {Selection} chosen @returns {string[]} */
  lit(chosen) {
    const here = chosen.compile_id === this.data.compile_id && chosen.stage === this.data.stage;
    if (chosen.node) return here ? this.shapesOf(chosen.node) : [];
    const line = `${chosen.label}:${chosen.line}`;
    const names = chosen.line ? this.data.code.rows.filter((/** @type {any} */ row) => row.lines.includes(line)) : [];
    return [...new Set(names.flatMap((/** @type {any} */ row) => this.shapesOf(row.name)))];
  }

  /** @param {string} text */
  search(text) {
    const wanted = text.toLowerCase().split(/\s+/).filter(Boolean);
    /** @type {Record<string, number>} */
    const of = {};
    const names = wanted.length ? this.data.texts.filter((/** @type {any} */ one) => wanted.every((word) => one[1].includes(word))).map((/** @type {any} */ one) => one[0]) : [];
    for (const name of names) for (const id of this.shapesOf(name).slice(0, 1)) of[id] = (of[id] ?? 0) + 1;
    return { text, count: names.length, names: names.slice(0, SEARCHED), of };
  }
}

/** What Python is to a panel, from the pieces of the page. */
export class Saved {
  /** @param {any} parts @param {(name: string) => Promise<any>} piece */
  constructor(parts, piece) {
    this.piece = piece;
    this.isSaved = true;
    /** @type {Record<string, any>} */
    this.values = parts;
    this.widget_manager = null;
    /** @type {Map<string, ((...values: any[]) => void)[]>} */
    this.listeners = new Map();
    /** @type {Map<string, SavedGraph>} */
    this.graphs = new Map();
    /** @type {SavedGraph|null} */
    this.graph = null;
    /** Called with every selection. @type {(chosen: Selection) => void} */
    this.onSelect = () => {};
    /** Tabs whose graph was shown in their own colours. @type {Set<string>} */
    this.coloured = new Set();
    /** Called with what is opened, closed or coloured. @type {(content: any) => void} */
    this.onAct = () => {};
    this.showMemory(parts.memory_first);
    this.showOutput(parts.diff_shown);
  }

  /** @param {string} name */
  get(name) {
    return this.values[name];
  }

  /** @param {string} event @param {(...values: any[]) => void} callback */
  on(event, callback) {
    this.listeners.set(event, [...(this.listeners.get(event) ?? []), callback]);
  }

  off() {}

  /** @param {string} event @param {any} [value] */
  fire(event, value) {
    for (const callback of this.listeners.get(event) ?? []) callback(value);
  }

  /** @param {Record<string, any>} changes */
  put(changes) {
    Object.assign(this.values, changes);
    for (const name of Object.keys(changes)) this.fire(`change:${name}`);
  }

  /** What the panel asks. @param {any} content */
  async send(content) {
    try {
      const answer = this.answers[content.ask];
      if (!answer) throw new Error(NOT_HERE);
      await answer(content);
      this.fire("msg:custom", { answer: "done", id: content.id });
    } catch (error) {
      this.fire("msg:custom", { answer: "failed", id: content.id, error: error instanceof Error ? error.message : String(error) });
    }
  }

  /** @type {Record<string, (content: any) => any>} */
  answers = {
    select: ({ selection }) => this.select(selection),
    open_tab: ({ tab }) => this.openTab(tab),
    select_node: async ({ node }) => this.select(await this.find(node)),
    show_graph: ({ compile_id, stage }) => this.showGraph(compile_id, stage),
    graph_action: (content) => {
      this.act(content);
      this.onAct(content);
    },
    search_graph: ({ text }) => this.put({ graph_found: this.graph?.search(text) ?? this.get("graph_found") }),
    show_nodes: ({ compile_id, stage }) => this.showNodes(compile_id, stage),
    show_document: async ({ document }) => this.put({ code_document: await this.piece(`document ${document}`) }),
    explain_rule: ({ rule_id }) => this.put({ page: this.values.pages[rule_id] }),
    show_memory: ({ graph }) => this.showMemory(graph),
    show_output: ({ path }) => this.showOutput(path),
    pick_diff_cell: (content) => this.pickCell(content),
    show_trial: ({ trial }) => this.put({ trial_shown: trial }),
    remember_room: () => {},
    dismiss: () => this.put({ trouble: "" }),
  };

  /** @param {string} compile_id @param {string} stage @returns {Promise<SavedGraph>} */
  async graphOf(compile_id, stage) {
    const name = `graph ${compile_id} ${stage}`;
    const found = this.graphs.get(name) ?? new SavedGraph(await this.piece(name));
    this.graphs.set(name, found);
    return found;
  }

  /** @param {string} compile_id @param {string} stage */
  isGraph(compile_id, stage) {
    return this.get("graph_choices").some((/** @type {any} */ one) => one.compile_id === compile_id && one.stage === stage);
  }

  /** The selection of a node by its name: in the graph on show, else in the first that has it. @param {string} node */
  async find(node) {
    const choices = this.get("graph_choices");
    const shown = this.graph ? [this.graph.data] : [];
    for (const { compile_id, stage } of [...shown, ...choices]) {
      if ((await this.graphOf(compile_id, stage)).data.nodes[node]) return this.placed([compile_id, stage, node]);
    }
    throw new Error(`no graph has a node ${node}`);
  }

  /** The selection of a node at its place. @param {[string, string, string]} place @returns {Promise<Selection>} */
  async placed([compile_id, stage, node]) {
    const view = (await this.graphOf(compile_id, stage)).data.nodes[node];
    return { ...NOTHING, compile_id, stage, node, label: view?.label ?? "", line: view?.line ?? 0, finding: view?.finding ?? null };
  }

  /** @param {Selection} selection */
  async select(selection) {
    const chosen = { ...NOTHING, ...selection };
    const { compile_id, stage, node } = chosen;
    this.put({ selection: chosen });
    const isThere = this.isGraph(compile_id, stage);
    const graph = isThere ? await this.graphOf(compile_id, stage) : null;
    this.put({ node: graph?.data.nodes[node] ?? { title: "", rows: [], compile_id: "", stage: "", node: "", label: "", line: 0, text: "", wrong: "" } });
    if (this.graph && (graph || !stage)) this.light(graph ?? this.graph, chosen);
    if (this.get("tab") === "code") await this.showCode(chosen);
    this.onSelect(chosen);
  }

  /** Choose the finding that an address ends in: `report.html#finding-2`. @param {string} hash */
  async follow(hash) {
    const number = Number(hash.match(/^#finding-(\d+)$/)?.[1] ?? -1);
    const finding = this.get("findings").find((/** @type {any} */ one) => one.index === number);
    if (!finding) return;
    await this.openTab("findings");
    await this.select(finding.selection);
  }

  /** @param {string} tab */
  async openTab(tab) {
    this.put({ tab });
    const chosen = this.get("selection");
    const first = this.get("graph_choices")[0];
    if (COLOURED_TABS.includes(tab) && !this.coloured.has(tab)) await this.showColoured(tab);
    if (GRAPH_TABS.has(tab) && !this.graph && first) {
      const place = this.isGraph(chosen.compile_id, chosen.stage) ? chosen : first;
      this.light(await this.graphOf(place.compile_id, place.stage), chosen);
    }
    if (chosen.node && this.isGraph(chosen.compile_id, chosen.stage)) this.put({ node: (await this.graphOf(chosen.compile_id, chosen.stage)).data.nodes[chosen.node] ?? this.get("node") });
    if (tab === "code") await this.showCode(chosen);
    if (chosen.label && !this.get("sources")[chosen.label]) this.put({ sources: await this.piece("sources") });
  }

  /** Choose the first row of a tab that has a node, and colour its graph by what the tab is about. @param {string} by */
  async showColoured(by) {
    const chosen = this.get(by).rows.find((/** @type {any} */ row) => row.selection)?.selection;
    this.coloured.add(by);
    if (!chosen) return;
    const graph = await this.graphOf(chosen.compile_id, chosen.stage);
    graph.by = by;
    this.drawGraph(graph);
    await this.select(chosen);
  }

  /** @param {string} compile_id @param {string} stage */
  async showGraph(compile_id, stage) {
    this.light(await this.graphOf(compile_id, stage), this.get("selection"));
  }

  /** Put a graph on show, if it is not, and light what is chosen. @param {SavedGraph} graph @param {Selection} chosen */
  light(graph, chosen) {
    const here = chosen.compile_id === graph.data.compile_id && chosen.stage === graph.data.stage;
    const changed = here && chosen.node ? graph.reveal(chosen.node) : false;
    if (changed || this.graph !== graph) this.drawGraph(graph);
    this.put({ graph_lit: { node: chosen.node, line: `${chosen.label}:${chosen.line}`, ids: graph.lit(chosen) } });
  }

  /** @param {SavedGraph} graph */
  drawGraph(graph) {
    this.graph = graph;
    const found = this.get("graph_found").text;
    this.put({ graph: { ...graph.picture, anchor: graph.anchor }, graph_paint: graph.picture.paints[graph.by] ?? graph.picture.paints.nothing });
    if (found) this.put({ graph_found: graph.search(found) });
  }

  /** @param {any} content */
  act({ do: what, box, by }) {
    const { graph } = this;
    if (!graph) return;
    if (what === "colour") graph.by = by;
    else if (what === "expand") graph.open(box);
    else if (what === "collapse") graph.close(box);
    else graph.name = what === "expand_all" ? "all" : graph.data.pictures.none ? "none" : "first";
    if (what.endsWith("_all")) graph.anchor = "";
    this.drawGraph(graph);
    const chosen = this.get("selection");
    this.put({ graph_lit: { node: chosen.node, line: `${chosen.label}:${chosen.line}`, ids: graph.lit(chosen) } });
  }

  // Code ----------------------------------------------------------------------------------------------------------

  /** @param {string} compile_id @param {string} stage */
  async showNodes(compile_id, stage) {
    this.put({ code_nodes: (await this.graphOf(compile_id, stage)).data.code });
  }

  /** The graph and the document of what is chosen. @param {Selection} chosen */
  async showCode(chosen) {
    if (!Object.keys(this.get("sources")).length || (chosen.label && !this.get("sources")[chosen.label])) this.put({ sources: await this.piece("sources") });
    const documents = this.get("code_documents");
    const kernel = documents.find((/** @type {any} */ one) => one.id === chosen.kernel);
    const stages = this.isGraph(chosen.compile_id, chosen.stage) ? [chosen.stage] : [];
    if (kernel) stages.unshift(kernel.backward ? "post_grad:backward" : "post_grad");
    const wanted = stages.find((stage) => this.isGraph(chosen.compile_id, stage));
    const first = this.get("graph_choices")[0];
    if (wanted) await this.showNodes(chosen.compile_id, wanted);
    else if (!this.get("code_nodes").rows.length && first) await this.showNodes(first.compile_id, first.stage);
    const line = `${chosen.label}:${chosen.line}`;
    const row = this.get("code_nodes").rows.find((/** @type {any} */ one) => one.documents.length && (one.name === chosen.node || (!chosen.node && one.lines.includes(line))));
    const document = chosen.kernel || row?.documents[0] || (this.get("code_document").id ? "" : documents[0]?.id);
    if (document && document !== this.get("code_document").id) this.put({ code_document: await this.piece(`document ${document}`) });
  }

  // Memory and numbers --------------------------------------------------------------------------------------------

  /** @param {number} at */
  showMemory(at) {
    const memory = this.values.memory_of;
    if (!memory[at]) return;
    const choices = memory.map((/** @type {any} */ one) => one.choice);
    const pick = (/** @type {number} */ place) => this.put({ memory: { ...this.get("memory"), choices, shown: at, ...aliveAt(memory[at], place) } });
    pick(memory[at].peak_at);
    this.put({ charts: { ...this.get("charts"), memory: { ...memory[at].chart, pick } } });
  }

  /** @param {string} path */
  showOutput(path) {
    const point = (/** @type {number} */ at) => this.put({ diff_point: this.values.curve.texts[at] });
    const curve = this.values.curve ? { error_curve: { ...this.values.curve, pick: point } } : {};
    const { histogram: _, ...others } = this.get("charts");
    const spread = this.values.histograms[path];
    this.put({ diff_shown: path, charts: { ...others, ...curve, ...(spread ? { histogram: spread } : {}) } });
  }

  /** Which elements a cell of the heatmap stands for. @param {any} content */
  pickCell({ path, row, column }) {
    const { heatmap: map, shape } = this.get("diff").outputs.find((/** @type {any} */ one) => one.path === path);
    const [tall, wide] = [Math.ceil(map.full_rows / map.rows), Math.ceil(map.full_columns / map.columns)];
    const [bottom, right] = [Math.min((row + 1) * tall, map.full_rows) - 1, Math.min((column + 1) * wide, map.full_columns) - 1];
    const place = { first: indexOf(row * tall * map.full_columns + column * wide, shape), last: indexOf(bottom * map.full_columns + right, shape) };
    this.put({ diff_place: { path, row, column, ...place, error: map.values[row * map.columns + column] } });
  }
}

/** @param {any} memory @param {number} place @returns {{title: string, rows: any[]}} */
export function aliveAt(memory, place) {
  const rows = memory.tensors.filter((/** @type {any} */ one) => one.first <= place && place <= one.last).slice(0, SEARCHED);
  return { title: `${memory.totals[place]} alive at ${memory.names[place] ?? place}${place === memory.peak_at ? " (the peak)" : ""}`, rows };
}
