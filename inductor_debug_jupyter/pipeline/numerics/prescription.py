"""Which ops must stay in float32 so that a result is as good as the device's format can make it.

The ops come from the error budget, largest share first, until a run of the graph in which they are computed in float32
is within the goal; what turns out not to be needed is left out again. A kept op's result stays in float32: ops that
read it read it so, but products round their operands as ever, since a matrix unit has one format.

Deviations are in units of the format: 1 is the result rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import torch

from inductor_debug_jupyter.pipeline.diff.executions import Call
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.formats.arithmetic import Arithmetic
from inductor_debug_jupyter.pipeline.formats.rounding import precision
from inductor_debug_jupyter.pipeline.numerics.arithmetic_run import ModelGraph
from inductor_debug_jupyter.pipeline.numerics.error_budget import budget_of, output_path
from inductor_debug_jupyter.pipeline.records.numerics import Prescription
from inductor_debug_jupyter.pipeline.rerun.again import unnoticed
from inductor_debug_jupyter.pipeline.torch_compat.graphs import node_value, tensors_of

GOAL: Final = 1.1
"""Units of the format that the deviation may be, unless the user says otherwise."""
Units = Callable[[tuple[str, ...]], float]
"""Nodes that are computed in float32 → the deviation then, in units of the format."""
_PRUNED: Final = 24
"""Up to so many ops it is tried whether fewer would do."""


def prescribe(call: Call, arithmetic: Arithmetic, of: str | None = None, goal: float = GOAL) -> Prescription:
    """The ops of a model to keep in float32 on a device.

    Args:
        call: the model and its inputs.
        arithmetic: the device's.
        of: the output that must be good, by its path; by default the first.
        goal: the deviation that it may have, in units of the format.

    Raises:
        OptionError: the goal is no positive number.
        UsageError: there is no such output, or the model cannot be run so.
    """
    if isinstance(goal, bool) or not isinstance(goal, int | float) or not goal > 0:
        raise OptionError(f"goal={goal!r}; allowed: a number above 0, in units of the device's format")
    with unnoticed():
        graph = ModelGraph.of(call)
        path = output_path(graph, of)
        budget = budget_of(graph, arithmetic, path, confirmed=0)
        exact = graph.run(Arithmetic())[graph.outputs[path]].double()
        one = precision(arithmetic.results if arithmetic.results != "float32" else arithmetic.operands) * budget.size

        def units(kept: tuple[str, ...]) -> float:
            made = graph.run(arithmetic, kept, products_round=True)[graph.outputs[path]].double()
            return float((made - exact).square().mean().sqrt()) / one

        before = units(())
        kept, after = _enough(tuple(share.node for share in budget.shares), units, before, goal)
        if len(kept) <= _PRUNED:
            kept = _needed(kept, units, goal)
            after = units(kept)
        return Prescription(
            path,
            str(arithmetic),
            len(budget.shares),
            tuple(share for share in budget.shares if share.node in kept),
            before,
            after,
            goal,
            _bytes(graph, kept),
            graph.notes,
        )


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


def _bytes(graph: ModelGraph, kept: tuple[str, ...]) -> int:
    """Bytes that the results of kept ops take more than in a 16-bit format."""
    nodes = [node for node in graph.kept.graph_module.graph.nodes if node.name in kept]
    results = [tensor for node in nodes for tensor in tensors_of(node_value(node)) if tensor.dtype is torch.float32]
    return sum(2 * tensor.numel() for tensor in results)
