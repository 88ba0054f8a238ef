// Where the user looks at a picture: pan and zoom, as a viewBox.

export const READABLE = 1;
const TOO_SMALL = 0.65;

/** Pan and zoom of one picture, as a viewBox. */
export class Camera {
  /** @param {SVGSVGElement} svg @param {HTMLElement} area */
  constructor(svg, area) {
    const [x, y, width, height] = (svg.getAttribute("viewBox") ?? "0 0 100 100").split(/[\s,]+/).map(Number);
    this.whole = { x, y, width, height };
    this.svg = svg;
    this.area = area;
    this.scale = 1;
    /** Called whenever something else is in sight. @type {(() => void)|null} */
    this.onMove = null;
    this.x = x + width / 2;
    this.y = y + height / 2;
    svg.removeAttribute("width");
    svg.removeAttribute("height");
    svg.setAttribute("preserveAspectRatio", "xMidYMid meet");
  }
  apply() {
    const width = this.area.clientWidth / this.scale;
    const height = this.area.clientHeight / this.scale;
    this.onMove?.();
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
  /** Go to a place of the picture, as shares of its width and height. @param {number} across @param {number} down */
  goTo(across, down) {
    this.x = this.whole.x + across * this.whole.width;
    this.y = this.whole.y + down * this.whole.height;
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
