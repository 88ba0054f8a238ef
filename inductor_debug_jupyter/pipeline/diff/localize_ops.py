"""Which op is wrong on any backend: the AOT graphs in parts, each compiled so that every value is an output.

The parts run one after the other on the candidate's own values. Each op is then run eagerly on what the candidate gave
it (teacher-forced) and judged; whole references run beside it (free-running). Writing every value to memory undoes
fusion: an error that only fused code has is found by :mod:`localize_kernels`, not here.
"""

from __future__ import annotations

import math
import sys
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.diff.floors import unit
from inductor_debug_jupyter.pipeline.diff.judging import Judgement, as_sum_rounded_once
from inductor_debug_jupyter.pipeline.diff.localize_blame import Blame, BlameSearch
from inductor_debug_jupyter.pipeline.diff.localize_failures import Failure, FailureSearch
from inductor_debug_jupyter.pipeline.diff.localize_kernels import Finding, LiveBytes, Suspect
from inductor_debug_jupyter.pipeline.diff.replay import (
    BESIDE,
    Evaluator,
    Lockstep,
    OtherKindError,
    beside,
    error_line,
    judge_beside,
)
from inductor_debug_jupyter.pipeline.diff.windows import BUDGET, Compiler, Window, window_of, windows
from inductor_debug_jupyter.pipeline.rerun.time_limit import time_limit
from inductor_debug_jupyter.pipeline.torch_compat.graphs import node_value
from inductor_debug_jupyter.pipeline.torch_compat.replay import KeptGraph
from inductor_debug_jupyter.pipeline.torch_compat.stochastic import adds_up

_OF_ANOTHER_KIND: Final = Judgement(True, math.inf, 0.0)
"""A value of another shape or dtype than the op makes."""


