"""The custom backends of the zoo: healthy, with one op altered, or with something lost when results are handed over.

``aot`` interprets AOTAutograd's graphs, ``custom`` Dynamo's own. Both are what a vendor's backend looks like to
``torch.compile``; a healthy one is as right as eager mode.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from inductor_debug_jupyter.pipeline.torch_compat.graphs import copy_graph_module
from inductor_debug_jupyter.pipeline.torch_compat.lowering import compile_with_aot
from tests.proofs.inside_torch.planting import Place, calls_of, retarget

Handing = Callable[[Callable[..., Any], int], Callable[..., Any]]
"""What runs a graph, and the number of the graph → what runs it with something lost."""


@dataclass
class AlteredOp:
    """One op of every graph is computed otherwise.

    Args:
        op: its bare name.
        wrong: ``(original, *args) → result``.
        places: only on these lines; everywhere when None.
    """

    op: str
    wrong: Callable[..., Any]
    places: Collection[Place] | None

    def apply(self, graph_module: GraphModule) -> None:
        """Change the nodes of a graph that is going to be interpreted."""
        for node in calls_of(graph_module.graph, self.op, self.places):
            retarget(node, self.wrong)
        graph_module.recompile()


def aot_backend(altered: AlteredOp | None = None, lost_gradient: bool = False) -> Callable[..., Any]:
    """A backend on AOTAutograd's graphs; with ``lost_gradient`` the last gradient of a backward graph is all zero."""

    def compile_stage(graph_module: GraphModule, stage: str) -> Callable[..., Any]:
        if altered is not None:
            altered.apply(graph_module)
        if lost_gradient and stage == "backward":
            _lose_last(graph_module)
        return graph_module.forward

    def aot_zoo(graph_module: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        return compile_with_aot(graph_module, example_inputs, compile_stage)

    return aot_zoo


def custom_backend(altered: AlteredOp | None = None, handing: Handing | None = None) -> Callable[..., Any]:
    """A backend on Dynamo's graphs; ``handing`` wraps what runs each graph."""
    graphs = 0

    def custom_zoo(graph_module: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        nonlocal graphs
        copied = copy_graph_module(graph_module)
        if altered is not None:
            altered.apply(copied)
        run: Callable[..., Any] = copied.forward
        graphs += 1
        return run if handing is None else handing(run, graphs - 1)

    return custom_zoo


def _lose_last(graph_module: GraphModule) -> None:
    output = graph_module.graph.output_node()
    (gradients,) = output.args
    kept = list(gradients)  # type: ignore[arg-type]
    index = max((at for at, each in enumerate(kept) if isinstance(each, Node)), default=None)
    if index is None:
        return
    with graph_module.graph.inserting_before(output):
        kept[index] = graph_module.graph.call_function(torch.zeros_like, (kept[index],))
    output.args = (tuple(kept),)
    graph_module.recompile()


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Bit for bit, NaN and all."""
    here, there = (each.detach().reshape(-1).contiguous().view(torch.uint8) for each in (left, right))
    return torch.equal(here, there)


def lost_writes(run: Callable[..., Any], _: int) -> Callable[..., Any]:
    """The last of the tensors that a graph writes to is not written."""

    def without(*args: Any) -> Any:
        tried = [each.detach().clone() if isinstance(each, torch.Tensor) else each for each in args]
        with torch.no_grad():
            run(*tried)
        changed = [
            at
            for at, (before, after) in enumerate(zip(args, tried, strict=True))
            if isinstance(before, torch.Tensor) and not _same(before, after)
        ]
        lost = changed[-1:]
        return run(*(each.detach().clone() if at in lost else each for at, each in enumerate(args)))

    return without


def detached_weight(run: Callable[..., Any], _: int) -> Callable[..., Any]:
    """The first tensor that requires a gradient gets none."""

    def without(*args: Any) -> Any:
        first = next((at for at, x in enumerate(args) if isinstance(x, torch.Tensor) and x.requires_grad), None)
        return run(*(each.detach() if at == first else each for at, each in enumerate(args)))

    return without


def wrong_strides(run: Callable[..., Any], _: int) -> Callable[..., Any]:
    """The first result of two dimensions or more has its elements in another order in memory."""

    def other(*args: Any) -> Any:
        made = list(run(*args))
        at = next((at for at, each in enumerate(made) if isinstance(each, torch.Tensor) and each.ndim > 1), None)
        if at is not None:
            made[at] = made[at].transpose(0, -1).contiguous().transpose(0, -1)
        return tuple(made)

    return other


def wrong_dtype(run: Callable[..., Any], _: int) -> Callable[..., Any]:
    """The first float32 result comes in float64: the same numbers in another format."""

    def other(*args: Any) -> Any:
        made = list(run(*args))
        at = next((at for at, x in enumerate(made) if isinstance(x, torch.Tensor) and x.dtype is torch.float32), None)
        if at is not None:
            made[at] = made[at].double()
        return tuple(made)

    return other


def lost_aliases(run: Callable[..., Any], _: int) -> Callable[..., Any]:
    """A result that should be a view of an input is a copy."""

    def copied(*args: Any) -> Any:
        theirs = {each.untyped_storage().data_ptr() for each in args if isinstance(each, torch.Tensor)}
        return tuple(
            _copied(each) if isinstance(each, torch.Tensor) and each.untyped_storage().data_ptr() in theirs else each
            for each in run(*args)
        )

    return copied


def _copied(view: torch.Tensor) -> torch.Tensor:
    """Memory of its own, the same strides."""
    return torch.empty_strided(view.shape, view.stride(), dtype=view.dtype).copy_(view)


def from_call_two() -> Handing:
    """The first call of a graph is right; in all later ones the first float result is 1% too large."""
    calls = 0

    def handing(run: Callable[..., Any], _: int) -> Callable[..., Any]:
        def later(*args: Any) -> Any:
            nonlocal calls
            calls += 1
            made = list(run(*args))
            at = next((at for at, x in enumerate(made) if isinstance(x, torch.Tensor) and x.is_floating_point()), None)
            if calls > 1 and at is not None:
                made[at] = made[at] * 1.01
            return tuple(made)

        return later

    return handing
