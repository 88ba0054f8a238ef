import { make, closest } from "./dom.js";
import { Camera, READABLE } from "./camera.js";
import { Minimap, savePng, saveSvg, svgText } from "./pictures.js";

/**
 * The middle pane: one laid-out graph to pan, zoom, search and choose nodes in. Python lays out, opens and closes boxes,
 * searches and colours (see panel/graph.py); this shows the answers and says what was clicked.
 */

const SVG = "http://www.w3.org/2000/svg";
const ALLOWED = new Set(["svg", "g", "title", "polygon", "polyline", "path", "ellipse", "circle", "rect", "line", "text", "tspan"]);
/** What a box that opens or closes keeps in place: its head. */
const HEAD = 12;
const UNSAFE = /^(on|href$|xlink:|style$|id$)/i;

/**
 * The picture as elements of this page, with nothing in it that could act.
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
  return /** @type {any} */ (document.importNode(root, true));
}

/** Toolbar. @param {Record<string, HTMLElement>} parts @returns {HTMLElement} */
function toolbar(parts) {
  const bar = make("div", "idj-bar");
  const button = (name, text, title, label) => {
    parts[name] = make("button", "", text, { title, "aria-label": title, "data-idj": label });
    return parts[name];
  };
  parts.stage = make("select", "", "", { "aria-label": "Graph and stage", "data-idj": "stage" });
  parts.search = make("input", "", "", { type: "search", placeholder: "Search", title: "Any name: an op (also one that was taken apart), a module's path or class, a line such as model.py:12; Enter goes to the next", "aria-label": "Search the graph; Enter goes to the next", "data-idj": "search" });
  parts.tally = make("span", "idj-quiet idj-tally", "", { "data-idj": "tally" });
  parts.colour = make("select", "idj-colour", "", { "aria-label": "Colour by", title: "Colour by", "data-idj": "colour" });
  const boxes = make("span", "idj-buttons");
  boxes.append(button("openAll", "⊞", "Open all boxes, as many as can be drawn", "expand-all"), button("closeAll", "⊟", "Close all boxes", "collapse-all"));
  const zoom = make("span", "idj-buttons");
  zoom.append(button("out", "−", "Zoom out (− or Ctrl + wheel)", "zoom-out"), button("in", "+", "Zoom in (+ or Ctrl + wheel)", "zoom-in"), button("fit", "Fit", "Whole graph (0)", "zoom-fit"));
  parts.save = make("select", "idj-save", "", { "aria-label": "Save the picture", title: "Save the whole picture", "data-idj": "save-picture" });
  for (const [value, text] of [["", "Save…"], ["svg", "as SVG"], ["png", "as PNG"]]) parts.save.append(make("option", "", text, { value }));
  parts.compare = make("select", "idj-compare-with", "", { "aria-label": "Compare with another stage", title: "Compare this graph with another stage, side by side", "data-idj": "compare-with" });
  bar.append(parts.stage, parts.compare, parts.save, parts.search, parts.tally, parts.colour, boxes, zoom);
  return bar;
}

/** @typedef {import("./store.js").Context & {linked?: {panes: GraphPane[]}}} GraphContext with panes that look at the same place */

export class GraphPane {
  /** @param {GraphContext} context @param {HTMLElement} el */
  constructor({ store, wire, linked }, el) {
    this.store = store;
    this.wire = wire;
    this.linked = linked;
    linked?.panes.push(this);
    /** @type {Record<string, any>} */
    this.parts = {};
    /** @type {Map<string, SVGGElement>} drawn id → its group; frames too */
    this.groups = new Map();
    /** @type {Map<string, SVGPathElement[]>} drawn id → its arrows */
    this.arrows = new Map();
    /** @type {Camera|null} */
    this.camera = null;
    this.placed = false;
    /** @type {{compile_id: string, stage: string}|null} the graph that Python was asked for */
    this.goal = null;
    /** @type {{box: string, px: number, py: number}|null} where the box that opens or closes was */
    this.held = null;
    /** All boxes were opened: the new picture begins readable, wherever the old one was. */
    this.openedAll = false;
    /** Shapes that are brought in sight although nothing is lit. @type {string[]} */
    this.near = [];
    /** The shape that the arrow keys are on. */
    this.cursor = "";
    this.area = make("div", "idj-area", "", { tabindex: 0, role: "application", "data-idj": "graph",
      "aria-label": "Graph. Up and down arrows go to the previous or next shape, Enter opens a box, Backspace closes it, plus and minus zoom, 0 shows the whole graph" });
    this.legend = make("div", "idj-legend", "", { "data-idj": "legend" });
    this.status = make("div", "idj-status", "", { role: "status", "data-idj": "status" });
    const foot = make("div", "idj-foot");
    foot.append(this.legend, this.status);
    const stack = make("div", "idj-stack");
    this.minimap = new Minimap((move) => this.look(move));
    this.hint = make("div", "idj-hint-over", "Ctrl + wheel zooms; or click the graph first, then the wheel alone does", { "data-idj": "zoom-hint" });
    this.hint.hidden = true;
    stack.append(this.area, this.minimap.element, this.hint);
    el.replaceChildren(toolbar(this.parts), stack, foot);
  }

