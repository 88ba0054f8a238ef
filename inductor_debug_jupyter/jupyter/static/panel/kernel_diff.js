import { make, pressable } from "./dom.js";
import { childSlot } from "./child.js";
import { errorText, heatmap } from "./heatmap.js";
import { splitters } from "./room.js";

// The KernelDiff tab: outputs worst first │ the heatmap of one │ its figures; below, how the errors are spread, and how they
// grow along the graph. While Python still has the tensors (`live`), it makes each picture anew: any two dimensions, any
// measure, and what is zoomed into is pooled less, down to single elements. Otherwise there is the picture in the record.

/** @param {string[][]} pairs @param {string} [cls] @returns {HTMLElement} */
function factTable(pairs, cls = "") {
  const table = make("div", "idj-diff-facts");
  for (const [name, text] of pairs) table.append(make("span", "idj-quiet", name), make("span", cls, text));
  return table;
}

/** Places with both values, a click on one looks there. @param {string} title @param {any[]} places @param {(index: number[]) => void} [go] */
function placeList(title, places, go) {
  if (!places?.length) return [];
  const table = make("div", "idj-diff-places", "", { "data-idj": "places" });
  for (const place of places) {
    const at = make("span", "idj-mono", `[${place.index.join(", ")}]`);
    if (go) pressable(at, () => go(place.index));
    table.append(at, make("span", "idj-mono", place.reference), make("span", "idj-mono", place.candidate));
  }
  return [make("h4", "", title), table];
}

/** @param {any} output @param {any} place @param {any} live @param {((index: number[]) => void)|undefined} go @returns {HTMLElement[]} */
function explained(output, place, live, go) {
  const head = make("div", "idj-diff-title");
  head.append(make("span", `idj-icon idj-${output.kind}`, output.icon), make("span", "", output.path));
  /** @type {HTMLElement[]} */
  const parts = [head, make("div", `idj-${output.kind}`, output.words, { "data-idj": "verdict" })];
  if (output.tensors) parts.push(make("div", "idj-quiet idj-mono", output.tensors));
  if (output.reason) parts.push(make("div", "idj-diff-reason", output.reason));
  if (output.at || output.reference) {
    parts.push(make("h4", "", output.at === "[]" ? "The two values" : `At the worst place, ${output.at}`));
    parts.push(factTable([["reference", output.reference], ["candidate", output.candidate]], "idj-mono"));
  }
  if (place?.path === output.path && place.first) {
    const [first, last] = [`[${place.first.join(", ")}]`, `[${place.last.join(", ")}]`];
    parts.push(make("h4", "", "Picked"), make("div", "idj-mono", first === last ? first : `${first} to ${last}`, { "data-idj": "place" }));
    parts.push(factTable([["largest error", errorText(place.error)]]));
  }
  if (live?.elements?.length) {
    const elements = live.elements.map(([row, column, reference, candidate]) => ({ index: [row, column], reference, candidate }));
    parts.push(...placeList("Elements in sight: row, column, reference, candidate", elements));
  }
  parts.push(...placeList("Not finite: place, reference, candidate", output.nonfinite, go));
  if (output.facts.length) parts.push(make("h4", "", "Errors"), factTable(output.facts));
  parts.push(...placeList("Worst places: place, reference, candidate", output.worst, go));
  return parts;
}

/** How a backend's process ended; the last that it wrote is folded. @param {any[]} crashes @param {boolean[]} open @returns {HTMLElement[]} */
function crashParts(crashes, open) {
  if (!crashes?.length) return [];
  /** @type {HTMLElement[]} */
  const parts = [make("h4", "", "A backend's process ended, and this one did not")];
  crashes.forEach((crash, at) => {
    parts.push(make("div", "idj-diff-remark idj-error", crash.text, { "data-idj": "crash" }));
    if (!crash.stderr.length) return;
    const box = /** @type {HTMLDetailsElement} */ (make("details", "idj-diff-stderr", "", { "data-idj": "stderr", "data-at": at }));
    box.open = open[at] ?? false;
    const lines = crash.stderr.length === 1 ? "1 line" : `${crash.stderr.length} lines`;
    box.append(make("summary", "", `The last that it wrote (${lines})`), make("pre", "idj-mono", crash.stderr.join("\n"), { tabindex: 0 }));
    parts.push(box);
  });
  return parts;
}

