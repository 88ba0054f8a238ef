import { make, pressable } from "./dom.js";

/** @type {Record<string, string>} */
const MARKS = { error: "✗", warning: "⚠", info: "ℹ", break: "✂" };

/**
 * One line of the user's source; pressing it chooses what stands on it.
 * @param {any} line @param {boolean} lit @param {import("./wire.js").Wire} wire @param {number} [indent] @returns {HTMLElement}
 */
export function sourceLine(line, lit, wire, indent = 0) {
  const row = make("div", "idj-line", "", { "data-idj": "line", "data-line": line.number });
  row.classList.toggle("idj-lit", lit);
  const icon = MARKS[line.mark] ?? "";
  row.append(
    make("span", `idj-mark idj-${line.mark === "break" ? "warning" : line.mark}`, icon, line.mark === "break" ? { title: "graph break" } : {}),
    make("span", "idj-number", String(line.number)),
    make("code", "", line.text.slice(indent) || " "),
  );
  if (line.selection) {
    row.classList.add("idj-link");
    pressable(row, () => wire.choose(line.selection));
  }
  return row;
}