  get picture() {
    return this.store.get("graph");
  }

  /** Look elsewhere, and with this pane those that are linked. @param {(camera: Camera) => void} move */
  look(move) {
    for (const pane of this.linked?.panes ?? [this]) if (pane.camera && pane.area.clientWidth) move(pane.camera);
  }

  /** Ask Python to open, close or colour. @param {string} what @param {Record<string, any>} [more] @param {string} [words] */
  act(what, more = {}, words = "") {
    this.wire.ask("graph_action", { do: what, ...more }, { pane: "graph", words });
  }

  fillChoices() {
    const choices = this.store.get("graph_choices");
    this.parts.stage.replaceChildren(...choices.map((choice, number) => make("option", "", choice.title, { value: number })));
    this.parts.stage.hidden = !choices.length;
  }

  /** The stages of this compile in their order, also those that are still to be made. @returns {string[]} */
  stages() {
    const { compile_id } = this.picture;
    const made = this.store.get("graph_choices").filter((one) => one.compile_id === compile_id).map((one) => one.stage);
    return [...new Set([...made, ...(this.store.get("graphs_to_come")[compile_id] ?? [])])];
  }

  /** The other stages of this compile, to compare with. */
  fillOthers() {
    const others = this.linked || this.wire.isSaved ? [] : this.stages().filter((stage) => stage !== this.picture.stage);
    this.parts.compare.replaceChildren(make("option", "", "Compare with…", { value: "" }), ...others.map((stage) => make("option", "", stage, { value: stage })));
    this.parts.compare.hidden = !others.length;
  }

  /** Both stages side by side, the earlier one first. @param {string} other */
  compareWith(other) {
    const { compile_id, stage } = this.picture;
    const [before, after] = this.stages().filter((one) => one === stage || one === other);
    this.wire.ask("compare_stages", { compile_id, before, after }, { pane: this.store.get("tab"), words: "Matching the two graphs…" });
  }

  /** A new picture came: parse it, tag its shapes, and place it. */
  showPicture() {
    const picture = this.picture;
    const before = this.camera;
    const same = before && this.shown === `${picture.compile_id} ${picture.stage}`;
    this.shown = `${picture.compile_id} ${picture.stage}`;
    this.groups.clear();
    this.arrows.clear();
    this.camera = null;
    this.placed = false;
    const svg = picture.svg ? parsePicture(picture.svg) : null;
    this.area.replaceChildren(...(svg ? [svg] : []));
    if (svg) {
      for (const group of svg.querySelectorAll("g.node, g.frame")) this.tag(/** @type {SVGGElement} */ (group));
      for (const path of svg.querySelectorAll("path")) {
        for (const id of path.classList) if (this.groups.has(id)) this.arrows.set(id, [...(this.arrows.get(id) ?? []), path]);
      }
      this.camera = new Camera(svg, this.area);
      this.camera.onMove = () => this.minimap.follow();
      if (same && this.area.clientWidth && !this.openedAll) this.keepPlace(this.camera, before);
    }
    this.fillColours();
    this.fillOthers();
    this.light();
    this.place();
    this.showPaint();
    this.showFound();
    this.tell();
    this.openedAll = false;
  }

