"""Coverage and partition as dicts and lines."""

import json

from inductor_debug_jupyter import DeviceProfile
from inductor_debug_jupyter.pipeline.devices import graph_coverage, memory_of
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    CoverageRecord,
    GraphRecord,
    NodeRecord,
    SourceLine,
    TensorSpec,
)
from inductor_debug_jupyter.pipeline.views.memory import memory_lines, memory_view
from inductor_debug_jupyter.pipeline.views.placement import fallback_line, placement_views


def tensor(storage):
    return (TensorSpec((256, 256), "float32", (256, 1), itemsize=4, storage=storage, storage_bytes=256 * 1024),)


LINE = SourceLine("model.py", 12, "y = torch.sort(h)", "forward", "model.py")
GRAPH = GraphRecord(
    "forward",
    (
        NodeRecord("x", "placeholder", "x", outputs=tensor(0), role="input", origin="x"),
        NodeRecord("relu", "call_function", "aten.relu.default", ("x",), tensor(1), "act", source=LINE),
        NodeRecord("sort", "call_function", "aten.sort.default", ("relu",), tensor(2), "\x1b[31mnet", source=LINE),
        NodeRecord("exp", "call_function", "aten.exp.default", ("sort",), tensor(3), "net", source=LINE),
        NodeRecord("output", "output", "output", ("exp",)),
    ),
)
PROFILE = DeviceProfile("chip", deny=("aten.sort",), bandwidth=1e9, latency=1e-3, narrow={"float32": "float16"})


def test_the_lines_tell_what_leaves_the_target_and_what_it_costs():
    coverage = CoverageRecord("chip", (graph_coverage(GRAPH, PROFILE, "0/0"),))
    assert str(coverage) == "3 ops on chip: 2 supported, 0 decomposable, 1 fallback, 0 refused"
    (entry,) = coverage.fallbacks
    assert fallback_line(entry) == (
        "sort ×1 runs on the CPU: aten.sort is on the target's list of ops that it does not have;"
        " 512 KiB moved for it (model.py, line 12)"
    )
    (view,) = placement_views(coverage)
    assert view["moved"] == [
        "2 transfers between device and CPU: 512 KiB, about 2.52 ms",
        "1 input to the device: 256 KiB, about 1.26 ms",
        "1 output back: 256 KiB, about 1.26 ms",
    ]
    assert view["narrowed"] == ["4 tensors of float32 are kept as float16"]
    assert [(row["op"], row["icon"], row["count"]) for row in view["rows"] if row["op"] == "relu"] == [("relu", "✓", 1)]


def test_the_views_are_json_and_harmless():
    coverage = CoverageRecord("chip", (graph_coverage(GRAPH, PROFILE, "0/0"),))
    (view,) = placement_views(coverage)
    assert [segment["side"] for segment in view["segments"]] == ["device", "cpu", "device"]
    assert view["counts"] == {"supported": 2, "decomposable": 0, "fallback": 1, "refused": 0}
    assert placement_views(None) == []
    (entry,) = view["ledger"]
    assert (entry["op"], entry["status"], entry["size"]) == ("sort", "fallback", "512 KiB")
    assert {row["selection"] for row in view["transfers"]} == {None}, "without a lookup nothing can be chosen"
    record = memory_of(GRAPH, CompileCapture("0/0", graphs={"forward": GRAPH}))
    shown = memory_view(record, limit=1)
    assert shown["over"]
    assert "\x1b" not in json.dumps([view, shown]) + "\n".join(memory_lines(record))
