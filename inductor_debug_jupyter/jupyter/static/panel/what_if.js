import { make, pressable } from "./dom.js";
import { splitters } from "./room.js";

/** @typedef {import("./store.js").Selection} Selection */

/**
 * The What if tab: a form on the left (what is empty stays as it is), what was tried on the right: before, after, and what
 * changed by sign and colour. Python tries and saves; nothing is worked out here.
 */

const OP_CHOICES = { "": "as it is", cpu: "on the CPU", parts: "decomposed", whole: "not decomposed" };
const TITLES = { new: "New", gone: "Gone", reworded: "In other words", same: "The same" };
const KINDS = { better: "good", worse: "warning", other: "info", same: "quiet" };

/** A labelled field. @param {string} title @param {HTMLElement} entry @param {string} [hint] @returns {HTMLElement} */
function labelled(title, entry, hint = "") {
  const field = make("label", "idj-try-field", "", hint ? { title: hint } : {});
  field.append(make("span", "idj-try-name", title), entry);
  return field;
}

/** @param {string} name @param {string} now @param {string[]} values @returns {HTMLElement} */
function chooser(name, now, values) {
  const select = make("select", "", "", { "data-idj": "try-field", "data-field": name });
  select.append(make("option", "", now ? `${now} (now)` : "as it is", { value: "" }));
  for (const value of values) if (value !== now) select.append(make("option", "", value, { value }));
  return select;
}

/** @param {string} name @param {string} now @param {Record<string, string>} [more] @returns {HTMLInputElement} */
const entry = (name, now, more = {}) => make("input", "", "", { type: "text", "data-idj": "try-field", "data-field": name, placeholder: now, spellcheck: "false", autocomplete: "off", ...more });

/** The fields of a size that can be told; where it cannot, why. @param {string} name @param {any} size @returns {HTMLElement} */
function sizeField(name, size) {
  const field = entry(name, size.size === null ? "not known" : `${size.size} now`, { inputmode: "numeric" });
  field.disabled = size.size === null;
  return labelled(name[0].toUpperCase() + name.slice(1), field, size.where || size.why);
}

/** One op and what may become of it. @param {any} op @returns {HTMLElement} */
function opField(op) {
  const row = make("label", "idj-try-op", "", { title: [op.op, op.now, op.parts && `made of ${op.parts}`].filter(Boolean).join(" · ") });
  const select = make("select", "", "", { "data-idj": "try-op", "data-op": op.op });
  for (const [value, title] of Object.entries(OP_CHOICES)) {
    if ((value === "parts" || value === "whole") && !op.parts) continue;
    select.append(make("option", "", value ? title : `${op.now || title} (now)`, { value }));
  }
  row.append(make("span", "idj-mono idj-try-op-name", op.op), make("span", "idj-quiet", `×${op.count}`), select);
  return row;
}

/** What the fields say, as Python takes it. @param {HTMLElement} form @returns {any} */
function said(form) {
  /** @type {Record<string, any>} */
  const changes = {};
  const fields = [...form.querySelectorAll("input"), ...form.querySelectorAll("select")];
  for (const field of fields) {
    if (field.dataset.field && field.value.trim() && !field.disabled) changes[field.dataset.field] = field.value.trim();
  }
  const chosen = fields.filter((field) => field.dataset.op && field.value).map((field) => [field.dataset.op, field.value]);
  const onCpu = chosen.filter(([, value]) => value === "cpu").map(([op]) => op);
  const parts = chosen.filter(([, value]) => value !== "cpu").map(([op, value]) => [op, value === "parts"]);
  if (onCpu.length) changes.fallback = onCpu;
  if (parts.length) changes.decompose = Object.fromEntries(parts);
  return changes;
}

/** @param {any} trial @returns {HTMLElement} */
function figures(trial) {
  const table = make("table", "idj-try-table", "", { "data-idj": "try-table" });
  const head = make("tr");
  for (const title of ["", "Before", "After", "Change"]) head.append(make("th", "", title, { scope: "col" }));
  table.append(head);
  for (const row of trial.figures) {
    const line = make("tr", row.kind === "same" ? "" : "idj-try-changed", "", { "data-idj": "try-figure", "data-part": row.part, "data-name": row.name, "data-kind": row.kind });
    line.append(make("th", "", row.name, { scope: "row" }), make("td", "", row.before), make("td", "", row.after), make("td", `idj-${KINDS[row.kind]}`, `${row.sign} ${row.change}`.trim()));
    table.append(line);
  }
  return table;
}

