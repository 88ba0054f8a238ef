import { make, pressable } from "./dom.js";
import { childSlot } from "./child.js";
import { VirtualList } from "./list.js";

/** @typedef {import("./store.js").Selection} Selection */

/**
 * The Guards tab: graph breaks and recompiles, then all guards, the troublesome ones first, with a filter.
 * Only the rows in sight are in the page, so thousands of guards cost no more than forty.
 */

const ROW = 26;
const TROUBLE_ICONS = { number: "#", shape: "▦", identity: "≡", value: "⚑", structure: "⊞", state: "◦" };

/** @param {Selection|null} one @param {Selection} other */
const sameLine = (one, other) => Boolean(one && one.line && one.line === other.line && one.label === other.label);

/** @param {import("./store.js").Context} context @param {any} event @param {string} kind @returns {HTMLElement} */
function eventRow({ store, wire }, event, kind) {
  const row = make("div", "idj-event", "", { "data-idj": kind });
  const told = make("div", "idj-told");
  const head = make("div", "idj-event-head");
  head.append(make("span", "idj-mono idj-quiet", event.compile_id));
  if (event.where) head.append(make("span", "idj-event-where", event.where));
  if (event.code) head.append(make("code", "idj-mono", event.code, { title: event.code }));
  if (event.count > 1) head.append(make("span", "idj-quiet", `×${event.count}`));
  if (event.note) head.append(make("span", "idj-quiet idj-event-note", event.note));
  told.append(head, make("div", "", event.text));
  for (const reason of event.more) told.append(make("div", "idj-quiet", `also ${reason}`));
  const lit = sameLine(event.selection, store.get("selection"));
  for (const hint of lit ? event.hints : event.hints.slice(0, 1)) told.append(make("div", "idj-hint", `→ ${hint}`));
  if (!lit && event.hints.length > 1) told.append(make("div", "idj-quiet", `… ${event.hints.length - 1} more when chosen`));
  row.append(make("span", "idj-icon idj-warning", kind === "break" ? "⚠" : "↻"), told);
  if (event.selection) {
    row.classList.add("idj-link");
    row.classList.toggle("idj-lit", lit);
    pressable(row, () => wire.choose(event.selection));
  }
  return row;
}

/** A recompile storm: what varies, and the fix. @param {any} storm @returns {HTMLElement} */
function stormRow(storm) {
  const row = make("div", "idj-event", "", { "data-idj": "storm" });
  const told = make("div", "idj-told");
  told.append(make("div", "idj-event-head", storm.text), make("div", "idj-hint", `→ ${storm.hint}`));
  row.append(make("span", "idj-icon idj-error", "⟳"), told);
  return row;
}

/** A size that is left open. @param {import("./store.js").Context} context @param {any} row @returns {HTMLElement} */
function symbolRow({ store, wire }, row) {
  const line = make("div", "idj-event", "", { "data-idj": "symbol" });
  const told = make("div", "idj-told");
  const head = make("div", "idj-event-head");
  head.append(make("span", "idj-mono idj-quiet", row.count > 1 ? `${row.compile_id} ×${row.count}` : row.compile_id), make("code", "idj-mono", `${row.symbol} = ${row.stands_for}`));
  head.append(make("span", "idj-quiet", row.fixed ? `fixed to ${row.fixed}` : row.range));
  if (row.value) head.append(make("span", "idj-quiet", `${row.value} in the example`));
  told.append(head);
  for (const each of row.constraints) told.append(make("div", "idj-mono", each));
  line.append(make("span", "idj-icon idj-info", "↔"), told);
  if (row.selection.line) {
    line.classList.add("idj-link");
    line.classList.toggle("idj-lit", sameLine(row.selection, store.get("selection")));
    pressable(line, () => wire.choose(row.selection));
  }
  return line;
}

/** @param {any} answer @returns {HTMLElement[]} */
function answerParts(answer) {
  const icon = { yes: "↻ It would recompile", no: "✓ It would not recompile", unknown: "? Unknown" }[answer.answer];
  const kind = { yes: "warning", no: "good", unknown: "quiet" }[answer.answer];
  const head = make("div", "idj-recompile-answer-head");
  head.append(make("span", `idj-${kind}`, icon), make("span", "", answer.reason));
  const parts = [head];
  if (answer.where) parts.push(make("div", "idj-quiet", `${answer.where}: ${answer.code}`));
  if (answer.check) parts.push(make("div", "idj-mono", answer.check));
  if (answer.hint) parts.push(make("div", "idj-hint", `→ ${answer.hint}`));
  return parts;
}

/**
 * What if an input were another one: a field for each, and the answer of torch's own guards below.
 * @param {import("./store.js").Context} context @returns {HTMLElement}
 */
