"""Which op lays out its result otherwise than eager mode, or shares memory otherwise, where an output shows it.

The strides of a value inside a graph are the candidate's own affair. So the search starts from outputs that have other
strides, or share other memory, than the traced graph says, and goes back through the ops. Each op is run eagerly on the
candidate's own inputs, strides and all: the op is at fault whose result is laid out otherwise *there*, not one that
passes on what it was given. A candidate that does the same to other ops (:data:`_COMPUTING`, :data:`_VIEWING`) does it
where it hands results over: that is no op's fault, and a note says so.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.contract import Facts, facts_of
from inductor_debug_jupyter.pipeline.diff.executions import Backend, Call
from inductor_debug_jupyter.pipeline.diff.localize_kernels import culprit_of
from inductor_debug_jupyter.pipeline.diff.localize_ops import with_attributes
from inductor_debug_jupyter.pipeline.diff.localize_passes import Above
from inductor_debug_jupyter.pipeline.diff.replay import Evaluator, error_line
from inductor_debug_jupyter.pipeline.diff.windows import Compiler, Window, windows
from inductor_debug_jupyter.pipeline.records import Culprit
from inductor_debug_jupyter.pipeline.rerun.again import unnoticed
from inductor_debug_jupyter.pipeline.torch_compat.replay import AotKeeper, KeptGraph, as_aot_runs

_COMPUTING: Final = tuple((getattr(torch.ops.aten, name).default, ()) for name in ("neg", "abs", "sign"))
_VIEWING: Final = (
    (torch.ops.aten.unsqueeze.default, (0,)),
    (torch.ops.aten.alias.default, ()),
    (torch.ops.aten.slice.Tensor, (0, 0, 2)),
)
_NO_OP: Final = "no op by itself gives such strides or shares such memory: they change where results are handed over"


def search_layouts(call: Call, config: ComparisonConfig, compiler: Compiler) -> Above:
    """The ops of the forward graphs that are at fault for strides and shared memory of the outputs."""
    keeper = AotKeeper()
    call.execute(Backend("aot", keeper), config)
    found: list[Culprit] = []
    notes: list[str] = []
    for kept in keeper.graphs:
        if kept.stage == "forward" and kept.args is not None:
            try:
                with unnoticed(), as_aot_runs():
                    found += _LayoutSearch(kept, compiler).culprits()
            except Exception as error:  # whatever a backend raises on a part of a graph
                notes.append(f"strides and shared memory were not searched for: {error_line(error)}")
    if not found and not notes:
        notes.append(_NO_OP)
    return Above(tuple(found), tuple(notes))


@dataclass(frozen=True, slots=True)
class _Layout:
    """What a node's result is beside its values: on the candidate, and in eager mode on the candidate's own inputs."""

    candidate: Facts
    eager: Facts

    def is_like(self, other: _Layout) -> bool:
        """Whether both are otherwise than in eager mode in one of the ways in which the other one is."""
        return (
            (self.is_restrided and other.is_restrided)
            or bool(self.gained and other.gained)
            or bool(self.lost and other.lost)
        )

    @property
    def gained(self) -> frozenset[str]:
        """What the candidate's result shares memory with, and eager mode's does not."""
        return self.candidate.shares - self.eager.shares

    @property
    def lost(self) -> frozenset[str]:
        """What eager mode's result shares memory with, and the candidate's does not."""
        return self.eager.shares - self.candidate.shares

    @property
    def is_restrided(self) -> bool:
        return self.candidate.visible_strides != self.eager.visible_strides


@dataclass(eq=False)
class _LayoutSearch:
    kept: KeptGraph
    compiler: Compiler
    layouts: dict[torch.fx.Node, _Layout] = field(default_factory=dict)

    def culprits(self) -> list[Culprit]:
        """Every op that is at fault for an output, once."""
        self._look_at_all()
        outputs = self.kept.graph_module.graph.output_node().all_input_nodes
        found: dict[torch.fx.Node, str] = {}
        waiting, seen = list(outputs), set(outputs)
        while waiting:
            node = waiting.pop()
            layout = self.layouts.get(node)
            if layout is None or not (reason := _reason(layout)):
                more = [] if layout is None else self._behind(node, layout)
            else:
                found[node], more = reason, []
            waiting += [each for each in more if each not in seen]
            seen.update(more)
        return [
            culprit_of(node, self.kept.stage, None, reason)
            for node, reason in found.items()
            if not self._does_so_to_others(node)
        ]

    def _does_so_to_others(self, node: torch.fx.Node) -> bool:
        """Whether ops that do not belong to the model are laid out otherwise too, in the same way."""
        layout = self.layouts[node]
        others = [probe for probe in (_VIEWING if layout.lost else _COMPUTING) if probe[0] is not node.target]
        return all(self._probe(layout.eager, *probe).is_like(layout) for probe in others)

    def _probe(self, like: Facts, target: Any, more: tuple[Any, ...]) -> _Layout:
        """One op on numbers that are laid out as a result in eager mode is."""
        value = torch.empty_strided(like.shape, like.strides).fill_(1.5)
        graph = torch.fx.Graph()
        read = graph.placeholder("read")
        read.meta["val"] = value
        made = graph.call_function(target, (read, *more))
        graph.output((made,))
        with torch.no_grad():
            given = self.compiler(torch.fx.GraphModule({}, graph), [value])(value)[0]
            own = target(value, *more)
        return _Layout(*(facts_of({"read": value, "made": each})["made"] for each in (given, own)))

    def _behind(self, node: torch.fx.Node, layout: _Layout) -> list[torch.fx.Node]:
        """The inputs that a result has its memory from, or from which it may have strides that are not the traced."""
        shared = [each for each in node.all_input_nodes if each.name in layout.candidate.shares]
        traced = node.meta.get("val")
        if not isinstance(traced, torch.Tensor) or not all(isinstance(each, int) for each in traced.stride()):
            return node.all_input_nodes
        as_traced = facts_of({"": traced})[""] if traced.layout is torch.strided else layout.candidate
        return shared if as_traced.visible_strides == layout.candidate.visible_strides else node.all_input_nodes

    def _look_at_all(self) -> None:
        graph_module = self.kept.graph_module
        evaluator = Evaluator(graph_module)
        names = [node.name for node in graph_module.graph.nodes if node.op == "placeholder"]
        known: dict[str, Any] = dict(zip(names, self.kept.args or (), strict=True))
        parts = list(windows(graph_module))
        for index, part in enumerate(parts):
            known |= part.run(graph_module, with_attributes(graph_module, part, known), self.compiler)
            for node in part.nodes:
                self._look(evaluator, part, node, known)
            needed = {start.name for later in parts[index + 1 :] for start in later.starts}
            known = {name: value for name, value in known.items() if name in needed}

    def _look(self, evaluator: Evaluator, part: Window, node: torch.fx.Node, known: Mapping[str, Any]) -> None:
        if not isinstance(known.get(node.name), torch.Tensor):
            return
        nodes, starts = evaluator.slice_of(node.name, known.keys() - {node.name})
        around = {start.name: known[start.name] for start in starts}
        try:
            with torch.no_grad():
                own = evaluator.evaluate(nodes, known, draws=True)
        except Exception:  # an op that writes to its input, say: nothing is known of it
            return
        if isinstance(own, torch.Tensor) and own.shape == known[node.name].shape:
            ours, theirs = (facts_of({**around, node.name: value})[node.name] for value in (known[node.name], own))
            self.layouts[node] = _Layout(ours, theirs)


def _reason(layout: _Layout) -> str:
    """Why an op is at fault; empty when it is not."""
    reasons = []
    if layout.is_restrided:
        strides = f"{list(layout.candidate.strides)}, in eager mode {list(layout.eager.strides)}"
        reasons.append(f"the strides of its result are {strides}")
    if layout.gained:
        reasons.append(f"its result shares memory with {', '.join(sorted(layout.gained))}, in eager mode it does not")
    if layout.lost:
        reasons.append(f"its result is a copy, in eager mode it shares memory with {', '.join(sorted(layout.lost))}")
    return "; ".join(reasons)
