from __future__ import annotations

import importlib.util
import re
import shutil
import sys
import xml.etree.ElementTree as ElementTree
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path

import pytest

from inductor_debug_jupyter.pipeline.drawing import graphviz_layout as layout
from inductor_debug_jupyter.pipeline.drawing.geometry import Geometry, Rect
from inductor_debug_jupyter.pipeline.drawing.graph_view import GraphView
from inductor_debug_jupyter.pipeline.drawing.graphviz_layout import place, run_graphviz, to_dot
from inductor_debug_jupyter.pipeline.drawing.own_layout import layered
from inductor_debug_jupyter.pipeline.drawing.painter import Drawing
from inductor_debug_jupyter.pipeline.drawing.svg import to_svg
from inductor_debug_jupyter.pipeline.errors import LayoutError, NotFoundError
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    GraphRecord,
    NodeRecord,
    Place,
    SessionRecord,
    TensorSpec,
    Violation,
)
from inductor_debug_jupyter.pipeline.reports.snapshot import MAX_BYTES, snapshot_html
from inductor_debug_jupyter.pipeline.views.places import Lookup

from .graphs import chain, op, transformer, view_of

Make = Callable[..., SessionRecord]
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="needs graphviz's dot")


def texts(svg: str) -> str:
    return " ".join(
        "".join(element.itertext()) for element in ElementTree.fromstring(svg).iter() if "text" in element.tag
    )


def kinds(drawing: Drawing) -> dict[str, int]:
    found = [shape.kind for shape in drawing.shapes]
    return {kind: found.count(kind) for kind in dict.fromkeys(found)}


# What is drawn -----------------------------------------------------------------------------------------------------


def test_inputs_stand_beside_each_consumer_and_the_output_has_no_edges(make_record: Make) -> None:
    drawing = view_of(make_record().captures[0].graphs["forward"]).drawing
    assert kinds(drawing) == {"node": 3, "input": 2, "copy": 1}
    assert not any("output" in shape.names for shape in drawing.shapes)


def test_parameters_and_constants_are_named_in_the_op_that_reads_them() -> None:
    nodes = (
        NodeRecord("w", "placeholder", "w", role="parameter", origin="up.weight"),
        NodeRecord("x", "placeholder", "x", role="input", origin="x"),
        NodeRecord("full", "call_function", "aten.full.default"),
        op("mm", "x", "w"),
        op("add", "mm", "full"),
    )
    view = view_of(GraphRecord("forward", nodes))
    assert [shape.label for shape in view.drawing.shapes] == [("mm", "weight"), ("add", "constant"), ("x",)]
    assert view.lit({"compile_id": "0/0", "stage": "forward", "node": "w"}) == ["n0"], "choosing w lights its reader"


def test_getitem_of_several_outputs_and_detach_belong_to_their_producer() -> None:
    two = (TensorSpec((2,), "float32"), TensorSpec((2,), "float32"))
    nodes = (
        NodeRecord("norm", "call_function", "aten.native_layer_norm.default", (), two),
        NodeRecord("getitem", "call_function", "<built-in function getitem>", ("norm",), two[:1]),
        NodeRecord("detach", "call_function", "aten.detach.default", ("getitem",), two[:1]),
        NodeRecord("relu", "call_function", "aten.relu.default", ("getitem",), two[:1]),
        NodeRecord("row", "call_function", "<built-in function getitem>", ("relu",), two[:1]),
    )
    view = view_of(GraphRecord("dynamo", nodes))
    assert [shape.names for shape in view.drawing.shapes] == [("norm", "getitem", "detach"), ("relu",), ("row",)]
    assert view.drawing.edges == (("n0", "n1"), ("n1", "n2")), "indexing a tensor is an op of its own"


