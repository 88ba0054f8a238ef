"""Trace a graph as ATen ops before autograd: the level at which a rewrite can still be differentiated.

Dynamo's graph calls whatever the user wrote (functions, methods, operators); AOTAutograd's has the backward in it
already. In between, with one name and one schema for each op, is where torch traces "pre-dispatch".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch._decomp import decomposition_table
from torch._dynamo.exc import TorchDynamoException, exceptions_allowed_to_be_fallback
from torch._guards import TracingContext
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta

from inductor_debug_jupyter.pipeline.torch_compat.graphs import SYMBOLIC


def traced_aten(
    run: Callable[..., Any], args: Sequence[Any], decompose: Collection[str] = (), *, lower: bool = False
) -> torch.fx.GraphModule:
    """Trace ``run(*args)`` on fake tensors into a graph of ATen ops.

    Where ``run`` interprets another graph, the new nodes keep the source lines and modules of the old ones. Ops in
    ``decompose`` (names without overload) are replaced by torch's decomposition of them. With ``lower`` the trace is
    taken below autograd (``addmm`` for a ``linear``), the only level at which the ops inside a ``vmap`` are visible.
    """
    table: Any = {op: parts for op, parts in decomposition_table.items() if aten_name(op) in decompose}
    mode = FakeTensorMode(allow_non_fake_inputs=True)  # one of its own: Dynamo's makes sizes symbolic
    fakes = [mode.from_tensor(arg) if isinstance(arg, torch.Tensor) else arg for arg in args]
    with preserve_node_meta(), torch.no_grad(), mode:
        traced: torch.fx.GraphModule = make_fx(
            run, tracing_mode="real", pre_dispatch=not (decompose or lower), decomposition_table=table
        )(*fakes)
    for node in traced.graph.nodes:  # a part of a decomposed op counts as an op of the user's own
        node.meta.pop("original_aten", None)
    return traced


def fake_inputs_of_fixed_size(args: Sequence[Any], written: Collection[int] = ()) -> list[Any]:
    """Fake tensors of fixed size for inputs that Dynamo has not seen, in the fake mode of the running compile.

    Inputs that the graph writes into (``written``, by position) stay non-leaves of autograd where they are none:
    AOTAutograd would write into a leaf without autograd noticing.
    """
    context = TracingContext.try_get()
    mode = context.fake_mode if context is not None else None
    if mode is None:
        return list(args)

    def fake(number: int, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        alone = mode.from_tensor(value.detach().requires_grad_(value.requires_grad), static_shapes=True)
        if number not in written or value.is_leaf or not value.requires_grad:
            return alone
        with mode, torch.enable_grad():
            return alone.new_empty_strided(alone.shape, alone.stride()).copy_(alone)

    return [fake(number, arg) for number, arg in enumerate(args)]


GRAPH_BREAKS: tuple[type[Exception], ...] = (TorchDynamoException, *exceptions_allowed_to_be_fallback)
"""Exceptions by which a backend makes Dynamo break the graph or trace again."""


def has_open_sizes(graph_module: torch.fx.GraphModule) -> bool:
    """Whether a size, a stride or a number of an input is symbolic, so that the graph serves many of them."""
    for node in graph_module.graph.find_nodes(op="placeholder"):
        value = node.meta.get("example_value")
        numbers = [value]
        if isinstance(value, torch.Tensor):
            strides = value.stride() if value.layout is torch.strided else ()
            numbers = [*value.shape, *strides, value.storage_offset()]
        if any(isinstance(each, SYMBOLIC) for each in numbers):
            return True
    return False


def has_decomposition(name: str) -> bool:
    """Whether torch has a decomposition for an op (a name without overload)."""
    return any(aten_name(op) == name for op in decomposition_table)


def aten_name(target: Any) -> str:
    """``aten.add_.Tensor`` → ``add_``; an empty string for what is no op."""
    return str(target._schema.name.partition("::")[2]) if isinstance(target, torch._ops.OpOverload) else ""
