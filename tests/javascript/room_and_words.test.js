import assert from "node:assert/strict";
import { test } from "node:test";
import { findingMarkdown, selectCall } from "./panel/detail.js";
import { boxInMap } from "./panel/pictures.js";
import { moved } from "./panel/room.js";

test("a border that moves changes its two neighbours, keeps the sum, and leaves each some room", () => {
  assert.deepEqual(moved([0.25, 0.5, 0.25], 0, 0.125), [0.375, 0.375, 0.25]);
  const far = moved([0.25, 0.5, 0.25], 1, 9);
  assert.ok(far[2] > 0.07 && Math.abs(far[0] + far[1] + far[2] - 1) < 1e-9);
  assert.deepEqual(moved([0.05, 0.05, 0.9], 0, 0.1), [0.05, 0.05, 0.9], "no room to give");
});

test("the map shows which part of a picture is in sight", () => {
  const camera = { x: 500, y: 1000, scale: 2, area: { clientWidth: 400, clientHeight: 200 }, whole: { x: 0, y: 0, width: 1000, height: 4000 } };
  assert.deepEqual(boxInMap(camera, 0.1), { x: 40, y: 95, width: 20, height: 10 });
});

test("a finding is copied as Markdown that stands for itself", () => {
  const places = Array.from({ length: 12 }, (_, at) => ({ label: "net.py", line: at + 1, compile_id: "0/0", stage: "forward", node: "addmm", op: "addmm", module_path: "up", text: " h = self.up(x)" }));
  const text = findingMarkdown({ icon: "✗", title: "70 is not a multiple of 64", rule_id: "align.innermost", severity: "error", count: 12, explanation: "Sticks.", observed: "70", allowed: "64s", fixits: ["pad 70 to 128"], hints: [], places });
  assert.match(text, /^### ✗ 70 is not a multiple of 64\n/);
  assert.match(text, /Rule `align.innermost`, error, 12 places/);
  assert.match(text, /- At net.py:1: `h = self.up\(x\)` \(up · addmm\)/);
  assert.match(text, /- … and 2 more\n$/);
});

test("a link to a finding is the call that chooses it", () => {
  assert.equal(selectCall("mine", { index: 3, rule_id: "align.innermost", title: "70 is not a multiple of 64" }), "mine.select(finding=3)  # align.innermost: 70 is not a multiple of 64");
});
