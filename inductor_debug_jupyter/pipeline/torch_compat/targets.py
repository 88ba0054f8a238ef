"""What a graph's nodes call ↔ a name that finds it again in another process.

``ops:aten.add.Tensor`` is an op of torch's dispatcher, ``torch.nn.functional:relu`` an attribute of a module. Many of
torch's functions do not say where they live; they are looked for where torch keeps them.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import torch
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

_WHERE = (
    "torch",
    "torch._C._nn",
    "torch._C._VariableFunctions",
    "torch._C._fft",
    "torch._C._linalg",
    "torch._C._special",
    "torch._C",
    "torch.nn.functional",
    "torch.functional",
    "operator",
    "builtins",
    "math",
)


def target_path(target: Any) -> str | None:
    """The name of what a ``call_function`` node calls; None when there is none that another process could use."""
    if isinstance(target, OpOverload | OpOverloadPacket):
        return f"ops:{target}"
    if isinstance(target, HigherOrderOperator):
        higher_order: Any = target
        return f"ops:higher_order.{higher_order.name()}"
    name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None)
    if not isinstance(name, str) or "<" in name:
        return None
    module = getattr(target, "__module__", None)
    for place in filter(None, (module, *_WHERE)):
        if place != "__main__" and _attribute(sys.modules.get(place), name) is target:
            return f"{place}:{name}"
    return None


def target_at(path: str) -> Any:
    """What :func:`target_path` named.

    Raises:
        LookupError: it is not in this process; the message names it.
    """
    place, _, name = path.partition(":")
    if place == "ops":
        found = _attribute(torch.ops, name)
        if found is None:  # libraries often call their ops as they call themselves
            found = _attribute(torch.ops, name) if _imports(name.partition(".")[0]) else None
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
