"""Which of Inductor's kernels is wrong, with everything fused as it is.

While the compiled model runs, each kernel's results are looked at as soon as they are written: the part of the
post-grad graph that leads to them is run eagerly on the candidate's own earlier results (which are what the kernel
read), and judged. A whole reference runs beside it, to tell what a wrong kernel made worse later. Only the values that
later kernels need are kept, and only until then; what remains of a node is a few numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.capture.graphs import lines_of
from inductor_debug_jupyter.pipeline.diff.judging import Judgement
from inductor_debug_jupyter.pipeline.diff.outputs import finite
from inductor_debug_jupyter.pipeline.diff.replay import (
    BESIDE,
    Evaluator,
    Lockstep,
    beside,
    error_line,
    judge_beside,
)
from inductor_debug_jupyter.pipeline.diff.windows import BUDGET
from inductor_debug_jupyter.pipeline.records import Culprit
from inductor_debug_jupyter.pipeline.torch_compat.graphs import module_path_of, mutated_inputs, target_name
from inductor_debug_jupyter.pipeline.torch_compat.kernel_calls import GeneratedGraph, KernelCall
from inductor_debug_jupyter.pipeline.torch_compat.trees import of_kind


@dataclass
class LiveBytes:
    """The bytes of tensors that a search keeps, and the most that it ever kept; a model's own tensors do not count."""

    now: int = 0
    peak: int = 0

    def there(self, value: Any) -> None:
        """A tensor is kept from now on."""
        if isinstance(value, torch.Tensor):
            self.now += value.numel() * value.element_size()
            self.peak = max(self.peak, self.now)

    def gone(self, value: Any) -> None:
        """It was let go of."""
        if isinstance(value, torch.Tensor):
            self.now = max(0, self.now - value.numel() * value.element_size())


@dataclass(frozen=True, slots=True)
class Finding:
    """One value that was looked at. ``judgement`` is None when it could not be judged, for ``reason``."""

    graph: str
    node: torch.fx.Node
    kernel: str
    judgement: Judgement | None
    free: Judgement | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Suspect:
    """A wrong value, the nodes that lead to it, and the values that they start from (None: not kept)."""

    finding: Finding
    evaluator: Evaluator
    nodes: tuple[torch.fx.Node, ...]
    known: Mapping[str, Any] | None


class _Plan:
    """Of one graph: which nodes lead to each value that is handed over, and how long a value is needed."""

    def __init__(self, generated: GeneratedGraph) -> None:
        self.evaluator = Evaluator(generated.graph_module)
        known = {node.name for node in generated.graph_module.graph.nodes if node.op == "placeholder"}
        self.inputs = frozenset(known)
        self.slices: dict[str, tuple[list[torch.fx.Node], list[str]]] = {}
        self.last_need: dict[str, int] = {}
        for call in generated.calls:
            for name in sorted(call.nodes, key=self.evaluator.position):
                if name not in self.slices:
                    nodes, starts = self.evaluator.slice_of(name, known)
                    self.slices[name] = nodes, [start.name for start in starts]
                    self.last_need |= dict.fromkeys(self.slices[name][1], call.index)
                    known.add(name)
        self.mutated = {
            name for node in generated.graph_module.graph.nodes for name in mutated_inputs(node) if name in self.inputs
        }


@dataclass
class _Run:
    """One call of a generated wrapper."""

    plan: _Plan
    known: dict[str, Any]
    references: tuple[Lockstep, ...] | None


