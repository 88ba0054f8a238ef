"""Both graphs of a pair: what is chosen, opened or shown on one side is on the other."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inductor_debug_jupyter.pipeline.comparing.graph_pairs import run_pairs, stage_pair
from inductor_debug_jupyter.pipeline.drawing.side_by_side import SIDES, PairedGraphs
from inductor_debug_jupyter.pipeline.drawing.svg import painted
from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.records import CompileCapture, GraphRecord, NodeRecord, SessionRecord, TensorSpec

from .test_matching import graph

FIXED = {"created": "", "target": "", "strict": False, "torch_version": "", "tool_version": ""}


def run(name: str, **graphs: GraphRecord) -> SessionRecord:
    return SessionRecord(id=name, name="m", captures=(CompileCapture("0/0", graphs=graphs, name="m"),), **FIXED)


def paired(before: list[str], after: list[str]) -> PairedGraphs:
    runs = run("a", forward=graph(before)), run("b", forward=graph(after))
    return PairedGraphs(next(run_pairs(*runs)), runs)


OPS = ["relu", "sin", "add"] * 20
EDITED = [*OPS[:31], "tanh", *OPS[31:]]


def test_a_node_chooses_its_partner_under_another_name() -> None:
    graphs = paired(OPS, EDITED)
    graphs.choose("before", ("0/0", "forward", "sin_40"))
    assert graphs.told() == "sin_40 → sin_41: the same on both sides"
    for side, name in zip(SIDES, ("sin_40", "sin_41"), strict=True):
        lit = graphs.lit(side)
        assert lit["selection"]["node"] == name
        shapes = {shape.id: shape for shape in graphs.view(side).drawing.shapes}
        assert [shapes[each].kind for each in lit["ids"]] == ["node"], "its box is open on both sides"
    assert graphs.number_of_chosen() == -1
    graphs.choose("after", ("0/0", "forward", "relu_0"))
    assert graphs.lit("before")["selection"]["node"] == "relu_0"
    assert graphs.acting == "after"


def test_what_is_new_is_lit_on_one_side_and_its_neighbour_is_near_on_the_other() -> None:
    graphs = paired(OPS, EDITED)
    number = next(at for at, node in enumerate(graphs.pair.comparison.nodes) if node.status == "new")
    graphs.choose_difference(number)
    assert graphs.told() == "tanh_31: only after"
    assert graphs.number_of_chosen() == number
    assert graphs.lit("before")["selection"] is None
    (near,) = graphs.lit("before")["near"]
    names = next(shape.names for shape in graphs.view("before").drawing.shapes if shape.id == near)
    assert names[0] in {"relu_30", "sin_31"}


def test_colours_have_signs_and_what_is_the_same_has_none() -> None:
    graphs = paired(OPS, EDITED)
    paint = graphs.paint("after")
    assert next((entry["sign"], entry["text"].partition(" · ")[0]) for entry in paint["legend"]) in {
        ("≠", "changed"),
        ("+", "new"),
    }
    assert 0 < len(paint["of"]) < len(graphs.view("after").drawing.shapes)
    image = painted(graphs.picture("after")["svg"], paint)
    assert image.count('fill-opacity="0.4"') == len(paint["of"])
    assert ">+</text>" in image


def test_boxes_open_and_close_on_both_sides() -> None:
    graphs = paired(OPS, EDITED)
    graphs.act("before", "collapse_all")
    assert graphs.view("after").opened == ()
    graphs.act("before", "expand_all")
    assert all(graphs.view(side).opened for side in SIDES)
    graphs.act("after", "collapse_all")
    box = next(iter(graphs.view("after").tree.by_id))
    graphs.act("after", "expand", box)
    assert box in graphs.view("after").opened
    assert len(graphs.view("before").opened) == 1, "the other side's box of the same layers has another range of ops"
    with pytest.raises(NotFoundError):
        graphs.act("before", "expand", "nothing")


def test_wrong_places_are_said() -> None:
    graphs = paired(OPS, EDITED)
    for wrong in (
        lambda: graphs.choose("before", ("0/0", "forward", "nothing")),
        lambda: graphs.choose("before", ("9/9", "forward", "sin_40")),
        lambda: graphs.show("after", "0/0", "joint"),
        lambda: graphs.choose_difference(10_000),
    ):
        with pytest.raises(NotFoundError):
            wrong()
    assert graphs.view("after").stage == "forward"


def test_a_dynamo_node_lights_all_that_it_became() -> None:
    spec = (TensorSpec((4,), "float32", itemsize=4),)
    inputs = NodeRecord("x", "placeholder", "x", outputs=spec, role="input")
    dynamo = GraphRecord("dynamo", (inputs, NodeRecord("gelu", "call_function", "gelu", ("x",), spec)))
    parts = ("mul", "erf", "mul_1")
    reads = ("x", "mul", "erf")
    made = [NodeRecord(n, "call_function", n, (r,), spec, origins=("gelu",)) for n, r in zip(parts, reads, strict=True)]
    record = run("a", dynamo=dynamo, forward=GraphRecord("forward", (inputs, *made)))
    graphs = PairedGraphs(stage_pair(record.captures[0], "dynamo", "forward"), (record, record))
    graphs.choose("before", ("0/0", "dynamo", "gelu"))
    assert len(graphs.lit("after")["ids"]) == 3
    graphs.choose("after", ("0/0", "forward", "erf"))
    assert graphs.lit("before")["selection"]["node"] == "gelu"


@settings(max_examples=40, deadline=None)
@given(
    ops=st.lists(st.sampled_from(["relu", "sin", "add"]), min_size=2, max_size=60),
    at=st.integers(0, 59),
    edit=st.sampled_from(["insert", "drop", "replace"]),
)
def test_every_node_can_be_chosen_and_partners_are_mutual(ops: list[str], at: int, edit: str) -> None:
    at %= len(ops)
    other = {"insert": [*ops[:at], "tanh", *ops[at:]], "drop": [*ops[:at], *ops[at + 1 :]]}.get(
        edit, [*ops[:at], "tanh", *ops[at + 1 :]]
    )
    runs = run("a", forward=graph(ops)), run("b", forward=graph(other))
    for pair in run_pairs(*runs):
        graphs = PairedGraphs(pair, runs)
        for node in runs[0].captures[0].graphs["forward"].calls:
            graphs.choose("before", ("0/0", "forward", node.name))
            assert graphs.lit("before")["ids"], node.name
            if (partner := graphs.lit("after")["selection"]) is not None:
                graphs.choose("after", ("0/0", "forward", partner["node"]))
                assert graphs.lit("before")["selection"]["node"] == node.name
            else:
                assert pair.status[0]["0/0", "forward", node.name] == "gone"
        for number in range(len(pair.comparison.nodes)):
            graphs.choose_difference(number)
            assert graphs.number_of_chosen() == number


def test_large_graphs_stay_folded_and_fast() -> None:
    ops = ["relu", "sin", "add"] * 7_000
    edited = [*ops[:10_000], "tanh", *ops[10_000:]]
    graphs = paired(ops, edited)
    start = time.process_time()
    graphs.choose("before", ("0/0", "forward", "sin_20002"))
    drawn = [len(graphs.picture(side)["nodes"]) for side in SIDES]
    assert max(drawn) < 400, "folded on both sides"
    assert graphs.lit("before")["selection"]["node"] == "sin_20002"
    assert graphs.lit("after")["ids"]
    assert time.process_time() - start < 5
