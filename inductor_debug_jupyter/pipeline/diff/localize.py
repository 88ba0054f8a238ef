"""Where an error comes in: the op, the kernel, the module and the user's line.

- On Inductor each generated kernel is judged as it runs, fused (:mod:`localize_kernels`). A wrong kernel is then looked
  into: its part of the graph is compiled once more with every value as an output, and each op is judged. If the error
  is gone then, it is one of fusion, and the op is found whose result, written to memory, makes it go away.
- On any other backend, and on any that runs in a process of its own, the AOT graphs are judged op by op
  (:mod:`localize_ops`). An op that raises, or ends that process, is a culprit too
  (:mod:`localize_failures`).

Every node ends up as *introduced* here, *amplified* from upstream, or *rounding*; the policy is :mod:`judging`'s.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters.device_log import DeviceLog, listening
from inductor_debug_jupyter.pipeline.capture.graphs import lines_of
from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.executions import Backend, Call, Execution, runnable
from inductor_debug_jupyter.pipeline.diff.judging import Judgement
from inductor_debug_jupyter.pipeline.diff.localize_kernels import (
    Finding,
    KernelWatch,
    Suspect,
    culprit_of,
    op_name,
    structure_of,
)
from inductor_debug_jupyter.pipeline.diff.localize_ops import OpSearch
from inductor_debug_jupyter.pipeline.diff.outputs import finite
from inductor_debug_jupyter.pipeline.diff.windows import Compiler, window_of
from inductor_debug_jupyter.pipeline.records import CrashRecord, Culprit, LocalizationRecord, NodeError, NodeStatus
from inductor_debug_jupyter.pipeline.rerun.again import unnoticed
from inductor_debug_jupyter.pipeline.torch_compat.graphs import is_view, module_path_of
from inductor_debug_jupyter.pipeline.torch_compat.kernel_calls import observed
from inductor_debug_jupyter.pipeline.torch_compat.lowering import backward_backend, compile_to_compare
from inductor_debug_jupyter.pipeline.torch_compat.replay import AotKeeper, as_aot_runs

INDUCTOR = "inductor"
_UNFUSED = "in a process of its own Inductor was searched op by op: an error that only fused kernels have is not seen"

_FORWARD_COMPILER = (
    "the ops of the backward graph passed the candidate as graphs of their own: what only its compiler for backward "
    "graphs does wrong is not seen"
)


def localize(
    call: Call,
    backend: Backend,
    config: ComparisonConfig,
    *,
    model_name: str = "",
    held_as: torch.dtype | None = None,
    only_products: bool = False,
    free_running: bool = True,
    timeout: float | None = None,
    outputs_differ: Callable[[], bool] = lambda: True,
) -> tuple[LocalizationRecord, Execution | None]:
    """Find what is wrong on a backend; with it the candidate's execution, if it ran as a whole.

    Args:
        call: the model and its inputs.
        backend: the candidate.
        config: how outputs are flattened; tolerances play no part.
        model_name: what to call the model.
        held_as: the format that the device holds everything in, if it is narrower than the tensors' own.
        only_products: that format is the one of products alone.
        free_running: also run whole references, to tell what was amplified.
        timeout: seconds for the candidate's run, or for each part of it.
        outputs_differ: whether the candidate's outputs are wrong. Asked when every op by itself is right: only then is
            it worth searching what is wrong as a whole.
    """
    started = time.perf_counter()
    search: KernelWatch | OpSearch
    crashes: tuple[CrashRecord, ...] = ()
    whole: Execution | None = None
    if backend.name == INDUCTOR and not backend.isolated:
        search = KernelWatch(free_running)
        with observed(search):
            execution = whole = call.execute(backend, config, timeout)
        with unnoticed(), as_aot_runs():
            found, more = _CulpritSearch(search.suspects, compile_to_compare).culprits()
        search.compiles += more
        notes = [*search.notes, *_trouble(execution)]
    else:
        search, found, notes, crashes = _by_ops(
            call, backend, config, held_as, only_products, free_running, timeout, outputs_differ
        )
    if not search.findings:
        notes.append("nothing was looked at: the candidate ran no kernel whose result could be told")
    record = LocalizationRecord(
        model_name,
        backend.name,
        tuple(found),
        _node_errors(search.findings),
        tuple(dict.fromkeys(notes)),
        time.perf_counter() - started,
        search.compiles,
        search.memory.peak,
        crashes=crashes,
    )
    return record, whole


def _by_ops(
    call: Call,
    backend: Backend,
    config: ComparisonConfig,
    held_as: torch.dtype | None,
    only_products: bool,
    free_running: bool,
    timeout: float | None,
    outputs_differ: Callable[[], bool],
) -> tuple[OpSearch, list[Culprit], list[str], tuple[CrashRecord, ...]]:
    """The search, what is to blame, what to say, and how the candidate's process ended, if it had one and did."""
    keeper = AotKeeper()
    execution = call.execute(Backend("aot", keeper), config)
    assert backend.compiler is not None
    compilers = {"forward": as_compiler(backend.compiler)}
    has_backward = any(kept.stage == "backward" for kept in keeper.graphs)
    if has_backward and (own := backward_backend(backend.compiler)) is not None:
        compilers["backward"] = as_compiler(own)
    compiler = compilers["forward"]
    search = OpSearch(compiler, held_as, backend.sums_in, only_products, free_running=free_running, timeout=timeout)
    try:
        with unnoticed(), as_aot_runs():
            for kept in keeper.graphs:
                search.compiler = compilers.get(kept.stage, compiler)
                search.search(kept)
            found = [
                _culprit(suspect, suspect.finding.node, suspect.finding.reason, spec=_spec(suspect, backend))
                for suspect in search.suspects
            ]
        if not found and not search.failures.ops and not search.failures.others and outputs_differ():
            with unnoticed(), as_aot_runs():
                for kept in keeper.graphs:
                    search.compiler = compilers.get(kept.stage, compiler)
                    fused, more = _CulpritSearch(search.as_a_whole(kept), search.compiler, held_as).culprits()
                    found += fused
                    search.compiles += more
    finally:
        if backend.close is not None:
            backend.close()
    failed = [each.culprit() for each in search.failures.ops]
    notes = [*search.notes, *search.failures.notes, *_trouble(execution)]
    if has_backward and "backward" not in compilers and not failed and not found:
        notes.append(_FORWARD_COMPILER)
    if backend.name == INDUCTOR:
        notes.append(_UNFUSED)
    return search, [*failed, *found], notes, search.failures.crashes


