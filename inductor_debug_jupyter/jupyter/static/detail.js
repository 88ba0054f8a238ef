/** The right pane explains what is chosen: the user's own source first, then why, seen and allowed, what to do, raw detail. */

const AROUND = 4;
const PLACES = 40;

/** How far all lines are indented: an excerpt does without it, the pane is narrow.
 *  @param {any[]} lines @returns {number} */
function sharedIndent(lines) {
  const written = lines.map((line) => line.text).filter((text) => text.trim());
  return Math.min(...written.map((text) => text.length - text.trimStart().length), 999);
}

/** @param {Model} model @param {Selection} chosen @param {string} text what the record knows of a line whose file was not kept
 *  @param {{whole: string}} memory @param {() => void} redraw @returns {HTMLElement[]} */
function sourceExcerpt(model, chosen, text, memory, redraw) {
  const sources = model.get("sources");
  const label = chosen.label || Object.keys(sources)[0];
  const source = sources[label];
  if (!source) {
    if (!chosen.label) return [];
    const only = { number: chosen.line, text, mark: "", selection: null };
    const box = make("div", "idj-source");
    box.append(sourceLine(only, true, model));
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
  inner.append(...shown.map((line) => sourceLine(line, line.number === chosen.line && label === chosen.label, model, indent)));
  box.append(inner);
  return [head, box];
}

/** @param {string} name @param {string} text @param {string} [cls] @returns {HTMLElement[]} */
function fact(name, text, cls = "") {
  return text ? [make("span", "idj-quiet", name), make("span", `idj-value ${cls}`, text)] : [];
}

/** @param {any} finding @returns {HTMLElement[]} */
function explanation(finding) {
  const title = make("div", "idj-finding-title");
  title.append(make("span", `idj-icon idj-${finding.severity}`, finding.icon), make("span", "", finding.title));
  const facts = make("div", "idj-facts");
  facts.append(...fact("Seen", finding.observed), ...fact("Allowed", finding.allowed));
  for (const hint of [...finding.fixits, ...finding.hints]) facts.append(...fact("Do", hint));
  return [title, ...(finding.explanation ? [make("p", "idj-why", finding.explanation)] : []), facts];
}

/** @param {Model} model @param {any} finding @param {Selection} chosen @param {boolean} open @returns {HTMLElement[]} */
function placesOf(model, finding, chosen, open) {
  if (finding.count < 2) return [];
  const box = make("details", "idj-places");
  box.open = open;
  box.append(make("summary", "", `${finding.count} places`));
  for (const place of finding.places.slice(0, PLACES)) {
    const { compile_id, stage, node, label, line } = place;
    const row = make("div", "idj-place idj-link", "", { "data-idj": "place", "data-node": node });
    row.classList.toggle("idj-lit", node === chosen.node && stage === chosen.stage && compile_id === chosen.compile_id);
    row.append(make("span", "", [place.module_path, place.op || node].filter(Boolean).join(" · ")), make("span", "idj-quiet", line ? `${label}:${line}` : `${compile_id} ${stage}`));
    pressable(row, () => choose(model, { finding: finding.index, compile_id, stage, node, label, line }));
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
  if (finding) facts.append(...fact("rule", finding.rule_id, "idj-mono"));
  for (const [name, text] of node?.rows ?? []) facts.append(...fact(name, text, "idj-mono"));
  box.append(facts);
  return [box];
}

function render({ model, el, signal }) {
  el.classList.add("idj", "idj-pane", "idj-detail");
  keepKeys(el);
  showInTabs(model, el, signal);
  const memory = { whole: "" };
  const draw = () => {
    const chosen = model.get("selection");
    const finding = model.get("rows").find((row) => row.index === chosen.finding);
    const answer = model.get("node");
    const known = answer.node === chosen.node && answer.stage === chosen.stage && answer.compile_id === chosen.compile_id;
    const node = chosen.node && known ? answer : null;
    const place = finding?.places.find((one) => one.node === chosen.node && one.stage === chosen.stage && one.compile_id === chosen.compile_id);
    const opened = Boolean(el.querySelector("details.idj-raw[open]"));
    const placesOpen = el.querySelector("details.idj-places")?.open ?? true;
    const parts = sourceExcerpt(model, chosen, place?.text || node?.text || "", memory, draw);
    if (place?.deeper) parts.push(make("div", "idj-quiet idj-deeper", `↳ ${place.deeper}`));
    if (finding) parts.push(...explanation(finding), ...placesOf(model, finding, chosen, placesOpen));
    else if (node) parts.push(make("div", "idj-finding-title", node.title), make("p", "idj-quiet", "No finding on this node."));
    parts.push(...rawDetail(node, finding, finding ? opened : true));
    if (!parts.length) parts.push(make("p", "idj-quiet", "Choose a finding, a node or a line to see it explained here."));
    el.replaceChildren(...parts);
    el.querySelector(".idj-line.idj-lit")?.scrollIntoView({ block: "nearest" });
  };
  follow(model, ["selection", "node", "rows", "sources"], signal, draw);
}

export default { render };
