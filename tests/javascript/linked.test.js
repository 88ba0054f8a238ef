import assert from "node:assert/strict";
import { test } from "node:test";
import { fakeModel, install } from "./page.js";

test("the joined module stands alone and is what anywidget asks for", async () => {
  install();
  const { default: panel } = await import("./linked.js");
  const widget = panel();
  assert.deepEqual(Object.keys(widget), ["initialize", "render"]);
  const model = fakeModel({});
  widget.initialize({ model });
  model.receive({ tab: "graph" });
});
