import assert from "node:assert/strict";
import { test } from "node:test";
import { install } from "./page.js";

install();
const { decades, timeText } = await import("./panel/time.js");

test("an axis spans whole powers of ten, and never none", () => {
  assert.deepEqual(decades([3, 700]), [0, 3]);
  assert.deepEqual(decades([10]), [1, 2]);
  assert.deepEqual(decades([0, -1]), [0, 1]);
});

test("times are written in the unit that fits", () => {
  assert.equal(timeText(0.0000841), "84.1 µs");
  assert.equal(timeText(0.00312), "3.12 ms");
  assert.equal(timeText(1.44), "1.44 s");
  assert.equal(timeText(0), "0 µs");
});
