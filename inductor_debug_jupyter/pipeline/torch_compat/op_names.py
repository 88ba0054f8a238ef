"""Names of ops: those that torch knows, and a name by which another process finds what a graph's node calls.

``ops:aten.add.Tensor`` is an op of torch's dispatcher, ``torch.nn.functional:relu`` an attribute of a module. Many of
torch's functions do not say in which module they live; they are searched for in :data:`_MODULES_WITH_OPS`.
"""

from __future__ import annotations

import functools
import importlib
import operator
import sys
from typing import Any

import torch
import torch.nn.functional as functional
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

_MODULES_WITH_OPS = (
    *("torch", "torch._C._nn", "torch._C._VariableFunctions", "torch._C._fft", "torch._C._linalg", "torch._C._special"),
    *("torch._C", "torch.nn.functional", "torch.functional", "operator", "builtins", "math"),
)


def registered_ops() -> dict[str, dict[str, set[str]]]:
    """Namespace → op → overloads, of all that is registered now; the overload without a name is ``default``."""
    ops: dict[str, dict[str, set[str]]] = {}
    for full in torch._C._dispatch_get_all_op_names():
        namespace, _, rest = full.partition("::")
        op, _, overload = rest.partition(".")
        ops.setdefault(namespace, {}).setdefault(op, set()).add(overload or "default")
    return ops


@functools.cache
def python_names() -> frozenset[str]:
    """Functions and methods that can be a node of a Dynamo graph, by their bare names in lower case."""
    homes = (torch, functional, torch.Tensor, torch.linalg, torch.special, torch.fft, torch.nn.init, operator)
    return frozenset(
        name.lower()
        for home in homes
        for name in dir(home)
        if not name.startswith("__") and callable(found := getattr(home, name, None)) and not isinstance(found, type)
    )


def target_path(target: Any) -> str | None:
    """The name of what a ``call_function`` node calls; None when there is none that another process could use."""
    if isinstance(target, OpOverload | OpOverloadPacket):
        return f"ops:{target}"
    if isinstance(target, HigherOrderOperator):
        higher_order: Any = target
        return f"ops:higher_order.{higher_order.name()}"
    module = getattr(target, "__module__", None)
    # What torch makes by a factory (F.max_pool2d) has its own name only in the second.
    for name in (getattr(target, "__qualname__", None), getattr(target, "__name__", None)):
        for place in filter(None, (module, *_MODULES_WITH_OPS)):
            if not isinstance(name, str) or "<" in name or place == "__main__":
                continue
            if _attribute(sys.modules.get(place), name) is target:
                return f"{place}:{name}"
    return None


def target_at(path: str) -> Any:
    """The function or op with that :func:`target_path`.

    Raises:
        LookupError: it is not in this process; the message names it.
    """
    place, _, name = path.partition(":")
    if place == "ops":
        found = _attribute(torch.ops, name)
        if found is None and _imports(name.partition(".")[0]):  # a library's ops often have the library's name
            found = _attribute(torch.ops, name)
    else:
        found = _attribute(importlib.import_module(place), name) if _imports(place) else None
    if found is None:
        raise LookupError(f"there is no {name} in a fresh interpreter")
    return found


def _imports(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


def _attribute(owner: Any, name: str) -> Any:
    for part in name.split("."):
        try:
            owner = getattr(owner, part)
        except (AttributeError, RuntimeError):
            return None
    return owner