function whatIf({ store, wire, signal }) {
  const box = make("details", "idj-whatif", "", { "data-idj": "what-if" });
  const form = make("div", "idj-whatif-form");
  const answer = make("div", "idj-recompile-answer", "", { "data-idj": "answer", role: "status", "aria-live": "polite" });
  box.append(make("summary", "", "What if… would it recompile?"), form, answer);
  /** @type {Record<string, string>} */
  let changes = {};
  let grad = true;
  const ask = (name = store.get("guard_inputs").function) => {
    wire.ask("would_recompile", { function: name, changes: { ...changes }, grad }, { pane: "recompile", words: "Asking the guards…" });
  };
  store.follow(["guard_inputs"], signal, () => {
    const told = store.get("guard_inputs");
    changes = {};
    box.classList.toggle("idj-hidden", !told.function);
    const fields = Object.entries(told.texts ?? {}).map(([name, text]) => {
      const field = make("label", "idj-whatif-field");
      const entry = make("input", "idj-mono", "", { type: "text", value: text, "data-idj": "what-if-input", "data-input": name, spellcheck: "false" });
      entry.addEventListener("change", () => {
        if (entry.value.trim() === text) delete changes[name];
        else changes[name] = entry.value;
        field.classList.toggle("idj-changed", name in changes);
        ask();
      });
      field.append(make("span", "idj-mono", name), entry);
      return field;
    });
    const mode = make("label", "idj-whatif-field idj-whatif-mode");
    const tick = make("input", "", "", { type: "checkbox", "data-idj": "what-if-grad" });
    tick.checked = grad;
    tick.addEventListener("change", () => {
      grad = tick.checked;
      ask();
    });
    mode.append(tick, make("span", "", "gradients on"));
    const functions = told.functions ?? [];
    const chooser = make("select", "", "", { "aria-label": "Function", "data-idj": "what-if-function" });
    for (const name of functions) {
      const option = make("option", "", name, { value: name });
      option.selected = name === told.function;
      chooser.append(option);
    }
    chooser.addEventListener("change", () => {
      changes = {};
      ask(chooser.value);
    });
    form.replaceChildren(...(functions.length > 1 ? [chooser] : []), ...fields, mode);
  });
  store.follow(["guard_answer", "busy", "failed"], signal, () => {
    const [told, busy, failed] = [store.get("guard_answer"), store.get("busy").recompile, store.get("failed").recompile];
    answer.classList.toggle("idj-hidden", !told.answer && !failed && !busy);
    if (failed) answer.replaceChildren(make("div", "idj-recompile-answer-head idj-error", failed));
    else if (told.answer) answer.replaceChildren(...answerParts(told));
    else answer.replaceChildren(make("div", "idj-quiet", busy ?? ""));
  });
  return box;
}

/** @param {string} title @param {HTMLElement[]} rows @param {boolean} open @returns {HTMLElement[]} */
function eventGroup(title, rows, open) {
  if (!rows.length) return [];
  const box = make("details", "idj-events-group", "", { "data-title": title });
  box.open = open;
  box.append(make("summary", "", `${title} (${rows.length})`), ...rows);
  return [box];
}

/** @param {any} row @returns {string} */
const searchText = (row) => `${row.trouble} ${row.kind} ${row.expression} ${row.check} ${row.graphs.join(" ")} ${row.where} ${row.code}`.toLowerCase();

/** @param {any} row @param {string} hint @returns {HTMLElement} */
function guardRow(row, hint) {
  const condition = row.condition;
  const line = make("div", "idj-guard", "", { role: "option", "data-idj": "guard", "data-index": row.index });
  const graphs = row.graphs.length > 1 ? `${row.graphs[0]} +${row.graphs.length - 1}` : row.graphs[0];
  const check = make("span", "idj-mono idj-guard-check", condition || "listed, not checked", { title: condition });
  line.append(
    make("span", "idj-guard-trouble", `${TROUBLE_ICONS[row.trouble] ?? "•"} ${row.trouble}`, { title: hint }),
    check,
    make("span", "idj-quiet idj-times", row.count > 1 ? `×${row.count}` : ""),
    make("span", "idj-quiet idj-guard-kind", row.kind, { title: row.kind }),
    make("span", "idj-mono idj-guard-graph", graphs, { title: row.graphs.join(", ") }),
    make("span", "idj-quiet idj-guard-where", row.where && `${row.selection.label}:${row.selection.line}`, { title: row.code ? `${row.where}: ${row.code}` : row.where }),
  );
  return line;
}

