import { make, pressable, copyButton } from "./dom.js";
import { rulePage } from "./rule_page.js";
import { sourceLine } from "./source.js";

/** @typedef {import("./store.js").Selection} Selection */

/** The right pane explains what is chosen: the user's own source first, then why, seen and allowed, what to do, raw detail. */

const AROUND = 4;
const PLACES = 40;

/** How far all lines are indented: an excerpt does without it, the pane is narrow.
 *  @param {any[]} lines @returns {number} */
function sharedIndent(lines) {
  const written = lines.map((line) => line.text).filter((text) => text.trim());
  return Math.min(...written.map((text) => text.length - text.trimStart().length), 999);
}

/** @param {import("./store.js").Context} context @param {Selection} chosen @param {string} text what the record knows of a line whose file was not kept
 *  @param {{whole: string}} memory @param {() => void} redraw @returns {HTMLElement[]} */
function sourceExcerpt({ store, wire }, chosen, text, memory, redraw) {
  const sources = store.get("sources");
  const label = chosen.label || Object.keys(sources)[0];
  const source = sources[label];
  if (!source) {
    if (!chosen.label) return [];
    const only = { number: chosen.line, text, mark: "", selection: null };
    const box = make("div", "idj-source");
    box.append(sourceLine(only, true, wire));
    return [make("div", "idj-where", `${label}, line ${chosen.line}`), box];
  }
  const whole = memory.whole === label || !chosen.line;
  const shown = source.lines.filter((line) => whole || Math.abs(line.number - chosen.line) <= AROUND);
  const head = make("div", "idj-where", chosen.line && chosen.label ? `${label}, line ${chosen.line}` : label);
  if (shown.length < source.lines.length || memory.whole === label) {
    const more = make("button", "", memory.whole === label ? "Excerpt" : `All ${source.lines.length} lines`);
    more.addEventListener("click", () => {
      memory.whole = memory.whole === label ? "" : label;
      redraw();
    });
    head.append(more);
  }
  const box = make("div", "idj-source");
  const inner = make("div", "idj-source-inner");
  const indent = whole ? 0 : sharedIndent(shown);
  inner.append(...shown.map((line) => sourceLine(line, line.number === chosen.line && label === chosen.label, wire, indent)));
  box.append(inner);
  return [head, box];
}

/** @param {string} name @param {string} text @param {string} [cls] @returns {HTMLElement[]} */
function fact(name, text, cls = "") {
  return text ? [make("span", "idj-quiet", name), make("span", `idj-value ${cls}`, text)] : [];
}

