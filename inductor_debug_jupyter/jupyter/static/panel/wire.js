// The one way to Python. A request is a message with an id; Python answers "done" or "failed" with that id, and what changed
// is in the store by then. Here, and only here, is known what is running, what failed, and whether Python is still there.

/** @typedef {import("./store.js").Store} Store @typedef {import("./store.js").Model} Model @typedef {import("./store.js").Selection} Selection */

/** Of these only the newest matters: while one is on its way the next waits, and replaces one that waits already. */
const NEWEST_ONLY = new Set(["select", "select_node", "show_difference", "open_tab", "search_graph", "show_output", "show_diff_slice", "show_memory", "show_trial", "would_recompile"]);
const GONE = "this panel is no longer connected; run the cell again";
const NOTHING = { finding: null, compile_id: "", stage: "", node: "", label: "", line: 0, kernel: "" };

/** @typedef {{kind: string, fields: any, pane: string, words: string, sets: string}} Request */

export class Wire {
  /** @param {Model} model @param {Store} store */
  constructor(model, store) {
    this.model = model;
    this.store = store;
    this.last = 0;
    /** @type {Map<number, Request>} */
    this.running = new Map();
    /** @type {Map<string, Request>} */
    this.waiting = new Map();
    model.on("msg:custom", (message) => this.hear(message));
    // The front end says so when the kernel restarts or closes the comm; whatever comes from Python later takes it back.
    model.on("comm_live_update", () => this.disconnect());
    model.on("change", () => store.put("connection", "live"));
  }

  /** Whether Python is a page's saved pieces, which cannot compute anything. @returns {boolean} */
  get isSaved() {
    return Boolean(this.model.isSaved);
  }

  /**
   * Ask Python for something.
   * @param {string} kind as in wire.py
   * @param {Record<string, any>} [fields]
   * @param {{pane?: string, words?: string, sets?: string}} [how] the pane that waits, what is said there meanwhile, and the part
   *   of the store that the user has changed by this already
   */
  ask(kind, fields = {}, { pane = "", words = "", sets = "" } = {}) {
    const request = { kind, fields, pane, words, sets };
    const { [pane]: _, ...failed } = this.store.get("failed");
    if (pane in this.store.get("failed")) this.store.put("failed", failed);
    if (this.store.get("connection") === "gone") return this.fail(pane, GONE);
    const before = this.waiting.get(kind);
    if (NEWEST_ONLY.has(kind) && [...this.running.values()].some((one) => one.kind === kind)) {
      if (before?.sets) this.store.lead(before.sets, -1);
      this.waiting.set(kind, request);
    } else this.send(request);
    if (sets) this.store.lead(sets, 1);
    this.showBusy();
  }

  /** @param {Request} request */
  send(request) {
    this.last += 1;
    this.running.set(this.last, request);
    this.model.send({ ask: request.kind, id: this.last, ...request.fields });
  }

  /** An answer came. @param {any} message */
  hear(message) {
    const request = this.running.get(message?.id);
    this.store.put("connection", "live");
    if (!request) return;
    if (message.answer === "progress") request.words = message.text;
    else {
      this.running.delete(message.id);
      if (request.sets) this.store.lead(request.sets, -1);
      if (message.answer === "failed") this.fail(request.pane, message.error);
      const next = this.waiting.get(request.kind);
      if (next) {
        this.waiting.delete(request.kind);
        this.send(next);
      }
    }
    this.showBusy();
  }

  /** @param {string} pane @param {string} line */
  fail(pane, line) {
    this.store.put("failed", { ...this.store.get("failed"), [pane]: line });
  }

  /** Which panes wait, and for what. */
  showBusy() {
    /** @type {Record<string, string>} */
    const busy = {};
    for (const { pane, words } of [...this.running.values(), ...this.waiting.values()]) if (words) busy[pane] = words;
    this.store.put("busy", busy);
  }

  /** Python is gone: what was asked will not be answered. */
  disconnect() {
    this.store.ahead.clear(); // what the user chose last stays
    this.running.clear();
    this.waiting.clear();
    this.showBusy();
    this.store.put("connection", "gone");
  }

  /** Choose something: every pane lights it at once, then Python hears of it. @param {Partial<Selection>} selection @param {string} [tab] */
  choose(selection, tab = "") {
    const chosen = { ...NOTHING, ...selection };
    this.store.put("selection", chosen);
    this.ask("select", { selection: chosen }, { sets: "selection" });
    if (tab) this.open(tab);
  }

  /** @param {string} tab */
  open(tab) {
    if (tab === this.store.get("tab")) return;
    this.store.put("tab", tab);
    this.ask("open_tab", { tab }, { pane: tab, words: "Opening…", sets: "tab" });
  }
}
