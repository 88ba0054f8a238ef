import { make } from "./dom.js";
import { PARTS, show } from "./panel.js";
import { showPairs } from "./pairs.js";
import { Saved } from "./saved.js";
import { Store } from "./store.js";
import { Wire } from "./wire.js";

// Panels in a page without Python: a session's in a report, and two graphs side by side in a comparison.

/** @param {string} text base64 of gzipped JSON @returns {Promise<any>} */
async function unpacked(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

/** The pieces of one panel, each unpacked once. @param {string} owner @returns {(name: string) => Promise<any>} */
function piecesOf(owner) {
  /** @type {Map<string, Promise<any>>} */
  const known = new Map();
  return (name) => {
    const found = known.get(name) ?? unpacked(document.querySelector(`script[data-owner="${CSS.escape(owner)}"][data-piece="${CSS.escape(name)}"]`)?.textContent ?? "");
    known.set(name, found);
    return found;
  };
}

/** @param {HTMLElement} el @returns {Promise<void>} */
async function start(el) {
  const piece = piecesOf(el.dataset.panel ?? "");
  if (el.hasAttribute("data-pairs")) return showPairs(el, piece);
  const saved = new Saved(await piece("parts"), piece);
  const store = new Store(saved, PARTS);
  const wire = new Wire(saved, store);
  show(store, wire, null, el, new AbortController().signal);
  await saved.openTab(saved.get("tab"));
  await saved.follow(location.hash);
  addEventListener("hashchange", () => saved.follow(location.hash));
}

/** Follow the reader's light or dark theme. */
function followTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const tell = () => document.body.setAttribute("data-jp-theme-light", String(!dark.matches));
  dark.addEventListener("change", tell);
  tell();
}

/** Everything of the page but long listings opens for print, and closes afterwards. */
function openForPrint() {
  /** @type {HTMLDetailsElement[]} */
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details")].filter((one) => !one.open && !one.closest(".long"));
    for (const one of opened) one.open = true;
  });
  addEventListener("afterprint", () => {
    for (const one of opened) one.open = false;
  });
}

/** Begin every panel of the page: at once, or when the section around it is first opened. */
async function begin() {
  followTheme();
  openForPrint();
  for (const el of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll("[data-panel]"))) {
    const around = el.closest("details:not([open])");
    /** @param {Error} error */
    const tell = (error) => el.replaceChildren(make("p", "error", `The panel could not be shown: ${error.message}`));
    if (around) around.addEventListener("toggle", () => start(el).catch(tell), { once: true });
    else await start(el).catch(tell);
  }
}

if (typeof document !== "undefined" && document.querySelector?.("[data-panel]")) begin();