/** A finding as Markdown, for an issue or a message. @param {any} finding @returns {string} */
export function findingMarkdown(finding) {
  const lines = [`### ${finding.icon} ${finding.title}`, "", `Rule \`${finding.rule_id}\`, ${finding.severity}${finding.count > 1 ? `, ${finding.count} places` : ""}`];
  if (finding.explanation) lines.push("", finding.explanation);
  lines.push("");
  if (finding.observed) lines.push(`- Seen: ${finding.observed}`);
  if (finding.allowed) lines.push(`- Allowed: ${finding.allowed}`);
  for (const hint of [...finding.fixits, ...finding.hints]) lines.push(`- Do: ${hint}`);
  for (const place of finding.places.slice(0, 10)) {
    const where = place.line ? `${place.label}:${place.line}` : `${place.compile_id} ${place.stage}`;
    lines.push(`- At ${where}${place.text ? `: \`${place.text.trim()}\`` : ""} (${[place.module_path, place.op || place.node].filter(Boolean).join(" · ")})`);
  }
  if (finding.count > 10) lines.push(`- … and ${finding.count - 10} more`);
  return `${lines.join("\n")}\n`;
}

/** What leads to a finding: a call for a cell; in a saved page, which has no session's variable, an address. @param {string} variable @param {any} finding @returns {string} */
export function selectCall(variable, finding) {
  if (!variable) return `${location.href.split("#")[0]}#finding-${finding.index}`;
  return `${variable}.select(finding=${finding.index})  # ${finding.rule_id}: ${finding.title}`;
}

/** @param {any} finding @param {string} variable @returns {HTMLElement[]} */
function explanation(finding, variable) {
  const title = make("div", "idj-finding-title");
  const name = make("span", "idj-finding-name", finding.title);
  const copy = copyButton(name, () => findingMarkdown(finding), "Copy");
  copy.title = "Copy this finding as Markdown";
  copy.setAttribute("data-idj", "copy-finding");
  const link = copyButton(name, () => selectCall(variable, finding), "Link");
  link.title = `Copy ${selectCall(variable, finding)}`;
  link.setAttribute("data-idj", "link-finding");
  title.append(make("span", `idj-icon idj-${finding.severity}`, finding.icon), name, copy, link);
  const facts = make("div", "idj-facts");
  facts.append(...fact("Seen", finding.observed), ...fact("Allowed", finding.allowed));
  for (const hint of [...finding.fixits, ...finding.hints]) facts.append(...fact("Do", hint));
  return [title, ...(finding.explanation ? [make("p", "idj-why", finding.explanation)] : []), facts];
}

/** @param {import("./wire.js").Wire} wire @param {any} finding @param {Selection} chosen @param {boolean} open @returns {HTMLElement[]} */
function placesOf(wire, finding, chosen, open) {
  if (finding.count < 2) return [];
  const box = make("details", "idj-places");
  box.open = open;
  const several = new Set(finding.places.map((/** @type {any} */ place) => place.compile_id)).size > 1;
  box.append(make("summary", "", `${finding.count} places`));
  for (const place of finding.places.slice(0, PLACES)) {
    const { compile_id, stage, node, label, line } = place;
    const row = make("div", "idj-place idj-link", "", { "data-idj": "place", "data-node": node });
    row.classList.toggle("idj-lit", node === chosen.node && stage === chosen.stage && compile_id === chosen.compile_id);
    const graph = several ? ` · ${compile_id}` : "";
    row.append(make("span", "", [place.module_path, place.op || node].filter(Boolean).join(" · ")), make("span", "idj-quiet", line ? `${label}:${line}${graph}` : `${compile_id} ${stage}`));
    pressable(row, () => wire.choose({ finding: finding.index, compile_id, stage, node, label, line }));
    box.append(row);
  }
  if (finding.count > PLACES) box.append(make("div", "idj-quiet", `… and ${finding.count - PLACES} more`));
  return [box];
}

/** @param {any} node @param {any} finding @param {boolean} open @returns {HTMLElement[]} */
function rawDetail(node, finding, open) {
  if (!node && !finding) return [];
  const box = make("details", "idj-raw", "", { "data-idj": "raw" });
  box.open = open;
  box.append(make("summary", "", node ? `Node ${node.node}` : "Details"));
  const facts = make("div", "idj-facts");
  if (finding && !finding.has_page) facts.append(...fact("rule", finding.rule_id, "idj-mono"));
  for (const [name, text] of node?.rows ?? []) facts.append(...fact(name, text, "idj-mono"));
  box.append(facts);
  if (node) {
    const copy = copyButton(facts, () => [`node: ${node.node}`, ...node.rows.map(([name, text]) => `${name}: ${text}`)].join("\n"), "Copy node");
    copy.setAttribute("data-idj", "copy-node");
    box.append(copy);
  }
  return [box];
}

/** @param {any} node @param {any} bound @returns {boolean} whether this node was bound */
function isOf(node, bound) {
  return bound.node === node.node && bound.stage === node.stage && bound.compile_id === node.compile_id;
}

/** What was bound: each name with what it is, what to know, and code to copy. @param {any} bound @returns {HTMLElement[]} */
function boundParts(bound) {
  const facts = make("div", "idj-facts");
  for (const [name, text] of bound.rows) facts.append(make("span", "idj-mono", name), make("span", "idj-value idj-quiet", text));
  const parts = [make("div", "idj-good", "✓ In your namespace now:"), facts, ...bound.notes.map((note) => make("p", "idj-why", note))];
  if (bound.code) {
    const line = make("div", "idj-bound-code");
    const code = make("code", "", bound.code, { "data-idj": "bound-code" });
    line.append(code, copyButton(code, () => bound.code));
    parts.push(line);
  }
  return parts;
}

/** Buttons that put a node into the user's namespace, and what Python said. @param {import("./store.js").Context} context @param {any} node @returns {HTMLElement[]} */
function namespaceBox({ store, wire }, node) {
  if (!node || !store.get("binding").can_bind) return [];
  const box = make("div", "idj-namespace");
  const answer = make("div", "", "", { "data-idj": "bound", role: "status", "aria-live": "polite" });
  const bound = store.get("bound");
  const waiting = store.get("busy").bind ?? "";
  const failed = store.get("failed").bind ?? "";
  const button = (text, kernel, title) => {
    const made = make("button", "", text, { "data-idj": kernel ? "bind-kernel" : "bind", title });
    made.setAttribute("aria-disabled", String(Boolean(waiting)));
    made.addEventListener("click", () => {
      if (waiting) return;
      const { compile_id, stage, node: name } = node;
      wire.ask("bind_node", { compile_id, stage, node: name, kernel }, { pane: "bind", words: kernel ? "Compiling, then running up to this kernel…" : "Running the model up to this node…" });
    });
    return made;
  };
  box.append(button("To namespace", false, "Run the model up to this node; its inputs, its output and a callable of it become variables"));
  if (store.get("binding").compiled.includes(node.compile_id) && node.stage !== "dynamo") {
    box.append(button("Its kernel", true, "Compile the model with Inductor and run it up to the kernel of this node; likewise"));
  }
  if (waiting) answer.append(make("div", "idj-quiet", waiting));
  else if (failed) answer.append(make("div", "idj-error", failed));
  else if (isOf(node, bound)) answer.append(...boundParts(bound));
  return [box, answer];
}

/** @param {Selection|null} one @param {Selection} other */
const sameLine = (one, other) => Boolean(one?.line && one.line === other.line && one.label === other.label);

/** Whether anything in the Guards tab is about the chosen line. @param {import("./store.js").Store} store @param {Selection} chosen */
function hasGuards(store, chosen) {
  const { rows, breaks, recompiles, symbols } = store.get("guards");
  return [...rows, ...breaks, ...recompiles, ...symbols].some((/** @type {any} */ each) => sameLine(each.selection, chosen));
}

/** Why the graph breaks at the chosen line, and what to do. @param {import("./store.js").Store} store @param {Selection} chosen @returns {HTMLElement[]} */
function breakAt(store, chosen) {
  const found = store.get("overview").breaks.filter((/** @type {any} */ each) => sameLine(each.selection, chosen));
  return found.flatMap((/** @type {any} */ each) => [
    make("div", "idj-finding-title", `✂ ${each.headline}`, { "data-idj": "break-here" }),
    make("p", "idj-why", each.text),
    ...each.hints.slice(0, 2).map((/** @type {string} */ hint) => make("p", "idj-why idj-quiet", `→ ${hint}`)),
  ]);
}

/** @param {import("./store.js").Context} context @returns {HTMLElement} */
export function detailPane({ store, wire, signal }) {
  const el = make("div", "idj idj-pane idj-detail");
  const inner = make("div", "idj-detail-inner");
  el.append(inner);
  const memory = { whole: "", page: false, shown: /** @type {Selection|null} */ (null) };
  const draw = () => {
    const chosen = store.get("selection");
    const onlyLine = store.get("tab") === "guards"; // they stand on lines, and have nothing to do with nodes and findings
    const finding = onlyLine ? undefined : store.get("findings").find((row) => row.index === chosen.finding);
    const answer = store.get("node");
    const known = answer.node === chosen.node && answer.stage === chosen.stage && answer.compile_id === chosen.compile_id;
    const node = chosen.node && known && !onlyLine ? answer : null;
    const place = finding?.places.find((one) => one.node === chosen.node && one.stage === chosen.stage && one.compile_id === chosen.compile_id);
    const opened = Boolean(el.querySelector("details.idj-raw[open]"));
    const placesOpen = /** @type {HTMLDetailsElement|null} */ (el.querySelector("details.idj-places"))?.open ?? true;
    const parts = onlyLine && !hasGuards(store, chosen) ? [] : sourceExcerpt({ store, wire, signal }, chosen, place?.text || node?.text || "", memory, draw);
    if (!onlyLine) parts.push(...breakAt(store, chosen));
    if (place?.deeper) parts.push(make("div", "idj-quiet idj-deeper", `↳ ${place.deeper}`));
    if (finding) {
      parts.push(...explanation(finding, store.get("header").variable), ...placesOf(wire, finding, chosen, placesOpen));
      parts.push(...rulePage({ store, wire, signal }, finding, memory));
    } else if (node) parts.push(make("div", "idj-finding-title", node.title), node.wrong ? make("p", "idj-error", `✗ ${node.wrong}`) : make("p", "idj-quiet", "No finding on this node."));
    parts.push(...namespaceBox({ store, wire, signal }, node), ...rawDetail(node, finding, finding ? opened : true));
    if (!parts.length) parts.push(make("p", "idj-quiet", onlyLine ? "Choose a guard, a graph break or a recompile to see its line here." : "Choose a finding, a node or a line to see it explained here."));
    const focus = document.activeElement;
    const pressed = focus && el.contains(focus) && focus.closest(".idj-namespace, .idj-bound-code, .idj-page") ? focus.getAttribute("data-idj") : "";
    inner.replaceChildren(...parts);
    if (pressed) /** @type {HTMLElement|null} */ (el.querySelector(`[data-idj='${pressed}']`))?.focus({ preventScroll: true });
    if (memory.shown !== chosen) el.querySelector(".idj-line.idj-lit")?.scrollIntoView({ block: "nearest" });
    memory.shown = chosen;
  };
  store.follow(["selection", "node", "findings", "sources", "binding", "bound", "page", "tab", "busy", "failed"], signal, draw);
  return el;
}