  /** Tell once that the wheel can zoom: without Ctrl or a click it scrolls the notebook. */
  hintAtZoom() {
    this.hint.hidden = false;
    clearTimeout(this.hinting);
    this.hinting = setTimeout(() => (this.hint.hidden = true), 1600);
  }

  /** Save the whole picture. @param {string} kind */
  async save(kind) {
    const svg = this.area.querySelector("svg");
    if (!svg || !this.camera || !kind) return;
    const name = `${this.picture.stage}-${this.picture.compile_id}`.replace(/[^\w-]+/g, "_");
    const text = svgText(svg, this.camera.whole);
    if (kind === "svg") saveSvg(text, name);
    else await savePng(text, this.camera.whole, name);
  }

  /** The same graph with a box opened or closed: nothing else moves more than it must. @param {Camera} camera @param {Camera} before */
  keepPlace(camera, before) {
    camera.scale = before.scale;
    const held = this.held && this.held.box === this.picture.anchor ? this.held : null;
    this.held = null;
    const box = held && this.elementOf(held.box)?.getBBox();
    if (box) {
      camera.bring(box.x + box.width / 2, box.y + HEAD, held);
    } else {
      camera.x = camera.within(before.x, camera.whole.x, camera.whole.width, this.area.clientWidth);
      camera.y = camera.within(before.y, camera.whole.y, camera.whole.height, this.area.clientHeight);
    }
    camera.apply();
    this.placed = true;
  }

  /** The shape or frame that a box is drawn as. @param {string} box @returns {SVGGElement|undefined} */
  elementOf(box) {
    for (const [id, group] of this.groups) if ((this.picture.frames[id] ?? this.picture.nodes[id]).box === box && this.picture.nodes[id]?.kind !== "portal") return group;
    return undefined;
  }

  /** @param {SVGGElement} group */
  tag(group) {
    const title = group.querySelector("title");
    const id = title?.textContent ?? "";
    const node = this.picture.nodes[id];
    const frame = this.picture.frames[id];
    if (!title || !(node || frame)) return;
    title.textContent = node ? node.title : `${frame.title}\nClick to close`;
    group.setAttribute("data-idj", node ? node.kind : "frame");
    group.setAttribute("data-id", id);
    if (node) group.setAttribute("data-node", node.kind === "group" ? "" : node.node);
    group.setAttribute("data-box", (node ?? frame).box);
    this.groups.set(id, group);
  }

  /** The camera needs a size, so a hidden pane waits for its first. */
  place() {
    if (!this.camera || !this.area.clientWidth) return;
    if (this.placed) this.camera.apply();
    else this.camera.start();
    const first = this.placed ? null : this.shape('[data-idj="node"], [data-idj="group"]');
    this.placed = true;
    this.minimap.draw(this.camera, this.groups.values());
    if (this.litShape()) this.reveal();
    else if (this.bringNear(this.near)) return;
    else if (first && this.camera.scale >= READABLE) this.camera.reveal(first);
  }

  /** @param {string} selector @returns {SVGGElement|null} */
  shape(selector) {
    return this.area.querySelector(selector);
  }

  litShape() {
    return this.shape('[data-idj="node"].idj-lit, [data-idj="group"].idj-lit') ?? this.shape('[data-idj="copy"].idj-lit');
  }

  reveal() {
    const lit = this.litShape();
    if (lit && this.placed) this.camera?.reveal(lit);
  }

  /**
   * Light what is chosen: the node, or all nodes of a chosen line; tint what belongs to the same finding. What has a
   * shape of its own lights at once; which closed box a node is in, only Python knows.
   */
  light() {
    const chosen = this.store.get("selection");
    const { compile_id, stage, nodes } = this.picture;
    const here = chosen.compile_id === compile_id && chosen.stage === stage;
    const line = `${chosen.label}:${chosen.line}`;
    const told = this.store.get("graph_lit");
    const ids = new Set(told.node === chosen.node && (told.node ? here : told.line === line) ? told.ids : []);
    for (const path of this.area.querySelectorAll("path.edge.idj-lit")) path.classList.remove("idj-lit");
    for (const [id, group] of this.groups) {
      const node = nodes[id];
      if (!node) continue;
      const onLine = chosen.line > 0 && node.lines.includes(line);
      const lit = ids.has(id) || (chosen.node ? here && node.kind !== "portal" && node.names.includes(chosen.node) : onLine && node.kind === "node");
      const kin = chosen.finding !== null && node.findings.includes(chosen.finding);
      group.classList.toggle("idj-lit", lit);
      group.classList.toggle("idj-kin", !lit && (kin || onLine));
      if (lit && chosen.node) for (const path of this.arrows.get(id) ?? []) path.classList.add("idj-lit");
    }
    this.reveal();
  }

