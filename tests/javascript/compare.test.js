import assert from "node:assert/strict";
import { test } from "node:test";
import { install, fakeModel, told } from "./page.js";
import { Store } from "./panel/store.js";
import { Wire } from "./panel/wire.js";
import { Camera } from "./panel/camera.js";

install();
globalThis.SVGElement = Element;
const { SideStore, SideWire, differenceRow } = await import("./panel/compare.js");
const { GraphPane } = await import("./panel/graph.js");

const nothing = { selection: null, ids: [], near: [] };
const state = () => ({
  comparison: { choices: { before: [{ stage: "forward" }], after: [{ stage: "a" }, { stage: "b" }] } },
  comparison_graphs: { before: { svg: "one" }, after: { svg: "other" } },
  comparison_lit: { before: { selection: { node: "add", compile_id: "0/0", stage: "forward" }, ids: ["n3"], near: [] }, after: nothing, told: "", row: -1, acting: "" },
});
const both = () => {
  const model = fakeModel(state());
  const store = new Store(model, Object.keys(state()));
  return { model, store, wire: new Wire(model, store) };
};

test("each side sees its half of the comparison as if it were the only graph", () => {
  const { store } = both();
  const [before, after] = ["before", "after"].map((side) => new SideStore(store, side));
  assert.deepEqual([before.get("graph").svg, after.get("graph").svg], ["one", "other"]);
  assert.equal(before.get("selection").node, "add");
  assert.deepEqual(before.get("graph_lit"), { node: "add", line: "", ids: ["n3"] });
  assert.equal(after.get("selection").node, "", "nothing is chosen there");
  assert.deepEqual(before.get("graph_choices"), [], "one graph needs no chooser");
  assert.equal(after.get("graph_choices").length, 2);
});

test("what is asked of a side names the side, and a choice is lit there at once and nowhere else", async () => {
  const { model, store, wire } = both();
  const side = new SideWire(wire, store, "after");
  side.ask("graph_action", { do: "expand", box: "layers" });
  assert.deepEqual(model.sent.at(-1), { ask: "graph_action", id: 1, do: "expand", box: "layers", side: "after" });
  side.choose({ compile_id: "0/0", stage: "forward", node: "mul", label: "", line: 0, kernel: "", finding: null });
  const lit = store.get("comparison_lit");
  assert.equal(lit.after.selection.node, "mul");
  assert.equal(lit.before.selection, null, "its partner is not known yet, and the old one is not it");
  assert.deepEqual(model.sent.at(-1), { ask: "select_node", id: 2, compile_id: "0/0", stage: "forward", node: "mul", side: "after" });
  model.receive({ comparison_lit: state().comparison_lit });
  assert.equal(store.get("comparison_lit").after.selection.node, "mul", "an older answer does not take the click back");
  const partners = { ...state().comparison_lit, after: { selection: { node: "mul" }, ids: ["n1"], near: [] }, told: "add → mul" };
  model.receive({ comparison_lit: partners });
  model.fire("msg:custom", { id: 2, answer: "done" });
  await told();
  assert.equal(store.get("comparison_lit").told, "add → mul", "what Python sent before its answer counts from then on");
});

test("linked panes pan, zoom and fit together; one alone moves alone", () => {
  const pane = () => Object.assign(Object.create(GraphPane.prototype), { area: { clientWidth: 300, clientHeight: 200 } });
  const [one, other, alone] = [pane(), pane(), pane()];
  const size = { "0": "0 0 300 400", "1": "0 0 600 800", "2": "0 0 300 400" };
  [one, other, alone].forEach((each, at) => {
    const svg = { getAttribute: () => size[at], setAttribute() {}, removeAttribute() {} };
    each.camera = new Camera(svg, each.area);
  });
  one.linked = other.linked = { panes: [one, other] };
  const seen = (each) => [each.camera.x, each.camera.y, each.camera.scale];
  const before = [one, other, alone].map(seen);
  one.look((camera) => camera.pan(10, 20));
  assert.deepEqual(seen(one), [before[0][0] - 10, before[0][1] - 20, 1]);
  assert.deepEqual(seen(other), [before[1][0] - 10, before[1][1] - 20, 1]);
  assert.deepEqual(seen(alone), before[2]);
  other.look((camera) => camera.zoom(2));
  assert.deepEqual([one.camera.scale, other.camera.scale], [2, 2]);
  one.look((camera) => camera.goTo(0.5, 0.25));
  assert.deepEqual([one.camera.x, one.camera.y, other.camera.x, other.camera.y], [150, 100, 300, 200], "the same share of each");
  alone.look((camera) => camera.pan(5, 0));
  assert.deepEqual(seen(alone), [before[2][0] - 5, before[2][1], 1]);
});

test("a difference has a sign and a word, not colour alone", () => {
  const row = differenceRow({ status: "gone", op: "relu", what: "", where: "In [2], line 3" }, true);
  const head = row.children[0];
  assert.equal(head.children[0].textContent, "− gone");
  assert.equal(row.getAttribute("aria-selected"), "true");
  assert.match(row.getAttribute("title"), /gone\nrelu\nIn \[2\], line 3/);
});
