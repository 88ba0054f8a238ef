// Elements, buttons and keys. Data becomes text nodes and attributes only: there is no innerHTML anywhere.

/**
 * A new element with a class, text and attributes.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {string} [cls]
 * @param {string} [text]
 * @param {Record<string, string|number|boolean>} [attributes]
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, cls = "", text = "", attributes = {}) {
  const element = document.createElement(tag);
  if (cls) element.className = cls;
  if (text) element.textContent = text;
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  return element;
}

/**
 * Make an element a button for mouse and keyboard. Keys that JupyterLab also knows stay here.
 * @param {HTMLElement} element
 * @param {() => void} action
 */
export function pressable(element, action) {
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

/** A small drawing for a button: fonts do not agree on signs. @param {string} path in a square of 16 @returns {SVGSVGElement} */
export function icon(path) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  for (const [name, value] of Object.entries({ viewBox: "0 0 16 16", width: "14", height: "14", "aria-hidden": "true", class: "idj-drawn" })) svg.setAttribute(name, value);
  const line = document.createElementNS("http://www.w3.org/2000/svg", "path");
  line.setAttribute("d", path);
  svg.append(line);
  return svg;
}

/** The nearest element around an event's target that matches. @param {Event} event @param {string} selector @returns {Element|null} */
export function closest(event, selector) {
  return event.target instanceof Element ? event.target.closest(selector) : null;
}

/**
 * A button that copies what `text` answers; without a clipboard what is `shown` is selected, to be copied by hand.
 * @param {HTMLElement} shown @param {() => string} text @param {string} [title] @returns {HTMLButtonElement}
 */
export function copyButton(shown, text, title = "Copy") {
  const copy = make("button", "idj-copy", title, { "data-idj": "copy" });
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(text());
      copy.textContent = "Copied";
      setTimeout(() => (copy.textContent = title), 1500);
    } catch {
      getSelection()?.selectAllChildren(shown);
    }
  });
  return copy;
}

/**
 * Keep keys typed in a panel from reaching JupyterLab's command mode (where "d d" deletes the cell).
 * @param {HTMLElement} el
 */
export function keepKeys(el) {
  el.setAttribute("data-lm-suppress-shortcuts", "true");
  el.addEventListener("keydown", (event) => event.stopPropagation());
}