/** The ops that are wrong, each with its line. A click shows the node in its graph.
 *  @param {import("./wire.js").Wire} wire @param {any} view @returns {HTMLElement[]} */
function culpritLines(wire, view) {
  return (view.culprits ?? []).map((/** @type {any} */ culprit) => {
    const box = make("div", "idj-diff-story idj-link", "", { "data-idj": "culprit-line", title: "Show it in the graph" });
    const head = make("div", "");
    head.append("Comes in at ", make("b", "", culprit.name));
    box.append(head, make("div", "idj-quiet", culprit.where), make("code", "idj-mono", culprit.code, { title: culprit.code }));
    pressable(box, () => {
      wire.ask("select_node", { node: culprit.node });
      wire.open("graph");
    });
    return box;
  });
}

/** @param {any} culprit @returns {HTMLElement[]} */
function culpritParts(culprit) {
  const parts = [make("h4", "", `Comes in at ${culprit.op}`, { "data-idj": "culprit" }), ...culprit.lines.map((/** @type {string} */ line) => make("div", "idj-diff-remark", line))];
  if (!culprit.spec.length) return parts;
  const spec = make("details", "idj-diff-spec");
  spec.append(make("summary", "", "The kernel's spec"), ...culprit.spec.map((/** @type {string} */ line) => make("div", "idj-mono", line)));
  return [...parts, spec];
}

/** @param {any} output @param {boolean} lit @returns {HTMLElement} */
function outputRow(output, lit) {
  const row = make("div", "idj-diff-row", "", { role: "option", "aria-selected": String(lit), "data-idj": "output", title: `${output.path}\n${output.reason || output.words}` });
  row.classList.toggle("idj-lit", lit);
  const path = make("div", "idj-diff-path");
  path.append(make("span", `idj-icon idj-${output.kind}`, output.icon), make("span", "", output.path));
  row.append(path, make("div", "idj-diff-what idj-quiet", output.headline));
  return row;
}