  // Two panes that look at the same place -----------------------------------------------------------------------

  /** How far down the area the lit shape is; undefined when nothing is. @returns {number|undefined} */
  levelOfLit() {
    const box = this.placed ? this.litShape()?.getBBox() : undefined;
    return box && this.camera?.toScreen(box.x, box.y + box.height / 2).py;
  }

  /** Bring the lit shape to that height. @param {number} level */
  bringLitTo(level) {
    const own = this.levelOfLit();
    if (own !== undefined) this.camera?.pan(0, level - own);
  }

  /** Bring a shape in sight that is not lit: what is chosen in the other graph would be near it. @param {string[]} ids */
  bringNear(ids) {
    this.near = ids;
    const group = ids.map((id) => this.groups.get(id)).find(Boolean);
    if (group && this.placed) this.camera?.reveal(group);
    return Boolean(group);
  }

  /** Somebody wants that graph to be on show: until Python sends it, the old one is greyed. @param {any} goal */
  aim(goal) {
    const known = this.store.get("graph_choices").some((choice) => choice.compile_id === goal.compile_id && choice.stage === goal.stage);
    if (known) this.goal = goal;
    this.tell();
  }

  /** Say what is happening, or what was simplified. */
  tell() {
    const picture = this.picture;
    const same = (one) => one.compile_id === picture.compile_id && one.stage === picture.stage;
    const answered = (one) => one.compile_id === picture.answers?.compile_id && one.stage === picture.answers?.stage;
    if (this.goal && (same(this.goal) || answered(this.goal))) this.goal = null;
    const busy = this.store.get("busy").graph ?? "";
    this.area.classList.toggle("idj-waiting", Boolean(this.goal || busy));
    this.status.textContent = this.goal ? `Drawing ${this.goal.compile_id} ${this.goal.stage}…` : busy || picture.note;
    this.parts.openAll.disabled = !picture.closed;
    this.parts.closeAll.disabled = !picture.opened;
    const at = this.store.get("graph_choices").findIndex((choice) => choice.compile_id === (this.goal ?? picture).compile_id && choice.stage === (this.goal ?? picture).stage);
    if (at < 0) return;
    this.parts.stage.value = String(at);
    this.parts.stage.title = this.store.get("graph_choices")[at].title;
  }

  // Boxes -------------------------------------------------------------------------------------------------------

  /** Open a closed box or close an open one; it stays where it is on the screen. @param {string} id */
  toggle(id) {
    const frame = this.picture.frames[id];
    const box = (frame ?? this.picture.nodes[id]).box;
    const at = this.groups.get(id)?.getBBox();
    if (at && this.camera) this.held = { box, ...this.camera.toScreen(at.x + at.width / 2, at.y + HEAD) };
    this.act(frame ? "collapse" : "expand", { box }, frame ? `Closing ${frame.title}…` : "Opening…");
  }

  /** A click on something drawn. @param {string} id */
  press(id) {
    const node = this.picture.nodes[id];
    this.point("");
    if (!node || node.kind === "group") this.toggle(id);
    else this.chooseDrawn(id);
  }

  // Colours -----------------------------------------------------------------------------------------------------

  fillColours() {
    const { colour } = this.parts;
    const colours = this.picture.colours;
    colour.replaceChildren(...colours.map(([by, title]) => make("option", "", by === "nothing" ? "Colour by…" : title, { value: by })));
    colour.hidden = colours.length < 2;
    colour.value = this.store.get("graph_paint").by;
  }