/** What the chosen guard pins, and what that means. @param {any} row @param {any} view @returns {HTMLElement[]} */
function about(row, view) {
  const parts = [make("div", "idj-mono idj-about-check", row.condition || row.kind)];
  const graphs = row.graphs.map((id) => `${id} ${view.graphs[id] ?? ""}`.trim()).join(", ");
  parts.push(make("div", "idj-quiet", `${row.kind} on ${graphs}`));
  if (row.where) {
    const where = make("div", "", `${row.where}: `);
    where.append(make("code", "idj-mono", row.code));
    parts.push(where);
  }
  parts.push(make("div", "", row.hint || (view.hints[row.trouble] ?? "")));
  return parts;
}

/** @param {import("./store.js").Context & {manager: any}} context @returns {HTMLElement} */
export function guardsPane(context) {
  const { store, wire, signal } = context;
  const el = make("div", "idj idj-pane idj-guards-tab");
  const events = make("div", "idj-events");
  const filter = make("input", "", "", { type: "search", placeholder: "Filter guards", "aria-label": "Filter guards", "data-idj": "guard-filter" });
  const tally = make("span", "idj-quiet idj-tally");
  const bar = make("div", "idj-bar");
  bar.append(filter, tally);
  const heads = make("div", "idj-guard idj-guard-heads idj-quiet");
  for (const [cls, title] of [["trouble", "Fixed"], ["check", "What must hold"], ["times", ""], ["kind", "Kind"], ["graph", "Graph"], ["where", "Line"]]) {
    heads.append(make("span", `idj-guard-${cls}`, title));
  }
  const list = new VirtualList({
    name: "guards",
    label: "Guards",
    height: ROW,
    build: (row) => {
      const line = guardRow(row, store.get("guards").hints[row.trouble] ?? "");
      line.classList.toggle("idj-lit", row.index === chosen);
      line.classList.toggle("idj-near", row.index !== chosen && sameLine(row.selection, store.get("selection")));
      line.setAttribute("aria-selected", String(row.index === chosen));
      return line;
    },
    pick: (row) => {
      chosen = row.index;
      wire.choose(row.selection);
      list.reveal();
      explain();
    },
    chosen: () => list.items.findIndex((row) => row.index === chosen),
  }, signal);
  const foot = make("div", "idj-about", "", { "data-idj": "guard-about" });
  const tables = make("div", "idj-guards");
  el.replaceChildren(childSlot(context, "timeline", "idj-timeline"), tables);
  tables.replaceChildren(events, whatIf(context), bar, heads, list.element, foot);
  /** @type {string[]} */
  let searches = [];
  let chosen = -1;
  /** @type {Record<string, boolean>} */
  const open = { "Recompile storms": true, "Graph breaks": true, Recompiles: true, "Left open": false };

  const explain = () => {
    const view = store.get("guards");
    const row = view.rows[chosen];
    foot.classList.toggle("idj-hidden", !row);
    foot.replaceChildren(...(row ? about(row, view) : []));
  };
  const drawEvents = () => {
    const view = store.get("guards");
    for (const box of events.querySelectorAll("details")) open[box.getAttribute("data-title") ?? ""] = box.open;
    events.replaceChildren(
      ...eventGroup("Recompile storms", view.storms.map(stormRow), open["Recompile storms"]),
      ...eventGroup("Graph breaks", view.breaks.map((one) => eventRow(context, one, "break")), open["Graph breaks"]),
      ...eventGroup("Recompiles", view.recompiles.map((one) => eventRow(context, one, "recompile")), open.Recompiles),
      ...eventGroup("Left open", view.symbols.map((one) => symbolRow(context, one)), open["Left open"]),
    );
    events.classList.toggle("idj-hidden", !events.childElementCount);
  };
  const refill = () => {
    const view = store.get("guards");
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = view.rows.filter((_, at) => wanted.every((word) => searches[at].includes(word)));
    const folded = view.total > view.rows.length ? ` (${view.total.toLocaleString("en")} guards)` : "";
    const all = `${view.rows.length.toLocaleString("en")} rows${folded}`;
    tally.textContent = wanted.length ? `${rows.length.toLocaleString("en")} of ${all}` : all;
    list.fill(rows);
    explain();
  };
  filter.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") list.move(event);
  });
  filter.addEventListener("input", () => {
    list.element.scrollTop = 0;
    refill();
  });
  store.follow(["guards"], signal, () => {
    chosen = -1;
    searches = store.get("guards").rows.map(searchText);
    drawEvents();
    refill();
  });
  store.follow(["selection"], signal, () => {
    // Chosen elsewhere: the row that was chosen here goes out, those of the same line light up.
    const row = store.get("guards").rows[chosen];
    const selection = store.get("selection");
    const still = row && row.selection.line === selection.line && row.selection.label === selection.label && row.selection.compile_id === selection.compile_id;
    if (!still) chosen = -1;
    drawEvents();
    list.reveal(still ? undefined : list.items.findIndex((each) => sameLine(each.selection, selection)));
    explain();
  });
  return el;
}
