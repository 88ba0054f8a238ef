/** The left pane: findings worst first, with a filter. Only the rows in sight are in the page, so length does not matter. */

const ROW = 46;

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

function render({ model, el, signal }) {
  el.classList.add("idj", "idj-pane", "idj-findings");
  keepKeys(el);
  showInTabs(model, el, signal);
  const filter = make("input", "", "", { type: "search", placeholder: "Filter findings", "aria-label": "Filter findings", "data-idj": "filter" });
  const tally = make("span", "idj-quiet idj-tally");
  const bar = make("div", "idj-bar");
  bar.append(filter, tally);
  const list = new VirtualList({
    name: "findings",
    label: "Findings",
    height: ROW,
    build: (finding) => findingRow(finding, finding.index === model.get("selection").finding),
    pick: (finding) => choose(model, finding.selection),
    chosen: () => list.items.findIndex((finding) => finding.index === model.get("selection").finding),
  }, signal);
  el.replaceChildren(bar, list.element);

  const refill = () => {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = model.get("rows");
    const rows = all.filter((finding) => wanted.every((word) => finding.search.includes(word)));
    tally.textContent = wanted.length ? `${rows.length} of ${all.length}` : "";
    list.fill(rows);
  };
  filter.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") list.move(event);
  });
  filter.addEventListener("input", () => {
    list.element.scrollTop = 0;
    refill();
  });
  follow(model, ["rows"], signal, refill);
  follow(model, ["selection"], signal, () => list.reveal());
}

export default { render };
