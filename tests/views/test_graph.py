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

from inductor_debug_jupyter.pipeline.errors import LayoutError, NotFoundError
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    GraphRecord,
    NodeRecord,
    Place,
    SessionRecord,
    Violation,
)
from inductor_debug_jupyter.pipeline.views import layout
from inductor_debug_jupyter.pipeline.views.graph import MAX_CALLS, Drawing, draw, to_dot
from inductor_debug_jupyter.pipeline.views.layout import fallback_svg, layout_svg, picture_svg
from inductor_debug_jupyter.pipeline.views.picture import picture_view
from inductor_debug_jupyter.pipeline.views.places import Lookup
from inductor_debug_jupyter.pipeline.views.snapshot import MAX_BYTES, snapshot_html

Make = Callable[..., SessionRecord]
needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="needs graphviz's dot")


def chain(count: int, layers: int = 10) -> GraphRecord:
    nodes = [NodeRecord("x", "placeholder", "x")]
    for number in range(count):
        path = f"layers.{number * layers // count}.part{number % 7}"
        nodes.append(NodeRecord(f"op_{number}", "call_function", "aten.relu.default", (nodes[-1].name,), (), path))
    nodes.append(NodeRecord("output", "output", "output", (nodes[-1].name,)))
    return GraphRecord("forward", tuple(nodes))


def texts(svg: str) -> str:
    return " ".join(
        "".join(element.itertext()) for element in ElementTree.fromstring(svg).iter() if "text" in element.tag
    )


def kinds(drawing: Drawing) -> dict[str, int]:
    found = [node.kind for node in drawing.nodes]
    return {kind: found.count(kind) for kind in dict.fromkeys(found)}


def test_inputs_stand_beside_each_consumer_and_the_output_has_no_edges(make_record: Make) -> None:
    graph = make_record().captures[0].graphs["forward"]
    drawing = draw(graph, {}, [])
    assert kinds(drawing) == {"node": 3, "input": 2, "copy": 1}
    assert not any("output" in node.names for node in drawing.nodes)


def test_a_long_edge_becomes_a_portal_to_its_far_end() -> None:
    nodes = [*chain(20).nodes[:-1], NodeRecord("late", "call_function", "aten.add.Tensor", ("op_19", "op_0"))]
    drawing = draw(GraphRecord("forward", tuple(nodes)), {}, [])
    (portal,) = [node for node in drawing.nodes if node.kind == "portal"]
    assert portal.names == ("op_0",)
    late = next(node.id for node in drawing.nodes if node.names == ("late",))
    assert (portal.id, late) in drawing.edges
    assert len([edge for edge in drawing.edges if edge[1] == late]) == 2


def test_what_hangs_on_inputs_alone_needs_no_portal() -> None:
    nodes = [
        NodeRecord("w", "placeholder", "w"),
        NodeRecord("t", "call_function", "aten.t.default", ("w",)),
        *chain(20).nodes[:-1],
        NodeRecord("late", "call_function", "aten.mm.default", ("op_19", "t")),
    ]
    assert "portal" not in kinds(draw(GraphRecord("forward", tuple(nodes)), {}, []))


def test_findings_are_marked_by_shape_and_icon(make_record: Make) -> None:
    record = make_record()
    drawing = draw(record.captures[0].graphs["forward"], {"mm": (1, 0)}, ["warning", "error", "info"])
    (marked,) = [node for node in drawing.nodes if node.severity]
    assert (marked.severity, marked.label[0]) == ("error", "✗ mm")
    assert "peripheries=2" in to_dot(drawing)


@pytest.mark.parametrize("count", [401, 5_000, 100_000])
def test_any_size_collapses_without_losing_a_node_or_making_a_cycle(count: int) -> None:
    drawing = draw(chain(count), {}, [])
    groups = [node for node in drawing.nodes if node.kind in ("node", "group")]
    assert len(groups) <= MAX_CALLS
    assert sum(len(node.names) for node in groups) == count
    number = {node.id: at for at, node in enumerate(drawing.nodes)}
    inside = [(number[a], number[b]) for a, b in drawing.edges if max(number[a], number[b]) < len(groups)]
    assert all(tail < head for tail, head in inside)
    assert "groups" in drawing.note


def test_graphs_without_module_paths_collapse_too() -> None:
    nodes = tuple(NodeRecord(f"n{number}", "call_function", "aten.relu.default") for number in range(3_000))
    assert len(draw(GraphRecord("forward", nodes), {}, []).nodes) <= MAX_CALLS


