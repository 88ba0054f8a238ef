// What the panel shows: the parts that Python sends, and what the user chose since. One store a model; every view of the
// model draws from it.

/**
 * @typedef {{finding: number|null, compile_id: string, stage: string, node: string, label: string, line: number, kernel: string}} Selection
 * @typedef {{get(name: string): any, send(content: any): void, widget_manager?: any, isSaved?: boolean,
 *            on(event: string, callback: (...values: any[]) => void): void, off(event: string, callback: (...values: any[]) => void): void}} Model
 * @typedef {{store: Store, wire: import("./wire.js").Wire, signal: AbortSignal}} Context what a pane is given
 */

/** Parts that are the page's own: which panes wait, what failed in which, whether Python is there. */
const LOCAL = { busy: {}, failed: {}, connection: "live" };

export class Store {
  /** @param {Model} model @param {string[]} parts */
  constructor(model, parts) {
    this.model = model;
    /** @type {Record<string, any>} */
    this.values = { ...LOCAL };
    /** @type {{parts: Set<string>, draw: () => void}[]} */
    this.followers = [];
    /** @type {Set<string>} */
    this.changed = new Set();
    /** Parts that the user changed and Python has not confirmed: what it sends of them is older. @type {Map<string, number>} */
    this.ahead = new Map();
    for (const part of parts) {
      this.values[part] = model.get(part);
      model.on(`change:${part}`, () => {
        if (!this.ahead.get(part)) this.put(part, model.get(part));
      });
    }
  }

  /** @param {string} part @returns {any} */
  get(part) {
    return this.values[part];
  }

  /** Change a part, here only; those who follow it draw once for all that changes now. @param {string} part @param {any} value */
  put(part, value) {
    if (this.values[part] === value) return;
    this.values[part] = value;
    if (!this.changed.size) queueMicrotask(() => this.tell());
    this.changed.add(part);
  }

  tell() {
    const changed = this.changed;
    this.changed = new Set();
    for (const { parts, draw } of [...this.followers]) {
      if ([...parts].some((part) => changed.has(part))) draw();
    }
  }

  /**
   * Call `draw` now and whenever one of the parts changed, until `signal` aborts.
   * @param {string[]} parts @param {AbortSignal} signal @param {() => void} draw
   */
  follow(parts, signal, draw) {
    const follower = { parts: new Set(parts), draw };
    this.followers.push(follower);
    signal.addEventListener("abort", () => {
      this.followers = this.followers.filter((each) => each !== follower);
    });
    draw();
  }

  /**
   * While a request that confirms the user's own change is on its way, Python's value of the part is older; after the last
   * answer it is the one that counts: Python may know more than the page did. @param {string} part @param {number} by
   */
  lead(part, by) {
    const ahead = (this.ahead.get(part) ?? 0) + by;
    this.ahead.set(part, ahead);
    if (by < 0 && !ahead) this.put(part, this.model.get(part));
  }
}
