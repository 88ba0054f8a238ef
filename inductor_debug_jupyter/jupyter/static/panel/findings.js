import { make } from "./dom.js";
import { VirtualList } from "./list.js";

/**
 * The left pane: findings worst first, with a filter, an order and groups that fold. Only the rows in sight are in the page,
 * so length does not matter.
 */

const ROW = 46;
const GROUPS = { "": "No groups", severity: "By severity", rule: "By rule", module: "By module", line: "By line" };
const ORDERS = { worst: "Worst first", places: "Most places first", rule: "By rule", line: "By line" };

/** @param {any} finding @param {boolean} lit @returns {HTMLElement} */
function findingRow(finding, lit) {
  const row = make("div", "idj-row", "", {
    role: "option",
    "data-idj": "finding",
    "data-index": finding.index,
    "aria-selected": lit,
    title: `${finding.title}\n${finding.where}`,
  });
  row.classList.toggle("idj-lit", lit);
  const head = make("div", "idj-row-head");
  head.append(make("span", `idj-icon idj-${finding.severity}`, finding.icon), make("span", "idj-row-title", finding.title));
  if (finding.count > 1) head.append(make("span", "idj-quiet idj-times", `×${finding.count}`));
  row.append(head, make("div", "idj-row-where idj-quiet", finding.where || finding.rule_id));
  return row;
}

/** @param {any} group @param {boolean} lit @returns {HTMLElement} */
function groupRow(group, lit) {
  const row = make("div", "idj-row idj-group", "", { role: "option", "data-idj": "finding-group", "data-group": group.name, "aria-expanded": !group.folded, "aria-selected": lit, title: group.name });
  row.classList.toggle("idj-lit", lit);
  const places = group.rows.reduce((sum, finding) => sum + finding.count, 0);
  const head = make("div", "idj-row-head");
  head.append(make("span", "idj-icon", group.folded ? "▸" : "▾"), make("span", `idj-icon idj-${group.rows[0].severity}`, group.rows[0].icon), make("span", "idj-row-title", group.name));
  row.append(head, make("div", "idj-row-where idj-quiet", `${plural(group.rows.length, "finding")} · ${plural(places, "place")}`));
  return row;
}

/** @param {number} number @param {string} noun */
const plural = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

/** Python sends the rows worst first, and sorting keeps the order of equals. @param {any[]} rows @param {string} order */
function sorted(rows, order) {
  const place = (finding) => finding.places[0] ?? { label: "￿", line: 0 };
  const by = {
    places: (one, other) => other.count - one.count,
    rule: (one, other) => one.rule_id.localeCompare(other.rule_id),
    line: (one, other) => place(one).label.localeCompare(place(other).label, "en", { numeric: true }) || place(one).line - place(other).line,
  }[order];
  return by ? [...rows].sort(by) : rows;
}

/** Rows with a heading before each group, in the order of their first rows; a folded group is its heading alone.
 *  @param {any[]} rows @param {string} key @param {Set<string>} folded @returns {any[]} */
function grouped(rows, key, folded) {
  if (!key) return rows;
  /** @type {Map<string, any[]>} */
  const groups = new Map();
  for (const finding of rows) {
    const name = finding.groups[key];
    groups.set(name, [...(groups.get(name) ?? []), finding]);
  }
  return [...groups].flatMap(([name, members]) => {
    const heading = { group: true, name, rows: members, folded: folded.has(name) };
    return heading.folded ? [heading] : [heading, ...members];
  });
}

/** @param {string} label @param {string} name @param {Record<string, string>} titles @returns {HTMLSelectElement} */
function selector(label, name, titles) {
  const select = /** @type {HTMLSelectElement} */ (make("select", "", "", { "aria-label": label, title: label, "data-idj": name }));
  select.append(...Object.entries(titles).map(([value, title]) => make("option", "", title, { value })));
  return select;
}

/** @param {import("./store.js").Context} context @returns {HTMLElement} */
export function findingsPane({ store, wire, signal }) {
  const el = make("div", "idj idj-pane idj-findings");
  const filter = make("input", "", "", { type: "search", placeholder: "Filter findings", "aria-label": "Filter findings", "data-idj": "filter" });
  const tally = make("span", "idj-quiet idj-tally");
  const group = selector("Group findings", "findings-group", GROUPS);
  const order = selector("Order of findings", "findings-order", ORDERS);
  const [bar, second] = [make("div", "idj-bar"), make("div", "idj-bar idj-findings-order")];
  bar.append(filter, tally);
  second.append(order, group);
  /** @type {Set<string>} */
  const folded = new Set();
  /** The heading that the arrow keys are on; otherwise they are on the chosen finding. @type {string|null} */
  let heading = null;
  const isLit = (item) => (item.group ? item.name === heading : heading === null && item.index === store.get("selection").finding);
  const list = new VirtualList({
    name: "findings",
    label: "Findings",
    height: ROW,
    build: (item) => (item.group ? groupRow : findingRow)(item, isLit(item)),
    pick: (item) => {
      heading = item.group ? item.name : null;
      if (!item.group) wire.choose(item.selection);
      list.reveal();
    },
    press: (item, at) => {
      if (item.group) {
        if (!folded.delete(item.name)) folded.add(item.name);
        refill();
      }
      list.pick(at);
    },
    chosen: () => list.items.findIndex(isLit),
  }, signal);
  el.replaceChildren(bar, second, list.element);

  const refill = () => {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = store.get("findings");
    const rows = all.filter((finding) => wanted.every((word) => finding.search.includes(word)));
    tally.textContent = wanted.length ? `${rows.length} of ${all.length}` : "";
    list.fill(grouped(sorted(rows, order.value), group.value, folded));
  };
  filter.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") list.move(event);
  });
  filter.addEventListener("input", () => {
    list.element.scrollTop = 0;
    refill();
  });
  group.addEventListener("input", () => {
    folded.clear();
    heading = null;
    refill();
    list.reveal();
  });
  order.addEventListener("input", () => {
    refill();
    list.reveal();
  });
  store.follow(["findings"], signal, refill);
  store.follow(["selection"], signal, () => {
    heading = null;
    list.reveal();
  });
  return el;
}
