import { icon, make } from "./dom.js";

// How much room the panel takes and how its panes share it: a grip for the height, splitters between columns, the whole screen,
// and a place beside the notebook. Sizes are kept for this page (in the browser) and for new panels of this kernel (in Python).

/** @typedef {import("./store.js").Context} Context @typedef {import("./store.js").Store} Store */
/** @typedef {{height?: number, widths?: Record<string, number[]>, hidden?: string[]}} Room */

const LOWEST = 240;
const HIGHEST = 3000;
const NARROWEST = 0.08;
const STEP = 24;
const OUTPUT_VIEW = "notebook:create-output-view";

const key = () => `inductor-debug room ${location.pathname}`;

/** What this page remembers, over what the kernel does. @param {Store} store */
export function recallRoom(store) {
  try {
    store.put("room", { ...store.get("room"), ...JSON.parse(localStorage.getItem(key()) ?? "{}") });
  } catch {
    return; // a front end without storage: the kernel's sizes are used
  }
}

/** @param {Context} context @param {Room} change */
export function changeRoom({ store, wire }, change) {
  const room = { ...store.get("room"), ...change };
  store.put("room", room);
  try {
    localStorage.setItem(key(), JSON.stringify(room));
  } catch {
    // as above
  }
  wire.ask("remember_room", room, { sets: "room" });
}

/** New shares of two neighbours when the border between them moves. @param {number[]} shares of 1 @param {number} at @param {number} by @returns {number[]} */
export function moved(shares, at, by) {
  const both = shares[at] + shares[at + 1];
  const left = Math.min(both - NARROWEST, Math.max(NARROWEST, shares[at] + by));
  if (both < 2 * NARROWEST) return shares;
  return shares.map((share, number) => (number === at ? left : number === at + 1 ? both - left : share));
}

/** Follow the pointer from here until it is let go. @param {HTMLElement} handle @param {(dx: number, dy: number) => void} move @param {() => void} end */
function draggable(handle, move, end) {
  handle.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    event.preventDefault();
    handle.setPointerCapture(event.pointerId);
    const [x, y] = [event.clientX, event.clientY];
    /** @param {PointerEvent} now */
    const follow = (now) => move(now.clientX - x, now.clientY - y);
    handle.addEventListener("pointermove", follow);
    handle.addEventListener("lostpointercapture", () => {
      handle.removeEventListener("pointermove", follow);
      end();
    }, { once: true });
  });
}

/**
 * Let the user move the borders between the columns of a container. Columns that are hidden have no border.
 * @param {Context} context @param {HTMLElement} container @param {() => {name: string, columns: HTMLElement[]}} shown the name under which sizes are kept
 * @returns {() => void} to be called when other columns are shown
 */
export function splitters(context, container, shown) {
  const { store, signal } = context;
  /** @type {HTMLElement[]} */
  let handles = [];
  const width = () => container.clientWidth || 1;
  const sharesNow = () => shown().columns.map((column) => column.offsetWidth / width());
  /** @param {number[]|undefined} shares */
  const apply = (shares) => {
    const { columns } = shown();
    const fits = shares?.length === columns.length;
    columns.forEach((column, at) => (column.style.flex = fits ? `0 1 ${100 * shares[at]}%` : ""));
    handles.forEach((handle, at) => handle.setAttribute("aria-valuenow", String(Math.round((100 * columns[at].offsetWidth) / width()))));
  };
  /** @param {number[]} shares */
  const keep = (shares) => changeRoom(context, { widths: { ...store.get("room").widths, [shown().name]: shares.map((share) => Math.round(share * 1000) / 1000) } });
  const arrange = () => {
    const { name, columns } = shown();
    for (const handle of handles) handle.remove();
    for (const column of container.children) if (column instanceof HTMLElement) column.style.flex = "";
    handles = columns.slice(1).map((column, at) => {
      const handle = make("div", "idj-split", "", { role: "separator", "aria-orientation": "vertical", "aria-label": "Width", "aria-valuenow": 0, tabindex: 0, title: "Drag to share the width; double-click for the usual sizes", "data-idj": "split" });
      let shares = sharesNow();
      /** @type {number[]} */
      let from = shares;
      handle.addEventListener("pointerdown", () => (from = shares = sharesNow()));
      draggable(handle, (dx) => apply((shares = moved(from, at, dx / width()))), () => keep(shares));
      handle.addEventListener("keydown", (event) => {
        const step = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
        if (!step) return;
        event.preventDefault();
        shares = moved(sharesNow(), at, (step * STEP) / width());
        apply(shares);
        keep(shares);
      });
      handle.addEventListener("dblclick", () => {
        const { [name]: _, ...widths } = store.get("room").widths ?? {};
        changeRoom(context, { widths });
      });
      container.insertBefore(handle, column);
      return handle;
    });
    apply(store.get("room").widths?.[name]);
  };
  store.follow(["room"], signal, () => apply(store.get("room").widths?.[shown().name]));
  arrange();
  return arrange;
}