/** @param {import("./store.js").Context & {manager: any}} context @returns {HTMLElement} */
export function diffPane(context) {
  const { store, wire, signal } = context;
  const el = make("div", "idj idj-pane idj-diff-tab");
  const list = make("div", "idj-diff-list");
  const head = make("div", "idj-diff-head");
  const rows = make("div", "idj-diff-rows", "", { role: "listbox", tabindex: 0, "aria-label": "Outputs", "data-idj": "outputs" });
  list.append(head, rows);
  const middle = make("div", "idj-diff-map");
  const why = make("div", "idj-diff-why");
  const columns = make("div", "idj-diff");
  const charts = make("div", "idj-diff-charts");
  const curve = make("div", "idj-diff-chart");
  const caption = make("div", "idj-quiet idj-diff-caption", "", { "data-idj": "point", role: "status" });
  curve.append(childSlot(context, "error_curve"), caption);
  charts.append(childSlot(context, "histogram", "idj-diff-chart"), curve);
  columns.append(list, middle, why);
  el.replaceChildren(columns, charts);
  splitters(context, columns, () => ({ name: "diff", columns: [list, middle, why] }));

  const outputs = () => store.get("diff").outputs;
  const chosen = () => outputs().find((output) => output.path === store.get("diff_shown"));
  /** @param {string} path */
  const choosePath = (path) => {
    store.put("diff_shown", path);
    wire.ask("show_output", { path }, { pane: "diff", sets: "diff_shown" });
  };
  const isLive = () => store.get("diff").live.includes(store.get("diff_shown"));
  const live = () => {
    const part = store.get("diff_slice");
    return isLive() && part?.path === store.get("diff_shown") ? part : null;
  };
  /** Ask Python for another picture: what is not said stays as it is. @param {any} change */
  const ask = (change) => {
    const part = live();
    const now = part ? { measure: part.measure, rows: part.row_dim, columns: part.column_dim, at: part.at, window: [part.top, part.left, part.full_rows, part.full_columns] } : {};
    const window_ = change.rows !== undefined || change.columns !== undefined ? [] : change.window ?? now.window ?? [];
    wire.ask("show_diff_slice", { ...now, ...change, window: window_, path: store.get("diff_shown") }, { pane: "diff", words: "Drawing…" });
  };
  const go = (index) => {
    const part = live();
    if (!part) return;
    const flat = part.shape.length === index.length ? index : [0, ...index];
    const [row, column] = [flat[part.row_dim], flat[part.column_dim]];
    ask({ at: flat, window: [Math.max(0, row - 4), Math.max(0, column - 4), 9, 9] });
  };
  const show = heatmap(
    middle,
    (row, column) => {
      const part = live();
      if (part) return ask({ window: [part.top + row * part.tall, part.left + column * part.wide, part.tall, part.wide] });
      wire.ask("pick_diff_cell", { path: store.get("diff_shown"), row, column }, { pane: "diff" });
    },
    ask,
    signal,
  );
  const explain = () => {
    const view = store.get("diff");
    const output = chosen();
    const parts = output ? explained(output, store.get("diff_place"), live(), live() ? go : undefined) : [];
    const failed = store.get("failed").diff;
    if (failed) parts.unshift(make("div", "idj-error", failed, { "data-idj": "diff-error", role: "alert" }));
    const open = [];
    for (const box of /** @type {NodeListOf<HTMLDetailsElement>} */ (why.querySelectorAll(".idj-diff-stderr"))) open[Number(box.getAttribute("data-at"))] = box.open;
    parts.push(...crashParts(view.crashes, open));
    parts.push(...(view.culprits ?? []).flatMap(culpritParts));
    if (view.searched?.length) parts.push(make("h4", "", "The search for where it comes in"), ...view.searched.map((line) => make("div", "idj-diff-remark", line)));
    if (view.notes?.length) parts.push(make("h4", "", "Notes"), ...view.notes.map((note) => make("div", "idj-diff-remark", note)));
    if (view.images?.length) parts.push(make("h4", "", "Pictures"), ...view.images.map((path) => make("div", "idj-diff-remark idj-mono", path)));
    why.replaceChildren(...parts);
  };
  const relist = () => {
    const view = store.get("diff");
    const title = make("div", "idj-diff-title", "", { title: view.title });
    title.append(make("span", `idj-icon idj-${view.kind}`, view.icon), make("span", "", view.title));
    const sentence = make("div", "idj-diff-sentence", view.story, { "data-idj": "diff-story" });
    head.replaceChildren(sentence, title, make("div", "idj-quiet", view.summary), ...(view.tokens ?? []).map((line) => make("div", "idj-diff-remark", line, { "data-idj": "tokens" })), ...culpritLines(wire, view));
    rows.replaceChildren(
      ...outputs().map((output) => {
        const row = outputRow(output, output.path === store.get("diff_shown"));
        row.addEventListener("click", () => choosePath(output.path));
        return row;
      }),
    );
    if (view.left_out) rows.append(make("div", "idj-diff-what idj-quiet", `… and ${view.left_out} more, none of them worse`));
    rows.querySelector(".idj-lit")?.scrollIntoView({ block: "nearest" });
  };
  rows.addEventListener("keydown", (event) => {
    const all = outputs();
    const step = { ArrowDown: 1, ArrowUp: -1, Home: -all.length, End: all.length }[event.key];
    if (!step || !all.length) return;
    event.preventDefault();
    const at = all.findIndex((output) => output.path === store.get("diff_shown"));
    choosePath(all[Math.min(all.length - 1, Math.max(0, at + step))].path);
  });
  store.follow(["diff", "diff_shown"], signal, relist);
  store.follow(["diff", "diff_shown", "diff_slice"], signal, () => {
    show(chosen(), live());
    explain();
  });
  store.follow(["diff_place", "failed"], signal, explain);
  store.follow(["diff_point"], signal, () => (caption.textContent = store.get("diff_point")));
  return el;
}
