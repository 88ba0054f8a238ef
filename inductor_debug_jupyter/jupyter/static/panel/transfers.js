import { make } from "./dom.js";
import { VirtualList } from "./list.js";

/** What a device was sent, what came back, and the kernels that ran there: one line each; the chosen one also as the log says it. */

const ROW = 24;
const KINDS = { "": "Transfers and kernels", copy_to_device: "To the device", copy_from_device: "Back from the device", kernel: "Kernels" };
const ICONS = { copy_to_device: "→", copy_from_device: "←", kernel: "▦" };

/** A row's kind: the direction of a transfer, or kernel. @param {any} item @returns {string} */
const kindOf = (item) => item.direction ?? "kernel";

/** @param {any} item @param {boolean} lit @param {boolean} near @returns {HTMLElement} */
function eventLine(item, lit, near) {
  const row = make("div", "idj-device", "", { role: "option", "data-idj": "device-event", "data-kind": kindOf(item), "aria-selected": lit, title: item.line });
  row.classList.toggle("idj-lit", lit);
  row.classList.toggle("idj-near", near && !lit);
  row.append(make("span", "idj-device-icon", ICONS[kindOf(item)] ?? "•"), make("span", "idj-device-line", item.text));
  row.classList.toggle("idj-device-kernel", !item.size);
  if (item.size) row.append(make("span", "idj-device-size", item.size ?? ""), make("span", "idj-quiet idj-device-size", item.padding ?? "", item.padding ? { title: `${item.padding} of its memory on the device is padding` } : {}));
  return row;
}

/** The chosen row in full: its line, and a kernel's spec as the adapter wrote it. @param {any} item @returns {HTMLElement[]} */
function about(item) {
  const line = make("div", "idj-mono idj-device-whole", item.line);
  return item.spec ? [line, make("pre", "idj-mono idj-device-spec", item.spec, { tabindex: 0, "aria-label": "Kernel spec", "data-idj": "kernel-spec" })] : [line];
}

/** @param {import("./store.js").Context} context @returns {HTMLElement} */
export function transfersPane({ store, wire, signal }) {
  const el = make("div", "idj idj-pane idj-transfers");
  const told = make("div", "idj-transfers-told", "", { role: "status", "data-idj": "transfers-told" });
  const chooser = make("select", "", "", { "aria-label": "What to show", "data-idj": "transfers-kind" });
  chooser.append(...Object.entries(KINDS).map(([kind, title]) => make("option", "", title, { value: kind })));
  const filter = make("input", "", "", { type: "search", placeholder: "Filter transfers and kernels", "aria-label": "Filter transfers and kernels", "data-idj": "transfers-filter" });
  const tally = make("span", "idj-quiet idj-tally");
  const bar = make("div", "idj-bar");
  bar.append(chooser, filter, tally);
  /** @type {any} */
  let chosen = null;
  // The joint graph and its halves call one node by one name: what is chosen in one of them is meant in all.
  const isNear = (item) => Boolean(item.selection && ["compile_id", "node", "label", "line"].every((key) => item.selection[key] === store.get("selection")[key]));
  const list = new VirtualList({
    name: "device-events",
    label: "Transfers and kernels",
    height: ROW,
    build: (item) => eventLine(item, item === chosen, isNear(item)),
    pick: (item) => {
      chosen = item;
      if (item.selection) wire.choose(item.selection);
      explain();
      list.reveal();
    },
    chosen: () => list.items.indexOf(chosen),
  }, signal);
  const heads = make("div", "idj-device idj-device-heads idj-quiet");
  for (const [cls, title] of [["icon", ""], ["line", "What moved or ran"], ["size", "Size"], ["size", "Padding"]]) heads.append(make("span", `idj-device-${cls}`, title));
  const foot = make("div", "idj-device-about", "", { "data-idj": "device-about" });
  el.replaceChildren(told, bar, heads, list.element, foot);

  const explain = () => {
    foot.classList.toggle("idj-hidden", !chosen);
    foot.replaceChildren(...(chosen ? about(chosen) : []));
  };
  const refill = () => {
    const view = store.get("transfers");
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = [...view.transfers, ...view.kernels];
    const rows = all.filter((item) => (!chooser.value || kindOf(item) === chooser.value) && wanted.every((word) => item.line.toLowerCase().includes(word)));
    const more = view.left_out ? `; ${view.left_out.toLocaleString("en")} more in session.transfers and session.kernel_specs` : "";
    tally.textContent = rows.length < all.length || more ? `${rows.length.toLocaleString("en")} of ${all.length.toLocaleString("en")}${more}` : "";
    list.fill(rows);
  };
  filter.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") list.move(event);
  });
  for (const control of [filter, chooser]) {
    control.addEventListener("input", () => {
      list.element.scrollTop = 0;
      refill();
    });
  }
  store.follow(["transfers"], signal, () => {
    chosen = null;
    told.textContent = store.get("transfers").summary;
    refill();
    explain();
  });
  store.follow(["selection"], signal, () => {
    // Chosen elsewhere: the row that was chosen here goes out, those of the same node light up.
    if (chosen?.selection && !isNear(chosen)) chosen = null;
    explain();
    list.reveal(chosen ? list.items.indexOf(chosen) : list.items.findIndex(isNear));
  });
  return el;
}
