import { copyButton, icon, make, pressable } from "./dom.js";

// The answer in one line (figures lead to tabs), the tab strip, and the strip that says what went wrong.

/** Panes that say themselves what failed in them. */
const SAY_THEMSELVES = new Set(["fixes", "try", "recompile", "bind", "diff", "page"]);
const GONE = "This panel is no longer connected; run the cell again.";

/** @typedef {import("./wire.js").Wire} Wire */

/** @param {Wire} wire @param {any} view @returns {HTMLElement} */
function answerLine(wire, view) {
  const line = make("div", "idj-answer");
  const figures = make("div", "idj-figures");
  line.append(make("span", "idj-title", view.title, { title: view.title }), figures);
  for (const figure of view.figures) {
    const item = make("span", `idj-figure ${figure.kind ? `idj-${figure.kind}` : ""}`, figure.text);
    if (figure.tab) {
      item.setAttribute("data-idj", "figure");
      item.setAttribute("data-tab", figure.tab);
      item.setAttribute("role", "link");
      pressable(item, () => wire.open(figure.tab));
    }
    figures.append(item);
  }
  return line;
}

/** @param {Wire} wire @param {any} view @param {string} id of the tab panel @returns {HTMLElement} */
function tabStrip(wire, view, id) {
  const strip = make("div", "idj-tabs", "", { role: "tablist", "aria-label": "What to look at" });
  view.tabs.forEach((/** @type {any} */ tab, /** @type {number} */ number) => {
    const item = make("div", "idj-tab", tab.title, { role: "tab", "data-idj": "tab", "data-tab": tab.id, id: `${id}-${tab.id}`, "aria-controls": id });
    if (tab.badge) item.append(make("span", `idj-badge idj-${tab.kind}`, tab.badge));
    pressable(item, () => wire.open(tab.id));
    item.addEventListener("keydown", (event) => {
      const last = view.tabs.length - 1;
      /** @type {Record<string, number>} */
      const goals = { ArrowRight: number + 1, ArrowLeft: number - 1, Home: 0, End: last };
      const to = goals[event.key];
      if (to === undefined || !view.tabs[to]) return;
      event.preventDefault();
      wire.open(view.tabs[to].id);
      const goal = strip.children[to];
      if (goal instanceof HTMLElement) goal.focus();
    });
    strip.append(item);
  });
  return strip;
}

/** The button that opens and closes the form of a quick run. @param {Wire} wire @returns {HTMLElement} */
function quickRun(wire) {
  const button = make("button", "idj-quick", "▷", { title: "Quick run: another model, batch, dtype, target or backend, shown here", "aria-label": "Quick run", "data-idj": "quick-run" });
  button.append(make("span", "idj-quick-label", " Quick run"));
  button.addEventListener("click", () => wire.ask("toggle_quick_run"));
  return button;
}

/** The button that writes the report. @param {Wire} wire @returns {HTMLElement} */
function reportButton(wire) {
  const button = make("button", "idj-tool", "", { title: "Report: write one page with everything, for somebody without this notebook", "aria-label": "Report", "data-idj": "report" });
  button.append(icon("M8 2v8 M4.5 6.5l3.5 3.5l3.5-3.5 M2 13.5h12"));
  button.addEventListener("click", () => wire.ask("write_report", {}, { pane: "report", words: "Writing the report…" }));
  return button;
}

/** Where the report is. @param {any} report @param {() => void} close @returns {HTMLElement[]} */
function reportLine(report, close) {
  const path = make("span", "idj-mono idj-report-path", "", { title: report.path });
  path.append(make("bdi", "", report.path)); // cut off at its beginning: the name of the file is what matters
  const load = make("button", "", "Download", { "data-idj": "report-download" });
  load.addEventListener("click", () => {
    const address = URL.createObjectURL(new Blob([report.text], { type: "text/html" }));
    make("a", "", "", { href: address, download: report.name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  });
  const done = make("button", "", "Dismiss");
  done.addEventListener("click", close);
  return [make("span", "idj-good", "✓ Report written:"), path, copyButton(path, () => report.path, "Copy path"), load, done];
}

/** @param {import("./store.js").Context & {id: string}} context @param {HTMLElement[]} tools buttons at the end of the tab strip @returns {HTMLElement} */
export function headerBar({ store, wire, signal, id }, tools) {
  const el = make("div", "idj-header");
  const trouble = make("div", "idj-trouble", "", { role: "alert", "data-idj": "error" });
  const report = make("div", "idj-report", "", { role: "status", "data-idj": "report-line" });
  store.follow(["header"], signal, () => {
    const strip = make("div", "idj-strip-bar");
    const right = make("div", "idj-tools");
    right.append(quickRun(wire), reportButton(wire), ...tools);
    strip.append(tabStrip(wire, store.get("header"), id), right);
    el.replaceChildren(answerLine(wire, store.get("header")), strip, trouble, report);
  });
  store.follow(["tab", "header"], signal, () => {
    for (const tab of el.querySelectorAll(".idj-tab")) {
      const chosen = tab.getAttribute("data-tab") === store.get("tab");
      tab.classList.toggle("idj-chosen", chosen);
      tab.setAttribute("aria-selected", String(chosen));
      // The strip is one stop for the Tab key; arrow keys move inside it.
      tab.setAttribute("tabindex", chosen ? "0" : "-1");
    }
  });
  store.follow(["report", "busy"], signal, () => {
    const [busy, written] = [store.get("busy").report, store.get("report")];
    report.hidden = !busy && !written.path;
    if (busy) report.replaceChildren(make("span", "idj-quiet", busy));
    else report.replaceChildren(...(written.path ? reportLine(written, () => store.put("report", {})) : []));
  });
  store.follow(["trouble", "failed", "connection"], signal, () => {
    const failed = Object.entries(store.get("failed")).filter(([pane]) => !SAY_THEMSELVES.has(pane));
    const gone = store.get("connection") === "gone";
    const text = gone ? GONE : (failed[0]?.[1] ?? store.get("trouble"));
    trouble.replaceChildren();
    trouble.hidden = !text;
    if (!text) return;
    trouble.append(make("span", "", `✗ ${text}`));
    if (gone) return;
    const close = make("button", "", "Dismiss");
    close.addEventListener("click", () => {
      store.put("failed", Object.fromEntries(Object.entries(store.get("failed")).filter(([pane]) => SAY_THEMSELVES.has(pane))));
      if (store.get("trouble")) wire.ask("dismiss");
    });
    trouble.append(close);
  });
  return el;
}