/** The grip below the panel: its height. @param {Context} context @param {HTMLElement} frame @param {HTMLElement} body @returns {HTMLElement} */
export function heightGrip(context, frame, body) {
  const { store, signal } = context;
  const grip = make("div", "idj-grip", "", { role: "separator", "aria-orientation": "horizontal", "aria-label": "Height", tabindex: 0, title: "Drag to change the height; double-click for the usual one", "data-idj": "grip" });
  /** What the body has beyond the height that is set: some tabs and narrow panels take more. */
  let extra = 0;
  let height = 0;
  const now = () => Number.parseFloat(getComputedStyle(frame).getPropertyValue("--idj-height")) || 470;
  /** @param {number} wanted */
  const set = (wanted) => {
    height = Math.round(Math.min(HIGHEST, Math.max(LOWEST, wanted)));
    frame.style.setProperty("--idj-height", `${height}px`);
  };
  let from = 0;
  grip.addEventListener("pointerdown", () => {
    from = height = now();
    extra = body.clientHeight - from;
  });
  draggable(grip, (_, dy) => set(Math.max(LOWEST - Math.max(0, extra), from + dy)), () => changeRoom(context, { height }));
  grip.addEventListener("keydown", (event) => {
    const step = event.key === "ArrowUp" ? -1 : event.key === "ArrowDown" ? 1 : 0;
    if (!step) return;
    event.preventDefault();
    set(now() + step * STEP);
    changeRoom(context, { height });
  });
  grip.addEventListener("dblclick", () => changeRoom(context, { height: 0 }));
  store.follow(["room"], signal, () => {
    const kept = store.get("room").height;
    if (kept) set(kept);
    else frame.style.removeProperty("--idj-height");
    grip.setAttribute("aria-valuenow", String(kept || 470));
  });
  return grip;
}

/** JupyterLab's own command for a new view of an output, if it can be reached. @param {HTMLElement} frame @returns {Promise<boolean>} whether it was asked for */
async function openOutputView(frame) {
  const app = /** @type {any} */ (window).jupyterapp;
  const cell = frame.closest(".jp-CodeCell");
  if (!cell) return false;
  if (app?.commands?.hasCommand?.(OUTPUT_VIEW)) {
    const notebook = app.shell.currentWidget?.content;
    const index = notebook?.widgets?.findIndex((/** @type {any} */ one) => one.node === cell) ?? -1;
    if (index >= 0) {
      notebook.activeCellIndex = index;
      app.commands.execute(OUTPUT_VIEW);
      return true;
    }
  }
  return openFromMenu(cell);
}

/** Choose the command in the cell's own context menu, which is all that a page without `jupyterapp` can reach. @param {Element} cell @returns {Promise<boolean>} */
async function openFromMenu(cell) {
  const target = cell.querySelector(".jp-OutputArea-prompt") ?? cell;
  const { left, top } = target.getBoundingClientRect();
  const at = { bubbles: true, cancelable: true, clientX: left + 4, clientY: top + 4, button: 0 };
  target.dispatchEvent(new MouseEvent("mousedown", at));
  target.dispatchEvent(new MouseEvent("mouseup", at));
  target.dispatchEvent(new MouseEvent("contextmenu", { ...at, button: 2 }));
  await new Promise((drawn) => setTimeout(drawn, 60));
  const item = document.querySelector(`.lm-Menu-item[data-command="${OUTPUT_VIEW}"]`);
  if (!item) {
    for (const Kind of [PointerEvent, MouseEvent]) document.body.dispatchEvent(new Kind(Kind === PointerEvent ? "pointerdown" : "mousedown", { ...at, clientX: 0, clientY: 0 }));
    return false;
  }
  const box = item.getBoundingClientRect();
  const on = { bubbles: true, cancelable: true, clientX: box.left + 8, clientY: box.top + box.height / 2, button: 0 };
  // Menus listened to the mouse once, and to pointers since Lumino 2.
  for (const name of ["move", "up"]) {
    item.dispatchEvent(new PointerEvent(`pointer${name}`, on));
    item.dispatchEvent(new MouseEvent(`mouse${name}`, on));
  }
  return true;
}

/** The buttons for the whole screen and for a place beside the notebook. @param {HTMLElement} frame @param {AbortSignal} signal @returns {HTMLElement[]} */
export function roomTools(frame, signal) {
  const beside = make("button", "idj-tool", "", { "data-idj": "beside" });
  const full = make("button", "idj-tool", "", { "data-idj": "full-screen" });
  beside.append(icon("M2 3h12v10h-12z M9 3v10"));
  full.append(icon("M2 6v-4h4 M10 2h4v4 M14 10v4h-4 M6 14h-4v-4"));
  const inLab = () => Boolean(frame.closest(".jp-NotebookPanel .jp-CodeCell")) && Boolean(document.querySelector("#jp-main-dock-panel, .jp-LabShell"));
  const isDocked = () => frame.classList.contains("idj-docked");
  const tell = () => {
    const isFull = document.fullscreenElement === frame;
    full.title = isFull ? "Leave the full screen (Escape)" : "Full screen (Escape leaves it)";
    beside.title = isDocked() ? "Back under its cell" : inLab() ? "Beside the notebook: a new view of this output in a tab of its own, which can be dragged" : "Beside the notebook: in the right half of the window";
    for (const button of [beside, full]) button.setAttribute("aria-label", button.title);
    full.setAttribute("aria-pressed", String(isFull));
    beside.setAttribute("aria-pressed", String(isDocked()));
  };
  const dock = () => {
    // A popover is drawn above the page, wherever the cell is and whatever clips it.
    frame.classList.toggle("idj-docked");
    if (isDocked()) {
      frame.setAttribute("popover", "manual");
      frame.showPopover?.();
    } else frame.removeAttribute("popover");
    tell();
  };
  full.hidden = !document.fullscreenEnabled;
  full.addEventListener("click", () => (document.fullscreenElement === frame ? document.exitFullscreen() : frame.requestFullscreen()));
  beside.addEventListener("click", async () => {
    if (isDocked() || !inLab() || !(await openOutputView(frame))) dock();
  });
  frame.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && isDocked()) dock();
  });
  document.addEventListener("fullscreenchange", tell, { signal });
  beside.addEventListener("pointerenter", tell);
  beside.addEventListener("focus", tell);
  tell();
  return [beside, full];
}
