/** The middle pane: one laid-out graph to pan, zoom, search and choose nodes in. Python lays out; this only shows. */

const SVG = "http://www.w3.org/2000/svg";
const READABLE = 1;
const TOO_SMALL = 0.65;
const ALLOWED = new Set(["svg", "g", "title", "polygon", "polyline", "path", "ellipse", "circle", "rect", "line", "text", "tspan"]);
const UNSAFE = /^(on|href$|xlink:|style$|id$)/i;

/**
 * Graphviz's SVG as elements of this page, with nothing in it that could act.
 * @param {string} text
 * @returns {SVGSVGElement|null}
 */
function parsePicture(text) {
  const root = new DOMParser().parseFromString(text, "image/svg+xml").documentElement;
  if (root.localName !== "svg") return null;
  for (const element of [root, ...root.querySelectorAll("*")]) {
    if (!ALLOWED.has(element.localName) || element.namespaceURI !== SVG) {
      element.remove();
      continue;
    }
    for (const attribute of [...element.attributes]) if (UNSAFE.test(attribute.name)) element.removeAttribute(attribute.name);
  }
  return document.importNode(root, true);
}

/** Pan and zoom of one picture, as a viewBox. */
class Camera {
  /** @param {SVGSVGElement} svg @param {HTMLElement} area */
  constructor(svg, area) {
    const [x, y, width, height] = (svg.getAttribute("viewBox") ?? "0 0 100 100").split(/[\s,]+/).map(Number);
    this.whole = { x, y, width, height };
    this.svg = svg;
    this.area = area;
    this.scale = 1;
    this.x = x + width / 2;
    this.y = y + height / 2;
    svg.removeAttribute("width");
    svg.removeAttribute("height");
    svg.setAttribute("preserveAspectRatio", "xMidYMid meet");
  }
  apply() {
    const width = this.area.clientWidth / this.scale;
    const height = this.area.clientHeight / this.scale;
    this.svg.setAttribute("viewBox", `${this.x - width / 2} ${this.y - height / 2} ${width} ${height}`);
  }
  fitScale() {
    return Math.min(1.4, this.area.clientWidth / this.whole.width, this.area.clientHeight / this.whole.height);
  }
  fit() {
    this.scale = this.fitScale();
    this.x = this.whole.x + this.whole.width / 2;
    this.y = this.whole.y + this.whole.height / 2;
    this.apply();
  }
  /** Readable from the top, when the whole would be too small. */
  start() {
    this.fit();
    if (this.scale >= READABLE) return;
    this.scale = READABLE;
    this.y = this.whole.y + this.area.clientHeight / this.scale / 2;
    this.apply();
  }
  /** @param {number} factor @param {number} [px] @param {number} [py] the point that stays where it is */
  zoom(factor, px = this.area.clientWidth / 2, py = this.area.clientHeight / 2) {
    const before = this.scale;
    this.scale = Math.min(4, Math.max(Math.min(0.05, this.fitScale()), before * factor));
    const shift = 1 / before - 1 / this.scale;
    this.x += (px - this.area.clientWidth / 2) * shift;
    this.y += (py - this.area.clientHeight / 2) * shift;
    this.apply();
  }
  /** @param {number} dx @param {number} dy in pixels */
  pan(dx, dy) {
    this.x -= dx / this.scale;
    this.y -= dy / this.scale;
    this.apply();
  }
  /** Move only as far as needed to see the element, and close enough to read it. @param {SVGGElement} element */
  reveal(element) {
    const graph = element.ownerSVGElement.querySelector("g.graph");
    const box = element.getBBox();
    const at = graph.transform.baseVal.consolidate()?.matrix ?? { e: 0, f: 0, a: 1, d: 1 };
    const x = box.x * at.a + at.e + box.width / 2;
    const y = box.y * at.d + at.f + box.height / 2;
    const halfWidth = this.area.clientWidth / this.scale / 2 - box.width / 2 - 6;
    const halfHeight = this.area.clientHeight / this.scale / 2 - box.height / 2 - 6;
    const inSight = Math.abs(x - this.x) <= halfWidth && Math.abs(y - this.y) <= halfHeight;
    if (inSight && this.scale >= TOO_SMALL) return;
    if (this.scale < TOO_SMALL) this.scale = READABLE;
    this.x = this.within(x, this.whole.x, this.whole.width, this.area.clientWidth);
    this.y = this.within(y, this.whole.y, this.whole.height, this.area.clientHeight);
    this.apply();
  }
  /** The centre nearest to `at` that shows no emptiness beyond the picture's edge. @param {number} at @param {number} from @param {number} length @param {number} pixels */
  within(at, from, length, pixels) {
    const half = pixels / this.scale / 2;
    if (2 * half >= length) return from + length / 2;
    return Math.min(from + length - half, Math.max(from + half, at));
  }
}

