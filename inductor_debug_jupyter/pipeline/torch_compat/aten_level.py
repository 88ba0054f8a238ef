"""A graph as ATen ops before autograd: the level at which a rewrite can still be differentiated.

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


def traced_aten(
    run: Callable[..., Any], args: Sequence[Any], taken_apart: Collection[str] = (), *, lower: bool = False
) -> torch.fx.GraphModule:
    """What ``run`` does with ``args``, as a graph of ATen ops; nothing is computed.

    Where ``run`` interprets another graph, the new nodes have the lines and modules of the old ones. Ops in
    ``taken_apart`` (by name, without overload) are replaced by what torch makes of them. With ``lower``, ops are those
    that autograd knows (``addmm`` for a ``linear``): the only level at which what is inside a ``vmap`` can be seen.
    """
    table: Any = {op: parts for op, parts in decomposition_table.items() if aten_name(op) in taken_apart}
    mode = FakeTensorMode(allow_non_fake_inputs=True)  # one of its own: Dynamo's makes sizes symbolic
    fakes = [mode.from_tensor(arg) if isinstance(arg, torch.Tensor) else arg for arg in args]
    with preserve_node_meta(), torch.no_grad(), mode:
        traced: torch.fx.GraphModule = make_fx(
            run, tracing_mode="real", pre_dispatch=not (taken_apart or lower), decomposition_table=table
        )(*fakes)
    for node in traced.graph.nodes:  # what was asked for by name is the user's op now, not a part of another
        node.meta.pop("original_aten", None)
    return traced


def of_fixed_sizes(args: Sequence[Any], written: Collection[int] = ()) -> list[Any]:
    """Stand-ins for inputs that Dynamo has never seen, for the compile that is under way: their sizes are not open.

    Those that the graph writes into (``written``, by number) are no leaves of autograd where the inputs are none:
    AOTAutograd writes into a leaf behind autograd's back.
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
"""What a backend raises to have Dynamo trace otherwise: break the graph, or begin again."""


def has_open_sizes(graph_module: torch.fx.GraphModule) -> bool:
    """Whether Dynamo left a size, a stride or a number of an input open: its graph is then for any."""
    return any(
        map(_is_open, (node.meta.get("example_value") for node in graph_module.graph.find_nodes(op="placeholder")))
    )


def _is_open(value: Any) -> bool:
    if not isinstance(value, torch.Tensor):
        return isinstance(value, _SYMBOLIC)
    strides = value.stride() if value.layout is torch.strided else ()
    return any(isinstance(each, torch.SymInt) for each in (*value.shape, *strides, value.storage_offset()))


def example_value(value: Any) -> Any:
    """A number that Dynamo left open, as it is in the example (no guard is added); None when only the data tells."""
    return value.node.hint if isinstance(value, _SYMBOLIC) else value


_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def uses_vmap(graph_module: torch.fx.GraphModule) -> bool:
    """Whether a Dynamo graph maps over a batch: what is in between are tensors of another kind."""
    return any("_vmap_" in getattr(node.target, "__name__", "") for node in graph_module.graph.nodes)


def can_take_apart(name: str) -> bool:
    """Whether torch has something simpler for an op."""
    return any(aten_name(op) == name for op in decomposition_table)


def aten_name(target: Any) -> str:
    """``aten.add_.Tensor`` → ``add_``; an empty string for what is no op."""
    return str(target._schema.name.partition("::")[2]) if isinstance(target, torch._ops.OpOverload) else ""
