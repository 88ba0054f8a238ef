import { make, copyButton } from "./dom.js";

/** The strip above the panes: what would make the chosen finding go away, checked by Python before it is offered. */

/** Of the strip with its buttons alone, in pixels. */
const HEIGHT = 35;
/** The tabs that tell of findings; elsewhere the strip is there only while something is going on or in force. */
const TABS = new Set(["overview", "findings", "graph"]);
/** @type {Record<string, string>} */
const BUSY = { check_fixits: "Checking: the model runs with each fix-it…", apply_fixit: "Applying…", undo_fixit: "Taking back…", fix_all: "Searching: the model runs with many fix-its…" };

/** One offer: what it does, that it was checked, what it makes worse, and a button. @param {any} offer @param {() => void} apply @returns {HTMLElement} */
function offerRow(offer, apply) {
  const row = make("div", "idj-fix", "", { "data-idj": "fixit", title: offer.lines.join("\n") });
  const button = make("button", "", "Apply", { "data-idj": "fix-apply" });
  button.addEventListener("click", apply);
  row.append(make("span", "idj-fix-title", offer.title), make("span", "idj-good", `✓ ${offer.checked}`));
  if (offer.worse.length) row.append(make("span", "idj-warning", `⚠ ${offer.worse.length} new`, { title: offer.worse.join("\n") }));
  row.append(button);
  return row;
}

/** The change of the user's source, to be looked at and copied. @param {string} patch @returns {HTMLElement} */
function patchBox(patch) {
  const box = make("details", "idj-fix-patch", "", { "data-idj": "fix-patch" });
  const text = make("pre", "idj-mono");
  for (const line of patch.split("\n")) {
    const kind = line.startsWith("+") ? "idj-fix-added" : line.startsWith("-") ? "idj-fix-removed" : "";
    text.append(make("span", kind, line), "\n");
  }
  box.append(make("summary", "", "Your source with it"), copyButton(text, () => patch), text);
  return box;
}

/** @param {import("./store.js").Context} context @returns {HTMLElement} */
export function fixesStrip({ store, wire, signal }) {
  const el = make("div", "idj idj-fixes");
  /** @param {string} kind @param {Record<string, any>} [fields] */
  const ask = (kind, fields = {}) => wire.ask(kind, fields, { pane: "fixes", words: BUSY[kind] });
  /** @param {string} text @param {string} name @param {() => void} action */
  const button = (text, name, action) => {
    const made = make("button", "", text, { "data-idj": name });
    made.addEventListener("click", action);
    return made;
  };
  const check = button("Check fixes", "fix-check", () => ask("check_fixits", { finding: store.get("selection").finding }));
  const all = button("Fix all", "fix-all", () => ask("fix_all"));
  const undo = button("Undo", "fix-undo", () => ask("undo_fixit"));
  const status = make("span", "idj-fix-status", "", { role: "status", "data-idj": "fix-status" });
  const applied = make("span", "idj-fix-applied", "", { "data-idj": "fix-applied" });
  const bar = make("div", "idj-bar");
  bar.append(check, all, applied, undo, status);
  const offers = make("div", "idj-fix-offers");
  const lines = make("div", "idj-fix-lines idj-mono", "", { "data-idj": "fix-lines" });
  const patch = make("div");
  el.append(bar, offers, lines, patch);

  let height = HEIGHT;
  const draw = () => {
    const view = store.get("fixes");
    const busy = store.get("busy").fixes ?? "";
    const error = store.get("failed").fixes ?? "";
    const hidden = !view.applied || !(TABS.has(store.get("tab")) || view.applied.length || busy || error);
    height = el.offsetHeight || height;
    el.classList.toggle("idj-hidden", hidden);
    // The panes take its room meanwhile, so that the page does not jump when a tab opens.
    const spare = hidden && view.applied ? `${height}px` : "0px";
    queueMicrotask(() => el.parentElement?.style.setProperty("--idj-spare", spare));
    if (hidden) return;
    const finding = store.get("selection").finding;
    check.hidden = finding === null;
    check.disabled = all.disabled = undo.disabled = Boolean(busy);
    undo.hidden = !view.applied.length;
    applied.textContent = view.applied.length ? `In force: ${view.applied.join(", ")}` : "";
    applied.title = applied.textContent;
    status.textContent = busy || error || view.message;
    status.title = status.textContent;
    status.classList.toggle("idj-error", !busy && Boolean(error));
    const shown = !busy && view.finding === finding ? view.offers : [];
    offers.replaceChildren(...shown.map((offer, number) => offerRow(offer, () => ask("apply_fixit", { offer: number }))));
    lines.replaceChildren(...(view.applied.length ? view.lines.map((line) => make("div", "", line)) : []));
    if (patch.dataset.of !== view.patch) patch.replaceChildren(...(view.patch ? [patchBox(view.patch)] : []));
    patch.dataset.of = view.patch;
  };
  store.follow(["fixes", "selection", "tab", "busy", "failed"], signal, draw);
  return el;
}
