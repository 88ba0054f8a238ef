"""Boxes: what is one, what opens and closes, what is found, lit and coloured."""

from __future__ import annotations

import time

import pytest
import torch

from inductor_debug_jupyter.pipeline.drawing.colours import Measured
from inductor_debug_jupyter.pipeline.drawing.graph_view import MAX_SHAPES, GraphView, GraphViews
from inductor_debug_jupyter.pipeline.drawing.painter import Shape
from inductor_debug_jupyter.pipeline.errors import NotFoundError, UsageError
from inductor_debug_jupyter.pipeline.records import (
    CoverageRecord,
    GraphCoverage,
    GraphRecord,
    NodeRecord,
    Place,
    Segment,
    SessionRecord,
    TensorSpec,
    Violation,
)
from inductor_debug_jupyter.pipeline.session import DebugSession, capture
from inductor_debug_jupyter.pipeline.views.places import Lookup, nothing

from .graphs import chain, op, session_of, transformer, view_of


def units(view: GraphView) -> list[Shape]:
    return list(view.drawing.shapes[: view.drawing.units])


def heads(view: GraphView) -> list[str]:
    return [shape.label[0] for shape in units(view)]


def assert_whole(view: GraphView) -> None:
    """Every op is drawn in exactly one shape, and arrows go forward: no box hides a cycle."""
    positions = [at for shape in units(view) for at in range(shape.start, shape.end)]
    assert positions == list(range(len(view.drawn.ops)))
    number = {shape.id: at for at, shape in enumerate(units(view))}
    assert all(number[tail] < number[head] for tail, head in view.drawing.edges if tail in number)


# Boxes -------------------------------------------------------------------------------------------------------------


def test_layers_alike_are_one_box_with_a_count_that_opens_to_its_members() -> None:
    view = view_of(transformer(12))
    assert heads(view) == ["Layer ×12"]
    (box,) = units(view)
    assert box.label[1:3] == ("layers.0…11", "108 ops")
    view.expand(box.box)
    assert heads(view) == ["Layer"] * 12
    view.expand("layers.3")
    assert heads(view)[3:7] == ["Attention", "MLP", "add", "Layer"]
    view.expand("layers.3.attention")
    assert heads(view)[3:8] == ["query: mm", "key: mm", "bmm", "softmax", "MLP"]
    assert_whole(view)
    view.collapse("layers.3")
    assert heads(view) == ["Layer"] * 12
    view.expand("layers.3")
    assert "softmax" in heads(view), "what was open inside is open again"
    view.collapse_all()
    assert heads(view) == ["Layer ×12"]


def test_expanding_a_path_opens_what_is_around_it() -> None:
    view = view_of(transformer(12))
    view.expand("layers.7.mlp")
    assert "gelu" in heads(view)
    with pytest.raises(NotFoundError, match=r"layers\.99"):
        view.expand("layers.99")


def test_an_op_between_the_layers_is_part_of_the_repeat() -> None:
    view = view_of(transformer(8, loose=True))
    assert heads(view) == ["Layer + add ×8", "add"], "the last add is in no module"
    assert_whole(view)


def test_a_first_layer_that_differs_a_little_still_counts() -> None:
    assert heads(view_of(transformer(12, first=1))) == ["Layer ×12"]
    assert "Layer ×11" in heads(view_of(transformer(12, first=20)))


def test_other_shapes_or_names_are_not_a_repeat() -> None:
    nodes = [op(f"n{n}_{k}", path=f"blocks.{n}", size=8 * 2**n) for n in range(4) for k in range(30)]
    assert len(heads(view_of(GraphRecord("forward", tuple(nodes))))) == 4
    named = [op(f"{name}_{k}", path=name, size=8) for name in ("query", "key", "value") for k in range(30)]
    assert heads(view_of(GraphRecord("forward", tuple(named)))) == ["query", "key", "value"]


def test_ops_without_a_module_join_the_run_around_them() -> None:
    nodes = [op(f"a{k}", path="m.inner") for k in range(40)]
    nodes.insert(20, op("stray"))
    nodes += [op(f"b{k}", path="n") for k in range(40)]
    view = view_of(GraphRecord("forward", tuple(nodes)))
    view.collapse_all()
    assert heads(view) == ["inner", "n"]


def test_a_small_graph_shows_every_op() -> None:
    view = view_of(transformer(3))
    assert len(heads(view)) == 27
    assert all(shape.kind == "node" for shape in units(view))


