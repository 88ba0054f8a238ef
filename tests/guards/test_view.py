"""The table: what is likely to make trouble first, what is the same folded, and a text of it."""

import sys
from collections import Counter

from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    GraphBreak,
    GraphRecord,
    Guard,
    NodeRecord,
    Note,
    Recompile,
    SessionRecord,
    SourceLine,
)
from inductor_debug_jupyter.pipeline.views.guards import (
    guard_rows,
    guards_text,
    guards_view,
    readable_check,
    trouble_of,
)

AT = SourceLine("cell", 3, "y = x * n", "f", "In [1]")
LAYERS = "L['self']._modules['layers']._modules"
TENSOR = (
    "check_tensor(L['x'], Tensor, DispatchKeySet(CPU, BackendSelect, ADInplaceOrView, AutogradCPU), torch.float32,"
    " device=None, requires_grad=False, size=[2, None], stride=[4, 1])"
)


def guard(kind, expression, *checks, compile_id="0/0", source=AT):
    return Guard(compile_id, kind, expression, checks, source)


def record(**changes):
    graph = GraphRecord("dynamo", (NodeRecord("mul", "call_function", "mul"),))
    values = {
        "captures": (CompileCapture("0/0", "f", AT, {"dynamo": graph}),),
        "guards": (guard("CONSTANT_MATCH", "L['n']", "L['n'] == 2"),),
    }
    fixed = {"id": "s", "created": "", "name": "f", "target": "", "strict": False}
    return SessionRecord(**(fixed | values | changes), torch_version="", tool_version="")


def test_the_troublesome_come_first():
    guards = [
        guard("GRAD_MODE", "", source=None),
        guard("TYPE_MATCH", "L['self']", "___check_type_id(L['self'], 94898810927888), type=<class 'a.Net'>"),
        guard("EQUALS_MATCH", "L['self']._modules['drop'].p", "L['self']._modules['drop'].p == 0.1"),
        guard("TENSOR_MATCH", "L['self']._parameters['w']", TENSOR.replace("L['x']", "L['self']._parameters['w']")),
        guard("CONSTANT_MATCH", "L['flag']", "L['flag'] == True"),
        guard("ID_MATCH", "G['config']", "___check_obj_id(G['config'], 140160197213568), type=<class 'dict'>"),
        guard("TENSOR_MATCH", "L['x']", TENSOR),
        guard("SHAPE_ENV", "L['x']", "2 <= L['x'].size()[0]"),
        guard("CONSTANT_MATCH", "L['scale']", "L['scale'] == -1.5"),
    ]
    rows = guard_rows(guards)
    assert [row["expression"] for row in rows] == [
        "scale", "x", "x", "G['config']", "flag", "self.drop.p", "self.w", "self", "",
    ]  # fmt: skip
    assert [row["trouble"] for row in rows] == [
        "number", "shape", "shape", "identity", "value", "number", "shape", "structure", "state",
    ]  # fmt: skip
    assert [row["index"] for row in rows] == list(range(9))


def test_numbers_are_numbers_and_flags_are_flags():
    for value, trouble in [("3", "number"), ("-2", "number"), ("1.5", "number"), ("inf", "number"),
                           ("True", "value"), ("'3'", "value"), ("None", "value")]:  # fmt: skip
        assert trouble_of(guard("CONSTANT_MATCH", "L['n']", f"L['n'] == {value}")) == trouble


def test_checks_are_readable_and_have_no_addresses():
    assert readable_check(TENSOR) == "torch.float32 size=[2, None] stride=[4, 1] requires_grad=False"
    assert readable_check("___check_type_id(L['s'], 94898810927888), type=<class 'a.Net'>") == "type is a.Net"
    assert readable_check("___check_obj_id(G['c'], 140160197213568), type=<class 'dict'>") == "same object (dict)"
    assert readable_check("L['self']._modules['up'].n == 3") == "self.up.n == 3"
    assert readable_check("G['__builtins_dict___5']['print'] is 3") == "builtins['print'] is 3"