def as_compiler(compiler: Callable[..., Any]) -> Compiler:
    """A backend as something that takes a graph and real inputs; what it makes may be boxed in a result object."""
    return lambda graph_module, inputs: runnable(compiler(graph_module, inputs), "the candidate")


def _trouble(execution: Execution) -> list[str]:
    return [f"the candidate raised {execution.error}"] if execution.error else []


@dataclass
class _CulpritSearch:
    """Looks into wrong kernels for the op that it is."""

    suspects: Sequence[Suspect]
    compiler: Compiler
    held_as: torch.dtype | None = None
    compiles: int = 0
    _answers: dict[tuple[Any, ...], tuple[tuple[int, ...], bool, str]] = field(default_factory=dict)

    def culprits(self) -> tuple[list[Culprit], int]:
        """Every op that is to blame, once, and how many compiles it took to know."""
        found: dict[tuple[str, str], Culprit] = {}
        for suspect in self.suspects:
            key = structure_of(suspect.nodes)
            if key not in self._answers and suspect.known is not None:
                self._answers[key] = self._look_into(suspect)
            positions, only_fused, reason = self._answers.get(
                key, ((len(suspect.nodes) - 1,), False, "not looked into")
            )
            for position in positions:
                node = suspect.nodes[position]
                culprit = _culprit(suspect, node, reason, only_fused=only_fused)
                found.setdefault((culprit.graph, culprit.node), culprit)
        return list(found.values()), self.compiles

    def _look_into(self, suspect: Suspect) -> tuple[tuple[int, ...], bool, str]:
        """Positions of the wrong ops among the kernel's nodes, whether only fused code is wrong, and what to say."""
        nodes = suspect.nodes
        looked_at = [position for position, node in enumerate(nodes) if node.op != "get_attr"]
        computing = [position for position in looked_at if not is_view(nodes[position])]
        last = len(nodes) - 1
        if len(looked_at) <= 1:
            return tuple(looked_at or [last]), False, ""
        try:
            values = self._values(suspect, None)
            wrong = [position for position in looked_at if self._is_wrong(suspect, position, values)]
            if wrong:
                return tuple(wrong), False, ""
            if (first := self._first_that_matters(suspect, values)) is not None:
                return first
            return (
                self._only_fused(suspect, computing) if len(computing) > 1 else (tuple(computing or [last]), False, "")
            )
        except Exception as error:  # whatever the compiler raises on a part of a graph
            return (last,), False, f"its kernel could not be looked into: {type(error).__name__}: {error}"

    def _values(self, suspect: Suspect, outputs: set[torch.fx.Node] | None) -> dict[str, torch.Tensor]:
        assert suspect.known is not None
        self.compiles += 1
        window = window_of(suspect.nodes)
        return window.run(suspect.evaluator.graph_module, suspect.known, self.compiler, outputs)

    def _is_wrong(self, suspect: Suspect, position: int, values: dict[str, torch.Tensor]) -> bool:
        node = suspect.nodes[position]
        if node.name not in values:
            return False
        known = {**(suspect.known or {}), **values}
        return suspect.evaluator.is_wrong(node.name, known, values[node.name], self.held_as, values.keys())

    def _first_that_matters(
        self, suspect: Suspect, values: Mapping[str, torch.Tensor]
    ) -> tuple[tuple[int, ...], bool, str] | None:
        """The op that is right by itself, as far as rounding goes, and makes the ops behind it wrong.

        Values that are equal may still tell: 1 / 0.0 is not 1 / -0.0. So the first ops' results are taken from the
        candidate and the others are computed eagerly from these; the op that makes the end wrong is found by halving.
        None when the error is gone once all results are written: then it is one of fusion.
        """
        nodes, final, evaluator = suspect.nodes, suspect.nodes[-1], suspect.evaluator
        assert suspect.known is not None
        starts = suspect.known

        def wrong_with(count: int) -> bool:
            taken = {node.name: values[node.name] for node in nodes[:count] if node.name in values}
            ending = taken.get(final.name)
            if ending is None:
                rest, _ = evaluator.slice_of(final.name, starts.keys() | taken.keys())
                ending = evaluator.evaluate(rest, {**starts, **taken})
            return evaluator.judge(nodes, starts, ending, self.held_as).wrong

        if final.name not in values or not wrong_with(len(nodes)):
            return None
        right, wrong = 0, len(nodes)
        while wrong - right > 1:
            middle = (right + wrong) // 2
            right, wrong = (right, middle) if wrong_with(middle) else (middle, wrong)
        node = nodes[wrong - 1]
        before, _ = evaluator.slice_of(node.name, starts.keys() | values.keys() - {node.name})
        own = evaluator.evaluate(before, {**starts, **values})
        reason = "its result is within rounding, and makes what is computed from it wrong"
        if isinstance(own, torch.Tensor) and torch.equal(own, values[node.name]):
            reason = "it gives 0.0 where -0.0 is right, or the reverse, and what is computed from it tells them apart"
        return (wrong - 1,), False, reason

    def _only_fused(self, suspect: Suspect, computing: list[int]) -> tuple[tuple[int, ...], bool, str]:
        """The intermediate results whose writing makes the error go away: no fewer would do.

        The shortest run of results from the first on that does it ends with one of them. That one is written from
        then on, and so on with those before it, until it is enough.
        """
        nodes, final = suspect.nodes, suspect.nodes[-1]
        if not self._still_wrong(suspect, {final}):
            return (len(nodes) - 1,), True, "the kernel is wrong, but its part of the graph compiled alone is not"
        rest = [position for position in computing if nodes[position] is not final]
        found: list[int] = []

        def wrong_with(written: Sequence[int]) -> bool:
            return self._still_wrong(suspect, {final, *(nodes[position] for position in (*found, *written))})

        while rest:
            least, enough = 1, len(rest)
            while least < enough:
                middle = (least + enough) // 2
                least, enough = (middle + 1, enough) if wrong_with(rest[:middle]) else (least, middle)
            found.insert(0, rest[enough - 1])
            rest = rest[: enough - 1]
            if rest and not wrong_with(()):
                break
        reason = "wrong only while its result stays inside what is compiled: written to memory, the error is gone"
        return tuple(found), True, reason

    def _still_wrong(self, suspect: Suspect, outputs: set[torch.fx.Node]) -> bool:
        values = self._values(suspect, outputs)
        assert suspect.known is not None
        value = values[suspect.nodes[-1].name]
        return suspect.evaluator.judge(suspect.nodes, suspect.known, value, self.held_as).wrong