/** Toolbar. @param {Record<string, HTMLElement>} parts @returns {HTMLElement} */
function toolbar(parts) {
  const bar = make("div", "idj-bar");
  parts.stage = make("select", "", "", { "aria-label": "Graph and stage", "data-idj": "stage" });
  parts.search = make("input", "", "", { type: "search", placeholder: "Search nodes", "aria-label": "Search nodes", "data-idj": "search" });
  parts.tally = make("span", "idj-quiet idj-tally");
  for (const [name, text, title] of [["out", "−", "Zoom out (−)"], ["in", "+", "Zoom in (+)"], ["fit", "Fit", "Whole graph (0)"]]) {
    parts[name] = make("button", "", text, { title, "aria-label": title, "data-idj": `zoom-${name}` });
  }
  parts.open = make("button", "", "Open group", { title: "Draw what is inside the chosen group", "data-idj": "open-group" });
  parts.whole = make("button", "", "Whole graph", { "data-idj": "whole-graph" });
  bar.append(parts.stage, parts.search, parts.tally, parts.open, parts.whole, parts.out, parts.in, parts.fit);
  return bar;
}

class GraphPane {
  /** @param {Model} model @param {HTMLElement} el */
  constructor(model, el) {
    this.model = model;
    /** @type {Record<string, any>} */
    this.parts = {};
    /** @type {Map<string, SVGGElement>} drawn id → its group */
    this.groups = new Map();
    /** @type {Camera|null} */
    this.camera = null;
    this.placed = false;
    /** @type {{compile_id: string, stage: string}|null} the graph that Python was asked for */
    this.goal = null;
    /** @type {string[]} drawn ids that match the search */
    this.found = [];
    this.area = make("div", "idj-area", "", { tabindex: 0, role: "application", "data-idj": "graph",
      "aria-label": "Graph. Up and down arrows choose the previous or next node, plus and minus zoom, 0 shows the whole graph" });
    this.status = make("div", "idj-status", "", { role: "status", "data-idj": "status" });
    const stack = make("div", "idj-stack");
    stack.append(this.area, this.status);
    el.replaceChildren(toolbar(this.parts), stack);
  }

  fillChoices() {
    const choices = this.model.get("choices");
    this.parts.stage.replaceChildren(...choices.map((choice, number) => make("option", "", choice.title, { value: number })));
    this.parts.stage.hidden = !choices.length;
  }

  /** A new picture came: parse it, tag its nodes, and place it. */
  showPicture() {
    const picture = this.model.get("picture");
    this.groups.clear();
    this.camera = null;
    this.placed = false;
    const svg = picture.svg ? parsePicture(picture.svg) : null;
    this.area.replaceChildren(...(svg ? [svg] : []));
    if (svg) {
      for (const group of svg.querySelectorAll("g.node")) this.tag(group, picture.nodes);
      for (const title of svg.querySelectorAll("g.edge > title, g.graph > title")) title.remove();
      svg.querySelector("g.graph > polygon")?.remove();
      this.camera = new Camera(svg, this.area);
    }
    this.light();
    this.place();
    this.find();
    this.tell();
  }

  /** @param {SVGGElement} group @param {Record<string, any>} nodes */
  tag(group, nodes) {
    const title = group.querySelector("title");
    const id = title?.textContent ?? "";
    const node = nodes[id];
    if (!node || !title) return;
    title.textContent = node.title;
    group.setAttribute("data-idj", node.kind === "group" ? "node" : node.kind);
    group.setAttribute("data-node", node.selection.node);
    group.setAttribute("data-id", id);
    this.groups.set(id, group);
  }

