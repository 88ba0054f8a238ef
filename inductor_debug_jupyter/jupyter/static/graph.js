/**
 * The middle pane: one laid-out graph to pan, zoom, search and choose nodes in. Python lays out, opens and closes boxes,
 * searches and colours (see panels/graph.py); this shows the answers and says what was clicked.
 */

const SVG = "http://www.w3.org/2000/svg";
const READABLE = 1;
const TOO_SMALL = 0.65;
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
  /** Readable from the top; what opens grows downwards. */
  start() {
    this.fit();
    this.scale = Math.max(READABLE, this.scale);
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
  /** Where a point of the picture is in the area. @param {number} x @param {number} y */
  toScreen(x, y) {
    return { px: (x - this.x) * this.scale + this.area.clientWidth / 2, py: (y - this.y) * this.scale + this.area.clientHeight / 2 };
  }
  /** Bring a point of the picture to a place in the area. @param {number} x @param {number} y @param {{px: number, py: number}} at */
  bring(x, y, at) {
    this.x = x - (at.px - this.area.clientWidth / 2) / this.scale;
    this.y = y - (at.py - this.area.clientHeight / 2) / this.scale;
    this.apply();
  }
  /** Move only as far as needed to see the element, and close enough to read it. @param {SVGGElement} element */
  reveal(element) {
    const box = element.getBBox();
    const x = box.x + box.width / 2;
    const y = box.y + box.height / 2;
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
  const button = (name, text, title, label) => {
    parts[name] = make("button", "", text, { title, "aria-label": title, "data-idj": label });
    return parts[name];
  };
  parts.stage = make("select", "", "", { "aria-label": "Graph and stage", "data-idj": "stage" });
  parts.search = make("input", "", "", { type: "search", placeholder: "Search nodes", "aria-label": "Search nodes; Enter goes to the next", "data-idj": "search" });
  parts.tally = make("span", "idj-quiet idj-tally", "", { "data-idj": "tally" });
  parts.colour = make("select", "idj-colour", "", { "aria-label": "Colour by", title: "Colour by", "data-idj": "colour" });
  const boxes = make("span", "idj-buttons");
  boxes.append(button("openAll", "⊞", "Open all boxes, as many as can be drawn", "expand-all"), button("closeAll", "⊟", "Close all boxes", "collapse-all"));
  const zoom = make("span", "idj-buttons");
  zoom.append(button("out", "−", "Zoom out (−)", "zoom-out"), button("in", "+", "Zoom in (+)", "zoom-in"), button("fit", "Fit", "Whole graph (0)", "zoom-fit"));
  bar.append(parts.stage, parts.search, parts.tally, parts.colour, boxes, zoom);
  return bar;
}

class GraphPane {
  /** @param {Model} model @param {HTMLElement} el */
  constructor(model, el) {
    this.model = model;
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
    /** What Python is doing now, said while it does. */
    this.busy = "";
    /** @type {{box: string, px: number, py: number}|null} where the box that opens or closes was */
    this.held = null;
    /** The shape that the arrow keys are on. */
    this.cursor = "";
    this.area = make("div", "idj-area", "", { tabindex: 0, role: "application", "data-idj": "graph",
      "aria-label": "Graph. Up and down arrows go to the previous or next shape, Enter opens a box, Backspace closes it, plus and minus zoom, 0 shows the whole graph" });
    this.legend = make("div", "idj-legend", "", { "data-idj": "legend" });
    this.status = make("div", "idj-status", "", { role: "status", "data-idj": "status" });
    const foot = make("div", "idj-foot");
    foot.append(this.legend, this.status);
    const stack = make("div", "idj-stack");
    stack.append(this.area);
    el.replaceChildren(toolbar(this.parts), stack, foot);
  }

  get picture() {
    return this.model.get("picture");
  }

  /** Ask Python to do something. @param {string} what @param {Record<string, any>} [more] @param {string} [said] */
  act(what, more = {}, said = "") {
    this.busy = said;
    this.model.set("act", { do: what, ...more, at: Date.now() });
    this.model.save_changes();
    this.tell();
  }

  fillChoices() {
    const choices = this.model.get("choices");
    this.parts.stage.replaceChildren(...choices.map((choice, number) => make("option", "", choice.title, { value: number })));
    this.parts.stage.hidden = !choices.length;
  }

  /** A new picture came: parse it, tag its shapes, and place it. */
  showPicture() {
    const picture = this.picture;
    const before = this.camera;
    const same = before && this.shown === `${picture.compile_id} ${picture.stage}`;
    this.shown = `${picture.compile_id} ${picture.stage}`;
    this.busy = "";
    this.groups.clear();
    this.arrows.clear();
    this.camera = null;
    this.placed = false;
    const svg = picture.svg ? parsePicture(picture.svg) : null;
    this.area.replaceChildren(...(svg ? [svg] : []));
    if (svg) {
      for (const group of svg.querySelectorAll("g.node, g.frame")) this.tag(group);
      for (const path of svg.querySelectorAll("path.edge")) for (const id of path.classList) if (this.groups.has(id)) this.arrows.set(id, [...(this.arrows.get(id) ?? []), path]);
      this.camera = new Camera(svg, this.area);
      if (same && this.area.clientWidth) this.keepPlace(before);
    }
    this.fillColours();
    this.light();
    this.place();
    this.showPaint();
    this.showFound();
    this.tell();
  }

  /** The same graph with a box opened or closed: nothing else moves more than it must. @param {Camera} before */
  keepPlace(before) {
    const camera = this.camera;
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
    const first = this.placed ? null : this.area.querySelector('[data-idj="node"], [data-idj="group"]');
    this.placed = true;
    if (this.litShape()) this.reveal();
    else if (first && this.camera.scale >= READABLE) this.camera.reveal(first);
  }

  litShape() {
    return this.area.querySelector('[data-idj="node"].idj-lit, [data-idj="group"].idj-lit') ?? this.area.querySelector('[data-idj="copy"].idj-lit');
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
    const chosen = this.model.get("selection");
    const { compile_id, stage, nodes } = this.picture;
    const here = chosen.compile_id === compile_id && chosen.stage === stage;
    const line = `${chosen.label}:${chosen.line}`;
    const told = this.model.get("lit");
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

  /** Somebody wants that graph to be on show: until Python sends it, the old one is greyed. @param {any} goal */
  aim(goal) {
    const known = this.model.get("choices").some((choice) => choice.compile_id === goal.compile_id && choice.stage === goal.stage);
    if (known) this.goal = goal;
    this.tell();
  }

  /** Say what is happening, or what was simplified. */
  tell() {
    const picture = this.picture;
    const same = (one) => one.compile_id === picture.compile_id && one.stage === picture.stage;
    const answered = (one) => one.compile_id === picture.answers?.compile_id && one.stage === picture.answers?.stage;
    if (this.goal && (same(this.goal) || answered(this.goal))) this.goal = null;
    this.area.classList.toggle("idj-waiting", Boolean(this.goal || this.busy));
    this.status.textContent = this.goal ? `Drawing ${this.goal.compile_id} ${this.goal.stage}…` : this.busy || picture.note;
    this.parts.openAll.disabled = !picture.closed;
    this.parts.closeAll.disabled = !picture.opened;
    const at = this.model.get("choices").findIndex(this.goal ? (choice) => choice.compile_id === this.goal.compile_id && choice.stage === this.goal.stage : same);
    if (at < 0) return;
    this.parts.stage.value = String(at);
    this.parts.stage.title = this.model.get("choices")[at].title;
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
    colour.value = this.model.get("paint").by;
  }

  showPaint() {
    const paint = this.model.get("paint");
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
    this.typing = setTimeout(() => this.act("search", { text: this.parts.search.value.trim() }), 120);
  }

  showFound() {
    const found = this.model.get("found");
    for (const [id, group] of this.groups) group.classList.toggle("idj-found", Boolean(found.of[id]));
    this.parts.tally.textContent = found.text ? `${found.count.toLocaleString("en")} found` : "";
    this.busy = "";
    this.tell();
  }

  /** The next (or previous) node that was found. @param {number} step */
  nextFound(step) {
    const names = this.model.get("found").names;
    if (!names.length) return;
    const at = names.indexOf(this.model.get("selection").node);
    const name = names[at < 0 ? 0 : (at + step + names.length) % names.length];
    const drawn = Object.entries(this.picture.nodes).find(([, node]) => node.kind === "node" && node.node === name);
    if (drawn) this.chooseDrawn(drawn[0]);
    else this.act("choose", { node: name });
  }

  /** @param {string} id */
  chooseDrawn(id) {
    const { compile_id, stage, nodes } = this.picture;
    const { finding, node, label, line } = nodes[id];
    choose(this.model, { finding, compile_id, stage, node, label, line, kernel: "" });
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
    const { compile_id, stage } = this.model.get("choices")[Number(this.parts.stage.value)];
    this.model.set("wanted", { compile_id, stage, at: Date.now() });
    choose(this.model, { ...this.model.get("selection"), compile_id: "", stage: "", node: "" });
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
    pane.camera?.pan(dx, dy);
  });
  area.addEventListener("pointerup", () => setTimeout(() => (drag = null)));
  area.addEventListener("pointercancel", () => (drag = null));
  area.addEventListener("click", (event) => {
    area.focus({ preventScroll: true });
    const id = event.target.closest?.("[data-id]")?.getAttribute("data-id");
    if (id && !drag?.moved) pane.press(id);
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
  const actions = {
    ArrowDown: () => pane.step(1),
    ArrowUp: () => pane.step(-1),
    ArrowLeft: () => pane.camera?.pan(40, 0),
    ArrowRight: () => pane.camera?.pan(-40, 0),
    Enter: () => pane.open(),
    " ": () => pane.open(),
    Backspace: () => pane.close(),
    "+": () => pane.camera?.zoom(1.25),
    "=": () => pane.camera?.zoom(1.25),
    "-": () => pane.camera?.zoom(0.8),
    0: () => pane.camera?.fit(),
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
  parts.out.addEventListener("click", () => pane.camera?.zoom(0.8));
  parts.in.addEventListener("click", () => pane.camera?.zoom(1.25));
  parts.fit.addEventListener("click", () => pane.camera?.fit());
  parts.openAll.addEventListener("click", () => pane.act("expand_all", {}, "Opening…"));
  parts.closeAll.addEventListener("click", () => pane.act("collapse_all", {}, "Closing…"));
  parts.colour.addEventListener("change", () => pane.act("colour", { by: parts.colour.value }));
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
  follow(model, ["paint"], signal, () => pane.showPaint());
  follow(model, ["found"], signal, () => pane.showFound());
  follow(model, ["lit"], signal, () => pane.light());
  follow(model, ["selection"], signal, () => {
    pane.light();
    if (model.get("selection").stage) pane.aim(model.get("selection"));
  });
}

export default { render };
