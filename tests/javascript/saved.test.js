import assert from "node:assert/strict";
import { test } from "node:test";
import { Saved, SavedGraph, aliveAt, boxesAt, indexOf, unitAt } from "./panel/saved.js";
import { tickText, ticksOf, wholeTicks } from "./panel/chart.js";
import { partnersOf } from "./panel/pairs.js";

const picture = (units, nodes, more = {}) => ({ svg: "", units, nodes, inputs: {}, frames: {}, paints: { nothing: { by: "nothing", legend: [], of: {} } }, ...more });
const closed = picture([[0, "n0"], [2, "n1"]], { n0: { kind: "group" }, n1: { kind: "node" } });
const open = picture([[0, "n0"], [1, "n1"], [2, "n2"]], { n0: { kind: "node" }, n1: { kind: "node" }, n2: { kind: "node" } });
const data = () => ({
  compile_id: "0/0", stage: "forward", by: "nothing", first: [],
  pictures: { first: closed, all: open },
  boxes: { layer: [0, 2, ""] },
  positions: { add: 0, mul: 1, relu: 2 },
  texts: [["add", "add aten.add"], ["mul", "mul aten.mul"], ["relu", "relu aten.relu"]],
  nodes: { mul: { label: "model.py", line: 3, finding: 1 } },
  code: { rows: [{ name: "mul", lines: ["model.py:3"] }, { name: "relu", lines: ["model.py:4"] }] },
});

test("a node is found in the picture on show, and its box opens", () => {
  const graph = new SavedGraph(data());
  assert.deepEqual(graph.shapesOf("mul"), ["n0"]);
  assert.equal(graph.reveal("relu"), false);
  assert.equal(graph.reveal("mul"), true);
  assert.equal(graph.name, "all", "a box without a picture of its own: the one with all boxes open");
  assert.deepEqual(graph.shapesOf("mul"), ["n1"]);
  graph.close("layer");
  assert.equal(graph.name, "first");
});

test("a search names nodes and counts them by shape", () => {
  const found = new SavedGraph(data()).search("aten");
  assert.equal(found.count, 3);
  assert.deepEqual(found.of, { n0: 2, n1: 1 });
  assert.equal(new SavedGraph(data()).search("").count, 0);
});

test("places in lists", () => {
  assert.equal(unitAt([[0, "a"], [5, "b"]], 4), "a");
  assert.equal(unitAt([[0, "a"], [5, "b"]], 5), "b");
  assert.deepEqual(boxesAt({ outer: [0, 9, ""], inner: [2, 4, "outer"] }, 3), ["inner", "outer"]);
  assert.deepEqual(indexOf(7, [2, 5]), [1, 2]);
});

test("what Python would answer comes from the page, and what it cannot is said", async () => {
  const parts = { memory_of: [], memory_first: 0, histograms: {}, charts: {}, tab: "graph", selection: {}, graph_choices: [{ compile_id: "0/0", stage: "forward" }], graph_found: { text: "" } };
  const saved = new Saved(parts, async () => data());
  const heard = [];
  saved.on("msg:custom", (message) => heard.push(message));
  await saved.send({ ask: "select_node", id: 1, node: "mul" });
  assert.deepEqual([saved.get("selection").line, saved.get("selection").finding], [3, 1]);
  await saved.send({ ask: "write_report", id: 2 });
  assert.deepEqual(heard.map((one) => one.answer), ["done", "failed"]);
  assert.match(heard[1].error, /saved page/);
});

test("what is alive at a node", () => {
  const memory = { totals: ["1 KiB", "3 KiB"], names: ["x", "y"], peak_at: 1, tensors: [{ first: 0, last: 0 }, { first: 1, last: 1 }] };
  const { title, rows } = aliveAt(memory, 1);
  assert.equal(title, "3 KiB alive at y (the peak)");
  assert.deepEqual(rows, [{ first: 1, last: 1 }]);
});

test("axes", () => {
  assert.deepEqual(wholeTicks(1990).at(-1), 1800);
  assert.ok(wholeTicks(7).length === 8);
  assert.deepEqual(ticksOf(1e-6, 1e-2, true), [1e-6, 1e-5, 1e-4, 1e-3, 1e-2]);
  assert.equal(tickText(2 ** 21, { y_title: "bytes" }), "2 MiB");
});

test("partners go both ways", () => {
  const [there, back] = partnersOf([{ links: [[["0/0", "forward", "add"], ["0/1", "forward", "add_1"]]] }]);
  assert.deepEqual(there.get('["0/0","forward","add"]'), ["0/1", "forward", "add_1"]);
  assert.deepEqual(back.get('["0/1","forward","add_1"]'), ["0/0", "forward", "add"]);
});
