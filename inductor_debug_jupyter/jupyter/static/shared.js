// What every panel needs. Python puts this text in front of each panel's own module (see panels/asset.py), because an
// anywidget module stands alone. Data becomes text nodes and attributes only: there is no innerHTML anywhere.

/**
 * @typedef {{finding: number|null, compile_id: string, stage: string, node: string, label: string, line: number}} Selection
 * @typedef {{get(name: string): any, set(name: string, value: any): void, save_changes(): void,
 *            on(event: string, callback: () => void): void, off(event: string, callback: () => void): void}} Model
 */

/**
 * A new element with a class, text and attributes.
 * @param {string} tag
 * @param {string} [cls]
 * @param {string} [text]
 * @param {Record<string, string|number>} [attributes]
 * @returns {HTMLElement}
 */
function make(tag, cls = "", text = "", attributes = {}) {
  const element = document.createElement(tag);
  if (cls) element.className = cls;
  if (text) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}

/**
 * Choose something, everywhere: the models are linked in the browser, and Python is told.
 * @param {Model} model
 * @param {Selection} selection
 * @param {string} [tab] open this tab too
 */
function choose(model, selection, tab = "") {
  model.set("selection", selection);
  if (tab) model.set("tab", tab);
  model.save_changes();
}

/**
 * Call `draw` now and whenever one of the named traits changes, until `signal` aborts.
 * @param {Model} model
 * @param {string[]} names
 * @param {AbortSignal|undefined} signal
 * @param {() => void} draw
 */
function follow(model, names, signal, draw) {
  for (const name of names) {
    model.on(`change:${name}`, draw);
    signal?.addEventListener("abort", () => model.off(`change:${name}`, draw));
  }
  draw();
}

/**
 * Show the panel only in the tabs that it belongs to.
 * @param {Model} model
 * @param {HTMLElement} el
 * @param {AbortSignal|undefined} signal
 */
function showInTabs(model, el, signal) {
  follow(model, ["tab"], signal, () => el.classList.toggle("idj-hidden", !model.get("tabs").includes(model.get("tab"))));
}

/**
 * Make an element a button for mouse and keyboard. Keys that JupyterLab also knows stay here.
 * @param {HTMLElement} element
 * @param {() => void} action
 */
function pressable(element, action) {
  element.tabIndex = 0;
  if (!element.hasAttribute("role")) element.setAttribute("role", "button");
  element.addEventListener("click", action);
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    action();
  });
}

/** A button that copies; without a clipboard the text is chosen, to be copied by hand. @param {HTMLElement} shown @param {string} text @returns {HTMLElement} */
function copyButton(shown, text) {
  const copy = make("button", "", "Copy", { "data-idj": "copy" });
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text);
      copy.textContent = "Copied";
    } catch {
      getSelection()?.selectAllChildren(shown);
    }
  });
  return copy;
}

/**
 * Keep keys typed in a panel from reaching JupyterLab's command mode (where "d d" deletes the cell).
 * @param {HTMLElement} el
 */
function keepKeys(el) {
  el.setAttribute("data-lm-suppress-shortcuts", "true");
  el.addEventListener("keydown", (event) => event.stopPropagation());
}

/**
 * A list of rows of one height, of which only those in sight are in the page: a hundred thousand cost no more than forty.
 * `build` makes the row of an item; the list places it. Arrow keys, Page Up and Down, Home and End move from the `chosen`
 * row and `pick` another. A click, Enter and Space `press` the row, which picks it unless somebody says otherwise.
 */
class VirtualList {
  /**
   * @param {{name: string, label: string, height: number, build: (item: any, at: number) => HTMLElement,
   *          pick?: (item: any, at: number) => void, press?: (item: any, at: number) => void, chosen?: () => number}} options
   * @param {AbortSignal} [signal]
   */
  constructor(options, signal) {
    this.options = options;
    /** @type {any[]} */
    this.items = [];
    this.element = make("div", "idj-list", "", { role: "listbox", tabindex: 0, "aria-label": options.label, "data-idj": options.name });
    this.sheet = make("div", "idj-sheet");
    this.element.append(this.sheet);
    this.element.addEventListener("scroll", () => this.draw());
    this.element.addEventListener("keydown", (event) => this.move(event));
    this.sheet.addEventListener("click", (event) => {
      const row = event.target.closest?.("[data-at]");
      if (row) this.press(Number(row.getAttribute("data-at")));
      this.element.focus({ preventScroll: true });
    });
    const watch = new ResizeObserver(() => this.reveal());
    watch.observe(this.element);
    signal?.addEventListener("abort", () => watch.disconnect());
  }

  /** @param {any[]} items */
  fill(items) {
    this.items = items;
    this.sheet.style.height = `${items.length * this.options.height}px`;
    this.draw();
  }

  draw() {
    const { height, build } = this.options;
    const first = Math.max(0, Math.floor(this.element.scrollTop / height) - 6);
    const last = Math.min(this.items.length, first + Math.ceil((this.element.clientHeight || 480) / height) + 12);
    this.sheet.replaceChildren(
      ...this.items.slice(first, last).map((item, offset) => {
        const row = build(item, first + offset);
        row.setAttribute("data-at", String(first + offset));
        row.style.top = `${(first + offset) * height}px`;
        return row;
      }),
    );
  }

  /** Scroll as little as needed to see a row, by default the chosen one. @param {number} [at] */
  reveal(at = this.options.chosen?.() ?? -1) {
    const { height } = this.options;
    if (at >= 0 && this.element.clientHeight) {
      if (at * height < this.element.scrollTop) this.element.scrollTop = at * height;
      else if ((at + 1) * height > this.element.scrollTop + this.element.clientHeight) this.element.scrollTop = (at + 1) * height - this.element.clientHeight;
    }
    this.draw();
  }

  /** @param {number} at */
  pick(at) {
    if (this.items[at]) this.options.pick?.(this.items[at], at);
  }

  /** @param {number} at */
  press(at) {
    if (this.items[at]) (this.options.press ?? this.options.pick)?.(this.items[at], at);
  }

  /** @param {KeyboardEvent} event */
  move(event) {
    if (event.target === this.element && (event.key === "Enter" || event.key === " ")) {
      event.preventDefault();
      this.press(this.options.chosen?.() ?? -1);
      return;
    }
    const page = Math.max(1, Math.floor(this.element.clientHeight / this.options.height) - 1);
    const count = this.items.length;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count }[event.key];
    if (!step || !count) return;
    event.preventDefault();
    this.pick(Math.min(count - 1, Math.max(0, (this.options.chosen?.() ?? -1) + step)));
  }
}

/**
 * One line of the user's source; pressing it chooses what stands on it.
 * @param {any} line @param {boolean} lit @param {Model} model @param {number} [indent] @returns {HTMLElement}
 */
function sourceLine(line, lit, model, indent = 0) {
  const row = make("div", "idj-line", "", { "data-idj": "line", "data-line": line.number });
  row.classList.toggle("idj-lit", lit);
  const icon = { error: "✗", warning: "⚠", info: "ℹ", break: "✂" }[line.mark] ?? "";
  row.append(
    make("span", `idj-mark idj-${line.mark === "break" ? "warning" : line.mark}`, icon, line.mark === "break" ? { title: "graph break" } : {}),
    make("span", "idj-number", String(line.number)),
    make("code", "", line.text.slice(indent) || " "),
  );
  if (line.selection) {
    row.classList.add("idj-link");
    pressable(row, () => choose(model, line.selection));
  }
  return row;
}
