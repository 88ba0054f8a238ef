import { make } from "./dom.js";

// The heatmap of one output: two canvases, one with the cells, one over it with what moves (the cell under the pointer, the
// brush, the worst cell). Dragging zooms in, Escape or the button zooms out; a click or Enter picks a cell.

// Cividis, a scale that looks the same to everybody, from no error to the largest.
const SCALE = [[0, 32, 77], [0, 50, 110], [57, 72, 107], [87, 93, 109], [112, 113, 115], [138, 134, 120], [165, 156, 116], [195, 180, 106], [225, 205, 85], [255, 234, 70]];
const NOT_FINITE = [204, 121, 167];
// Candidate below the reference, from little to much; above it is the scale's upper half.
const BELOW = [[120, 160, 200], [0, 32, 120]];
const ABOVE = [[230, 200, 120], [190, 80, 0]];
const MEASURES = [["absolute", "absolute error"], ["signed", "candidate − reference"], ["relative", "relative error"], ["ulp", "units in the last place"]];
const SMALLEST_DRAG = 5;
const CROSSES = 100;

/** @param {number} at 0 to 1 @returns {number[]} red, green, blue */
function colourAt(at) {
  const place = Math.min(1, Math.max(0, at)) * (SCALE.length - 1);
  const low = Math.min(SCALE.length - 2, Math.floor(place));
  return SCALE[low].map((part, index) => Math.round(part + (SCALE[low + 1][index] - part) * (place - low)));
}

/** @param {number|null} value @returns {string} */
export function errorText(value) {
  return value === null ? "NaN or infinite" : value === 0 ? "0" : value.toExponential(3);
}

/** @param {number} first @param {number} size @param {number} full @param {number} [offset] @returns {string} "12" or "12–15" */
function span(first, size, full, offset = 0) {
  const from = first * size;
  const to = Math.min(full, from + size) - 1;
  return from === to ? String(offset + from) : `${offset + from}–${offset + to}`;
}

/** The smallest and largest error that have a colour. @param {any} map @returns {{low: number, high: number}} */
function limits(map) {
  const sizes = map.values.filter((value) => value !== null && value !== 0).map(Math.abs);
  return { low: Math.min(...sizes), high: Math.max(...sizes) };
}

/** @param {number} value @param {{low: number, high: number}} limit @param {boolean} logarithmic @returns {number} 0 to 1 */
function share(value, limit, logarithmic) {
  if (!logarithmic) return value / limit.high;
  return limit.high > limit.low ? Math.log(value / limit.low) / Math.log(limit.high / limit.low) : 1;
}

/** @param {HTMLCanvasElement} canvas @returns {CanvasRenderingContext2D} */
const painter = (canvas) => /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));

/** All cells as a picture, one pixel each. @param {any} map @param {boolean} logarithmic @returns {HTMLCanvasElement} */
function cellPicture(map, logarithmic) {
  const picture = /** @type {HTMLCanvasElement} */ (make("canvas"));
  picture.width = map.columns;
  picture.height = map.rows;
  const context = painter(picture);
  const image = context.createImageData(map.columns, map.rows);
  const limit = limits(map);
  map.values.forEach((value, index) => {
    if (value === 0) return; // stays transparent: no error
    const at = value === null ? 0 : share(Math.abs(value), limit, logarithmic);
    const ends = map.measure === "signed" ? (value < 0 ? BELOW : ABOVE) : null;
    const colour = value === null ? NOT_FINITE : ends ? ends[0].map((part, each) => Math.round(part + (ends[1][each] - part) * Math.min(1, Math.max(0, at)))) : colourAt(at);
    image.data.set([...colour, 255], index * 4);
  });
  context.putImageData(image, 0, 0);
  return picture;
}

/** Give a canvas as many pixels as it has on the screen. @param {HTMLCanvasElement} canvas @returns {CanvasRenderingContext2D} */
function sized(canvas) {
  const dense = window.devicePixelRatio || 1;
  canvas.width = Math.max(1, Math.round(canvas.clientWidth * dense));
  canvas.height = Math.max(1, Math.round(canvas.clientHeight * dense));
  const context = painter(canvas);
  context.setTransform(dense, 0, 0, dense, 0, 0);
  context.imageSmoothingEnabled = false;
  return context;
}

