import { make, pressable } from "./dom.js";

/** @type {Record<string, string>} */
const ICONS = { error: "✗", warning: "⚠", info: "ℹ" };

/** A longer value of a tile is written smaller. */
const LONG = 11;

/** The first page: verdict, what to do next, a tile for each tab, time by phase, breaks, recompiles, what was captured. */

/** @param {string} title @param {HTMLElement[]} content @returns {HTMLElement} */
function section(title, content) {
  const box = make("section", "idj-section");
  box.append(make("h4", "", title), ...content);
  return box;
}

/** @param {import("./wire.js").Wire} wire @param {any} item @param {string} kind @returns {HTMLElement} */
function itemRow(wire, item, kind) {
  const row = make("div", "idj-item", "", { "data-idj": kind });
  const icon = ICONS[item.kind] ?? "•";
  const told = make("div", "idj-told");
  const head = make("div");
  head.append(make("span", "", item.text));
  told.append(head);
  if (item.where) {
    const where = make("div", "idj-quiet", item.where);
    if (item.code) where.append(make("code", "idj-mono", item.code, { title: item.code }));
    told.append(where);
  }
  for (const hint of item.hints) told.append(make("div", "idj-hint", `→ ${hint}`));
  row.append(make("span", `idj-icon idj-${item.kind}`, icon), told);
  if (item.tab) {
    row.classList.add("idj-link");
    pressable(row, () => (item.selection ? wire.choose(item.selection, item.tab) : wire.open(item.tab)));
  }
  return row;
}

/** One figure; pressing it opens its tab. @param {import("./wire.js").Wire} wire @param {any} tile @returns {HTMLElement} */
function tileBox(wire, tile) {
  const box = make("div", "idj-tile", "", { "data-idj": "tile", "data-title": tile.title, title: [tile.title, tile.value, tile.note].filter(Boolean).join(": ") });
  box.append(make("div", "idj-tile-title idj-quiet", tile.title), make("div", `idj-tile-value ${tile.kind ? `idj-${tile.kind}` : ""} ${tile.value.length > LONG ? "idj-tile-long" : ""}`, tile.value), make("div", "idj-tile-note idj-quiet", tile.note));
  if (tile.tab) {
    box.classList.add("idj-link");
    box.setAttribute("role", "link");
    box.setAttribute("data-tab", tile.tab);
    pressable(box, () => wire.open(tile.tab));
  }
  return box;
}

/** A backend's process that ended, and the last that it wrote. @param {any} crash @returns {HTMLElement} */
function crashBox(crash) {
  const box = make("div", "idj-crash", "", { "data-idj": "crash" });
  const head = make("div", "idj-item");
  head.append(make("span", "idj-icon idj-error", "✗"), make("span", "idj-told", crash.text));
  box.append(head);
  if (crash.stderr.length) box.append(make("pre", "idj-mono idj-last-words", crash.stderr.join("\n"), { tabindex: 0, "aria-label": "The last that it wrote" }));
  return box;
}

/** Where the compiler's time went: a bar for each phase. @param {any[]} phases @returns {HTMLElement} */
function phaseBars(phases) {
  const box = make("div", "idj-phases", "", { "data-idj": "phases" });
  for (const phase of phases) {
    const bar = make("div", "idj-phase-bar");
    const fill = make("div", "idj-phase-fill");
    fill.style.width = `${(100 * phase.share).toFixed(1)}%`;
    bar.append(fill);
    box.append(make("span", "idj-phase-name", phase.name), bar, make("span", "idj-phase-time", phase.seconds));
  }
  return box;
}

/** The breaks or recompiles; Python sends the first of very many. @param {import("./wire.js").Wire} wire @param {any} view @param {string} kind */
function rows(wire, view, kind) {
  const sent = view[`${kind}s`];
  const more = view.counts[`${kind}s`] - sent.length;
  return [...sent.map((item) => itemRow(wire, item, kind)), ...(more ? [make("div", "idj-quiet", `… and ${more} more`)] : [])];
}

/** @param {any} capture @returns {HTMLElement[]} */
function captureRows(capture) {
  const row = make("tr");
  const name = make("td");
  name.append(make("div", "", capture.name || "graph"), make("div", "idj-quiet idj-mono", capture.where, { title: capture.where }));
  const stages = make("td");
  for (const stage of capture.stages) {
    const chip = make("span", "idj-chip", stage.stage);
    if (stage.calls !== null) chip.append(make("b", "", String(stage.calls), { title: `${stage.calls} ops of ${stage.nodes} nodes` }));
    if (stage.stage === "kernel") chip.append(make("b", "", String(capture.kernels)));
    stages.append(chip);
  }
  row.append(make("td", "idj-mono", capture.compile_id), name, stages);
  const missing = capture.missing.map((gap) => {
    const line = make("tr", "idj-missing");
    line.append(make("td"), make("td", "idj-quiet", `no ${gap.stage}`), make("td", "idj-quiet", gap.reason));
    return line;
  });
  return [row, ...missing];
}

/** @param {import("./store.js").Context} context @returns {HTMLElement} */
export function overviewPane({ store, wire, signal }) {
  const el = make("div", "idj idj-overview");
  store.follow(["overview"], signal, () => {
    const view = store.get("overview");
    /** @type {HTMLElement[]} */
    const parts = [make("div", `idj-verdict idj-${view.kind}`, view.verdict, { "data-idj": "verdict" })];
    if (view.next.length) parts.push(section("What to do next", view.next.map((item) => itemRow(wire, item, "next"))));
    const tiles = make("div", "idj-tiles");
    tiles.append(...view.tiles.map((tile) => tileBox(wire, tile)));
    parts.push(tiles);
    if (view.crashes.length) parts.push(section("A backend's process ended, and this one did not", view.crashes.map(crashBox)));
    if (view.phases.length) parts.push(section(`Where the compiler's time went${view.phases_note ? ` · ${view.phases_note}` : ""}`, [phaseBars(view.phases)]));
    if (view.breaks.length) {
      parts.push(section(`Graph breaks (${view.counts.breaks})`, rows(wire, view, "break")));
    }
    if (view.recompiles.length) {
      parts.push(section(`Recompiles (${view.counts.recompiles})`, rows(wire, view, "recompile")));
    }
    if (view.captures.length) {
      const table = make("table", "idj-captures");
      table.append(...view.captures.flatMap(captureRows));
      parts.push(section("What was captured (ops in each stage)", [table]));
    }
    if (view.notes.length) parts.push(section("Notes", view.notes.map((note) => make("div", "idj-note", note))));
    if (view.repros.length) parts.push(section("Repro scripts", view.repros.map((path) => make("div", "idj-mono", path))));
    el.replaceChildren(...parts);
  });
  return el;
}