/** Findings of one kind; what stayed the same is folded. @param {any} trial @param {string} kind @returns {HTMLElement[]} */
function findingGroup(trial, kind) {
  const rows = trial.findings.filter((row) => row.kind === kind);
  if (!rows.length) return [];
  const box = make("details", "idj-try-findings", "", { "data-idj": "try-findings", "data-kind": kind });
  box.open = kind !== "same";
  box.append(make("summary", "", `${TITLES[kind]} (${trial.counts[kind]})`));
  for (const row of rows) {
    const line = make("div", "idj-try-finding", "", { title: row.rule_id });
    const told = make("span", "", row.title);
    if (row.count > 1) told.append(make("span", "idj-quiet", ` ×${row.count}`));
    if (row.before) told.append(make("span", "idj-quiet", ` · before: ${row.before}`));
    const kindClass = { new: row.severity, gone: "good" }[kind] ?? "quiet";
    line.append(make("span", `idj-try-sign idj-${kindClass}`, row.sign), make("span", `idj-icon idj-${row.severity}`, row.icon), told);
    box.append(line);
  }
  if (trial.counts[kind] > rows.length) box.append(make("div", "idj-quiet", `… and ${trial.counts[kind] - rows.length} more`));
  return [box];
}

/** One trial, in full. @param {import("./wire.js").Wire} wire @param {any} trial @param {number} at @returns {HTMLElement[]} */
function trialParts(wire, trial, at) {
  const head = make("div", "idj-try-head");
  const told = make("div", "idj-try-told");
  told.append(make("div", "idj-try-title", trial.title), make("div", "idj-quiet", trial.took));
  head.append(told);
  if (trial.saved) head.append(make("span", "idj-good idj-try-saved", `✓ saved as ${trial.saved}`, { "data-idj": "try-saved" }));
  else {
    const save = make("button", "", "Save", { "data-idj": "try-save", title: "Keep it as a session: inductor-debug list shows it" });
    save.addEventListener("click", () => wire.ask("save_trial", { trial: at }, { pane: "try", words: "Saving…" }));
    head.append(save);
  }
  const summary = make("div", "idj-try-summary", `${trial.summary[0].toUpperCase()}${trial.summary.slice(1)}.`, { "data-idj": "try-summary" });
  const notes = trial.notes.map((note) => make("div", "idj-quiet idj-try-note", note));
  return [head, summary, figures(trial), ...Object.keys(TITLES).flatMap((kind) => findingGroup(trial, kind)), ...notes];
}

/** What was tried, the last one first. @param {import("./store.js").Context} context @returns {HTMLElement[]} */
function trialRows({ store, wire }) {
  return store.get("trials").map((trial, at) => {
    const row = make("div", "idj-try-row", "", { "data-idj": "trial", "data-at": at, "aria-pressed": at === store.get("trial_shown"), title: `${trial.title}: ${trial.summary}` });
    row.classList.toggle("idj-lit", at === store.get("trial_shown"));
    row.append(make("span", "idj-try-row-title", `${at + 1}. ${trial.title}`), make("span", "idj-quiet", `${trial.saved ? "✓ saved · " : ""}${trial.summary}`));
    pressable(row, () => {
      store.put("trial_shown", at);
      wire.ask("show_trial", { trial: at }, { sets: "trial_shown" });
    });
    return row;
  }).reverse();
}

/** The buttons of the chosen node. @param {Selection} chosen @param {(node: any) => void} ask @returns {HTMLElement[]} */
function nodeParts(chosen, ask) {
  if (!chosen.node) return [make("div", "idj-quiet", "Choose a node in the graph to try it on the CPU alone.")];
  const { node, compile_id, stage } = chosen;
  const line = make("div", "idj-try-node");
  line.append(make("span", "", "Node "), make("span", "idj-mono", node, { title: `${compile_id} ${stage}` }));
  for (const [action, title] of [["cpu", "Run on the CPU"], ["parts", "Decompose"], ["whole", "Do not decompose"]]) {
    const button = make("button", "", title, { "data-idj": "try-node", "data-do": action });
    button.addEventListener("click", () => ask({ node, compile_id, stage, do: action }));
    line.append(button);
  }
  return [line];
}