@dataclass
class OpSearch:
    """Goes through graphs, op by op.

    Args:
        compiler: the backend.
        held_as: the format that the device holds floats in, if it is narrower than the tensors' own.
        sums_in: the format that it says it keeps running sums in.
        only_products: whether ``held_as`` is the format of products alone.
        budget: bytes of values that one part may have.
        free_running: also run whole references beside the candidate.
        timeout: seconds for each part, in the main thread; a backend in a process of its own keeps its own time.
    """

    compiler: Compiler
    held_as: torch.dtype | None = None
    sums_in: torch.dtype | None = None
    only_products: bool = False
    budget: int = BUDGET
    free_running: bool = True
    timeout: float | None = None
    findings: list[Finding] = field(default_factory=list)
    suspects: list[Suspect] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compiles: int = 0
    memory: LiveBytes = field(default_factory=LiveBytes)
    failures: FailureSearch = field(default_factory=FailureSearch)

    @property
    def _rounds_sums_once(self) -> bool:
        return self.held_as is not None and self.sums_in is not None and unit(self.sums_in) < unit(self.held_as)

    def search(self, kept: KeptGraph) -> None:
        """Look at every op of one graph, on the arguments of its real call."""
        graph_module = kept.graph_module
        placeholders = [node.name for node in graph_module.graph.nodes if node.op == "placeholder"]
        if kept.args is None or len(placeholders) != len(kept.args):
            self.notes.append(f"the {kept.stage} graph was not called: nothing in it was looked at")
            return
        inputs = dict(zip(placeholders, kept.args, strict=True))
        parts = deque(windows(graph_module, self.budget))
        references = self._references(graph_module, inputs, parts)
        self._go_through(
            kept.stage, Evaluator(graph_module, only_products=self.only_products), dict(inputs), parts, references
        )
        self.failures.settle(kept.stage)
        for reference in references:
            if reference.problem:
                self.notes.append(f"{kept.stage}: a reference beside the candidate stopped at {reference.problem}")

    def as_a_whole(self, kept: KeptGraph) -> list[Suspect]:
        """The outputs that are wrong when a graph is compiled in one piece, though each op by itself is right."""
        evaluator = Evaluator(kept.graph_module, only_products=self.only_products)
        placeholders = [node.name for node in kept.graph_module.graph.nodes if node.op == "placeholder"]
        computing = [node for part in windows(kept.graph_module, math.inf, sys.maxsize) for node in part.nodes]
        wanted = {node for node in kept.graph_module.graph.output_node().all_input_nodes if node in set(computing)}
        if kept.args is None or not wanted:
            return []
        known = dict(zip(placeholders, kept.args, strict=True))
        try:
            self.compiles += 1
            with time_limit(self.timeout):
                values = window_of(computing).run(evaluator.graph_module, known, self.compiler, wanted)
        except Exception as error:  # whatever a backend raises
            self.notes.append(f"{kept.stage}: as a whole the graph raised {error_line(error)}")
            return []
        found = []
        for name, value in values.items():
            nodes, _ = evaluator.slice_of(name, known.keys())
            try:
                judgement = evaluator.judge(nodes, known, value, self.held_as)
            except Exception as error:  # whatever an op raises when it is run by itself
                self.notes.append(f"{kept.stage}: {name} was not compared as a whole: {error_line(error)}")
                continue
            if judgement.wrong:
                finding = Finding(kept.stage, evaluator.nodes[name], "", judgement)
                found.append(Suspect(finding, evaluator, tuple(nodes), known))
        return found

    def _go_through(
        self,
        stage: str,
        evaluator: Evaluator,
        known: dict[str, Any],
        parts: deque[Window],
        references: tuple[Lockstep, ...],
    ) -> None:
        inputs = set(known)
        while parts:
            part = parts.popleft()
            if len(around := part.around(self.failures.is_fatal)) > 1:
                parts.extendleft(reversed(around))
                continue
            fatal = self.failures.why_not_run(part.op)
            try:
                values = _eagerly(evaluator, part, known) if fatal else self._run(evaluator, part, known)
            except Exception as error:  # whatever a backend raises
                if not (smaller := self.failures.after(stage, part, Failure.of(error))):
                    self._leave_out(stage, (part, *parts), "the search stopped before it")
                    return
                parts.extendleft(reversed(smaller))
                continue
            known |= values
            self._look_at_all(stage, evaluator, part, values, known, references, fatal)
            self._let_go(known, parts, inputs - values.keys())

    def _look_at_all(
        self,
        stage: str,
        evaluator: Evaluator,
        part: Window,
        values: Mapping[str, torch.Tensor],
        known: dict[str, Any],
        references: tuple[Lockstep, ...],
        why_not: str,
    ) -> None:
        for value in values.values():
            self.memory.there(value)
        for node in part.nodes:
            if node.name in values:
                self._look(stage, evaluator, node, known, references, values.keys(), why_not)

    def _let_go(self, known: dict[str, Any], parts: Iterable[Window], not_counted: Collection[str]) -> None:
        """Drop the values that no later part starts from; a graph's inputs were never counted as ours."""
        needed = {start.name for later in parts for start in later.starts}
        for name in known.keys() - needed:
            if name not in not_counted:
                self.memory.gone(known[name])
            del known[name]

    def _leave_out(self, stage: str, parts: Iterable[Window], why: str) -> None:
        """Nobody knows about these: that must not look like a pass."""
        nodes = [node for part in parts for node in part.nodes if isinstance(node_value(node), torch.Tensor)]
        self.findings += [Finding(stage, node, "", None, None, why) for node in nodes]

    def _run(self, evaluator: Evaluator, part: Window, known: dict[str, Any]) -> dict[str, torch.Tensor]:
        self.compiles += 1
        root = evaluator.graph_module
        with time_limit(self.timeout):
            return part.run(root, with_attributes(root, part, known), self.compiler)

    def _references(
        self, graph_module: torch.fx.GraphModule, inputs: Any, parts: Iterable[Window]
    ) -> tuple[Lockstep, ...]:
        if not self.free_running:
            return ()
        wanted = [node.name for part in parts for node in part.nodes if isinstance(node_value(node), torch.Tensor)]
        return beside(graph_module, [inputs] * BESIDE, wanted, self.held_as)

    def _look(
        self,
        stage: str,
        evaluator: Evaluator,
        node: torch.fx.Node,
        known: Any,
        references: tuple[Lockstep, ...],
        together: Collection[str],
        why_not: str = "",
    ) -> None:
        value = known[node.name]
        others = known.keys() - {node.name}
        nodes, _ = evaluator.slice_of(node.name, others)
        free = judge_beside(references, node.name, value, self.held_as) if references else None
        if why_not:
            self.findings.append(Finding(stage, node, "", None, None, why_not))
            return
        try:
            judgement = evaluator.judge(nodes, known, value, self.held_as, together)
            if self._rounds_sums_once and adds_up(node.target):
                judgement = as_sum_rounded_once(judgement)
            finding = Finding(stage, node, "", judgement, free)
        except OtherKindError as error:
            finding = Finding(stage, node, "", _OF_ANOTHER_KIND, free, str(error))
        except Exception as error:  # whatever an op raises when it is run by itself
            finding = Finding(stage, node, "", None, free, error_line(error))
        self.findings.append(finding)
        if finding.judgement is not None and finding.judgement.wrong:
            self._suspect(finding, evaluator, nodes, known)

    def _suspect(
        self, finding: Finding, evaluator: Evaluator, nodes: list[torch.fx.Node], known: Mapping[str, Any]
    ) -> None:
        """Note what is to blame for a wrong value: the op that made it, or one before or behind it."""
        assert finding.judgement is not None
        blame = Blame(finding.node, finding.reason)
        if finding.judgement is not _OF_ANOTHER_KIND:
            blame = BlameSearch(evaluator, self.compiler, known, self.held_as).of(finding.node)
        if blame.node is not finding.node:
            self.findings[-1] = replace(finding, judgement=replace(finding.judgement, wrong=False))
            finding = replace(finding, node=blame.node, reason=blame.reason)
            if any(each.finding.node is blame.node for each in self.suspects):
                return
            self.findings.append(finding)
        self.suspects.append(Suspect(finding, evaluator, (*nodes[:-1], blame.node), None))


def _eagerly(evaluator: Evaluator, part: Window, known: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The values of a part that the candidate cannot run."""
    values: dict[str, torch.Tensor] = {}
    for node in part.nodes:
        if isinstance(node_value(node), torch.Tensor):
            nodes, _ = evaluator.slice_of(node.name, known.keys() | values.keys())
            with torch.no_grad():
                values[node.name] = evaluator.evaluate(nodes, known | values, draws=True)
    return values


def with_attributes(graph_module: torch.fx.GraphModule, part: Window, known: dict[str, Any]) -> dict[str, Any]:
    """Known values, with those of constants that an earlier part has as its own nodes."""
    constants = [start for start in part.starts if start.op == "get_attr"]
    return known | {start.name: attrgetter(str(start.target))(graph_module) for start in constants}
