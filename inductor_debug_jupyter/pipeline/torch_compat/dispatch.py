"""Which aten ops the nodes of a Dynamo graph dispatch to.

Dynamo's graph is in the user's words (``torch.conv2d``, ``F.gelu``, ``x.mul_``); devices speak of aten ops. Each node
is called once more on fake tensors of its operands' shapes, in a fake mode of our own (symbolic sizes as the numbers
that they have just now, so that no guard of the user's compile is touched), while a dispatch mode notes what arrives.
Equal calls are looked up once, so twelve layers cost as much as one.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from inductor_debug_jupyter.pipeline.torch_compat.graphs import node_value, tensors_of


class _Notes(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes every op that is dispatched."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ops: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace != "prim":  # questions about a tensor, such as its device
            self.ops.append(str(func))
        return func(*args, **(kwargs or {}))


class _UnknownSizeError(Exception):
    """A node whose call cannot be repeated on fake tensors."""


def aten_ops(graph_module: torch.fx.GraphModule) -> dict[str, tuple[str, ...]]:
    """Node name → the aten ops that it dispatches to, in order and without repeats; unknown calls are left out."""
    known: dict[Any, tuple[str, ...]] = {}
    found: dict[str, tuple[str, ...]] = {}
    for node in graph_module.graph.nodes:
        if node.op not in {"call_function", "call_method"} or isinstance(node.target, torch._ops.OpOverload):
            continue
        try:
            leaves, shape = pytree.tree_flatten((node.args, node.kwargs))
            key = (node.op, node.target, shape, tuple(_signature(leaf) for leaf in leaves))
            if key not in known:
                known[key] = _dispatch(node, leaves, shape)
        except Exception:  # noqa: S112 - an op that fails on fake tensors is simply not known any better
            continue
        if known[key]:
            found[node.name] = known[key]
    return found


def _signature(leaf: Any) -> Any:
    if not isinstance(leaf, torch.fx.Node):
        return (type(leaf), leaf) if isinstance(leaf, (int, float, str, bool, torch.dtype)) else str(leaf)
    value = node_value(leaf)
    return tuple(
        (tuple(map(_number, t.shape)), t.dtype, tuple(map(_number, t.stride()))) for t in tensors_of(value)
    ) or str(value)


def _number(size: Any) -> int:
    if isinstance(size, int):
        return size
    hint = size.node.hint
    if hint is None:
        raise _UnknownSizeError
    return int(hint)


def _dispatch(node: torch.fx.Node, leaves: list[Any], shape: Any) -> tuple[str, ...]:
    with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True):
        args, kwargs = pytree.tree_unflatten([_stand_in(leaf) for leaf in leaves], shape)
        with _Notes() as notes:
            if node.op == "call_method":
                getattr(args[0], str(node.target))(*args[1:], **kwargs)
            else:
                node.target(*args, **kwargs)  # type: ignore[operator]
    return tuple(dict.fromkeys(notes.ops))


def _stand_in(leaf: Any) -> Any:
    """A fresh fake tensor like the operand's, so that nothing that happens to it reaches the user's compile."""
    if not isinstance(leaf, torch.fx.Node):
        return leaf
    return pytree.tree_map(_like, node_value(leaf))


def _like(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return torch.empty_strided(
            [_number(size) for size in value.shape],
            [_number(step) for step in value.stride()],
            dtype=value.dtype,
            device=value.device,
        )
    return _number(value) if isinstance(value, torch.SymInt) else value