  showPaint() {
    const paint = this.store.get("graph_paint");
    this.parts.colour.value = paint.by;
    for (const [id, group] of this.groups) {
      group.querySelector(".idj-sign")?.remove();
      const entry = paint.legend[paint.of[id]];
      group.classList.toggle("idj-painted", Boolean(entry));
      if (!entry) continue;
      group.style.setProperty("--idj-paint", entry.colour);
      const rects = group.querySelectorAll("rect");
      const rect = rects[rects.length - 1];
      const sign = document.createElementNS(SVG, "text");
      sign.textContent = entry.sign;
      sign.setAttribute("class", "idj-sign");
      sign.setAttribute("x", String(Number(rect.getAttribute("x")) + 4));
      sign.setAttribute("y", String(Number(rect.getAttribute("y")) + 10));
      group.append(sign);
    }
    this.legend.replaceChildren(
      ...paint.legend.map((entry) => {
        const row = make("span", "idj-key");
        const swatch = make("span", "idj-swatch", entry.sign);
        swatch.style.setProperty("--idj-paint", entry.colour);
        row.append(swatch, make("span", "", entry.text));
        return row;
      }),
    );
  }

  // Search and choosing -----------------------------------------------------------------------------------------

  find() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => this.wire.ask("search_graph", { text: this.parts.search.value.trim() }, { pane: "graph" }), 120);
  }

  showFound() {
    const found = this.store.get("graph_found");
    for (const [id, group] of this.groups) group.classList.toggle("idj-found", Boolean(found.of[id]));
    this.parts.tally.textContent = found.text ? `${found.count.toLocaleString("en")} found` : "";
    this.tell();
  }

  /** The next (or previous) node that was found. @param {number} step */
  nextFound(step) {
    const names = this.store.get("graph_found").names;
    if (!names.length) return;
    const at = names.indexOf(this.store.get("selection").node);
    const name = names[at < 0 ? 0 : (at + step + names.length) % names.length];
    const drawn = Object.entries(this.picture.nodes).find(([, node]) => node.kind === "node" && node.node === name);
    if (drawn) this.chooseDrawn(drawn[0]);
    else this.wire.ask("select_node", { node: name }, { pane: "graph" });
  }

  /** @param {string} id */
  chooseDrawn(id) {
    const { compile_id, stage, nodes } = this.picture;
    const { finding, node, label, line } = nodes[id];
    this.wire.choose({ finding, compile_id, stage, node, label, line, kernel: "" });
  }

  /** Put the keyboard's cursor on a shape; an op is chosen too. @param {string} id */
  point(id) {
    this.groups.get(this.cursor)?.classList.remove("idj-cursor");
    this.cursor = id;
    const group = this.groups.get(id);
    if (!group) return;
    group.classList.add("idj-cursor");
    this.camera?.reveal(group);
    if (this.picture.nodes[id].kind === "group") this.status.textContent = `${this.picture.nodes[id].title.split("\n")[0]}: Enter opens it`;
    else this.chooseDrawn(id);
  }

  /** The next (or previous) op or closed box. @param {number} step */
  step(step) {
    const ids = [...this.groups.keys()].filter((id) => ["node", "group"].includes(this.picture.nodes[id]?.kind));
    if (!ids.length) return;
    const at = ids.findIndex((id) => (this.cursor ? id === this.cursor : this.groups.get(id)?.classList.contains("idj-lit")));
    this.point(ids[at < 0 ? 0 : (at + step + ids.length) % ids.length]);
  }

  /** Enter: open the box that the cursor is on. */
  open() {
    if (this.picture.nodes[this.cursor]?.kind === "group") this.toggle(this.cursor);
  }

  /** Backspace: close the innermost open box around the cursor or the chosen node. */
  close() {
    const element = this.groups.get(this.cursor) ?? this.litShape();
    const at = element?.getBBox();
    if (!at) return;
    const around = Object.keys(this.picture.frames).filter((id) => {
      const rect = this.groups.get(id)?.getBBox();
      return rect && rect.x <= at.x && rect.y <= at.y && rect.x + rect.width >= at.x + at.width && rect.y + rect.height >= at.y + at.height;
    });
    if (around.length) this.toggle(around[around.length - 1]);
  }

  /** The chooser: the finding and the line stay chosen, so that the other graph lights what came of the same line. */
  want() {
    const { compile_id, stage } = this.store.get("graph_choices")[Number(this.parts.stage.value)];
    this.wire.ask("show_graph", { compile_id, stage }, { pane: "graph", words: `Drawing ${compile_id} ${stage}…` });
    this.wire.choose({ ...this.store.get("selection"), compile_id: "", stage: "", node: "" });
    this.aim({ compile_id, stage });
  }
}

