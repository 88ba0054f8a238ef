import { make } from "./dom.js";

// A picture out of the page: as SVG, as PNG, and small in the corner of a large graph.

const LARGEST = 8000;

/**
 * The whole picture as a document of its own: its own size, its names as tooltips, its colours as attributes.
 * @param {SVGSVGElement} svg on show @param {{x: number, y: number, width: number, height: number}} whole @returns {string}
 */
export function svgText(svg, whole) {
  const copy = /** @type {SVGSVGElement} */ (svg.cloneNode(true));
  copy.setAttribute("viewBox", `${whole.x} ${whole.y} ${whole.width} ${whole.height}`);
  copy.setAttribute("width", String(whole.width));
  copy.setAttribute("height", String(whole.height));
  for (const group of copy.querySelectorAll("g.idj-painted")) {
    const rect = [...group.querySelectorAll("rect")].at(-1);
    rect?.setAttribute("fill", /** @type {SVGGElement} */ (group).style.getPropertyValue("--idj-paint"));
    rect?.setAttribute("fill-opacity", "0.4");
    group.removeAttribute("style");
  }
  for (const sign of copy.querySelectorAll(".idj-sign")) sign.setAttribute("font-size", "8");
  const paper = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const [name, value] of Object.entries({ ...whole, fill: "#fff" })) paper.setAttribute(name, String(value));
  copy.prepend(paper);
  return new XMLSerializer().serializeToString(copy);
}

/** @param {Blob} blob @param {string} name */
function download(blob, name) {
  const link = make("a", "", "", { download: name, href: URL.createObjectURL(blob) });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

/** @param {string} text @param {string} name */
export function saveSvg(text, name) {
  download(new Blob([text], { type: "image/svg+xml" }), `${name}.svg`);
}

/** @param {string} text @param {{width: number, height: number}} size @param {string} name @returns {Promise<void>} */
export async function savePng(text, size, name) {
  const scale = Math.min(2, LARGEST / Math.max(size.width, size.height));
  const image = new Image(size.width, size.height);
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(text)}`;
  await image.decode();
  const canvas = make("canvas");
  canvas.width = Math.round(size.width * scale);
  canvas.height = Math.round(size.height * scale);
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise((made) => canvas.toBlob(made, "image/png"));
  if (blob) download(blob, `${name}.png`);
}

/** Which part of a picture is in sight, as a box in a map of it. @param {import("./camera.js").Camera} camera @param {number} scale of the map */
export function boxInMap(camera, scale) {
  const width = camera.area.clientWidth / camera.scale;
  const height = camera.area.clientHeight / camera.scale;
  return { x: (camera.x - width / 2 - camera.whole.x) * scale, y: (camera.y - height / 2 - camera.whole.y) * scale, width: width * scale, height: height * scale };
}

/** A map of a large graph in its corner: where the shapes are, and what is in sight; pressing it goes there. */
export class Minimap {
  /** @param {(move: (camera: import("./camera.js").Camera) => void) => void} look takes a move of the camera */
  constructor(look) {
    this.element = make("div", "idj-minimap", "", { "data-idj": "minimap", title: "The whole graph; press to go there" });
    this.canvas = make("canvas");
    this.box = make("div", "idj-minimap-box");
    this.element.append(this.canvas, this.box);
    this.element.hidden = true;
    this.scale = 1;
    /** @type {import("./camera.js").Camera|null} */
    this.camera = null;
    /** @param {PointerEvent} event */
    const go = (event) => {
      const { left, top } = this.canvas.getBoundingClientRect();
      if (!this.camera) return;
      const { whole } = this.camera;
      const [across, down] = [(event.clientX - left) / this.scale / whole.width, (event.clientY - top) / this.scale / whole.height];
      look((camera) => camera.goTo(across, down));
    };
    this.element.addEventListener("pointerdown", (event) => {
      event.stopPropagation();
      this.element.setPointerCapture(event.pointerId);
      go(event);
    });
    this.element.addEventListener("pointermove", (event) => {
      if (this.element.hasPointerCapture(event.pointerId)) go(event);
    });
  }

  /** @param {import("./camera.js").Camera} camera @param {Iterable<SVGGElement>} groups */
  draw(camera, groups) {
    this.camera = camera;
    const { whole, area } = camera;
    const isLarge = whole.width * whole.height > 6 * area.clientWidth * area.clientHeight;
    this.element.hidden = !isLarge;
    if (!isLarge) return;
    this.scale = Math.min(110 / whole.width, (area.clientHeight * 0.45) / whole.height);
    const [width, height] = [Math.max(12, whole.width * this.scale), whole.height * this.scale];
    this.canvas.width = width * 2;
    this.canvas.height = height * 2;
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${height}px`;
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.scale(2 * this.scale, 2 * this.scale);
    context.translate(-whole.x, -whole.y);
    for (const group of groups) {
      if (group.classList.contains("frame")) continue;
      const rect = group.querySelector("rect");
      if (!rect) continue;
      const [x, y, wide, high] = ["x", "y", "width", "height"].map((name) => Number(rect.getAttribute(name)));
      context.fillStyle = group.classList.contains("idj-error") ? "#d55e00" : group.classList.contains("idj-warning") ? "#e69f00" : "#8899aa";
      context.fillRect(x, y, Math.max(wide, 1 / this.scale), Math.max(high, 1 / this.scale));
    }
    this.follow();
  }

  /** The camera moved. */
  follow() {
    if (!this.camera || this.element.hidden) return;
    const box = boxInMap(this.camera, this.scale);
    for (const [name, value] of Object.entries({ left: box.x, top: box.y, width: box.width, height: box.height })) this.box.style.setProperty(name, `${value}px`);
  }
}
