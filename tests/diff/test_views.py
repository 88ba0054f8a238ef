"""What a comparison says: worst first, honest, and safe to print."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inductor_debug_jupyter.pipeline.diff.report import overall_verdict
from inductor_debug_jupyter.pipeline.records import (
    CrashRecord,
    Culprit,
    DiffRecord,
    Heatmap,
    LocalizationRecord,
    NodeError,
    OutputDiff,
    SourceLine,
)
from inductor_debug_jupyter.pipeline.records.diff import worst_outputs_first
from inductor_debug_jupyter.pipeline.records.transfers import spec_lines
from inductor_debug_jupyter.pipeline.views.diff import cell_place, diff_summary, diff_text, diff_view
from inductor_debug_jupyter.pipeline.views.localization import localization_text

GRID = Heatmap(2, 2, (0.0, 0.5, None, 0.0), 4, 6, "pooled")
WRONG = OutputDiff(
    "logits", "mismatch", "far off", (2, 2, 6), "float32", (2, 2, 6), "float32",
    max_absolute_error=0.5, mean_absolute_error=0.1, max_relative_error=0.2, mean_relative_error=0.1, rmse=0.2,
    mismatch_percentage=4.0, max_error_indices=(0, 1, 4), reference_value=1.0, candidate_value=1.5,
    atol=1e-5, rtol=1.3e-6, heatmap=GRID,
)  # fmt: skip
FINE = OutputDiff("fine", "match", shape=(3,), dtype="float32", candidate_shape=(3,), candidate_dtype="float32")
ODD = OutputDiff("odd", "not_compared", "sparse")
SHAPES = OutputDiff("shapes", "mismatch", "the shapes differ")
CLOSE = OutputDiff("close", "rounding", "tiny", max_absolute_error=1e-7, mismatch_percentage=0.0)


def record(*outputs: OutputDiff, **changes: object) -> DiffRecord:
    fields = {"model": "m", "reference": "eager", "candidate": "inductor", "verdict": "mismatch", "outputs": outputs}
    return DiffRecord(**(fields | changes))  # type: ignore[arg-type]


def test_the_worst_comes_first() -> None:
    more = OutputDiff("more", "mismatch", max_absolute_error=0.1, mismatch_percentage=50.0)
    ordered = worst_outputs_first([FINE, CLOSE, ODD, WRONG, more, SHAPES])
    assert [output.path for output in ordered] == ["shapes", "more", "logits", "odd", "close", "fine"]


def test_the_text_has_the_verdict_the_place_and_the_notes() -> None:
    text = diff_text(record(FINE, WRONG, notes=("careful",), images=("a.png",)))
    lines = text.splitlines()
    assert lines[1] == "✗ m: eager against inductor · 2 outputs: 1 mismatch, 1 equal"
    assert lines[3] == "✗ logits · mismatch · float32 2×2×6"
    assert "  far off" in lines
    assert "largest error 5.000e-01" in text
    assert text.index("logits") < text.index("fine")
    assert "careful" in text
    assert "a.png" in text


def test_nothing_compared_is_said() -> None:
    empty = record(verdict="not_compared", notes=("the candidate raised",))
    assert diff_summary(empty) == "? m: eager against inductor · NOTHING WAS COMPARED"
    assert "the candidate raised" in diff_text(empty)
    partly = record(FINE, ODD, verdict="not_compared")
    assert diff_summary(partly).endswith("1 not compared, 1 equal · verdict: not compared")


def test_long_lists_are_cut_and_counted() -> None:
    text = diff_text(record(*[FINE] * 30), limit=5)
    assert "… and 25 outputs more" in text
    view = diff_view(record(*[FINE] * 30), limit=5)
    assert (len(view["outputs"]), view["left_out"]) == (5, 25)


def test_names_from_a_model_cannot_break_out() -> None:
    hostile = OutputDiff("a\n\x1b[31mb", "mismatch", "why\nnot")
    text = diff_text(record(hostile, model="x\ny", notes=("n\no",)))
    assert "\x1b" not in text
    assert len(text.splitlines()) == len(diff_text(record(SHAPES, model="x", notes=("n",))).splitlines())


def test_the_view_is_json_and_knows_the_worst_cell() -> None:
    view = diff_view(record(FINE, WRONG))
    assert json.loads(json.dumps(view)) == view
    first = view["outputs"][0]
    assert (first["path"], first["at"], first["reference"], first["candidate"]) == ("logits", "[0, 1, 4]", "1", "1.5")
    assert first["heatmap"] is not None
    assert first["heatmap"]["worst"] == [0, 1]
    assert (first["heatmap"]["tall"], first["heatmap"]["wide"]) == (2, 3)
    assert ["Outside tolerance", "4%"] in first["facts"]


def test_a_cell_leads_back_to_its_elements() -> None:
    place = cell_place(record(WRONG), "logits", 1, 0)
    assert place == {"path": "logits", "first": [1, 0, 0], "last": [1, 1, 2], "error": None}
    assert cell_place(record(WRONG), "logits", 2, 0) is None
    assert cell_place(record(WRONG), "nobody", 0, 0) is None
    assert cell_place(record(FINE), "fine", 0, 0) is None


CRASH = CrashRecord("signal", "chip", "a graph", "run", signal="SIGABRT", stderr="unit 3\n<b>on fire</b>\x1b[0m")


def test_the_last_words_of_a_process_that_ended_are_in_text_and_tab() -> None:
    record = DiffRecord("m", "eager", "chip", "not_compared", crashes=(CRASH,))
    text = diff_text(record)
    assert "Crashed (1)\n  chip died of SIGABRT" in text
    assert "    | unit 3\n    | <b>on fire</b>" in text
    assert "\x1b" not in text
    (crash,) = diff_view(record)["crashes"]
    assert crash["text"].startswith("chip died of SIGABRT")
    assert crash["stderr"][0] == "unit 3"
    assert diff_view(DiffRecord("m", "eager", "chip", "match"))["crashes"] == []


def test_a_search_is_told_in_the_tab_with_its_crashes_and_notes() -> None:
    died = Culprit("aten.relu.default", "relu", "forward", reason="chip died of SIGABRT")
    found = LocalizationRecord("m", "chip", (died,), notes=("op by op",), images=("a.png",), crashes=(CRASH,))
    view = diff_view(DiffRecord("m", "eager", "chip", "not_compared"), localization=found)
    assert view["culprits"][0]["lines"] == ["  chip died of SIGABRT"]
    assert view["searched"] == ["✗ m on chip: 1 culprit (0 of 0 values looked at)", "op by op", "a.png"]
    assert [crash["stderr"][0] for crash in view["crashes"]] == ["unit 3"]
    nodes = tuple(NodeError("forward", "mm", "aten.mm.default", status) for status in ("rounding", "not_compared"))
    assert localization_text(LocalizationRecord("m", "chip", nodes=nodes)).startswith("? m on chip: no culprit among")
    fine = LocalizationRecord("m", "chip", nodes=nodes[:1], verdict="rounding")
    assert localization_text(fine).startswith("✓ m on chip: rounding")
    assert localization_text(LocalizationRecord("m", "chip", nodes=nodes[:1])).startswith("? m on chip: rounding")
    differs = LocalizationRecord("m", "chip", nodes=nodes[:1], verdict="mismatch")
    assert localization_text(differs).startswith("✗ m on chip: outputs differ")
    unexplained = LocalizationRecord("m", "chip", crashes=(CRASH,))
    assert "NOTHING WAS COMPARED" in localization_text(unexplained)
    assert "| unit 3" in localization_text(unexplained)


CULPRIT = Culprit("aten.relu.default", "relu", "forward", "cpp_fused_3", "up", SourceLine("net.py", 12, "relu(x)"))
MISSED = replace(FINE, path="gate", verdict="mismatch", missed_gates=("pcc 0.9, required at least 0.99",))


@pytest.mark.parametrize(
    ("outputs", "culprits", "sentence"),
    [
        ((FINE,), (), "Equal to the bit."),
        ((replace(FINE, verdict="rounding", reason="as float16 gives it: at most 0.8× what float16 explains"),), (),
         "As float16 gives it: nothing is wrong."),
        ((replace(FINE, verdict="rounding", reason="rounding: at most 1× what rounding explains at [0]"),), (),
         "Rounding only: nothing is wrong."),
        ((WRONG, FINE), None, f"Wrong: {WRONG.path}; localize() names the op."),
        ((WRONG, FINE), (), f"Wrong: {WRONG.path}; no op was found that explains it."),
        ((WRONG, FINE), (CULPRIT,),
         "Wrong numbers come in at relu (net.py, line 12), in kernel cpp_fused_3; 1 output inherits it."),
        ((WRONG, SHAPES), (CULPRIT, CULPRIT),
         ("Wrong numbers come in at relu (net.py, line 12), in kernel cpp_fused_3, and 1 other op; 2 outputs "
          "inherit them.")),
        ((replace(MISSED, reason="pcc 0.9, required at least 0.99; as float16 gives it: at most 1× what"),), None,
         "Not as required: gate (pcc 0.9, required at least 0.99), though rounding explains the difference."),
        ((FINE, replace(FINE, verdict="not_compared")), None,
         "Not known: 1 output not compared, and none that was compared is wrong."),
    ],
)  # fmt: skip
def test_the_story_comes_first(
    outputs: tuple[OutputDiff, ...], culprits: tuple[Culprit, ...] | None, sentence: str
) -> None:
    found = None if culprits is None else LocalizationRecord("m", "inductor", culprits=culprits)
    told = record(*outputs)
    told = replace(told, verdict=overall_verdict(told.outputs))
    assert diff_text(told, localization=found).splitlines()[0] == sentence
    assert diff_view(told, localization=found)["story"] == sentence


_LEAVES = st.integers() | st.booleans() | st.text("abc xyz_", max_size=8)
_SPECS = st.dictionaries(
    st.text("abcdefgh_", min_size=1, max_size=8),
    st.recursive(
        _LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("keys"), inner, max_size=3)
    ),
    min_size=1,
    max_size=4,
)


@given(_SPECS)
def test_a_kernels_spec_is_words_and_no_dict(spec: dict[str, object]) -> None:
    found = LocalizationRecord("m", "chip", culprits=(replace(CULPRIT, spec={"op": "relu", **spec}),))
    view = diff_view(record(WRONG), localization=found)
    lines = [line for culprit in view["culprits"] for line in culprit["spec"]]
    for line in [*lines, *localization_text(found).splitlines()]:
        assert not set("{}'") & set(line), line
    assert not any(line.startswith("op:") for line in lines)


def test_a_kernels_spec_has_a_line_for_each_operand() -> None:
    inputs = [{"name": "x", "shape": [4, 200], "range": [4, 4, 64]}, {"name": "y", "layout": {"tile": [2, 3]}}]
    assert spec_lines(
        {"op": "add", "node": "add_1", "inputs": inputs, "work_division": {"cores": 4}, "sizes": [1, 2]}
    ) == [
        "inputs: name x, shape [4, 200], range [4, 4, 64]",
        "inputs: name y, layout (tile [2, 3])",
        "work_division: cores 4",
        "sizes: [1, 2]",
    ]
