from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    CoverageRecord,
    Culprit,
    DiffRecord,
    GraphCoverage,
    LocalizationRecord,
    MemoryRecord,
    OpRow,
    OutputDiff,
    Phase,
    Place,
    SessionRecord,
    SourceLine,
    Transfer,
    Violation,
)
from inductor_debug_jupyter.pipeline.views.overview import overview_view
from inductor_debug_jupyter.pipeline.views.panel import findings_view, header_view, node_view, source_view
from inductor_debug_jupyter.pipeline.views.places import Lookup

from .conftest import small_graph

Make = Callable[..., SessionRecord]


def test_every_view_is_json(make_record: Make) -> None:
    record = make_record()
    for view in (header_view(record), overview_view(record), findings_view(record), source_view(record)):
        assert json.loads(json.dumps(view)) == view


def test_the_worst_news_opens_and_empty_tabs_are_not_there(make_record: Make) -> None:
    assert header_view(make_record())["tab"] == "findings"
    clean = header_view(make_record(findings=()))
    assert clean["tab"] == "overview"
    assert [tab["id"] for tab in clean["tabs"]] == ["overview", "graph", "guards"]
    assert [
        tab["id"] for tab in header_view(make_record(captures=(), findings=(), graph_breaks=(), recompiles=()))["tabs"]
    ] == ["overview"]


def test_every_figure_leads_to_a_tab_that_is_there(make_record: Make) -> None:
    for record in (make_record(), make_record(findings=()), make_record(captures=(), findings=())):
        view = header_view(record)
        assert {figure["tab"] for figure in view["figures"]} <= {"", *(tab["id"] for tab in view["tabs"])}


def test_the_overview_never_passes_what_was_not_checked(make_record: Make) -> None:
    whole = {"findings": (), "graph_breaks": (), "recompiles": ()}
    assert overview_view(make_record(**whole))["kind"] == "good"
    assert overview_view(make_record(**whole, captures=()))["kind"] == "warning"
    assert overview_view(make_record(**whole, target=""))["kind"] == ""


def test_the_verdict_tells_of_wrong_numbers_and_of_breaks(make_record: Make) -> None:
    whole = {"findings": (), "graph_breaks": (), "recompiles": ()}
    assert overview_view(make_record(**whole))["verdict"] == "✓ stick128 takes everything that was captured."
    broken = overview_view(make_record(findings=()))
    assert broken["verdict"] == ("⚠ 1 graph break, 1 recompile (1 graph). stick128 takes everything that was captured.")
    assert broken["kind"] == "warning"
    wrong = DiffRecord("MLP", "eager", "chip", "mismatch", (OutputDiff("out", "mismatch"),))
    view = overview_view(make_record(**whole, diff=wrong))
    assert view["verdict"] == (
        "✗ stick128 takes everything that was captured, but the numbers are wrong: 1 output differs."
    )
    assert (view["kind"], view["next"][0]["tab"]) == ("error", "diff")
    assert "session.localize()" in view["next"][0]["hints"][0]
    refused = overview_view(make_record(diff=wrong))["verdict"]
    assert refused.startswith("stick128 refuses this: ✗ 1 error")
    assert refused.endswith(", but the numbers are wrong: 1 output differs")
    unknown = overview_view(make_record(**whole, diff=DiffRecord("MLP", "eager", "chip", "not_compared")))
    assert unknown["verdict"].endswith("captured, but the numbers were not compared.")
    assert unknown["kind"] == "warning"


def test_the_op_that_brings_a_wrong_number_in_is_the_first_thing_to_do(make_record: Make) -> None:
    line = SourceLine("net.py", 7, "  h = torch.clone(h)")
    culprit = Culprit("aten.clone.default", "clone", "forward", module_path="norm", source=line, error=1.0, allowed=0.0)
    found = LocalizationRecord("MLP", "chip", (culprit, replace(culprit, op="aten.mm.default", allowed=None)))
    steps = overview_view(make_record(localization=found))["next"]
    assert [step["text"] for step in steps[:2]] == [
        "clone computes wrong numbers on chip",
        "mm ends the process of chip",
    ]
    assert (steps[0]["where"], steps[0]["code"]) == ("net.py, line 7 · norm", "h = torch.clone(h)")
    assert "session.reproduce()" in steps[0]["hints"][0]
    assert steps[2]["kind"] == "error", "then the findings"


def test_what_to_do_next_has_at_most_three_lines_worst_first(make_record: Make) -> None:
    steps = overview_view(make_record())["next"]
    assert [step["kind"] for step in steps] == ["error", "warning", "info"]
    assert steps[0]["text"].endswith(": Pad to 832.")
    assert steps[0]["text"].startswith(steps[0]["title"])
    assert not steps[0]["verified"]
    assert [step["text"] for step in overview_view(make_record(findings=()))["next"]] == [
        "Graph break: print was called",
        "Recompile: size of x changed",
    ]
    assert overview_view(make_record(findings=()))["next"][0]["hints"] == ["Remove the print."]