def test_a_long_edge_becomes_a_portal_to_its_far_end() -> None:
    view = view_of(GraphRecord("forward", (*chain(20).nodes[:-1], op("late", "op_19", "op_0"))))
    drawing = view.drawing
    (portal,) = [shape for shape in drawing.shapes if shape.kind == "portal"]
    assert portal.names == ("op_0",)
    late = next(shape.id for shape in drawing.shapes if shape.names == ("late",))
    assert (portal.id, late) in drawing.edges
    assert len([edge for edge in drawing.edges if edge[1] == late]) == 2


def test_what_hangs_on_inputs_alone_needs_no_portal() -> None:
    nodes = (NodeRecord("w", "placeholder", "w"), op("t", "w"), *chain(20).nodes[:-1], op("late", "op_19", "t"))
    assert "portal" not in kinds(view_of(GraphRecord("forward", nodes)).drawing)


def test_findings_are_marked_by_line_and_icon(make_record: Make) -> None:
    view = GraphView(Lookup(make_record()), "0/0", "forward")
    marked = {shape.names[0]: (shape.severity, shape.label[0]) for shape in view.drawing.shapes if shape.severity}
    assert marked["norm"] == ("error", "✗ ln: native_layer_norm")
    assert marked["evil"][0] == "info"
    assert "stroke-dasharray" in view.picture()["svg"]


def test_the_many_inputs_of_a_group_are_one_shape_except_those_with_findings() -> None:
    weights = tuple(NodeRecord(f"w{number}", "placeholder", f"w{number}") for number in range(70))
    calls = tuple(op(f"c{number}", f"w{number}", path="m") for number in range(70))
    graph = GraphRecord("forward", weights + calls)
    view = view_of(graph, Violation("r", "error", "wrong", (Place("0/0", "forward", "w3"),)))
    view.collapse_all()
    assert [shape.label[0] for shape in view.drawing.shapes] == ["m", "✗ w3", "69 inputs"]


# Layout ------------------------------------------------------------------------------------------------------------


def test_graphviz_is_given_numbers_only(make_record: Make) -> None:
    dot = to_dot(GraphView(Lookup(make_record()), "0/0", "forward").drawing)
    for statement in dot.splitlines()[4:-1]:
        assert re.match(r"n\d+ (\[width=[\d.]+, height=[\d.]+\];$|-> n\d+( \[weight=6\])?;$)", statement), statement


@needs_dot
def test_a_label_reads_as_it_was_written() -> None:
    hostile = '<b>"q"\\N\\n&lt;&amp;'
    picture = view_of(GraphRecord("forward", (NodeRecord("a", "call_function", hostile),))).picture()
    assert hostile in texts(picture["svg"])


def test_the_evil_name_is_text_in_the_picture(make_record: Make) -> None:
    picture = GraphView(Lookup(make_record()), "0/0", "forward").picture()
    root = ElementTree.fromstring(picture["svg"])
    assert not [element for element in root.iter() if element.tag.endswith("img")]
    assert "<img src=x onerror=alert(1)>" in texts(picture["svg"])


def test_every_drawn_shape_says_what_it_selects(make_record: Make) -> None:
    picture = GraphView(Lookup(make_record()), "0/0", "forward").picture()
    drawn = {one.group(1) for one in re.finditer(r"<title>(n\d+)</title>", picture["svg"])}
    assert drawn == set(picture["nodes"])
    (mm,) = [node for node in picture["nodes"].values() if node["names"] == ["mm"]]
    assert mm["findings"] == [1, 0]
    assert mm["lines"] == ["In [4]:4"]
    assert (mm["finding"], mm["node"], mm["label"], mm["line"]) == (1, "mm", "In [4]", 4)


def test_a_graph_that_is_not_there_is_not_found(make_record: Make) -> None:
    with pytest.raises(NotFoundError, match="0/0"):
        GraphView(Lookup(make_record()), "0/0", "joint")


@needs_dot
def test_bad_dot_is_a_layout_error() -> None:
    with pytest.raises(LayoutError, match="graphviz failed"):
        run_graphviz("digraph {{{")