/** The controls of a live picture: the measure, the two dimensions, and where in the others. @param {(change: any) => void} ask */
function sliceTools(ask) {
  const box = make("div", "idj-diff-tools", "", { "data-idj": "slice" });
  const measure = /** @type {HTMLSelectElement} */ (make("select", "", "", { "aria-label": "What is shown", "data-idj": "measure" }));
  for (const [value, text] of MEASURES) measure.append(make("option", "", text, { value }));
  measure.addEventListener("change", () => ask({ measure: measure.value }));
  return {
    box,
    /** @param {any} map */
    fill(map) {
      /** @type {HTMLElement[]} */
      const parts = [measure];
      measure.value = map.measure;
      if (map.shape.length > 2) {
        for (const [name, key] of [["rows", "row_dim"], ["columns", "column_dim"]]) {
          const select = /** @type {HTMLSelectElement} */ (make("select", "", "", { "aria-label": `Dimension of the ${name}`, "data-idj": key }));
          map.shape.forEach((size, dim) => select.append(make("option", "", `${name}: dim ${dim} (${size})`, { value: dim })));
          select.value = String(map[key]);
          select.addEventListener("change", () => {
            const other = key === "row_dim" ? "columns" : "rows";
            const change = { [name]: Number(select.value), window: [] };
            if (Number(select.value) === map[key === "row_dim" ? "column_dim" : "row_dim"]) change[other] = map[key];
            ask(change);
          });
          parts.push(select);
        }
        map.shape.forEach((size, dim) => {
          if (dim === map.row_dim || dim === map.column_dim) return;
          const label = make("label", "", `dim ${dim} at `);
          const field = /** @type {HTMLInputElement} */ (make("input", "", "", { type: "number", min: 0, max: size - 1, value: map.at[dim], "data-idj": `at-${dim}` }));
          field.addEventListener("change", () => {
            const at = [...map.at];
            at[dim] = Math.min(size - 1, Math.max(0, Number(field.value) || 0));
            ask({ at });
          });
          label.append(field);
          parts.push(label);
        });
      }
      box.replaceChildren(...parts);
    },
  };
}

/**
 * The heatmap of one output.
 * @param {HTMLElement} box @param {(row: number, column: number) => void} pick @param {(change: any) => void} ask @param {AbortSignal} signal
 */