def test_the_many_inputs_of_a_group_are_one_shape() -> None:
    weights = tuple(NodeRecord(f"w{number}", "placeholder", f"w{number}") for number in range(20))
    calls = tuple(
        NodeRecord(f"c{number}", "call_function", "aten.t.default", (f"w{number}",), (), "m") for number in range(20)
    )
    drawing = draw(GraphRecord("forward", weights + calls), {}, [], limit=5)
    assert [node.label[0] for node in drawing.nodes] == ["m", "20 inputs"]
    marked = draw(GraphRecord("forward", weights + calls), {"w3": (0,)}, ["error"], limit=5)
    assert [node.label[0] for node in marked.nodes] == ["m", "✗ w3", "19 inputs"]


def test_dot_ids_are_indices_and_names_only_data(make_record: Make) -> None:
    dot = to_dot(draw(make_record().captures[0].graphs["forward"], {}, []))
    for statement in dot.splitlines()[5:-1]:
        assert re.match(r"n\d+ (\[label=|-> n\d+( \[weight=6\])?;$)", statement), statement
    assert "\x1b" not in dot


@needs_dot
def test_a_label_reads_as_it_was_written() -> None:
    hostile = '<b>"q"\\N\\n&lt;&amp;'
    svg = layout_svg(to_dot(draw(GraphRecord("forward", (NodeRecord("a", "call_function", hostile),)), {}, [])))
    assert hostile in texts(svg)


@needs_dot
def test_the_evil_name_is_text_in_the_picture(make_record: Make) -> None:
    picture = picture_view(Lookup(make_record()), "0/0", "forward")
    root = ElementTree.fromstring(picture["svg"])
    assert not [element for element in root.iter() if element.tag.endswith("img")]
    assert "<img src=x onerror=alert(1)>" in texts(picture["svg"])


@needs_dot
def test_every_drawn_node_says_what_it_selects(make_record: Make) -> None:
    picture = picture_view(Lookup(make_record()), "0/0", "forward")
    drawn = {one.group(1) for one in re.finditer(r"<title>(n\d+)</title>", picture["svg"])}
    assert drawn == set(picture["nodes"])
    (mm,) = [node for node in picture["nodes"].values() if node["names"] == ["mm"]]
    assert mm["findings"] == [1, 0]
    assert mm["lines"] == ["In [4]:4"]
    assert mm["selection"]["finding"] == 1


def test_a_graph_that_is_not_there_is_not_found(make_record: Make) -> None:
    with pytest.raises(NotFoundError, match="0/0"):
        picture_view(Lookup(make_record()), "0/0", "joint")


@needs_dot
def test_bad_dot_is_a_layout_error() -> None:
    with pytest.raises(LayoutError, match="graphviz failed"):
        layout_svg("digraph {{{")


def test_a_layout_that_takes_too_long_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layout, "_command", lambda: [sys.executable, "-c", "import time; time.sleep(60)"])
    with pytest.raises(LayoutError, match=r"within 0\.2 s"):
        layout_svg("digraph { slow }", timeout=0.2)


@pytest.mark.skipif(importlib.util.find_spec("pygraphviz") is None, reason="needs pygraphviz")
def test_without_dot_pygraphviz_does_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert "only_pygraphviz" in layout_svg("digraph { only_pygraphviz }", timeout=60)


def test_without_graphviz_there_is_still_a_picture_and_the_reason(
    make_record: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    drawing = draw(make_record().captures[0].graphs["forward"], {}, [], limit=17)
    layout_svg.cache_clear()
    svg, note = picture_svg(drawing)
    assert svg == fallback_svg(drawing)
    assert "<img src=x" in texts(svg)
    assert "no graphviz here" in note


def test_the_fallback_stays_small() -> None:
    drawing = draw(chain(3_000), {}, [], limit=3_000)
    svg = fallback_svg(drawing)
    assert "2,600 more" in svg
    ElementTree.fromstring(svg)


def test_the_snapshot_survives_sanitizers(make_record: Make) -> None:
    html = snapshot_html(make_record())
    assert set(re.findall(r"<(\w+)", html)) == {"details", "summary", "pre", "p", "img"}
    assert "&lt;img src=x onerror=alert(1)&gt;" in html
    assert "style=" not in html
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