def test_a_layout_that_takes_too_long_is_stopped_and_ours_steps_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_command", lambda kind: [sys.executable, "-c", "import time; time.sleep(60)"])
    geometry, said = place(view_of(chain(3)).drawing, timeout=0.2)
    assert "within 0.2 s" in said
    assert set(geometry.shapes) == {"n0", "n1", "n2", "n3"}


@pytest.mark.skipif(importlib.util.find_spec("pygraphviz") is None, reason="needs pygraphviz")
def test_without_dot_pygraphviz_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert "only_pygraphviz" in run_graphviz("digraph { only_pygraphviz }", timeout=60)


def test_without_graphviz_our_own_layout_draws_everything(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    run_graphviz.cache_clear()
    view = view_of(transformer(4))
    picture = view.picture()
    assert "no graphviz here" in picture["note"]
    assert "Layer ×4" in texts(picture["svg"])
    view.expand("layers.2")
    assert "layers.2" in texts(view.picture()["svg"])


def overlap(one: Rect, other: Rect) -> bool:
    return (
        one.x < other.x + other.width - 0.01
        and other.x < one.x + one.width - 0.01
        and one.y < other.y + other.height - 0.01
        and other.y < one.y + one.height - 0.01
    )


def inside(inner: Rect, outer: Rect) -> bool:
    right, bottom = outer.x + outer.width, outer.y + outer.height
    return (
        outer.x <= inner.x
        and inner.x + inner.width <= right
        and outer.y <= inner.y
        and inner.y + inner.height <= bottom
    )


def assert_readable(drawing: Drawing, geometry: Geometry) -> None:
    rects = list(geometry.shapes.values())
    for at, one in enumerate(rects):
        assert not any(overlap(one, other) for other in rects[at + 1 :])
    for item in (*drawing.shapes, *drawing.frames):
        own = geometry.shapes.get(item.id) or geometry.frames[item.id]
        if item.frame:
            assert inside(own, geometry.frames[item.frame])
    for tail, head in drawing.edges:
        assert geometry.shapes[tail].y < geometry.shapes[head].y, "arrows point down"


def test_our_own_layout_keeps_shapes_apart_frames_around_them_and_arrows_down() -> None:
    view = view_of(transformer(5))
    for name in ("layers.0", "layers.0.attention", "layers.3"):
        view.expand(name)
    assert len(view.drawing.frames) >= 4
    assert_readable(view.drawing, layered(view.drawing))


def test_our_own_layout_takes_two_thousand_shapes() -> None:
    view = view_of(transformer(160))
    view.expand_all()
    assert 1_000 < len(view.drawing.shapes) <= 2_000
    ElementTree.fromstring(to_svg(view.drawing, layered(view.drawing)))


# Snapshot ----------------------------------------------------------------------------------------------------------


def test_the_snapshot_survives_sanitizers(make_record: Make) -> None:
    html = snapshot_html(make_record())
    tables = {"table", "thead", "tbody", "tr", "th", "td"}
    assert (
        set(re.findall(r"<(\w+)", html))
        <= {"details", "summary", "pre", "p", "img", "b", "br", "code", "ul", "li"} | tables
    )
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert all(style.startswith("text-align:left;") for style in re.findall(r'style="([^"]*)"', html))
    data = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    assert data is not None
    ElementTree.fromstring(b64decode(data.group(1)))


def test_the_snapshot_of_nothing_says_so(make_record: Make) -> None:
    html = snapshot_html(make_record(captures=(), findings=()))
    assert "NOTHING WAS CHECKED" in html
    assert "<img" not in html


def test_a_snapshot_stays_small_whatever_the_session(make_record: Make) -> None:
    findings = tuple(
        Violation(f"r{number}", "error", "<&>" * 300, (Place("0/0", "forward", f"op_{number}"),), hints=("<" * 900,))
        for number in range(300)
    )
    record = make_record(captures=(CompileCapture("0/0", graphs={"forward": chain(2_000)}),), findings=findings)
    html = snapshot_html(record)
    assert len(html.encode()) <= MAX_BYTES
    assert html.endswith("</details>")