/** @param {import("./store.js").Context} context @returns {HTMLElement} */
export function whatIfPane({ store, wire, signal }) {
  const el = make("div", "idj idj-pane idj-what-if");
  const left = make("div", "idj-try-left");
  const form = make("div", "idj-try-form", "", { role: "form", "aria-label": "What if", "data-idj": "try-form" });
  const node = make("div", "idj-try-about-node");
  const buttons = make("div", "idj-try-buttons");
  const go = make("button", "idj-try-go", "Try", { "data-idj": "try" });
  const clear = make("button", "", "Clear", { "data-idj": "try-clear" });
  const status = make("div", "idj-try-status", "", { role: "status", "aria-live": "polite", "data-idj": "try-status" });
  buttons.append(go, clear);
  left.append(form, node, buttons, status);
  const right = make("div", "idj-try-right");
  const rows = make("div", "idj-try-rows", "", { "data-idj": "trials" });
  const detail = make("div", "idj-try-detail");
  right.append(rows, detail);
  el.replaceChildren(left, right);
  splitters({ store, wire, signal }, el, () => ({ name: "what_if", columns: [left, right] }));

  /** @param {Record<string, any>} what */
  const ask = (what) => {
    if (!store.get("busy").try) wire.ask("try_out", what, { pane: "try", words: "Trying …" });
  };
  const tryNow = () => ask({ changes: said(form) });
  go.addEventListener("click", tryNow);
  clear.addEventListener("click", () => {
    for (const field of [...form.querySelectorAll("input"), ...form.querySelectorAll("select")]) field.value = "";
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && event.target instanceof HTMLInputElement) tryNow();
  });
  store.follow(["what_if"], signal, () => {
    const told = store.get("what_if");
    if (!told.targets) return;
    const judging = make("fieldset", "");
    judging.append(make("legend", "", "Judge again, at once"));
    judging.append(labelled("Target", chooser("target", told.target, told.targets)), labelled("Alignment", entry("alignment", `${told.alignment} now`, { inputmode: "numeric" })), labelled("Memory limit", entry("max_memory", `${told.max_memory} now`), "such as 1GiB"));
    const ops = make("details", "idj-try-ops", "", { "data-idj": "try-ops" });
    ops.append(make("summary", "", `Ops (${told.ops.length}): on the CPU, or decomposed`), ...told.ops.map(opField));
    judging.append(ops);
    const running = make("fieldset", "");
    running.append(make("legend", "", "Run again, on a copy of the model"));
    if (told.why_not) running.append(make("div", "idj-quiet", told.why_not, { "data-idj": "try-why-not" }));
    else running.append(labelled("Dtype", chooser("dtype", told.dtype, told.dtypes)), labelled("Numerics", chooser("numerics", "", told.numerics), "The arithmetic of a device, op by op; eager: Inductor made to round as eager mode does"), sizeField("batch", told.batch), sizeField("sequence", told.sequence));
    form.replaceChildren(judging, running);
  });
  store.follow(["selection"], signal, () => node.replaceChildren(...nodeParts(store.get("selection"), (what) => ask({ node: what }))));
  store.follow(["busy", "failed"], signal, () => {
    const [busy, error] = [store.get("busy").try, store.get("failed").try];
    go.disabled = Boolean(busy);
    status.classList.toggle("idj-error", Boolean(error && !busy));
    status.textContent = busy ? `⏳ ${busy}` : error ? `✗ ${error}` : "";
  });
  store.follow(["trials", "trial_shown"], signal, () => {
    const trials = store.get("trials");
    const trial = trials[store.get("trial_shown")];
    rows.replaceChildren(...trialRows({ store, wire, signal }));
    rows.classList.toggle("idj-none", !trials.length);
    detail.replaceChildren(...(trial ? trialParts(wire, trial, store.get("trial_shown")) : [make("p", "idj-quiet", "Change something in the form and press Try: findings, coverage and memory, before and after, will stand here side by side.")]));
  });
  return el;
}
