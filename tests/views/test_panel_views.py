from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.records import Place, SessionRecord, Violation
from inductor_debug_jupyter.pipeline.views.panel import (
    findings_view,
    header_view,
    node_view,
    overview_view,
    source_view,
)
from inductor_debug_jupyter.pipeline.views.places import Lookup

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
    assert overview_view(make_record(findings=()))["kind"] == "good"
    assert overview_view(make_record(findings=(), captures=()))["kind"] == "warning"
    assert overview_view(make_record(findings=(), target=""))["kind"] == ""


def test_what_to_do_next_has_at_most_three_lines_worst_first(make_record: Make) -> None:
    steps = overview_view(make_record())["next"]
    assert [step["kind"] for step in steps] == ["error", "warning", "info"]
    assert steps[0]["text"] == "Pad to 832."
    assert [step["text"] for step in overview_view(make_record(findings=()))["next"]] == [
        "Remove the print.",
        "0/1: size of x changed",
    ]


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