export function heatmap(box, pick, ask, signal) {
  const log = /** @type {HTMLInputElement} */ (make("input", "", "", { type: "checkbox", "data-idj": "log" }));
  log.checked = true;
  const label = make("label", "", "", { title: "Colours by the order of magnitude" });
  label.append(log, make("span", "", "log scale"));
  const out = make("button", "", "Whole tensor", { title: "Zoom out (Escape)", "data-idj": "zoom-out" });
  const window_ = make("span", "idj-quiet", "", { "data-idj": "window" });
  const tools = make("div", "idj-diff-tools");
  tools.append(label, out, window_);
  const cells = /** @type {HTMLCanvasElement} */ (make("canvas"));
  const over = /** @type {HTMLCanvasElement} */ (
    make("canvas", "idj-diff-over", "", { tabindex: 0, role: "img", "data-idj": "heatmap", "aria-label": "Heatmap of the absolute error" })
  );
  const stage = make("div", "idj-diff-canvas");
  stage.append(cells, over);
  const hover = make("div", "idj-diff-hover", "", { "data-idj": "hover" });
  const low = make("span");
  const high = make("span");
  const bar = /** @type {HTMLCanvasElement} */ (make("canvas"));
  const scale = make("div", "idj-diff-scale");
  scale.append(low, bar, high, make("span", "idj-diff-swatch idj-diff-none"), make("span", "", "no error"), make("span", "idj-diff-swatch", "×"), make("span", "", "not finite"));
  const note = make("div", "idj-diff-note idj-quiet");
  const nothing = make("div", "idj-diff-nothing");
  const slice = sliceTools(ask);
  box.append(tools, slice.box, stage, hover, scale, note, nothing);

  /** @type {any} */
  let map = null;
  let seen = { row: 0, column: 0, rows: 1, columns: 1 };
  /** @type {{row: number, column: number}|null} */
  let under = null;
  /** @type {{row: number, column: number}|null} */
  let held = null;
  /** @type {{x: number, y: number, toX: number, toY: number}|null} */
  let drag = null;

  const cellSize = () => ({ x: over.clientWidth / seen.columns, y: over.clientHeight / seen.rows });
  const cellAt = (x, y) => {
    const size = cellSize();
    const within = (at, count) => Math.min(count - 1, Math.max(0, Math.floor(at)));
    return { row: seen.row + within(y / size.y, seen.rows), column: seen.column + within(x / size.x, seen.columns) };
  };
  const drawOver = () => {
    const context = sized(over);
    if (!map) return;
    const size = cellSize();
    const frame = (cell, colour, width) => {
      const x = (cell.column - seen.column) * size.x;
      const y = (cell.row - seen.row) * size.y;
      for (const [ink, line] of [["#000", width + 2], [colour, width]]) {
        context.strokeStyle = String(ink);
        context.lineWidth = Number(line);
        context.strokeRect(x, y, Math.max(3, size.x), Math.max(3, size.y));
      }
    };
    if (map.worst) frame({ row: map.worst[0], column: map.worst[1] }, "#d55e00", 2);
    if (held) frame(held, "#56b4e9", 2);
    if (under) frame(under, "#fff", 1);
    if (drag) {
      context.fillStyle = "rgba(86, 180, 233, 0.3)";
      context.strokeStyle = "#0072b2";
      context.lineWidth = 1;
      const rectangle = [Math.min(drag.x, drag.toX), Math.min(drag.y, drag.toY), Math.abs(drag.toX - drag.x), Math.abs(drag.toY - drag.y)];
      context.fillRect(rectangle[0], rectangle[1], rectangle[2], rectangle[3]);
      context.strokeRect(rectangle[0], rectangle[1], rectangle[2], rectangle[3]);
    }
  };
  /** A cross on what is not finite; a lone one would be a pixel or two, so small cells are drawn larger. */
  const crosses = (context) => {
    const size = cellSize();
    const small = Math.min(size.x, size.y) < 9;
    if (small && map.values.filter((value) => value === null).length > CROSSES) return;
    context.strokeStyle = "#000";
    context.fillStyle = `rgb(${NOT_FINITE.join(" ")})`;
    for (let row = seen.row; row < seen.row + seen.rows; row++) {
      for (let column = seen.column; column < seen.column + seen.columns; column++) {
        if (map.values[row * map.columns + column] !== null) continue;
        const [x, y] = [(column - seen.column + 0.5) * size.x, (row - seen.row + 0.5) * size.y];
        if (small) context.fillRect(x - 4.5, y - 4.5, 9, 9);
        context.beginPath();
        for (const side of [-3, 3]) {
          context.moveTo(x - 3, y - side);
          context.lineTo(x + 3, y + side);
        }
        context.stroke();
      }
    }
  };
  const draw = () => {
    if (!map || !cells.clientWidth) return;
    const context = sized(cells);
    context.clearRect(0, 0, cells.clientWidth, cells.clientHeight);
    context.fillStyle = getComputedStyle(box).getPropertyValue("--idj-paper-2");
    context.fillRect(0, 0, cells.clientWidth, cells.clientHeight);
    context.drawImage(cellPicture(map, log.checked), seen.column, seen.row, seen.columns, seen.rows, 0, 0, cells.clientWidth, cells.clientHeight);
    crosses(context);
    const ruler = sized(bar);
    for (let x = 0; x < bar.clientWidth; x++) {
      ruler.fillStyle = `rgb(${colourAt(x / bar.clientWidth).join(" ")})`;
      ruler.fillRect(x, 0, 1, bar.clientHeight);
    }
    const limit = limits(map);
    low.textContent = Number.isFinite(limit.low) ? errorText(log.checked ? limit.low : 0) : "";
    high.textContent = Number.isFinite(limit.high) ? errorText(limit.high) : "";
    bar.style.visibility = Number.isFinite(limit.high) ? "" : "hidden";
    const last = { row: seen.row + seen.rows - 1, column: seen.column + seen.columns - 1 };
    const ends = (first, end, size, full, offset) => `${offset + first * size}–${offset + Math.min(full, (end + 1) * size) - 1}`;
    const [top, left] = [map.top ?? 0, map.left ?? 0];
    window_.textContent = `rows ${ends(seen.row, last.row, map.tall, map.full_rows, top)} · columns ${ends(seen.column, last.column, map.wide, map.full_columns, left)}`;
    const all = map.shape ? map.full_rows === map.shape[map.row_dim] && map.full_columns === map.shape[map.column_dim] : true;
    out.hidden = all && seen.rows === map.rows && seen.columns === map.columns;
    drawOver();
  };
  const tell = () => {
    hover.textContent = under
      ? `row ${span(under.row, map.tall, map.full_rows, map.top)}, column ${span(under.column, map.wide, map.full_columns, map.left)}: error ${errorText(map.values[under.row * map.columns + under.column])}`
      : "Point at a cell for its error; drag to zoom in; click to pick it";
  };
  const whole = () => {
    if (map.shape) return ask({ window: [] });
    seen = { row: 0, column: 0, rows: map.rows, columns: map.columns };
    draw();
  };
  const zoom = (one, other) => {
    const row = Math.min(one.row, other.row);
    const column = Math.min(one.column, other.column);
    const [rows, columns] = [Math.abs(one.row - other.row) + 1, Math.abs(one.column - other.column) + 1];
    if (map.shape) return ask({ window: [map.top + row * map.tall, map.left + column * map.wide, rows * map.tall, columns * map.wide] });
    seen = { row, column, rows, columns };
    draw();
  };
  const take = (cell) => {
    held = cell;
    pick(cell.row, cell.column);
    drawOver();
  };

  over.addEventListener("pointerdown", (event) => {
    if (event.button !== 0 || !map) return;
    over.setPointerCapture(event.pointerId);
    drag = { x: event.offsetX, y: event.offsetY, toX: event.offsetX, toY: event.offsetY };
  });
  over.addEventListener("pointermove", (event) => {
    if (!map) return;
    under = cellAt(event.offsetX, event.offsetY);
    if (drag) [drag.toX, drag.toY] = [event.offsetX, event.offsetY];
    tell();
    drawOver();
  });
  over.addEventListener("pointerup", () => {
    if (!drag || !map) return;
    const [from, to] = [cellAt(drag.x, drag.y), cellAt(drag.toX, drag.toY)];
    const far = Math.max(Math.abs(drag.toX - drag.x), Math.abs(drag.toY - drag.y));
    drag = null;
    if (far >= SMALLEST_DRAG) zoom(from, to);
    else take(to);
  });
  over.addEventListener("pointercancel", () => {
    drag = null;
    drawOver();
  });
  over.addEventListener("pointerleave", () => {
    under = null;
    tell();
    drawOver();
  });
  over.addEventListener("keydown", (event) => {
    if (!map) return;
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    const from = under ?? held ?? (map.worst ? { row: map.worst[0], column: map.worst[1] } : { row: seen.row, column: seen.column });
    if (step) {
      const within = (at, first, count) => Math.min(first + count - 1, Math.max(first, at));
      under = { row: within(from.row + step[0], seen.row, seen.rows), column: within(from.column + step[1], seen.column, seen.columns) };
      tell();
      drawOver();
    } else if (event.key === "Enter" || event.key === " ") take(from);
    else if (event.key === "Escape") whole();
    else return;
    event.preventDefault();
  });
  log.addEventListener("change", draw);
  out.addEventListener("click", whole);
  const watch = new ResizeObserver(draw);
  watch.observe(stage);
  const theme = new MutationObserver(draw);
  theme.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-jp-theme-name"] });
  signal.addEventListener("abort", () => {
    watch.disconnect();
    theme.disconnect();
  });

  return (output, live) => {
    map = live ?? output?.heatmap ?? null;
    slice.box.hidden = !live;
    slice.box.style.display = live ? "" : "none";
    if (live) slice.fill(live);
    held = under = drag = null;
    for (const part of [tools, stage, hover, scale, note]) part.hidden = !map;
    for (const part of [tools, scale]) part.style.display = map ? "" : "none";
    nothing.hidden = Boolean(map);
    nothing.textContent = map ? "" : output ? output.verdict === "match" ? `${output.path}: ${output.headline}` : `No picture of ${output.path}: ${output.reason}` : "No output to show.";
    if (!map) return;
    note.textContent = note.title = map.note ?? (map.tall * map.wide > 1 ? `each cell is the largest of ${map.tall} × ${map.wide} elements` : "each cell is one element");
    tell();
    seen = { row: 0, column: 0, rows: map.rows, columns: map.columns };
    draw();
  };
}
