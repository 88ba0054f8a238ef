import { drawChart } from "./chart.js";
import { make } from "./dom.js";

// Widgets of others in the panel: bqplot's charts, and ipywidgets' form of a quick run. They are views of the same widget
// manager, put into an element here. A chart measures itself when Lumino, JupyterLab's layout, tells it that it is attached or
// resized; nobody but the panel can tell it so in here.

/** The chart of that name, drawn here: a page without widgets has its data in the part `charts`. @param {import("./store.js").Context} context @param {string} name */
function plainChart({ store, wire }, name) {
  const chart = store.get("charts")[name];
  return drawChart(chart, (at) => {
    chart.pick?.(at);
    if (chart.selections?.[at]) wire.choose(chart.selections[at]);
  });
}

/**
 * A place for the widget that the part `widgets` has under a name, or for the chart of that name; without either it takes no room.
 * @param {import("./store.js").Context & {manager: any}} context @param {string} name @param {string} [cls] @returns {HTMLElement}
 */
export function childSlot(context, name, cls = "") {
  const { store, signal, manager } = context;
  const slot = make("div", `idj-child ${cls}`, "", { "data-idj": "child", "data-name": name });
  let shown = "";
  /** @type {any} */
  let view = null;
  const leave = () => {
    if (!view) return;
    const lumino = luminoOf(view);
    if (lumino?.isAttached) {
      lumino.processMessage({ type: "before-detach" });
      view.el.remove();
      lumino.processMessage({ type: "after-detach" });
    }
    view.remove();
    view = null;
  };
  const show = async () => {
    const reference = store.get("widgets")?.[name] ?? "";
    if (reference === shown) return;
    shown = reference;
    slot.hidden = !reference;
    if (!reference) {
      leave();
      slot.replaceChildren();
      return;
    }
    try {
      if (!manager?.create_view) throw new Error("there is no widget manager");
      const made = await manager.create_view(await manager.get_model(reference.replace("IPY_MODEL_", "")));
      if (signal.aborted || shown !== reference) return made.remove();
      leave();
      view = made;
      slot.replaceChildren();
      attach(view, slot);
    } catch {
      slot.replaceChildren(make("div", "idj-quiet idj-child-missing", "Charts need ipywidgets, which this front end does not have; the rest works."));
    }
  };
  const watch = new ResizeObserver(() => {
    const lumino = view && luminoOf(view);
    if (!lumino || !slot.clientWidth) return;
    if (!lumino.isAttached) attach(view, slot);
    else lumino.processMessage({ type: "resize", width: -1, height: -1 });
  });
  watch.observe(slot);
  signal.addEventListener("abort", () => {
    watch.disconnect();
    leave();
  });
  slot.hidden = true;
  store.follow(["widgets"], signal, show);
  /** @type {any} */
  let drawn;
  store.follow(["charts"], signal, () => {
    if (store.get("charts")[name] === drawn) return;
    drawn = store.get("charts")[name];
    slot.hidden = !drawn;
    slot.replaceChildren(...(drawn ? [plainChart(context, name)] : []));
  });
  return slot;
}

/** @param {any} view */
const luminoOf = (view) => view.luminoWidget ?? view.pWidget;

/** Put a view into the page; one that is not in the page yet is attached when it has a size. @param {any} view @param {HTMLElement} slot */
function attach(view, slot) {
  const lumino = luminoOf(view);
  if (!lumino) return slot.append(view.el);
  if (!slot.clientWidth || lumino.isAttached) return;
  lumino.processMessage({ type: "before-attach" });
  slot.append(lumino.node);
  lumino.processMessage({ type: "after-attach" });
}