@pytest.mark.parametrize("count", [401, 5_000])
def test_any_size_opens_small_and_loses_nothing(count: int) -> None:
    view = view_of(chain(count))
    assert len(heads(view)) <= 40
    assert_whole(view)
    for _ in range(12):  # down to single ops
        group = next((shape for shape in units(view) if shape.kind == "group"), None)
        if group is not None:
            view.expand(group.box)
    assert "relu" in " ".join(heads(view))
    assert_whole(view)
    assert len(view.drawing.shapes) < 500


def test_without_modules_and_without_lines_there_are_sections() -> None:
    nodes = tuple(op(f"n{number}", target=f"aten.op{number * number % 97}.default") for number in range(3_000))
    view = view_of(GraphRecord("forward", nodes))
    assert 1 < len(heads(view)) <= 40
    assert heads(view)[0] == "ops 1–100"
    view.expand(units(view)[0].box)
    assert_whole(view)


def test_a_pattern_of_bare_ops_is_a_repeat() -> None:
    kinds = ["mm", "add", "relu"]
    nodes = tuple(op(f"n{number}", target=f"aten.{kinds[number % 3]}.default") for number in range(900))
    assert heads(view_of(GraphRecord("forward", nodes))) == ["mm + 2 more ×300"]


def test_a_hundred_thousand_nodes_open_and_answer_in_time() -> None:
    graph = chain(100_000, layers=20_000)
    start = time.process_time()
    view = view_of(graph)
    view.picture()
    assert time.process_time() - start < 5, "less than a second on a machine with nothing else to do"
    assert len(heads(view)) <= 40
    assert_whole(view)
    start = time.process_time()
    view.search("op_777")
    view.reveal("op_50000")
    view.picture()
    assert time.process_time() - start < 3


def test_never_more_than_can_be_drawn() -> None:
    view = view_of(transformer(400))
    view.expand_all()
    assert 800 < len(view.drawing.shapes) <= MAX_SHAPES
    view.expand("layers.399.attention")
    assert "softmax" in heads(view)
    assert len(view.drawing.shapes) <= MAX_SHAPES
    assert_whole(view)


# Looking -----------------------------------------------------------------------------------------------------------


def chosen(node: str = "", line: int = 0) -> dict[str, object]:
    return {**nothing(), "compile_id": "0/0", "stage": "forward", "node": node, "label": "net.py", "line": line}


def test_a_hidden_node_lights_its_box_and_reveal_opens_it_for_a_while() -> None:
    view = view_of(transformer(12))
    assert view.lit(chosen("l5_3_softmax")) == ["n0"]
    assert view.reveal("l5_3_softmax")
    (lit,) = view.lit(chosen("l5_3_softmax"))
    assert view.picture()["nodes"][lit]["names"] == ["l5_3_softmax"]
    assert not view.reveal("l5_2_bmm"), "it is on show already"
    view.reveal("l9_3_softmax")
    assert "layers.9.attention" in view.opened
    assert "layers.5.attention" not in view.opened, "what was only opened to show a node closes again"
    view.expand("layers.9.mlp")
    view.reveal("l1_5_gelu")
    assert "layers.9.mlp" in view.opened, "what somebody opened stays open"


def test_a_line_lights_all_of_its_ops() -> None:
    view = view_of(transformer(3))
    lit = view.lit(chosen(line=13))
    assert [view.picture()["nodes"][each]["node"] for each in lit] == [f"l{n}_3_softmax" for n in range(3)]


def test_search_finds_nodes_in_closed_boxes() -> None:
    view = view_of(transformer(12))
    found = view.search("SOFTMAX layers.1")
    assert (found["count"], found["of"]) == (3, {"n0": 3})
    assert found["names"] == ["l1_3_softmax", "l10_3_softmax", "l11_3_softmax"]
    assert view.search(" ")["count"] == 0


def test_findings_show_on_the_box_and_choosing_it_means_their_node() -> None:
    view = view_of(transformer(12), Violation("r", "error", "wrong", (Place("0/0", "forward", "l4_5_gelu"),)))
    (box,) = units(view)
    assert (box.severity, box.label[0]) == ("error", "✗ Layer ×12")
    assert view.picture()["nodes"][box.id]["node"] == "l4_5_gelu"
    view.expand(box.box)
    assert [shape.severity for shape in units(view)].index("error") == 4