def test_tiles_lead_to_tabs_that_are_there(make_record: Make) -> None:
    phases = (
        Phase("entire_frame_compile", 0.0, 4.0, 0),
        Phase("bytecode_tracing", 0.0, 1.0, 1),
        Phase("create_aot_dispatcher_function", 1.0, 2.5, 1),
        Phase("unknown to us", 1.5, 0.5, 2),
        Phase("Scheduler.codegen", 2.0, 0.001, 2),
    )
    rows = (OpRow("mm", "supported", 999), OpRow("sort", "fallback", 1, "not there"))
    record = make_record(
        captures=(CompileCapture("0/0", graphs={"forward": small_graph()}, phases=phases),),
        coverage=CoverageRecord("stick128", (GraphCoverage("0/0", "forward", 1000, rows),)),
        memory=(MemoryRecord("0/0", "forward", 1, "mm", (1,), ()),),
        diff=DiffRecord("MLP", "eager", "inductor", "mismatch", (OutputDiff("out", "mismatch"),)),
        transfers=(Transfer("copy_to_device", "x", (65,), "float16", (2, 64), bytes=256),),
    )
    view = overview_view(record)
    tiles = {tile["title"]: (tile["value"], tile["tab"], tile["kind"]) for tile in view["tiles"]}
    assert tiles == {
        "Graphs": ("1", "graph", ""),
        "Graph breaks": ("1", "guards", "warning"),
        "Recompiles": ("1", "guards", "warning"),
        "Findings": ("✗ 1 ⚠ 1 ℹ 1", "findings", "error"),
        "Coverage": ("99.9%", "placement", "error"),
        "Peak memory": ("38 MiB", "memory", ""),
        "KernelDiff": ("✗ 1 output differs", "diff", "error"),
        "Transfers": ("1", "transfers", ""),
    }
    there = {tab["id"] for tab in header_view(record)["tabs"]}
    assert {tab for _, tab, _ in tiles.values()} <= there
    assert [(phase["name"], phase["seconds"]) for phase in view["phases"]] == [
        ("tracing forward and backward", "2.5 s"),
        ("tracing Python", "1.0 s"),
        ("everything else in the compiler", "501 ms"),
    ]
    assert sum(phase["share"] for phase in view["phases"]) == pytest.approx(1)


def test_a_tile_of_what_is_not_there_is_no_link_and_no_praise(make_record: Make) -> None:
    view = overview_view(make_record(captures=(), findings=(), graph_breaks=(), recompiles=(), peak_memory=None))
    tiles = {tile["title"]: tile for tile in view["tiles"]}
    assert {tile["tab"] for tile in tiles.values()} == {""}
    assert (tiles["Findings"]["value"], tiles["Findings"]["note"]) == ("–", "nothing was checked")


def test_findings_know_their_groups(make_record: Make) -> None:
    assert findings_view(make_record())[0]["groups"] == {
        "severity": "errors",
        "rule": "align.innermost",
        "module": "up",
        "line": "In [4], line 3",
    }
    alone = findings_view(make_record(findings=(Violation("peak", "error", "too much memory", ()),)))[0]["groups"]
    assert (alone["module"], alone["line"]) == ("outside of any module", "no line known")


def test_the_overview_tells_stages_and_gaps(make_record: Make) -> None:
    (capture,) = overview_view(make_record())["captures"]
    assert capture["stages"] == [
        {"stage": "dynamo", "nodes": 6, "calls": 3},
        {"stage": "forward", "nodes": 6, "calls": 3},
    ]
    assert capture["missing"] == [{"stage": "backward", "reason": "nothing required a gradient"}]


def test_rows_are_worst_first_and_know_their_places(make_record: Make) -> None:
    rows = findings_view(make_record())
    assert [row["index"] for row in rows] == [1, 0, 2]
    assert rows[0]["count"] == 2
    assert [(one["node"], one["stage"], one["compile_id"], one["line"]) for one in rows[0]["places"]] == [
        ("norm", "forward", "0/0", 3),
        ("mm", "forward", "0/0", 4),
    ]
    assert rows[0]["selection"] == {
        "finding": 1, "compile_id": "0/0", "stage": "forward", "node": "norm", "label": "In [4]", "line": 3,
        "kernel": "",
    }  # fmt: skip


def test_lines_know_their_findings_worst_first(make_record: Make) -> None:
    lines = source_view(make_record())["In [4]"]["lines"]
    assert [(one["number"], one["findings"], one["mark"]) for one in lines] == [
        (1, [], ""),
        (2, [], ""),
        (3, [1], "error"),
        (4, [1, 0], "error"),
        (5, [2], "info"),
        (6, [], "break"),
    ]
    assert lines[0]["selection"] is None
    assert lines[3]["selection"] == {
        "finding": 1, "compile_id": "0/0", "stage": "forward", "node": "mm", "label": "In [4]", "line": 4, "kernel": "",
    }  # fmt: skip


def test_a_node_shows_its_raw_detail(make_record: Make) -> None:
    lookup = Lookup(make_record())
    view = node_view(lookup, "0/0", "forward", "mm")
    assert view is not None
    assert ["op", "call_function aten.mm.default"] in view["rows"]
    assert node_view(lookup, "0/0", "forward", "nobody") is None


def test_a_selection_is_found_by_finding_node_and_line(make_record: Make) -> None:
    lookup = Lookup(make_record(findings=()))
    assert lookup.find_node("mm", near=("0/0", "forward"))["stage"] == "forward"
    assert lookup.find_node("mm")["line"] == 4
    assert lookup.find_line(4, near=("0/0", "forward"))["stage"] == ""
    assert lookup.find_line(4, near=("9/9", "forward"))["stage"] == "dynamo"
    for wrong in (lambda: lookup.of_finding(0), lambda: lookup.find_node("no"), lambda: lookup.find_line(99)):
        with pytest.raises(NotFoundError):
            wrong()


def test_a_hundred_thousand_places_fold_into_one_row(make_record: Make) -> None:
    places = tuple(Place("0/0", "forward", f"n{number}") for number in range(100_000))
    record = make_record(findings=(Violation("r", "error", "t", places),))
    (row,) = findings_view(record, max_places=10)
    assert (row["count"], len(row["places"])) == (100_000, 10)


def test_a_finding_without_a_place_is_a_row_too(make_record: Make) -> None:
    (row,) = findings_view(make_record(findings=(Violation("peak", "error", "too much memory", ()),)))
    assert row["selection"]["finding"] == 0
    assert row["selection"]["node"] == ""
