// What every panel needs. Python puts this text in front of each panel's own module (see panels/asset.py), because an
// anywidget module stands alone. Data becomes text nodes and attributes only: there is no innerHTML anywhere.

/**
 * @typedef {{finding: number|null, compile_id: string, stage: string, node: string, label: string, line: number}} Selection
 * @typedef {{get(name: string): any, set(name: string, value: any): void, save_changes(): void,
 *            on(event: string, callback: () => void): void, off(event: string, callback: () => void): void}} Model
 */

/**
 * A new element with a class, text and attributes.
 * @param {string} tag
 * @param {string} [cls]
 * @param {string} [text]
 * @param {Record<string, string|number>} [attributes]
 * @returns {HTMLElement}
 */
function make(tag, cls = "", text = "", attributes = {}) {
  const element = document.createElement(tag);
  if (cls) element.className = cls;
  if (text) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}

/**
 * Choose something, everywhere: the models are linked in the browser, and Python is told.
 * @param {Model} model
 * @param {Selection} selection
 * @param {string} [tab] open this tab too
 */
function choose(model, selection, tab = "") {
  model.set("selection", selection);
  if (tab) model.set("tab", tab);
  model.save_changes();
}

/**
 * Call `draw` now and whenever one of the named traits changes, until `signal` aborts.
 * @param {Model} model
 * @param {string[]} names
 * @param {AbortSignal|undefined} signal
 * @param {() => void} draw
 */
function follow(model, names, signal, draw) {
  for (const name of names) {
    model.on(`change:${name}`, draw);
    signal?.addEventListener("abort", () => model.off(`change:${name}`, draw));
  }
  draw();
}

/**
 * Show the panel only in the tabs that it belongs to.
 * @param {Model} model
 * @param {HTMLElement} el
 * @param {AbortSignal|undefined} signal
 */
function showInTabs(model, el, signal) {
  follow(model, ["tab"], signal, () => el.classList.toggle("idj-hidden", !model.get("tabs").includes(model.get("tab"))));
}

/**
 * Make an element a button for mouse and keyboard. Keys that JupyterLab also knows stay here.
 * @param {HTMLElement} element
 * @param {() => void} action
 */
function pressable(element, action) {
  element.tabIndex = 0;
  if (!element.hasAttribute("role")) element.setAttribute("role", "button");
  element.addEventListener("click", action);
  element.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    event.stopPropagation();
    action();
  });
}

/**
 * Keep keys typed in a panel from reaching JupyterLab's command mode (where "d d" deletes the cell).
 * @param {HTMLElement} el
 */
function keepKeys(el) {
  el.setAttribute("data-lm-suppress-shortcuts", "true");
  el.addEventListener("keydown", (event) => event.stopPropagation());
}