def test_the_outline_is_what_is_seen() -> None:
    view = view_of(transformer(12))
    view.expand("layers.0")
    outline = str(view)
    assert outline.splitlines()[0] == "0/0 forward: 108 ops in 14 shapes"
    assert "▾ Layer · layers.0\n" in outline
    assert "▸ Attention · layers.0.attention · 4 ops" in outline


# Colours -----------------------------------------------------------------------------------------------------------


def sized(name: str, dtype: str, numbers: int | str) -> NodeRecord:
    spec = TensorSpec((numbers,), dtype, itemsize=2)
    return NodeRecord(name, "call_function", "aten.relu.default", (), (spec,))


MIXED = GraphRecord(
    "forward", (sized("a", "float16", 8), sized("b", "float32", 8_000_000), sized("c", "float16", "s0"))
)


def classes(view: GraphView, by: str) -> dict[str, str]:
    painted = view.colour(by)
    return {units(view)[int(key[1:])].names[0]: painted["legend"][at]["text"] for key, at in painted["of"].items()}


def test_colours_by_dtype_and_memory() -> None:
    view = view_of(MIXED)
    assert view.colours == ["nothing", "dtype", "memory"]
    assert classes(view, "dtype") == {"a": "float16 · 2 ops", "b": "float32 · 1 op", "c": "float16 · 2 ops"}
    memory = classes(view, "memory")
    assert memory == {"a": "≤ 254 B", "b": "≤ 15.3 MiB"}, "a symbolic size has no class"
    assert view.paint()["by"] == "memory"
    legend = view.colour("dtype")["legend"]
    assert len({entry["sign"] for entry in legend}) == len({entry["colour"] for entry in legend}) == len(legend)


def test_colours_by_placement_and_error_where_they_are_known() -> None:
    record = session_of(MIXED)
    segments = (Segment(0, "device", ("a", "b")), Segment(1, "cpu", ("c",)))
    coverage = CoverageRecord("t", (GraphCoverage("0/0", "forward", 3, (), segments),))
    record = SessionRecord(**{**{f: getattr(record, f) for f in record.__dataclass_fields__}, "coverage": coverage})
    errors = {("0/0", "forward"): {"a": 1e-7, "b": float("nan")}}
    shares = {("0/0", "forward"): {"a": 0.97, "b": 0.03, "c": 0.0}}
    view = GraphView(Lookup(record), "0/0", "forward", measured=Measured(errors, shares))
    assert classes(view, "budget") == {"a": "> 20%", "b": "≤ 5.0%", "c": "≤ 0.1%"}
    assert classes(view, "placement") == {"a": "runs on t", "b": "runs on t", "c": "falls back to the CPU"}
    assert classes(view, "error")["b"] != classes(view, "error")["a"]
    with pytest.raises(UsageError, match=r"'error'; allowed here: nothing, dtype, memory"):
        view_of(MIXED).colour("error")


def test_a_closed_box_of_several_classes_is_mixed() -> None:
    nodes = tuple(sized(f"n{k}", "float16" if k % 2 else "float32", 8 + k) for k in range(70))
    view = view_of(GraphRecord("forward", tuple(nodes)))
    view.collapse_all()
    painted = view.colour("dtype")
    assert painted["legend"][painted["of"]["n0"]]["text"] == "mixed"


# The session -------------------------------------------------------------------------------------------------------


def test_a_session_has_its_views_and_tells_who_listens() -> None:
    session = DebugSession.of_record(session_of(transformer(12)))
    heard: list[tuple[str, ...]] = []
    session.graph_views.on_change(lambda view: heard.append(view.opened))
    view = session.graph_views.of(stage="forward")
    assert view is session.graph_views.of("0/0", "forward") is session.graph_views.of()
    view.expand("layers.2")
    assert heard[-1][-1] == "layers.2"
    with pytest.raises(NotFoundError, match="'backward'"):
        session.graph_views.of(stage="backward")


def test_views_are_made_when_they_are_asked_for() -> None:
    views = GraphViews(session_of(transformer(12)))
    assert views._views == {}
    views.of()
    assert list(views._views) == [("0/0", "forward")]


def test_what_a_search_found_colours_the_graphs_that_it_looked_at() -> None:
    with capture(lower="aot", eager=True, keep_inputs=True) as session:
        torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())(torch.randn(2, 4))
    assert "error" not in session.graph_views.of(stage="forward").colours
    found = session.localize("aot_eager")
    assert found.nodes
    view = session.graph_views.of(stage="forward")
    assert "error" in view.colours
    view.colour("error")
    assert session.graph_views.of(stage="forward").coloured_by == "error"
