"""A candidate that crashes, hangs or raises while it is searched: the op is named, and the search goes on behind it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from inductor_debug_jupyter.pipeline.diff import localize_failures
from inductor_debug_jupyter.pipeline.diff.localize_ops import OpSearch
from inductor_debug_jupyter.pipeline.errors import BackendCrashError
from inductor_debug_jupyter.pipeline.records import CrashRecord
from inductor_debug_jupyter.pipeline.torch_compat.graphs import target_name
from inductor_debug_jupyter.pipeline.torch_compat.replay import AotKeeper, KeptGraph

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def kept_graph() -> KeptGraph:
    def model(x: torch.Tensor) -> torch.Tensor:
        for _ in range(6):
            x = torch.sin(x) + 0.1
        x = torch.relu(x) * 2
        largest, _ = torch.relu(torch.cos(x)).max(0)
        return largest.exp()

    keeper = AotKeeper()
    torch.compile(model, backend=keeper)(torch.linspace(-1, 1, 12).reshape(3, 4))
    return keeper.graphs[0]


def dying(when: Callable[[list[str]], bool], wrong: str = "", *, told: str = "", phase: str = "run") -> Any:
    """A compiler whose process ends where ``when`` says so of the ops it is given."""

    def compiler(graph_module: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        ops = [target_name(node) for node in graph_module.graph.nodes if node.op == "call_function"]
        if when(ops):
            crash = CrashRecord("signal", "chip", phase=phase, op=told, signal="SIGSEGV", stderr="ouch")
            raise BackendCrashError("it died", crash)

        class Run(torch.fx.Interpreter):
            def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
                result = super().call_function(target, args, kwargs)
                return result * 1.5 if wrong and wrong in str(target) else result

        return Run(graph_module).run

    return compiler


@pytest.mark.parametrize("told", ["", "aten.relu.default (node relu)"])
def test_the_op_is_found_and_what_comes_after_it_is_judged(told: str) -> None:
    relu = "aten.relu.default"
    search = OpSearch(dying(lambda ops: relu in ops, "exp", told=told))
    search.search(kept_graph())
    assert [(each.node.name, each.failure.sentence.split(" ")[:4]) for each in search.failures.ops] == [
        ("relu", ["chip", "died", "of", "SIGSEGV"])
    ]
    culprit = search.failures.ops[0].culprit()
    assert (culprit.op, culprit.graph, culprit.error, culprit.allowed) == (relu, "forward", None, None)
    assert "died of SIGSEGV" in culprit.reason
    assert culprit.source is not None
    assert "torch.relu(x) * 2" in culprit.source.text
    assert [suspect.finding.node.name for suspect in search.suspects] == ["exp"], "behind the crash"
    unknown = {finding.node.name: finding.reason for finding in search.findings if finding.judgement is None}
    assert set(unknown) == {"relu", "relu_1"}
    assert "which is computed alike, ended the candidate's process" in unknown["relu_1"]
    assert search.notes == search.failures.notes == []
    assert [crash.stderr for crash in search.failures.crashes] == ["ouch"], "told once, however often it was tried"
    assert search.failures.ended <= (2 if told else 5)


def test_ops_that_end_it_only_together_are_told_of() -> None:
    search = OpSearch(dying(lambda ops: {"aten.cos.default", "aten.exp.default"} <= set(ops)))
    search.search(kept_graph())
    assert search.failures.ops == []
    (note,) = search.failures.notes
    assert note.startswith("forward: chip died of SIGSEGV")
    assert note.endswith("none of them does that alone")
    assert len(search.failures.crashes) == 1
    assert all(finding.judgement is not None for finding in search.findings)
    assert len(search.findings) > 12


def test_a_process_that_does_not_even_start_ends_the_search() -> None:
    search = OpSearch(dying(lambda _: True, phase="import"))
    search.search(kept_graph())
    assert search.failures.ended == 1
    assert {finding.reason for finding in search.findings} == {"the search stopped before it"}
    assert len(search.findings) > 12
    assert all(finding.judgement is None for finding in search.findings)
    (note,) = search.failures.notes
    assert note.startswith("forward: the search stopped: chip died of SIGSEGV")
    assert note.endswith("while it was imported, after 0.0 s")


def test_there_is_an_end_to_trying(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(localize_failures, "MOST_CRASHES", 3)
    search = OpSearch(dying(lambda _: True))
    search.search(kept_graph())
    assert search.failures.ended == 3
    (note,) = search.failures.notes
    assert "it has ended 3 times, which is enough" in note


def raising(when: Callable[[list[str]], bool], error: Exception, wrong: str = "") -> Any:
    """A compiler that refuses graphs."""
    working = dying(lambda _: False, wrong)

    def compiler(graph_module: torch.fx.GraphModule, inputs: Any) -> Callable[..., Any]:
        if when([target_name(node) for node in graph_module.graph.nodes]):
            raise error
        return working(graph_module, inputs)  # type: ignore[no-any-return]

    return compiler


def test_an_op_that_raises_is_named_and_what_comes_after_it_is_judged() -> None:
    relu, cos = "aten.relu.default", "aten.cos.default"
    search = OpSearch(raising(lambda ops: relu in ops or cos in ops, RuntimeError("no such unit"), "exp"))
    search.search(kept_graph())
    culprits = [each.culprit() for each in search.failures.ops]
    assert [each.node for each in culprits] == ["relu", "cos"]
    assert {each.reason for each in culprits} == {"the candidate raised RuntimeError: no such unit"}
    assert all(each.source is not None for each in culprits)
    assert [suspect.finding.node.name for suspect in search.suspects] == ["exp"]
    unknown = {finding.node.name: finding.reason for finding in search.findings if finding.judgement is None}
    assert unknown["relu_1"] == "not run: relu, which is computed alike, raised"
    assert search.failures.crashes == ()
    assert search.failures.notes == []


def test_no_smaller_part_is_tried_when_time_is_over() -> None:
    search = OpSearch(raising(lambda _: True, TimeoutError("no answer within 3 s")))
    search.search(kept_graph())
    assert search.failures.notes == [
        "forward: the search stopped: the candidate raised TimeoutError: no answer within 3 s"
    ]
    assert all(finding.judgement is None for finding in search.findings)
    assert len(search.findings) > 12


def test_a_candidate_that_always_raises_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(localize_failures, "MOST_ERRORS", 5)
    search = OpSearch(raising(lambda _: True, ValueError("")))
    search.search(kept_graph())
    (note,) = search.failures.notes
    assert note.endswith("it has raised 5 times, which is enough")
