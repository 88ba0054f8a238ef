// A list of rows of which only those in sight are in the page.

import { make, closest } from "./dom.js";

/**
 * A list of rows of one height, of which only those in sight are in the page: a hundred thousand cost no more than forty.
 * `build` makes the row of an item; the list places it. Arrow keys, Page Up and Down, Home and End move from the `chosen`
 * row and `pick` another. A click, Enter and Space `press` the row, which picks it unless somebody says otherwise.
 */
export class VirtualList {
  /**
   * @param {{name: string, label: string, height: number, build: (item: any, at: number) => HTMLElement,
   *          pick?: (item: any, at: number) => void, press?: (item: any, at: number) => void, chosen?: () => number}} options
   * @param {AbortSignal} signal
   */
  constructor(options, signal) {
    this.options = options;
    /** @type {any[]} */
    this.items = [];
    this.element = make("div", "idj-list", "", { role: options.pick ? "listbox" : "region", tabindex: 0, "aria-label": options.label, "data-idj": options.name });
    this.sheet = make("div", "idj-sheet");
    this.element.append(this.sheet);
    this.element.addEventListener("scroll", () => this.draw());
    this.element.addEventListener("keydown", (event) => this.move(event));
    this.sheet.addEventListener("click", (event) => {
      const row = closest(event, "[data-at]");
      if (row) this.press(Number(row.getAttribute("data-at")));
      this.element.focus({ preventScroll: true });
    });
    const watch = new ResizeObserver(() => this.reveal());
    watch.observe(this.element);
    signal.addEventListener("abort", () => watch.disconnect());
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

  /** Bring a row well into sight, with what stands before it, unless it is in sight. @param {number} at */
  show(at) {
    const { height } = this.options;
    const { scrollTop, clientHeight } = this.element;
    if (at >= 0 && (at * height < scrollTop || (at + 1) * height > scrollTop + clientHeight)) this.element.scrollTop = Math.max(0, at * height - clientHeight / 3);
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
    /** @type {Record<string, number>} */
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -count, End: count };
    const step = steps[event.key];
    if (!step || !count) return;
    event.preventDefault();
    this.pick(Math.min(count - 1, Math.max(0, (this.options.chosen?.() ?? -1) + step)));
  }
}
