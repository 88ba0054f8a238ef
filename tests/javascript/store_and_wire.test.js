import assert from "node:assert/strict";
import { test } from "node:test";
import { Store } from "./panel/store.js";
import { Wire } from "./panel/wire.js";
import { fakeModel, told } from "./page.js";

const SELECTION = { finding: null, compile_id: "", stage: "", node: "", label: "", line: 0, kernel: "" };

function panel(values = {}) {
  const model = fakeModel({ tab: "findings", selection: SELECTION, node: {}, ...values });
  const store = new Store(model, Object.keys(model.values));
  return { model, store, wire: new Wire(model, store) };
}

/** Python answers the requests that were sent so far. */
function answer({ model }, kind = "done", more = {}) {
  const { id } = model.sent.at(-1);
  model.fire("msg:custom", { answer: kind, id, ...more });
}

test("a follower is told once of all that changed together, and no more when its view is gone", async () => {
  const { model, store } = panel();
  const leaving = new AbortController();
  let drawn = 0;
  store.follow(["tab", "node"], leaving.signal, () => (drawn += 1));
  assert.equal(drawn, 1, "at once");
  model.receive({ tab: "graph", node: { name: "relu" } });
  await told();
  assert.equal(drawn, 2);
  model.receive({ selection: { ...SELECTION, node: "relu" } });
  await told();
  assert.equal(drawn, 2, "it does not follow the selection");
  leaving.abort();
  model.receive({ tab: "code" });
  await told();
  assert.equal(drawn, 2);
  assert.equal(store.get("tab"), "code", "another view of the model would show it");
});

test("a choice is lit before Python hears of it, and Python's echo of an older one is ignored", async () => {
  const all = panel();
  const { model, store, wire } = all;
  wire.choose({ node: "relu" });
  assert.equal(store.get("selection").node, "relu");
  assert.deepEqual(model.sent, [{ ask: "select", id: 1, selection: { ...SELECTION, node: "relu" } }]);
  wire.choose({ node: "gelu" });
  wire.choose({ node: "mul" });
  assert.equal(model.sent.length, 1, "the next waits for the answer, and only the newest is sent");
  model.receive({ selection: { ...SELECTION, node: "relu" } });
  assert.equal(store.get("selection").node, "mul");
  answer(all);
  assert.equal(model.sent.at(-1).selection.node, "mul");
  assert.equal(model.sent.length, 2);
  model.receive({ selection: { ...SELECTION, node: "mul" } });
  answer(all);
  model.receive({ selection: { ...SELECTION, node: "from a cell" } });
  assert.equal(store.get("selection").node, "from a cell", "nothing is on its way: Python chose");
});

test("the pane that asked is busy, in words, and hears what failed", () => {
  const all = panel();
  const { store, wire } = all;
  wire.ask("try_out", { changes: {} }, { pane: "try", words: "Trying …" });
  assert.deepEqual(store.get("busy"), { try: "Trying …" });
  answer(all, "progress", { text: "tracing Python" });
  assert.deepEqual(store.get("busy"), { try: "tracing Python" });
  answer(all, "failed", { error: "batch='many'" });
  assert.deepEqual(store.get("busy"), {});
  assert.deepEqual(store.get("failed"), { try: "batch='many'" });
  wire.ask("try_out", { changes: {} }, { pane: "try" });
  assert.deepEqual(store.get("failed"), {}, "asked again: what was wrong before is gone");
});

test("what must happen is sent each time, not only the newest", () => {
  const { model, wire } = panel();
  wire.ask("graph_action", { do: "expand", box: "a" });
  wire.ask("graph_action", { do: "expand", box: "b" });
  assert.deepEqual(model.sent.map((one) => one.box), ["a", "b"]);
});

test("without Python the panel says so, takes local choices, and comes back with it", () => {
  const { model, store, wire } = panel();
  wire.ask("fix_all", {}, { pane: "fixes", words: "Searching" });
  model.fire("comm_live_update");
  assert.equal(store.get("connection"), "gone");
  assert.deepEqual(store.get("busy"), {}, "nobody waits for an answer that will not come");
  wire.choose({ node: "relu" });
  assert.equal(store.get("selection").node, "relu");
  assert.equal(model.sent.length, 1);
  assert.match(store.get("failed")[""], /no longer connected/);
  model.fire("msg:custom", {});
  assert.equal(store.get("connection"), "live");
});