  /** The camera needs a size, so a hidden pane waits for its first. */
  place() {
    if (!this.camera || !this.area.clientWidth) return;
    if (this.placed) this.camera.apply();
    else this.camera.start();
    const first = this.placed ? null : this.area.querySelector('[data-idj="node"]');
    this.placed = true;
    if (this.area.querySelector('[data-idj="node"].idj-lit')) this.reveal();
    else if (first && this.camera.scale >= READABLE) this.camera.reveal(first);
  }

  reveal() {
    const lit = this.area.querySelector('[data-idj="node"].idj-lit');
    if (lit && this.placed) this.camera?.reveal(lit);
  }

  /** Light what is chosen: the node, or all nodes of a chosen line; outline what belongs to the same finding. */
  light() {
    const chosen = this.model.get("selection");
    const picture = this.model.get("picture");
    const here = chosen.compile_id === picture.compile_id && chosen.stage === picture.stage;
    const line = `${chosen.label}:${chosen.line}`;
    for (const [id, group] of this.groups) {
      const node = picture.nodes[id];
      const onLine = chosen.line > 0 && node.lines.includes(line);
      const lit = chosen.node ? here && node.names.includes(chosen.node) : onLine && node.kind !== "copy" && node.kind !== "portal";
      const kin = chosen.finding !== null && node.findings.includes(chosen.finding);
      group.classList.toggle("idj-lit", lit);
      group.classList.toggle("idj-kin", !lit && (kin || (onLine && node.kind !== "group")));
    }
    this.parts.open.hidden = !this.litGroup();
    this.parts.whole.hidden = !picture.inside;
    this.reveal();
  }

  /** Somebody wants that graph to be on show: until Python sends it, the old one is greyed. @param {any} goal */
  aim(goal) {
    const known = this.model.get("choices").some((choice) => choice.compile_id === goal.compile_id && choice.stage === goal.stage);
    if (known) this.goal = goal;
    this.tell();
  }

  /** Say what is happening, or what was simplified. */
  tell() {
    const picture = this.model.get("picture");
    const same = (one) => one.compile_id === picture.compile_id && one.stage === picture.stage;
    const answered = (one) => one.compile_id === picture.answers?.compile_id && one.stage === picture.answers?.stage;
    if (this.goal && (same(this.goal) || answered(this.goal))) this.goal = null;
    this.area.classList.toggle("idj-waiting", Boolean(this.goal));
    this.status.textContent = this.goal ? `Drawing ${this.goal.compile_id} ${this.goal.stage}…` : [picture.inside && `Inside ${picture.inside}`, picture.note].filter(Boolean).join(" · ");
    const at = this.model.get("choices").findIndex(this.goal ? (choice) => choice.compile_id === this.goal.compile_id && choice.stage === this.goal.stage : same);
    if (at < 0) return;
    this.parts.stage.value = String(at);
    this.parts.stage.title = this.model.get("choices")[at].title;
  }

  /** The drawn group that is lit, if one is: the id. @returns {string} */
  litGroup() {
    const nodes = this.model.get("picture").nodes;
    for (const [id, group] of this.groups) if (nodes[id].kind === "group" && group.classList.contains("idj-lit")) return id;
    return "";
  }

  /** Ask for the picture of one group, or (without an id) for the whole graph again. @param {string} id */
  openGroup(id) {
    const { compile_id, stage, nodes } = this.model.get("picture");
    this.model.set("wanted", { compile_id, stage, inside: id ? nodes[id].names[0] : "", at: Date.now() });
    this.model.save_changes();
  }

  find() {
    const wanted = this.parts.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const nodes = this.model.get("picture").nodes ?? {};
    this.found = [];
    for (const [id, group] of this.groups) {
      const hit = wanted.length > 0 && nodes[id].kind !== "copy" && nodes[id].kind !== "portal" && wanted.every((word) => nodes[id].search.includes(word));
      group.classList.toggle("idj-found", hit);
      if (hit) this.found.push(id);
    }
    this.parts.tally.textContent = wanted.length ? `${this.found.length} found` : "";
  }

  /** @param {string} id */
  chooseDrawn(id) {
    choose(this.model, this.model.get("picture").nodes[id].selection);
  }

  /** The next (or previous) of these drawn nodes, after the lit one. @param {string[]} ids @param {number} step */
  step(ids, step) {
    if (!ids.length) return;
    const at = ids.findIndex((id) => this.groups.get(id)?.classList.contains("idj-lit"));
    this.chooseDrawn(ids[at < 0 ? 0 : (at + step + ids.length) % ids.length]);
  }

