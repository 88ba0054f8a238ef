"""Every name by which torch knows an op: in its dispatcher, and in Python."""

from __future__ import annotations

import functools
import operator

import torch
import torch.nn.functional as functional


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
