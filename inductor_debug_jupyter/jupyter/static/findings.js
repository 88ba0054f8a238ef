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
  const list = make("div", "idj-list", "", { role: "listbox", tabindex: 0, "aria-label": "Findings", "data-idj": "findings" });
  const sheet = make("div", "idj-sheet");
  list.append(sheet);
  el.replaceChildren(bar, list);
  /** @type {any[]} */
  let rows = [];

  const draw = () => {
    const first = Math.max(0, Math.floor(list.scrollTop / ROW) - 4);
    const last = Math.min(rows.length, first + Math.ceil((list.clientHeight || 480) / ROW) + 8);
    const chosen = model.get("selection").finding;
    sheet.replaceChildren(
      ...rows.slice(first, last).map((finding, offset) => {
        const row = findingRow(finding, finding.index === chosen);
        row.style.top = `${(first + offset) * ROW}px`;
        return row;
      }),
    );
  };
  const refill = () => {
    const wanted = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    const all = model.get("rows");
    rows = all.filter((finding) => wanted.every((word) => finding.search.includes(word)));
    tally.textContent = wanted.length ? `${rows.length} of ${all.length}` : "";
    sheet.style.height = `${rows.length * ROW}px`;
    draw();
  };
  const reveal = () => {
    const at = rows.findIndex((finding) => finding.index === model.get("selection").finding);
    if (at >= 0 && list.clientHeight) {
      const top = at * ROW;
      if (top < list.scrollTop) list.scrollTop = top;
      else if (top + ROW > list.scrollTop + list.clientHeight) list.scrollTop = top + ROW - list.clientHeight;
    }
    draw();
  };
  const move = (event) => {
    const page = Math.max(1, Math.floor(list.clientHeight / ROW) - 1);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -rows.length, End: rows.length }[event.key];
    if (!step || !rows.length) return;
    event.preventDefault();
    const at = rows.findIndex((finding) => finding.index === model.get("selection").finding);
    choose(model, rows[Math.min(rows.length - 1, Math.max(0, at + step))].selection);
  };

  sheet.addEventListener("click", (event) => {
    const row = event.target.closest("[data-index]");
    const finding = row && rows.find((one) => one.index === Number(row.getAttribute("data-index")));
    if (finding) choose(model, finding.selection);
    list.focus({ preventScroll: true });
  });
  list.addEventListener("keydown", move);
  filter.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") move(event);
  });
  filter.addEventListener("input", () => {
    list.scrollTop = 0;
    refill();
  });
  list.addEventListener("scroll", draw);
  const watch = new ResizeObserver(reveal);
  watch.observe(list);
  signal?.addEventListener("abort", () => watch.disconnect());
  follow(model, ["rows"], signal, refill);
  follow(model, ["selection"], signal, reveal);
}

export default { render };