  /** The chooser: the finding and the line stay chosen, so that the other graph lights what came of the same line. */
  want() {
    const { compile_id, stage } = this.model.get("choices")[Number(this.parts.stage.value)];
    this.model.set("wanted", { compile_id, stage, at: Date.now() });
    choose(this.model, { ...this.model.get("selection"), compile_id: "", stage: "", node: "" });
    this.aim({ compile_id, stage });
  }
}

/** Mouse: drag pans, a click chooses, the wheel zooms once the graph has been clicked (or with Ctrl), so that a notebook still scrolls. @param {GraphPane} pane */
function listenToMouse(pane) {
  const { area } = pane;
  /** @type {{x: number, y: number, moved: boolean}|null} */
  let drag = null;
  area.addEventListener("pointerdown", (event) => {
    if (event.button === 0) drag = { x: event.clientX, y: event.clientY, moved: false };
  });
  area.addEventListener("pointermove", (event) => {
    if (!drag) return;
    const [dx, dy] = [event.clientX - drag.x, event.clientY - drag.y];
    if (!drag.moved && Math.hypot(dx, dy) < 4) return;
    if (!drag.moved) area.setPointerCapture(event.pointerId);
    drag = { x: event.clientX, y: event.clientY, moved: true };
    pane.camera?.pan(dx, dy);
  });
  area.addEventListener("pointerup", () => setTimeout(() => (drag = null)));
  area.addEventListener("pointercancel", () => (drag = null));
  area.addEventListener("click", (event) => {
    area.focus({ preventScroll: true });
    const id = event.target.closest?.("[data-id]")?.getAttribute("data-id");
    if (id && !drag?.moved) pane.chooseDrawn(id);
  });
  area.addEventListener("dblclick", (event) => {
    const id = event.target.closest?.("[data-id]")?.getAttribute("data-id");
    if (id && pane.model.get("picture").nodes[id].kind === "group") pane.openGroup(id);
  });
  area.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== area) return;
    event.preventDefault();
    const box = area.getBoundingClientRect();
    pane.camera?.zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });
}

/** @param {GraphPane} pane */
function listenToKeys(pane) {
  const { area, parts } = pane;
  area.addEventListener("keydown", (event) => {
    const ids = [...pane.groups.keys()].filter((id) => ["node", "group"].includes(pane.model.get("picture").nodes[id].kind));
    const actions = {
      ArrowDown: () => pane.step(ids, 1),
      ArrowUp: () => pane.step(ids, -1),
      ArrowLeft: () => pane.camera?.pan(40, 0),
      ArrowRight: () => pane.camera?.pan(-40, 0),
      "+": () => pane.camera?.zoom(1.25),
      "=": () => pane.camera?.zoom(1.25),
      "-": () => pane.camera?.zoom(0.8),
      0: () => pane.camera?.fit(),
    };
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  });
  parts.search.addEventListener("input", () => pane.find());
  parts.search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") pane.step(pane.found, event.shiftKey ? -1 : 1);
  });
  parts.out.addEventListener("click", () => pane.camera?.zoom(0.8));
  parts.in.addEventListener("click", () => pane.camera?.zoom(1.25));
  parts.open.addEventListener("click", () => pane.openGroup(pane.litGroup()));
  parts.whole.addEventListener("click", () => pane.openGroup(""));
  parts.fit.addEventListener("click", () => pane.camera?.fit());
  parts.stage.addEventListener("change", () => pane.want());
}

function render({ model, el, signal }) {
  el.classList.add("idj", "idj-pane", "idj-graph");
  keepKeys(el);
  const pane = new GraphPane(model, el);
  showInTabs(model, el, signal);
  listenToMouse(pane);
  listenToKeys(pane);
  const watch = new ResizeObserver(() => pane.place());
  watch.observe(pane.area);
  signal?.addEventListener("abort", () => watch.disconnect());
  follow(model, ["choices"], signal, () => pane.fillChoices());
  follow(model, ["picture"], signal, () => pane.showPicture());
  follow(model, ["selection"], signal, () => {
    pane.light();
    if (model.get("selection").stage) pane.aim(model.get("selection"));
  });
}

export default { render };
