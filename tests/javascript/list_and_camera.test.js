import assert from "node:assert/strict";
import { test } from "node:test";
import { Camera } from "./panel/camera.js";
import { VirtualList } from "./panel/list.js";
import { install } from "./page.js";

install();

function list(count, options = {}) {
  const picked = [];
  let chosen = -1;
  const made = new VirtualList({ name: "rows", label: "Rows", height: 20, build: (item) => Object.assign(document.createElement("div"), { item }),
    pick: (item, at) => { picked.push(item.at); chosen = at; }, chosen: () => chosen, ...options }, new AbortController().signal);
  made.element.clientHeight = 200;
  made.fill(Array.from({ length: count }, (_, at) => ({ at })));
  return { made, picked };
}

test("of a hundred thousand rows only those in sight are in the page", () => {
  const { made } = list(100_000);
  assert.equal(made.sheet.style.height, "2000000px");
  assert.ok(made.sheet.children.length < 40);
  made.element.scrollTop = 1_000_000;
  made.draw();
  const shown = made.sheet.children.map((row) => row.item.at);
  assert.ok(shown.includes(50_000) && shown.includes(50_009));
  assert.ok(!shown.includes(0));
});

test("keys move from the chosen row, stop at the ends, and bring the row into sight", () => {
  const { made, picked } = list(50);
  for (const key of ["ArrowDown", "ArrowDown", "End", "ArrowDown", "PageUp", "Home"]) made.element.fire("keydown", { key });
  assert.deepEqual(picked, [0, 1, 49, 49, 40, 0]);
  made.reveal(30);
  assert.equal(made.element.scrollTop, 31 * 20 - 200);
  made.reveal(25);
  assert.equal(made.element.scrollTop, 420, "it is in sight already");
});

test("an empty list takes keys and draws nothing", () => {
  const { made, picked } = list(0);
  made.element.fire("keydown", { key: "ArrowDown" });
  made.element.fire("keydown", { key: "Enter" });
  assert.deepEqual([picked, made.sheet.children], [[], []]);
});

function camera(width = 1000, height = 4000) {
  const svg = document.createElement("svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const area = document.createElement("div");
  Object.assign(area, { clientWidth: 500, clientHeight: 400 });
  return new Camera(svg, area);
}

const box = (made) => made.svg.getAttribute("viewBox").split(" ").map(Number);

test("a picture starts readable at its top, and fits as a whole", () => {
  const made = camera();
  made.start();
  assert.deepEqual(box(made), [250, 0, 500, 400]);
  made.fit();
  assert.equal(made.scale, 0.1);
  assert.deepEqual(box(made), [-2000, 0, 5000, 4000]);
});

test("what is under the pointer stays there while zooming, and limits hold", () => {
  const made = camera();
  made.start();
  const before = made.toScreen(300, 50);
  made.zoom(2, before.px, before.py);
  const after = made.toScreen(300, 50);
  assert.ok(Math.abs(after.px - before.px) < 1e-9 && Math.abs(after.py - before.py) < 1e-9);
  for (let time = 0; time < 50; time += 1) made.zoom(2);
  assert.equal(made.scale, 4);
  for (let time = 0; time < 90; time += 1) made.zoom(0.5);
  assert.equal(made.scale, 0.05);
});

test("revealing moves only as far as needed and shows no emptiness beyond the edge", () => {
  const made = camera();
  made.start();
  const at = (x, y) => ({ getBBox: () => ({ x, y, width: 60, height: 20 }) });
  made.reveal(at(400, 100));
  assert.deepEqual(box(made), [250, 0, 500, 400], "it was in sight");
  made.reveal(at(930, 3970));
  assert.deepEqual(box(made), [500, 3600, 500, 400]);
});
