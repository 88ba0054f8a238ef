"""Which ops must stay in float32 so that a result is as good as the device's format can make it.

The ops come from the error budget, largest share first, until a run of the graph in which they are computed in float32
is within the goal; what turns out not to be needed is left out again. A kept op's result stays in float32: ops that
read it read it so, but products round their operands as ever, since a matrix unit has one format.

The other way round, :func:`narrow` chooses the ops that may go to a narrower arithmetic than the device's: smallest
share first, as many as a run shows to be within the goal.

Deviations are in units of the format: 1 is the result rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.diff.executions import Call
from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError
from inductor_debug_jupyter.pipeline.formats.arithmetic import OPERANDS, Arithmetic
from inductor_debug_jupyter.pipeline.formats.places import places_of
from inductor_debug_jupyter.pipeline.formats.rounding import NARROW, precision
from inductor_debug_jupyter.pipeline.numerics.arithmetic_run import ModelGraph
from inductor_debug_jupyter.pipeline.numerics.error_budget import budget_of, result_of
from inductor_debug_jupyter.pipeline.records.numerics import Narrowing, Prescription
from inductor_debug_jupyter.pipeline.rerun.again import unnoticed
from inductor_debug_jupyter.pipeline.torch_compat.graphs import node_value, tensors_of
from inductor_debug_jupyter.pipeline.torch_compat.stochastic import bare_op

GOAL: Final = 1.1
"""Units of the format that the deviation may be, unless the user says otherwise."""
Units = Callable[[tuple[str, ...]], float]
"""Nodes that are computed in float32 → the deviation then, in units of the format."""
_PRUNED: Final = 24
"""Up to so many ops it is tried whether fewer would do."""


def prescribe(
    call: Call, arithmetic: Arithmetic, of: str | None = None, goal: float = GOAL, precise: Collection[str] = ()
) -> Prescription:
    """The ops of a model to keep in float32 on a device.

    Args:
        call: the model and its inputs.
        arithmetic: the device's.
        of: the output that must be good, by its path; by default the first.
        goal: the deviation that it may have, in units of the format.
        precise: places of ops that the device has in float32 anyway.

    Raises:
        OptionError: the goal is no positive number.
        UsageError: there is no such output, or the model cannot be run so.
    """
    goal = _positive(goal)
    with unnoticed():
        graph = ModelGraph.of(call, precise)
        measured = _Measured(graph, arithmetic, of, precision_of(arithmetic))
        budget = budget_of(graph, arithmetic, of, confirmed=0)
        before = measured.units(())
        kept, after = _enough(tuple(share.node for share in budget.shares), measured.units, before, goal)
        if len(kept) <= _PRUNED:
            kept = _needed(kept, measured.units, goal)
            after = measured.units(kept)
        cost = _Cost.of(graph, kept)
        return Prescription(
            measured.result.name,
            str(arithmetic),
            len(budget.shares),
            tuple(share for share in budget.shares if share.node in kept),
            before,
            after,
            goal,
            cost.more_bytes,
            graph.notes,
            _places(graph, kept),
            cost.casts,
            cost.moved_bytes,
            arithmetic.results if arithmetic.results in NARROW else "",
        )


def narrow(
    call: Call, arithmetic: Arithmetic, narrower: Arithmetic, of: str | None = None, goal: float = GOAL
) -> Narrowing:
    """The ops of a model that may go to a narrower arithmetic than the device's.

    Args:
        call: the model and its inputs.
        arithmetic: the device's.
        narrower: the one that is tried.
        of: the result that must stay good, as for an error budget.
        goal: the deviation that it may have, in units of the device's format (of the narrower one where the device
            rounds as torch does).

    Raises:
        OptionError: the goal is no positive number.
        UsageError: there is no such result, the other arithmetic is exact, or the model cannot be run so.
    """
    goal = _positive(goal)
    if narrower.is_exact:
        raise UsageError("to='float32' is not narrower than anything")
    with unnoticed():
        graph = ModelGraph.of(call)
        measured = _Measured(graph, arithmetic, of, precision_of(narrower if arithmetic.is_exact else arithmetic))
        shares = tuple(reversed(budget_of(graph, narrower, of, confirmed=0).shares))
        nodes = tuple(share.node for share in shares)

        def units(there: tuple[str, ...]) -> float:
            return measured.units((), (narrower, there))

        before, all_narrow = units(()), units(nodes)
        count = len(nodes) if all_narrow <= goal else _most(nodes, units, goal)
        return Narrowing(
            measured.result.name,
            str(arithmetic),
            str(narrower),
            len(nodes),
            shares[:count],
            before,
            all_narrow,
            units(nodes[:count]),
            goal,
            graph.notes,
        )


def precision_of(arithmetic: Arithmetic) -> float:
    """One unit of the device's format, relative to the size of a number."""
    return precision(arithmetic.results if arithmetic.results != "float32" else arithmetic.operands)


