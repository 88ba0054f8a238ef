/** The answer in one line (figures lead to tabs), the tab strip, and the strip that shows errors of our own. */

/** @param {Model} model @param {string} tab */
function open(model, tab) {
  model.set("tab", tab);
  model.save_changes();
}

/** @param {Model} model @param {any} view @returns {HTMLElement} */
function answerLine(model, view) {
  const line = make("div", "idj-answer");
  const figures = make("div", "idj-figures");
  line.append(make("span", "idj-title", view.title, { title: view.title }), figures);
  for (const figure of view.figures) {
    const item = make("span", `idj-figure ${figure.kind ? `idj-${figure.kind}` : ""}`, figure.text);
    if (figure.tab) {
      item.setAttribute("data-idj", "figure");
      item.setAttribute("data-tab", figure.tab);
      item.setAttribute("role", "link");
      pressable(item, () => open(model, figure.tab));
    }
    figures.append(item);
  }
  return line;
}

/** @param {Model} model @param {any} view @returns {HTMLElement} */
function tabStrip(model, view) {
  const strip = make("div", "idj-tabs", "", { role: "tablist" });
  view.tabs.forEach((tab, number) => {
    const item = make("div", "idj-tab", tab.title, { role: "tab", "data-idj": "tab", "data-tab": tab.id });
    if (tab.badge) item.append(make("span", `idj-badge idj-${tab.kind}`, tab.badge));
    pressable(item, () => open(model, tab.id));
    item.addEventListener("keydown", (event) => {
      const last = view.tabs.length - 1;
      const to = { ArrowRight: number + 1, ArrowLeft: number - 1, Home: 0, End: last }[event.key];
      if (to === undefined || !view.tabs[to]) return;
      event.preventDefault();
      open(model, view.tabs[to].id);
      strip.children[to].focus();
    });
    strip.append(item);
  });
  return strip;
}

/** The button that opens and closes the form of a quick run. @param {Model} model @returns {HTMLElement} */
function quickRun(model) {
  const button = make("button", "idj-quick", "▷", { title: "Quick run: another model, batch, dtype, target or backend, shown here", "aria-label": "Quick run", "data-idj": "quick-run" });
  button.append(make("span", "idj-quick-label", " Quick run"));
  button.addEventListener("click", () => {
    model.set("asked", "quick_run");
    model.save_changes();
  });
  return button;
}

function render({ model, el, signal }) {
  el.classList.add("idj", "idj-header");
  keepKeys(el);
  const trouble = make("div", "idj-trouble", "", { role: "alert", "data-idj": "error" });
  follow(model, ["view"], signal, () => {
    const strip = make("div", "idj-strip-bar");
    strip.append(tabStrip(model, model.get("view")), quickRun(model));
    el.replaceChildren(answerLine(model, model.get("view")), strip, trouble);
  });
  follow(model, ["tab", "view"], signal, () => {
    for (const tab of el.querySelectorAll(".idj-tab")) {
      const chosen = tab.getAttribute("data-tab") === model.get("tab");
      tab.classList.toggle("idj-chosen", chosen);
      tab.setAttribute("aria-selected", String(chosen));
      tab.tabIndex = chosen ? 0 : -1; // the strip is one stop for the Tab key; arrow keys move inside it
    }
  });
  follow(model, ["error"], signal, () => {
    trouble.replaceChildren();
    trouble.hidden = !model.get("error");
    if (trouble.hidden) return;
    const close = make("button", "", "Dismiss");
    close.addEventListener("click", () => {
      model.set("error", "");
      model.save_changes();
    });
    trouble.append(make("span", "", `✗ ${model.get("error")}`), close);
  });
}

export default { render };
