"""The graphs that Dynamo makes of a model, each with the inputs that it was given; of several, one fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.diff import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.executions import Backend, Call
from inductor_debug_jupyter.pipeline.diff.harness import as_arguments
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.repro.values import copy_of
from inductor_debug_jupyter.pipeline.torch_compat.state import sizes


@dataclass(frozen=True, eq=False)
class FoundGraph:
    """A graph, a copy of its inputs, and its name among several (``graph 2 of 3``)."""

    gm: torch.fx.GraphModule
    inputs: tuple[Any, ...]
    name: str = ""


def graphs_of(
    model: Callable[..., Any], inputs: Any, *, gradients: bool = False, open_sizes: bool = False
) -> list[FoundGraph]:
    """Every graph of a model, in the order in which they run.

    The graphs run eagerly and on copies, so that the ones behind a graph break get the right inputs. The user's own
    compiles of the model, its state and torch's count of recompiles do not change.

    Args:
        model: a module or a function.
        inputs: a tensor, a tuple or list of positional arguments, or a dict of keyword arguments.
        gradients: trace with gradients on, whatever the grad mode.
        open_sizes: make sizes symbolic.

    Raises:
        UsageError: there is no graph.
    """
    seen: list[tuple[torch.fx.GraphModule, tuple[Any, ...]]] = []

    def keep(gm: torch.fx.GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        met: list[bool] = []

        def run(*values: Any) -> Any:
            if not met:
                met.append(True)
                seen.append((gm, tuple(map(_kept, values))))
            return gm(*values)

        return run

    with sizes("open" if open_sizes else "fixed"), torch.set_grad_enabled(gradients or torch.is_grad_enabled()):
        call = Call(model, *as_arguments(inputs), differentiable=torch.is_grad_enabled())
        execution = call.execute(Backend("graphs", keep), ComparisonConfig())
    if not seen:
        why = execution.error or "it computes nothing with tensors"
        raise UsageError(f"no graph of this model: {why}")
    several = len(seen) > 1
    return [
        FoundGraph(gm, values, f"graph {number} of {len(seen)}" if several else "")
        for number, (gm, values) in enumerate(seen, 1)
    ]


def dynamo_graph(model: Callable[..., Any], *args: Any) -> tuple[torch.fx.GraphModule, tuple[Any, ...]]:
    """The one graph of a model and that graph's inputs, with the model's parameters among them.

    Raises:
        UsageError: Dynamo breaks the graph, or sees none.
    """
    found = graphs_of(model, args)
    if len(found) > 1:
        raise UsageError(f"no single graph of this model: Dynamo makes {len(found)} of it")
    return found[0].gm, found[0].inputs


def _kept(value: Any) -> Any:
    """A copy: a later graph may write to it. Parameters are large, and no graph but an optimizer's writes to them."""
    return value if isinstance(value, torch.nn.Parameter) else copy_of(value)