class _Measured:
    """The deviation of a result, in units of a format."""

    def __init__(self, graph: ModelGraph, arithmetic: Arithmetic, of: str | None, unit: float) -> None:
        self._graph, self._arithmetic = graph, arithmetic
        self.result = result_of(graph, of)
        self._exact = self.result.of(graph.run(Arithmetic())).double()
        self._one = unit * float(self._exact.square().mean().sqrt())

    def units(self, kept: tuple[str, ...], other: tuple[Arithmetic, tuple[str, ...]] | None = None) -> float:
        """That of a run with these nodes in float32, and those in another arithmetic."""
        made = self._graph.run(self._arithmetic, kept, products_round=True, other=other)
        return float((self.result.of(made).double() - self._exact).square().mean().sqrt()) / self._one


def _positive(goal: Any) -> float:
    if isinstance(goal, bool) or not isinstance(goal, int | float) or not goal > 0:
        raise OptionError(f"goal={goal!r}; allowed: a number above 0, in units of the device's format")
    return goal


def _most(nodes: tuple[str, ...], units: Units, goal: float) -> int:
    """How many nodes, from the first on, are within the goal together; 0 when not even the first is."""
    least, most = 0, len(nodes)
    while least + 1 < most:
        middle = (least + most) // 2
        least, most = (middle, most) if units(nodes[:middle]) <= goal else (least, middle)
    return least


def _enough(nodes: tuple[str, ...], units: Units, before: float, goal: float) -> tuple[tuple[str, ...], float]:
    """The shortest run of nodes, from the first on, that is within the goal; all of them when none is."""
    if before <= goal:
        return (), before
    least, most = 0, len(nodes)
    after = units(nodes)
    if after > goal:
        return nodes, after
    while least + 1 < most:
        middle = (least + most) // 2
        reached = units(nodes[:middle])
        least, most, after = (middle, most, after) if reached > goal else (least, middle, reached)
    return nodes[:most], after


def _needed(kept: tuple[str, ...], units: Units, goal: float) -> tuple[str, ...]:
    """The same without those that the goal does not need, smallest share first."""
    for node in reversed(kept):
        fewer = tuple(each for each in kept if each != node)
        if units(fewer) <= goal:
            kept = fewer
    return kept


@dataclass(frozen=True, slots=True)
class _Cost:
    """Tensors that are cast, and bytes more than in a 16-bit format: of results, and moved."""

    casts: int
    more_bytes: int
    moved_bytes: int

    @classmethod
    def of(cls, graph: ModelGraph, kept: tuple[str, ...]) -> _Cost:
        """What keeping these ops costs: operands cast to float32, results kept in it, and cast back for products."""
        nodes = [node for node in graph.kept.graph_module.graph.nodes if node.name in kept]
        casts = held = moved = 0
        for node in nodes:
            own = _floats(node) // 2
            casts += sum(1 for each in node.all_input_nodes if each not in nodes and _floats(each))
            casts += sum(1 for user in node.users if user.op == "output" or bare_op(user.target) in OPERANDS)
            held += own
            moved += own * (1 + len(node.users))
        return cls(casts, held, moved)


def _floats(node: torch.fx.Node) -> int:
    """Bytes of a node's float32 results."""
    results = [tensor for tensor in tensors_of(node_value(node)) if tensor.dtype is torch.float32]
    return sum(4 * tensor.numel() for tensor in results)


def _places(graph: ModelGraph, kept: tuple[str, ...]) -> tuple[str, ...]:
    """What the nodes are called in every graph of the model."""
    return tuple(place for node, place in places_of(graph.kept.graph_module.graph).items() if node.name in kept)
