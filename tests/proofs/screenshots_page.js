// What is wrong with the looks of a panel, as far as a program can see it: one line for each.
(frame) => {
  const wrong = new Set();
  const outer = frame.getBoundingClientRect();
  const nameOf = (element) => `${element.tagName.toLowerCase()}.${String(element.getAttribute("class") ?? "").split(" ").filter(Boolean).join(".")}`;
  const words = (text) => `“${text.trim().slice(0, 40)}”`;

  // What is seen of each text: its boxes without what its ancestors cut off.
  const seen = [];
  const walker = document.createTreeWalker(frame, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    const element = node.parentElement;
    if (!node.textContent.trim() || element.closest("option, optgroup, [hidden], .idj-hidden, .idj-off, .idj-wait, details:not([open]) > :not(summary)")) continue;
    const style = getComputedStyle(element);
    if (style.visibility === "hidden" || Number(style.opacity) === 0) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) {
      let [left, top, right, bottom] = [box.left, box.top, box.right, box.bottom];
      let cut = false;
      for (let at = element; at && at !== frame.parentElement; at = at.parentElement) {
        const own = getComputedStyle(at);
        if (own.overflowX === "visible" && own.overflowY === "visible") continue;
        const hole = at.getBoundingClientRect();
        if (box.right > hole.right + 2 && own.overflowX === "hidden" && own.textOverflow !== "ellipsis" && !(at instanceof SVGElement)) cut = true;
        [left, top, right, bottom] = [Math.max(left, hole.left), Math.max(top, hole.top), Math.min(right, hole.right), Math.min(bottom, hole.bottom)];
      }
      if (right - left < 2 || bottom - top < 2) continue;
      if (cut && !element.closest("[title], svg") && ![...frame.querySelectorAll(".idj-source, .idj-list")].some((one) => one.contains(element))) wrong.add(`cut, without a tooltip: ${words(node.textContent)} in ${nameOf(element)}`);
      seen.push({ left, top, right, bottom, node, element });
    }
  }
  seen.sort((one, other) => one.top - other.top);
  for (let at = 0; at < seen.length; at++) {
    for (let next = at + 1; next < seen.length && seen[next].top < seen[at].bottom - 3; next++) {
      const [one, other] = [seen[at], seen[next]];
      if (one.node === other.node) continue;
      const across = Math.min(one.right, other.right) - Math.max(one.left, other.left);
      const down = Math.min(one.bottom, other.bottom) - Math.max(one.top, other.top);
      if (across > 3 && down > 4) wrong.add(`one over the other: ${words(one.node.textContent)} and ${words(other.node.textContent)} in ${nameOf(one.element)}`);
    }
  }
  const ink = document.createElement("canvas").getContext("2d");
  for (const field of frame.querySelectorAll("input[placeholder]")) {
    const style = getComputedStyle(field);
    if (!field.clientWidth || field.value) continue;
    ink.font = style.font;
    const room = field.clientWidth - Number.parseFloat(style.paddingLeft) - Number.parseFloat(style.paddingRight);
    if (ink.measureText(field.placeholder).width > room + 1 && !field.title) wrong.add(`cut: the placeholder ${words(field.placeholder)}`);
  }
  for (const element of frame.querySelectorAll("button, select, input, .idj-tab, .idj-pane, .idj-bar")) {
    const box = element.getBoundingClientRect();
    if (box.width && (box.right > outer.right + 1 || box.left < outer.left - 1 || (element.matches(".idj-pane") && box.bottom > outer.bottom + 1))) wrong.add(`outside of the panel: ${nameOf(element)} ${words(element.textContent)}`);
  }
  for (const pane of frame.querySelectorAll(".idj-pane:not(.idj-hidden)")) {
    const box = pane.getBoundingClientRect();
    if (box.width && !pane.textContent.trim() && !pane.querySelector("svg, canvas")) wrong.add(`empty: ${nameOf(pane)}`);
  }
  for (const picture of frame.querySelectorAll("canvas, [data-idj='graph'], .idj-area")) {
    const box = picture.getBoundingClientRect();
    if (box.width > 1 && box.height < 60 && !picture.closest(".idj-hidden, .idj-minimap, .idj-diff-scale, [hidden]")) wrong.add(`no room for a picture: ${nameOf(picture)}, ${Math.round(box.height)} px high`);
  }
  return [...wrong];
}