@dataclass
class KernelWatch:
    """Judges every kernel; give it to :func:`~inductor_debug_jupyter.pipeline.torch_compat.kernel_calls.observed`.

    Args:
        free_running: also run whole references beside the candidate.
        suspects_kept: so many bytes of wrong values' inputs are kept, to look into their kernels; one value is enough
            of those that are computed alike, as in the layers of a model.
    """

    free_running: bool = True
    suspects_kept: int = BUDGET
    findings: list[Finding] = field(default_factory=list)
    suspects: list[Suspect] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compiles: int = 0
    memory: LiveBytes = field(default_factory=LiveBytes)
    _plans: dict[int, _Plan] = field(default_factory=dict)
    _runs: dict[int, _Run] = field(default_factory=dict)
    _kept: set[tuple[Any, ...]] = field(default_factory=set)
    _kept_bytes: int = 0
    _saved: dict[tuple[int, tuple[int, ...]], tuple[Any, ...]] = field(default_factory=dict)

    def generated(self, graph: GeneratedGraph) -> None:
        """Plan what to keep."""
        self.compiles += 1
        self._plans[id(graph)] = _Plan(graph)

    def begin(self, graph: GeneratedGraph, inputs: Mapping[str, Any]) -> None:
        """Start the references; an input that the graph writes to is copied first."""
        plan = self._plans[id(graph)]
        written = plan.mutated | graph.reused
        known = {
            name: value.clone() if name in written and isinstance(value, torch.Tensor) else value
            for name, value in inputs.items()
        }
        references = None
        if self.free_running:
            wanted = [name for call in graph.calls for name in call.nodes]
            references = beside(graph.graph_module, [self._theirs(known, index) for index in range(BESIDE)], wanted)
        self._runs[id(graph)] = _Run(plan, known, references)

    def _theirs(self, known: Mapping[str, Any], index: int) -> dict[str, Any]:
        """What a reference has in place of the inputs: for what the forward saved, its own; else the same."""
        given: dict[str, Any] = {}
        for name, value in known.items():
            given[name] = value
            if isinstance(value, torch.Tensor) and value.numel():
                saved = self._saved.get((value.data_ptr(), tuple(value.shape)))
                given[name] = value if saved is None else saved[index]
        return given

    def after(self, graph: GeneratedGraph, call: KernelCall, values: Mapping[str, torch.Tensor]) -> None:
        """Judge what a kernel wrote."""
        run = self._runs[id(graph)]
        with torch.no_grad():
            for name in sorted(values, key=run.plan.evaluator.position):
                if name in run.known:
                    continue
                value = as_node(values[name], run.plan.evaluator.nodes[name])
                if value is not None:
                    self._look(graph, call, run, name, value)
        for name in [each for each, last in run.plan.last_need.items() if last == call.index]:
            if name in run.known and name not in run.plan.inputs:
                self.memory.gone(run.known.pop(name))

    def _look(self, graph: GeneratedGraph, call: KernelCall, run: _Run, name: str, value: torch.Tensor) -> None:
        nodes, starts = run.plan.slices[name]
        stage = "backward" if graph.is_backward else "forward"
        known = {start: run.known[start] for start in starts if start in run.known}
        free = None if run.references is None else judge_beside(run.references, name, value)
        node = run.plan.evaluator.nodes[name]
        try:
            judgement = run.plan.evaluator.judge(nodes, known, value, together=call.nodes)
            finding = Finding(stage, node, call.kernel, judgement, free)
        except Exception as error:  # whatever an op raises when it is run by itself; KeyError: a value was not seen
            finding = Finding(stage, node, call.kernel, None, free, error_line(error))
        self.findings.append(finding)
        if finding.judgement is not None and finding.judgement.wrong:
            self.suspects.append(Suspect(finding, run.plan.evaluator, tuple(nodes), self._kept_inputs(nodes, known)))
        if run.plan.last_need.get(name, -1) >= call.index:
            run.known[name] = value.clone()
            self.memory.there(run.known[name])

    def _kept_inputs(self, nodes: Sequence[torch.fx.Node], known: Mapping[str, Any]) -> dict[str, Any] | None:
        """Copies of what a wrong value starts from; None when a like one is there already, or no more room."""
        tensors = [each for each in known.values() if isinstance(each, torch.Tensor)]
        size = sum(each.numel() * each.element_size() for each in tensors)
        structure = structure_of(nodes)
        if structure in self._kept or (self._kept and self._kept_bytes + size > self.suspects_kept):
            return None
        self._kept.add(structure)
        self._kept_bytes += size
        kept = {name: each.clone() if isinstance(each, torch.Tensor) else each for name, each in known.items()}
        for value in kept.values():
            self.memory.there(value)
        return kept

    def end(self, graph: GeneratedGraph, outputs: Any) -> None:
        """Remember what the references have where the candidate gives something: the backward will be given it."""
        run = self._runs.pop(id(graph))
        for value in run.known.values():
            self.memory.gone(value)
        if run.references is None:
            return
        if problem := next((each.problem for each in run.references if each.problem), ""):
            self.notes.append(f"the reference beside the candidate stopped at {problem}")
        theirs = [of_kind(object, reference.finish()) for reference in run.references]
        ours = list(outputs)
        if graph.is_backward or any(len(each) != len(ours) for each in theirs):
            return
        for value, *references in zip(ours, *theirs, strict=True):
            if isinstance(value, torch.Tensor) and isinstance(references[0], torch.Tensor) and value.numel():
                # The candidate's own tensor is kept too: its address must not be given to another one.
                self._saved[value.data_ptr(), tuple(value.shape)] = *references, value


def op_name(node: torch.fx.Node) -> str:
    """The op of a node; of one that takes a result of several, the op that made them."""
    while target_name(node) == "operator.getitem":
        node = node.all_input_nodes[0]
    return target_name(node)


def culprit_of(node: torch.fx.Node, graph: str, judgement: Judgement | None, reason: str, **more: Any) -> Culprit:
    """A node that is to blame; without a judgement it gave no value. ``more`` are further fields of the culprit."""
    found = Culprit(
        op_name(node),
        node.name,
        graph,
        module_path=module_path_of(node),
        source=lines_of(node)[0],
        reason=reason,
        **more,
    )
    if judgement is None:
        return found
    return replace(
        found,
        error=finite(judgement.error),
        allowed=finite(judgement.allowed),
        index=judgement.index,
        expected=finite(judgement.expected),
        found=finite(judgement.found),
    )


def structure_of(nodes: Sequence[torch.fx.Node]) -> tuple[Any, ...]:
    """What two kernels have in common that do the same in two layers."""
    numbers = {node: number for number, node in enumerate(nodes)}
    return tuple(
        (target_name(node), tuple(numbers.get(each, -1) for each in node.all_input_nodes), str(node.meta.get("val")))
        for node in nodes
    )


def as_node(value: torch.Tensor, node: torch.fx.Node) -> torch.Tensor | None:
    """A buffer in the shape that its node has; None when it is something else."""
    fake = node.meta.get("val")
    if not isinstance(fake, torch.Tensor) or fake.dtype != value.dtype:
        return None
    shape = tuple(fake.shape)
    if not all(isinstance(size, int) for size in shape):
        return value
    if tuple(value.shape) == shape:
        return value
    return value.reshape(shape) if value.is_contiguous() and value.numel() == fake.numel() else None
