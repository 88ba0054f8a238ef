import { make } from "./dom.js";

// The page of a rule, under its finding: what the rule means, why hardware has it, ways out, an example. Python reads the page
// from the package when it is first opened, so it is there without a network.

/** @type {Record<string, "h5"|"li"|"pre"|"p">} */
const TAGS = { heading: "h5", item: "li", code: "pre", text: "p" };

/** One block of a page: its lines are pieces of text. @param {any} block @returns {HTMLElement} */
function blockOf(block) {
  const box = make(TAGS[block.kind] ?? "p", `idj-page-${block.kind}`, "", block.kind === "code" ? { tabindex: 0, "aria-label": "Example" } : {});
  block.lines.forEach((/** @type {string[][]} */ pieces, /** @type {number} */ at) => {
    if (at) box.append("\n");
    for (const [cls, text] of pieces) {
      if (block.kind === "code") box.append(cls ? make("span", `idj-t-${cls}`, text) : text);
      else box.append(cls ? make(cls === "code" ? "code" : "em", cls === "code" ? "idj-mono" : "", text) : text);
    }
  });
  return box;
}

/**
 * The rule's id, and behind it its page; a rule of the user's own has an id only.
 * @param {import("./store.js").Context} context @param {any} finding @param {{page: boolean}} memory whether pages are open
 * @returns {HTMLElement[]}
 */
export function rulePage({ store, wire }, finding, memory) {
  if (!finding.has_page) return [];
  const page = store.get("page");
  const error = store.get("failed").page ?? "";
  const ask = () => wire.ask("explain_rule", { rule_id: finding.rule_id }, { pane: "page", words: "Opening…" });
  const box = make("details", "idj-page", "", { "data-idj": "rule-page", "data-rule": finding.rule_id });
  const summary = make("summary", "", "Why this rule? ", { "data-idj": "rule" });
  summary.append(make("code", "idj-mono", finding.rule_id));
  box.append(summary);
  box.open = memory.page;
  if (memory.page && page.name === finding.rule_id) {
    const title = page.title.replace(`${page.name}: `, "");
    box.append(make("h5", "idj-page-title", title[0].toUpperCase() + title.slice(1)), ...page.blocks.map(blockOf));
  } else if (memory.page && error) box.append(make("p", "idj-error", `✗ ${error}`));
  else if (memory.page && !store.get("busy").page) ask();
  box.addEventListener("toggle", () => {
    if (box.open === memory.page) return;
    memory.page = box.open;
    if (box.open) ask();
  });
  return [box];
}