def test_what_is_the_same_is_one_row_with_its_graphs():
    same = [
        guard("EQUALS_MATCH", "G['K']", "G['K'] == 3", compile_id=compile_id)
        for compile_id in ("0/0", "0/0", "1/0")
    ]  # fmt: skip
    layers = [
        guard("EQUALS_MATCH", f"{LAYERS}['{at}'].p", f"{LAYERS}['{at}'].p == 0.1") for at in range(12)
    ]  # fmt: skip
    other = guard("EQUALS_MATCH", "G['K']", "G['K'] == 3", source=SourceLine("cell", 4, "z = K", "f", "In [1]"))
    first, elsewhere, folded = guard_rows([*same, *layers, other])
    assert (first["expression"], first["count"], first["graphs"]) == ("G['K']", 3, ["0/0", "1/0"])
    assert (elsewhere["count"], elsewhere["where"]) == (1, "In [1], line 4")
    assert (folded["expression"], folded["check"], folded["count"]) == (
        "self.layers.*.p",
        "self.layers.*.p == 0.1",
        12,
    )


def test_different_values_are_never_folded():
    rows = guard_rows(
        guard("EQUALS_MATCH", f"{LAYERS}['{at}'].p", f"{LAYERS}['{at}'].p == 0.{at}") for at in range(3)
    )  # fmt: skip
    assert [row["check"] for row in rows] == [f"self.layers.{at}.p == 0.{at}" for at in range(3)]
    named = guard_rows(guard("EQUALS_MATCH", "L['s']", f"L['s'] == 'v.{at} beta'") for at in range(3))
    assert len(named) == 3


def test_choosing_a_row_lights_its_line():
    (row,) = guards_view(record())["rows"]
    assert row["selection"] == {
        "finding": None, "compile_id": "0/0", "stage": "dynamo", "node": "", "label": "In [1]", "line": 3, "kernel": "",
    }  # fmt: skip


def test_the_text_has_breaks_recompiles_and_each_graphs_guards():
    told = guards_text(
        record(
            graph_breaks=(GraphBreak("0/0", "print: not traceable", AT, ("don't print",), 2),),
            recompiles=(Recompile("0/1", ("0/0: n == 2", "0/0: older"), AT),),
            guards=tuple(guard("CONSTANT_MATCH", f"L['n{at}']", f"L['n{at}'] == {at}") for at in range(12)),
            notes=(Note("guards", "half of them"),),
        ),
        limit=10,
    )
    assert told.splitlines() == [
        "f · 1 graph · 1 break · 1 recompile · 12 guards",
        "",
        "Graph breaks (1)",
        "  0/0 · In [1], line 3: y = x * n ×2",
        "    print: not traceable",
        "    do: don't print",
        "",
        "Recompiles (1)",
        "  0/1 · In [1], line 3: y = x * n",
        "    0/0: n == 2",
        "    also 0/0: older",
        "",
        "0/0 f (1 op): 12 guards",
        *(f"  number    CONSTANT_MATCH n{at} == {at}  [In [1], line 3]" for at in range(10)),
        "  … and 2 more",
        "",
        "note: guards: half of them",
    ]


def test_names_from_a_model_cannot_break_out_of_their_line():
    evil = guard("CONSTANT_MATCH", "L['a\n\x1b[31m']", "L['a\n\x1b[31m'] == 'b\nc'")
    told = guards_text(record(guards=(evil,)))
    assert "\x1b" not in told
    assert len(told.splitlines()) == 4


def test_nothing_captured_never_looks_like_a_pass():
    assert "NOTHING WAS CHECKED" in guards_text(record(captures=(), guards=()))


def test_the_work_for_a_view_grows_linearly_with_its_guards():
    """Calls are counted and not seconds, so that a busy machine changes nothing."""

    def calls(number):
        whole = record(
            guards=tuple(guard("CONSTANT_MATCH", f"L['n{at}']", f"L['n{at}'] == {at}") for at in range(number))
        )
        counted = Counter()
        before = sys.getprofile()
        sys.setprofile(lambda frame, event, argument: counted.update([event]))
        try:
            view = guards_view(whole)
        finally:
            sys.setprofile(before)
        assert len(view["rows"]) == number
        return counted.total()

    calls(1)  # regular expressions are compiled once
    assert calls(2_000) < 2.2 * calls(1_000)


def test_a_check_always_says_what_it_looks_at():
    """An argument called ``t`` stands in ``torch.float32``, and was taken for named."""
    tensor = guard("TENSOR_MATCH", "L['t']", TENSOR.replace("L['x']", "L['t']"))
    (row,) = guard_rows([tensor])
    assert row["condition"].startswith("t torch.float32")
    assert "TENSOR_MATCH   t torch.float32" in guards_text(record(guards=(tensor,)))