def _spec(suspect: Suspect, backend: Backend) -> dict[str, Any]:
    """What a device says of the kernel, if it says anything: the op is compiled by itself once more, to be told."""
    log = DeviceLog()
    window = window_of(suspect.nodes)
    graph_module, _ = window.graph_module(suspect.evaluator.graph_module)
    inputs = [_example(start) for start in window.starts]
    if backend.compiler is None or any(value is None for value in inputs):
        return {}
    try:
        with listening(log), torch.no_grad():
            backend.compiler(graph_module, inputs)
    except Exception:  # it is only asked what it would say
        return {}
    return next((dict(kernel.spec) for kernel in log.kernels.values() if kernel.spec), {})


def _example(node: torch.fx.Node) -> torch.Tensor | None:
    fake = node.meta.get("val")
    if not isinstance(fake, torch.Tensor) or not all(isinstance(size, int) for size in fake.shape):
        return None
    return torch.empty_strided(fake.shape, fake.stride(), dtype=fake.dtype, device="cpu").zero_()


def _culprit(suspect: Suspect, node: torch.fx.Node, reason: str, **more: Any) -> Culprit:
    finding = suspect.finding
    return culprit_of(node, finding.graph, finding.judgement, reason, kernel=finding.kernel, **more)


def _node_errors(findings: Sequence[Finding]) -> tuple[NodeError, ...]:
    """Every node with its status: wrong beside a free-running reference, but right on its own, is amplified."""
    made: list[NodeError] = []
    tainted: set[str] = set()
    backward_tainted = False
    for finding in findings:
        names = {each.name for each in _ancestors(finding.node, tainted)} & tainted
        upstream = bool(names) or (finding.graph == "backward" and backward_tainted)
        status: NodeStatus = "rounding"
        if finding.judgement is None:
            status = "not_compared"
        elif finding.judgement.wrong:
            status = "introduced"
        elif upstream and finding.free is not None and finding.free.wrong:
            status = "amplified"
        if status in {"introduced", "amplified"}:
            tainted.add(finding.node.name)
            backward_tainted = True
        made.append(_node_error(finding, status))
    return tuple(made)


def _ancestors(node: torch.fx.Node, stop_at: set[str]) -> set[torch.fx.Node]:
    """The nodes before a node, no further back than the first that is named."""
    seen: set[torch.fx.Node] = set()
    waiting = list(node.all_input_nodes)
    while waiting:
        each = waiting.pop()
        if each not in seen:
            seen.add(each)
            if each.name not in stop_at:
                waiting.extend(each.all_input_nodes)
    return seen


def _node_error(finding: Finding, status: NodeStatus) -> NodeError:
    def figures(judgement: Judgement | None) -> tuple[float | None, float | None]:
        return (None, None) if judgement is None else (finite(judgement.error), finite(judgement.allowed))

    return NodeError(
        finding.graph,
        finding.node.name,
        op_name(finding.node),
        status,
        *figures(finding.judgement),
        *figures(finding.free),
        kernel=finding.kernel,
        module_path=module_path_of(finding.node),
        source=lines_of(finding.node)[0],
        reason=finding.reason,
    )
