"""Which aten ops the nodes of a Dynamo graph dispatch to.

Dynamo's graph is in the user's words (``torch.conv2d``, ``F.gelu``, ``x.mul_``); devices speak of aten ops. Each node
is called once more on fake tensors of its operands' shapes, in a fake mode of our own (symbolic sizes as the numbers
that they have just now, so that no guard of the user's compile is touched), while a dispatch mode records the ops.
It is done after the compile, when a reader needs it, and only where there is no AOT graph to read the ops from.
Equal calls are looked up once, so twelve layers cost as much as one.

A Dynamo graph also calls functions that change the state of torch (gradient mode, vmap levels, autocast, seeds). Those
must never be called a second time, so only functions that are known to compute are: :func:`_computes`. Graphs that
enter vmap are left out: a tensor in there hides its batch dimension.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import BuiltinFunctionType
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from inductor_debug_jupyter.pipeline.torch_compat.graphs import example_value, node_value


class _OpRecorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.ops: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.namespace != "prim":  # queries such as a tensor's device
            self.ops.append(str(func))
        return func(*args, **(kwargs or {}))


@dataclass(frozen=True)
class _TensorLayout:
    """Sizes, strides, dtype and device of a tensor, from which an empty one is made."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device

    def make(self) -> torch.Tensor:
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=self.device)


class DynamoCalls:
    """The calls of a Dynamo graph, copied at once because torch goes on to change the graph."""

    def __init__(self, graph_module: torch.fx.GraphModule) -> None:
        self._calls: list[tuple[str, str, Any, Any]] = []
        functions = (node.target for node in graph_module.graph.nodes if node.op == "call_function")
        if any("functorch" in (getattr(each, "__module__", None) or "") for each in functions):
            return
        for node in graph_module.graph.nodes:
            if _computes(node):
                try:
                    arguments = pytree.tree_map(_described, (node.args, node.kwargs))
                except Exception:  # noqa: S112 - a tensor without strides
                    continue
                self._calls.append((node.name, node.op, node.target, arguments))

    def aten_ops(self) -> dict[str, tuple[str, ...]]:
        """Node name → the aten ops that it dispatches to, in order, without repeats; unknown calls are left out."""
        found: dict[str, tuple[str, ...]] = {}
        known: dict[Any, tuple[str, ...]] = {}
        with torch.no_grad(), FakeTensorMode(allow_non_fake_inputs=True), _OpRecorder() as recorder:
            for name, op, target, arguments in self._calls:
                key = (op, target, str(arguments))
                if key not in known:
                    known[key] = _dispatch(op, target, arguments, recorder)
                if known[key]:
                    found[name] = known[key]
        return found


_COMPUTING_MODULES = (
    *("_operator", "torch._tensor", "torch.functional", "torch.nn.functional"),
    *("torch._C._fft", "torch._C._linalg", "torch._C._nn", "torch._C._special"),
)


def _computes(node: torch.fx.Node) -> bool:
    """Whether a node calls something that computes and does nothing else."""
    if node.op == "call_method":
        return True
    target = node.target
    if node.op != "call_function" or isinstance(target, torch._ops.OpOverload):
        return False
    module = getattr(target, "__module__", None)
    if module == "torch":  # torch.add, but not torch.set_default_dtype
        return isinstance(target, BuiltinFunctionType) and hasattr(torch._C._VariableFunctions, target.__name__)
    return module in _COMPUTING_MODULES


def _described(leaf: Any) -> Any:
    """A node's value with layouts in place of tensors; anything else as it is."""
    return pytree.tree_map(_layout, node_value(leaf)) if isinstance(leaf, torch.fx.Node) else leaf


def _layout(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        shape, stride = (tuple(map(example_value, sizes)) for sizes in (value.shape, value.stride()))
        return _TensorLayout(shape, stride, value.dtype, value.device)
    return example_value(value) if isinstance(value, torch.SymInt) else value


def _dispatch(op: str, target: Any, arguments: Any, recorder: _OpRecorder) -> tuple[str, ...]:
    try:
        args, kwargs = pytree.tree_map(lambda leaf: leaf.make() if isinstance(leaf, _TensorLayout) else leaf, arguments)
        recorder.ops.clear()
        if op == "call_method":
            getattr(args[0], target)(*args[1:], **kwargs)
        else:
            target(*args, **kwargs)
    except Exception:  # an op that cannot run on fake tensors stays unknown
        return ()
    return tuple(dict.fromkeys(recorder.ops))
