/** The strip above the panes: what would make the chosen finding go away, checked by Python before it is offered. */

const BUSY = { check: "Checking: the model runs with each fix-it…", apply: "Applying…", undo: "Taking back…", all: "Searching: the model runs with many fix-its…" };

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
  box.append(make("summary", "", "Your source with it"), copyButton(text, patch), text);
  return box;
}

function render({ model, el, signal }) {
  el.classList.add("idj", "idj-fixes");
  keepKeys(el);
  showInTabs(model, el, signal);
  let busy = "";
  const ask = (what) => {
    busy = BUSY[what.do];
    model.set("asked", { ...what, at: Date.now() });
    model.save_changes();
    draw();
  };
  const button = (text, name, what) => {
    const made = make("button", "", text, { "data-idj": name });
    made.addEventListener("click", () => ask(what()));
    return made;
  };
  const check = button("Check fixes", "fix-check", () => ({ do: "check", finding: model.get("selection").finding }));
  const all = button("Fix all", "fix-all", () => ({ do: "all" }));
  const undo = button("Undo", "fix-undo", () => ({ do: "undo" }));
  const status = make("span", "idj-fix-status", "", { role: "status", "data-idj": "fix-status" });
  const applied = make("span", "idj-fix-applied", "", { "data-idj": "fix-applied" });
  const bar = make("div", "idj-bar");
  bar.append(check, all, applied, undo, status);
  const offers = make("div", "idj-fix-offers");
  const lines = make("div", "idj-fix-lines idj-mono", "", { "data-idj": "fix-lines" });
  const patch = make("div");
  el.append(bar, offers, lines, patch);

  const draw = () => {
    const view = model.get("view");
    const finding = model.get("selection").finding;
    check.hidden = finding === null;
    check.disabled = all.disabled = undo.disabled = Boolean(busy);
    undo.hidden = !view.applied.length;
    applied.textContent = view.applied.length ? `In force: ${view.applied.join(", ")}` : "";
    applied.title = applied.textContent;
    status.textContent = busy || view.error || view.said;
    status.title = status.textContent;
    status.classList.toggle("idj-error", !busy && Boolean(view.error));
    const shown = !busy && view.finding === finding ? view.offers : [];
    offers.replaceChildren(...shown.map((offer, number) => offerRow(offer, () => ask({ do: "apply", offer: number }))));
    lines.replaceChildren(...(view.applied.length ? view.lines.map((line) => make("div", "", line)) : []));
    patch.replaceChildren(...(view.patch ? [patchBox(view.patch)] : []));
  };
  follow(model, ["view"], signal, () => {
    busy = "";
    draw();
  });
  follow(model, ["selection"], signal, draw);
}

export default { render };
