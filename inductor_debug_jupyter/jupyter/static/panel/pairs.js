import { SIGNS } from "./compare.js";
import { graphPane } from "./graph.js";
import { make, pressable } from "./dom.js";
import { PARTS } from "./panel.js";
import { Saved } from "./saved.js";
import { Store } from "./store.js";
import { Wire } from "./wire.js";

// Two graphs side by side, of two runs or of two stages: what is chosen or opened in one is in the other, too. The list
// below has what differs; pressing a line shows both nodes.

/** @typedef {[string, string, string]} Place compile id, stage and node */
/** @typedef {{title: string, graphs: [string, string][][], links: [Place, Place][], rows: any[], left_out: number}} Pair */

const SIDES = ["before", "after"];

/** @param {Place} place */
const key = (place) => JSON.stringify(place);

/** One of the two graphs. @param {Saved} saved @param {string} title @param {AbortSignal} signal @param {{panes: import("./graph.js").GraphPane[]}} linked */
function side(saved, title, signal, linked) {
  const store = new Store(saved, PARTS);
  const wire = new Wire(saved, store);
  const frame = make("div", "idj idj-frame idj-side");
  const body = make("div", "idj-body");
  const pane = graphPane({ store, wire, signal, linked });
  body.append(pane);
  frame.append(make("div", "idj-side-title", title), body);
  return { saved, store, wire, frame };
}

/** Where a node of one side is in the other. @param {Pair[]} pairs @returns {Map<string, Place>[]} by side */
export function partnersOf(pairs) {
  /** @type {Map<string, Place>[]} */
  const found = [new Map(), new Map()];
  for (const pair of pairs) {
    for (const [one, other] of pair.links) {
      found[0].set(key(one), other);
      found[1].set(key(other), one);
    }
  }
  return found;
}

/** @param {HTMLElement} el @param {(name: string) => Promise<any>} piece */
export async function showPairs(el, piece) {
  const { signal } = new AbortController();
  const { pairs, titles } = /** @type {{pairs: Pair[], titles: string[]}} */ (await piece("pairs"));
  const saved = await Promise.all(SIDES.map(async (name) => new Saved(await piece(`parts ${name}`), (/** @type {string} */ what) => piece(`${name} ${what}`))));
  const linked = { panes: [] };
  const sides = saved.map((one, at) => side(one, titles[at], signal, linked));
  const partners = partnersOf(pairs);
  const chooser = make("select", "", "", { "aria-label": "Graphs that differ", "data-idj": "pair" });
  pairs.forEach((pair, at) => chooser.append(make("option", "", pair.title, { value: at })));
  const list = make("div", "idj-pair-list", "", { "data-idj": "pair-list", role: "list" });
  const columns = make("div", "idj-pair");
  columns.append(...sides.map((one) => one.frame));
  const bar = make("div", "idj idj-bar");
  bar.append(chooser);
  el.replaceChildren(bar, columns, list);
  let following = false;

  /** Do something in the other side without being followed back. @param {() => Promise<void>} action */
  const quietly = async (action) => {
    if (following) return;
    following = true;
    try {
      await action();
    } finally {
      following = false;
    }
  };
  saved.forEach((one, at) => {
    const other = saved[1 - at];
    one.onSelect = (chosen) =>
      quietly(async () => {
        const place = partners[at].get(key([chosen.compile_id, chosen.stage, chosen.node]));
        await other.select(place ? await other.placed(place) : { ...chosen, node: "", compile_id: "", stage: "" });
      });
    one.onAct = (content) =>
      quietly(async () => {
        if (!content.box || other.graph?.data.boxes[content.box]) other.act(content);
      });
  });

  /** @param {Pair} pair @param {any} row */
  const choose = (pair, row) =>
    quietly(async () => {
      for (const [at, one] of saved.entries()) {
        const other = row.places[1 - at];
        const place = row.places[at] ?? (other && partners[1 - at].get(key(other)));
        if (place) await one.select(await one.placed(place));
        else await one.showGraph(...pair.graphs[at][0]);
      }
    });
  const show = async () => {
    const pair = pairs[Number(chooser.value)];
    await quietly(async () => {
      for (const [at, one] of saved.entries()) await one.showGraph(...pair.graphs[at][0]);
    });
    list.replaceChildren(
      ...pair.rows.map((row) => {
        const line = make("div", "idj-pair-row", "", { role: "listitem", "data-idj": "pair-row", title: row.what });
        line.append(make("b", `idj-pair-${row.status}`, `${SIGNS[row.status]} ${row.status}`), make("code", "idj-mono", row.op), make("span", "", row.what), make("span", "idj-quiet", row.where));
        pressable(line, () => choose(pair, row));
        return line;
      }),
    );
    if (pair.left_out) list.append(make("div", "idj-quiet", `… and ${pair.left_out} more`));
    if (pair.rows.length) await choose(pair, pair.rows[0]);
  };
  chooser.addEventListener("change", show);
  await show();
}