/** Mouse: drag pans, a click chooses or opens, the wheel zooms once the graph has been clicked (or with Ctrl), so that a notebook still scrolls. @param {GraphPane} pane */
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
    pane.look((camera) => camera.pan(dx, dy));
  });
  area.addEventListener("pointerup", () => setTimeout(() => (drag = null)));
  area.addEventListener("pointercancel", () => (drag = null));
  area.addEventListener("click", (event) => {
    area.focus({ preventScroll: true });
    const id = closest(event, "[data-id]")?.getAttribute("data-id");
    if (id && !drag?.moved) pane.press(id);
  });
  area.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== area) return pane.hintAtZoom();
    pane.hint.hidden = true;
    event.preventDefault();
    const box = area.getBoundingClientRect();
    pane.look((camera) => camera.zoom(Math.exp(-event.deltaY * 0.0015), event.clientX - box.left, event.clientY - box.top));
  }, { passive: false });
}

/** @param {GraphPane} pane */
function listenToKeys(pane) {
  const { area, parts } = pane;
  const actions = {
    ArrowDown: () => pane.step(1),
    ArrowUp: () => pane.step(-1),
    ArrowLeft: () => pane.look((camera) => camera.pan(40, 0)),
    ArrowRight: () => pane.look((camera) => camera.pan(-40, 0)),
    Enter: () => pane.open(),
    " ": () => pane.open(),
    Backspace: () => pane.close(),
    "+": () => pane.look((camera) => camera.zoom(1.25)),
    "=": () => pane.look((camera) => camera.zoom(1.25)),
    "-": () => pane.look((camera) => camera.zoom(0.8)),
    0: () => pane.look((camera) => camera.fit()),
  };
  area.addEventListener("keydown", (event) => {
    if (!(event.key in actions)) return;
    event.preventDefault();
    actions[event.key]();
  });
  parts.search.addEventListener("input", () => pane.find());
  parts.search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") pane.nextFound(event.shiftKey ? -1 : 1);
  });
  parts.out.addEventListener("click", () => pane.look((camera) => camera.zoom(0.8)));
  parts.in.addEventListener("click", () => pane.look((camera) => camera.zoom(1.25)));
  parts.fit.addEventListener("click", () => pane.look((camera) => camera.fit()));
  parts.openAll.addEventListener("click", () => {
    pane.openedAll = true;
    pane.act("expand_all", {}, "Opening…");
  });
  parts.closeAll.addEventListener("click", () => pane.act("collapse_all", {}, "Closing…"));
  parts.colour.addEventListener("change", () => pane.act("colour", { by: parts.colour.value }));
  parts.stage.addEventListener("change", () => pane.want());
  parts.compare.addEventListener("change", () => {
    if (parts.compare.value) pane.compareWith(parts.compare.value);
    parts.compare.value = "";
  });
  parts.save.addEventListener("change", () => {
    pane.save(parts.save.value);
    parts.save.value = "";
  });
}

/** @param {GraphContext} context @returns {HTMLElement} */
export function graphPane({ store, wire, signal, linked }) {
  const el = make("div", "idj idj-pane idj-graph");
  const pane = new GraphPane({ store, wire, signal, linked }, el);
  listenToMouse(pane);
  listenToKeys(pane);
  const watch = new ResizeObserver(() => pane.place());
  watch.observe(pane.area);
  signal.addEventListener("abort", () => watch.disconnect());
  store.follow(["graph_choices", "graphs_to_come"], signal, () => {
    pane.fillChoices();
    pane.fillOthers();
  });
  store.follow(["graph"], signal, () => pane.showPicture());
  store.follow(["graph_paint"], signal, () => pane.showPaint());
  store.follow(["graph_found"], signal, () => pane.showFound());
  store.follow(["graph_lit"], signal, () => pane.light());
  store.follow(["selection"], signal, () => {
    pane.light();
    if (store.get("selection").stage) pane.aim(store.get("selection"));
  });
  store.follow(["busy"], signal, () => pane.tell());
  return el;
}
