"""The fault zoo: the tool is right about its fixed sample, and the zoo itself is honest."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
import torch

from inductor_debug_jupyter.pipeline.errors import OptionError
from tests.proofs.__main__ import main
from tests.proofs.inside_torch import planting
from tests.proofs.zoo import faults, planted, pool, showing
from tests.proofs.zoo.cases import BACKENDS, HANDED_OVER, KINDS, SAMPLE, Case, drawn, parse_case
from tests.proofs.zoo.scoring import score
from tests.proofs.zoo.subjects import MODELS, Subject, regime
from tests.proofs.zoo.trial import Blame, Outcome, how_a_fault_shows, try_case
from tests.proofs.zoo.values import REGIMES

Capsys = pytest.CaptureFixture[str]

QUICK = [text for text in SAMPLE if "/inductor/" not in text and not text.startswith("clean")]


FOUND = "backend.as-relu.gelu/mlp/mask-1e9/aot/2"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("cases", [SAMPLE[::13], pytest.param(SAMPLE, marks=pytest.mark.long)], ids=["a few", "all"])
def test_the_tool_is_right_about_the_fixed_sample(cases: tuple[str, ...], capsys: Capsys) -> None:
    code = main(["truth", "--jobs", "1", *(part for case in cases for part in ("--case", case))])
    out = capsys.readouterr().out
    assert code == 0, out
    assert f"{len(cases)} of {len(cases)} cases are right in everything" in out


def test_the_sample_has_every_kind_and_most_of_the_rest() -> None:
    cases = [parse_case(text) for text in SAMPLE]
    assert {case.kind for case in cases} == {*KINDS, "clean"}
    assert {case.backend for case in cases} >= set(BACKENDS) - {"stick32"}
    assert {case.regime for case in cases} == set(REGIMES)
    assert {case.model for case in cases} == {name for name, entry in MODELS.items() if not entry.hub}


def test_a_draw_is_the_same_each_time_and_reaches_everything() -> None:
    first, again, other = (list(itertools.islice(drawn(seed), 400)) for seed in (3, 3, 4))
    assert first == again != other
    assert len(set(first)) == 400
    assert {case.kind for case in first} == set(KINDS)
    assert {case.backend for case in first} == set(BACKENDS)
    assert {case.model for case in first} == set(MODELS)
    assert {case.regime for case in first} == set(REGIMES)
    assert all(parse_case(case.id) == case for case in first)
    assert all(case.lines for case in first if case.blames_op)
    assert all(case.kind in {*HANDED_OVER, "wrong-dtype"} for case in first if not case.blames_op)


def test_a_draw_can_be_narrowed() -> None:
    some = list(itertools.islice(drawn(0, ["tanh", "/aot/"]), 20))
    assert all(case.op == "tanh" and case.backend == "aot" for case in some)
    with pytest.raises(OptionError, match="no-such-thing"):
        next(drawn(0, ["no-such-thing"]))


@pytest.mark.parametrize(
    "text", ["", "clean/mlp", "backend.scale.tanh/no/plain/aot/1", "lowering.scale.tanh/mlp/plain/aot/1"]
)
def test_what_is_no_case_gets_one_line(capsys: Capsys, text: str) -> None:
    assert main(["truth", "--case", text]) == 2
    assert "is not allowed; allowed: an id such as" in capsys.readouterr().err


# The zoo's honesty: a fault that is scored is really there.


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.every(6)
@pytest.mark.parametrize("text", QUICK)
def test_a_planted_fault_shows_without_the_tool(text: str) -> None:
    assert how_a_fault_shows(parse_case(text))


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.every(6)
@pytest.mark.parametrize("text", [text for text in QUICK if "stick" not in text])
def test_the_same_backend_without_the_fault_shows_nothing(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = parse_case(text)

    def healthy(which: Case) -> Any:
        return planted.planted(which.without_fault)

    monkeypatch.setattr("tests.proofs.zoo.trial.planted", healthy)
    assert how_a_fault_shows(case) == ""


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_fault_that_is_rounding_is_not_scored(monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = replace(faults.ALTERATIONS["scale"], **faults._scaled(1 + 1e-7))
    monkeypatch.setitem(faults.ALTERATIONS, "scale", tiny)
    case = parse_case("backend.scale.tanh/mlp/plain/aot/1")
    assert try_case(case, _never) == Outcome(case.id)


def _never(case: Case, subject: Subject, backend: Any) -> Any:
    raise AssertionError("the tool is not asked about what does not show")


@pytest.mark.parametrize("huge", [1.0, -1e9, float("-inf"), torch.finfo(torch.float32).min])
def test_a_huge_element_hides_nothing_from_the_measure(huge: float) -> None:
    exact = torch.linspace(0.1, 1, 50, dtype=torch.float64)
    exact[7] = huge
    eager = exact.float()
    wrong = eager.clone()
    wrong[3] *= 1.01
    results = [showing.Results({"output 0": each}) for each in (eager, exact, wrong)]
    assert "× what rounding does" in showing.how_it_shows(*results)
    assert showing.how_it_shows(results[0], results[1], results[0]) == ""


# Scoring can fail: a tool that always says the same is found out.


def _fake(verdict: str, *blamed: Blame) -> Any:
    def tool(case: Case, subject: Subject, backend: Any) -> Any:
        return verdict, (), verdict, blamed

    return tool


def _marks(text: str, verdict: str, *blamed: Blame) -> Any:
    case = parse_case(text)
    return score(case, Outcome(case.id, "yes", verdict, verdict, blamed))


def test_a_tool_that_always_says_match_fails_every_fault() -> None:
    for text in SAMPLE:
        assert _marks(text, "match").right == text.startswith("clean")


def test_a_tool_that_always_says_mismatch_fails_every_clean_case_and_every_op() -> None:
    for text in SAMPLE:
        marks = _marks(text, "mismatch")
        assert marks.right == (not parse_case(text).is_clean and not parse_case(text).blames_op)
        assert marks.op in {None, False}


def test_each_mark_can_be_missed_alone() -> None:
    case = parse_case(FOUND)
    ((file, line),) = case.lines
    right = Blame("aten.gelu.default", file, line)
    assert _marks(FOUND, "mismatch", right).right
    assert (_marks(FOUND, "rounding", right).verdict, _marks(FOUND, "rounding", right).op) == (False, True)
    elsewhere = _marks(FOUND, "mismatch", replace(right, line=line + 1))
    assert (elsewhere.op, elsewhere.line, elsewhere.innocents) == (True, False, 1)
    other = _marks(FOUND, "mismatch", replace(right, op="aten.addmm.default"))
    assert (other.op, other.line, other.innocents) == (False, False, 1)
    both = _marks(FOUND, "mismatch", right, replace(right, op="aten.mul.Tensor"))
    assert (both.line, both.innocents, both.right) == (True, 1, False)
    clean = "clean/mlp/plain/aot/1"
    assert _marks(clean, "rounding").right
    assert not _marks(clean, "rounding", right).right
    assert not _marks(clean, "not_compared").right


def test_localize_must_not_tick_beside_a_mismatch() -> None:
    case = parse_case("wrong-stride/attention/plain/custom/1")
    assert not score(case, Outcome(case.id, "yes", "mismatch", "match")).right
    assert score(case, Outcome(case.id, "yes", "mismatch", "mismatch")).right


@pytest.mark.usefixtures("fresh_dynamo")
def test_what_the_tool_raises_is_a_failure_of_the_case() -> None:
    def broken(case: Case, subject: Subject, backend: Any) -> Any:
        raise RuntimeError("no")

    case = parse_case("clean/mlp/plain/custom/1")
    outcome = try_case(case, broken)
    assert outcome.error == "RuntimeError: no"
    assert not score(case, outcome).right


# Planting: a fault is on the marked line, and is gone afterwards.


@pytest.mark.every(4)
@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize("model", [name for name, entry in MODELS.items() if not entry.hub])
def test_the_marked_lines_are_where_the_graphs_have_their_ops(model: str) -> None:
    """The right line is the one that torch gives the node; an op that is planted everywhere is on no other line."""
    from inductor_debug_jupyter.pipeline.torch_compat.lowering import compile_with_aot

    entry = MODELS[model]
    subject = entry.build(regime("plain"), 1)
    seen: dict[str, set[planting.Place | None]] = {}

    def look(graph_module: torch.fx.GraphModule, stage: str) -> Any:
        for node in graph_module.graph.nodes:
            if node.op == "call_function":
                seen.setdefault(planting.op_name(node.target), set()).add(planting.place_of(node))
        return graph_module.forward

    with entry.surroundings(), torch.no_grad():
        torch.compile(subject.call, backend=lambda graph, inputs: compile_with_aot(graph, inputs, look))(
            *subject.inputs
        )
    for op, lines in entry.sites().items():
        if op[0] in "(<":
            continue
        case = Case("backend", model, "plain", "aot", 1, "scale", op)
        assert lines <= seen.get(op, set()), op
        assert case.planted_at is not None or seen[op] == lines, op


def test_planted_tables_are_put_back() -> None:
    from torch._inductor.decomposition import decompositions
    from torch._inductor.lowering import lowerings

    aten = torch.ops.aten
    before = lowerings[aten.tanh.default], decompositions[aten.gelu.default]
    with (
        planting.lowering_planted("tanh", lambda original, *args: None),
        planting.decomposition_planted("gelu", lambda original, *args: None),
    ):
        assert (lowerings[aten.tanh.default], decompositions[aten.gelu.default]) != before
    assert (lowerings[aten.tanh.default], decompositions[aten.gelu.default]) == before


# Children: a crash or a hang is a failure of its case.


@pytest.fixture
def bad_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    """Children that die of one case, hang in another, and answer the rest."""
    script = tmp_path / "worker.sh"
    script.write_text(
        "#!/bin/sh\nwhile read -r case; do case $case in dies) kill -SEGV $$;; hangs) exec sleep 60;; "
        '*) echo "{\\"id\\": \\"$case\\", \\"shows\\": \\"yes\\"}";; esac; done\n'
    )
    script.chmod(0o755)
    monkeypatch.setattr(pool, "COMMAND", (str(script),))


@pytest.mark.usefixtures("bad_worker")
def test_a_crash_or_a_hang_costs_one_case() -> None:
    outcomes: dict[str, Outcome] = {}
    pool.try_cases(["a", "dies", "b", "hangs", "c"], 1, lambda each: outcomes.update({each.id: each}), patience=2.0)
    assert {name for name, each in outcomes.items() if not each.error} == {"a", "b", "c"}
    assert "SIGSEGV" in outcomes["dies"].error
    assert outcomes["hangs"].error == "not ready after 2 s"
