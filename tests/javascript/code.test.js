import assert from "node:assert/strict";
import { test } from "node:test";
import { touched } from "./panel/code.js";
import { Store } from "./panel/store.js";
import { fakeModel } from "./page.js";

const NOTHING = { finding: null, compile_id: "", stage: "", node: "", label: "", line: 0, kernel: "" };
const PARTS = {
  code_documents: [{ id: "0/0|kernel|0", lines: ["net.py:7", "In [2]:1"] }],
  code_nodes: {
    compile_id: "0/0", stage: "post_grad",
    rows: [
      { name: "relu", lines: ["net.py:7", "In [2]:1"], documents: ["0/0|kernel|0"] },
      { name: "add", lines: ["net.py:8", "In [2]:1"], documents: [] },
      { name: "mul", lines: ["In [2]:3"], documents: [] },
    ],
  },
};

function light(chosen) {
  const { lines, names, documents } = touched(new Store(fakeModel(PARTS), Object.keys(PARTS)), { ...NOTHING, ...chosen });
  return { lines: [...lines], names: [...names], documents: [...documents] };
}

test("the cell's line lights the nodes of the library's model that it calls, and the model's line its own", () => {
  assert.deepEqual(light({ label: "In [2]", line: 1 }), { lines: ["In [2]:1", "net.py:7", "net.py:8"], names: ["relu", "add"], documents: ["0/0|kernel|0"] });
  assert.deepEqual(light({ label: "net.py", line: 8 }), { lines: ["net.py:8", "In [2]:1"], names: ["add"], documents: [] });
  assert.deepEqual(light({ label: "In [2]", line: 2 }).names, []);
});

test("a node lights its lines in the model and in the cell", () => {
  const chosen = { compile_id: "0/0", stage: "post_grad", node: "relu", label: "net.py", line: 7 };
  assert.deepEqual(light(chosen), { lines: ["net.py:7", "In [2]:1"], names: ["relu"], documents: ["0/0|kernel|0"] });
});
