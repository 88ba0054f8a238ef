"""Check the op names that a user writes (``--deny``, a constraint, a profile) against the ops that torch has.

A misspelt name would match nothing, and "no findings" would be a false all-clear. A name may be written as a graph or
a user writes it: ``convolution``, ``aten.convolution``, ``aten::convolution.default``, ``conv2d``,
``torch.nn.functional.conv2d``, ``nn.Conv2d``, ``operator.add``, ``@matmul``. The ops of a namespace that torch does not
know yet (``my_library.op``) cannot be checked: they are accepted, with one warning. Torch is imported only when a name
is checked, so that reading options stays cheap.
"""

from __future__ import annotations

import difflib
import functools
import logging
from collections.abc import Iterable

from inductor_debug_jupyter.pipeline.devices.ops import (
    DECOMPOSED,
    LOWERED,
    OP_GROUPS,
    PYTHON_NUMBERS,
    VARIANTS,
    VIEWS,
    bare_name,
)
from inductor_debug_jupyter.pipeline.errors import OptionError

log = logging.getLogger("inductor_debug_jupyter")

_PYTHON = frozenset(
    {"torch", "nn", "f", "functional", "operator", "tensor", "linalg", "special", "fft", "math", "builtins"}
)
"""The first parts of names that are written as Python does: ``torch.relu``, ``nn.Conv2d``."""

_warned: set[str] = set()


def check_ops(names: Iterable[str], where: str) -> None:
    """Raise when torch does not have one of these ops.

    Args:
        names: as the user wrote them.
        where: the option or argument that holds them, such as ``--deny``; the message begins with it.

    Raises:
        OptionError: torch has no op of that name.
    """
    for name in names:
        if (problem := unknown_op(name)) is not None:
            raise OptionError(f"{where}: {problem}")


def unknown_op(name: str) -> str | None:
    """One line on an op name that torch does not have, with similar names; None when torch has the op."""
    if name.startswith("@"):
        allowed = ", ".join(f"@{group}" for group in OP_GROUPS)
        near = _near(name[1:], OP_GROUPS)
        return None if name[1:] in OP_GROUPS else f"{name!r} is not a group of ops; allowed: {allowed}{near}"
    if not _is_known(name):
        _registered_ops.cache_clear()  # a library may have registered it since
    parts, registered = _parts(name), _registered_ops()
    if _is_known(name):
        return None
    if len(parts) > 1 and parts[0] in registered:
        return _not_registered(name, parts, registered[parts[0]])
    if len(parts) == 2 and parts[0] in registered["aten"]:  # not a namespace: an op with its overload
        known = _is_known(f"aten.{name}")
        return (
            f"{name!r} has no namespace; did you mean 'aten.{'.'.join(parts)}'?"
            if known
            else _not_registered(name, ["aten", *parts], registered["aten"])
        )
    if len(parts) > 1 and parts[0].lower() not in _PYTHON and all(part.isidentifier() for part in parts):
        _warn(name, parts[0])
        return None
    return f"torch has no op {name!r}{_near(bare_name(name), _bare_names())}"


def _warn(name: str, namespace: str) -> None:
    """Log, once for each name, that it could not be checked."""
    if name not in _warned:
        _warned.add(name)
        log.warning(
            "%r: torch knows no ops of %r yet, so whether there is such an op was not checked; import the library that"
            " registers it first",
            name,
            namespace,
        )


def _is_known(name: str) -> bool:
    parts, registered = _parts(name), _registered_ops()
    if len(parts) == 1 or parts[0] not in registered:
        return bare_name(name) in _bare_names() and (len(parts) == 1 or parts[0].lower() in _PYTHON)
    op, overload = parts[1], ".".join(parts[2:])
    overloads = registered[parts[0]].get(op, {"default"} if parts[0] == "aten" and op in _of_tables() else set())
    return bool(overloads) and overload in {"", "default", *overloads}


def _parts(name: str) -> list[str]:
    return name.strip().replace("::", ".").removeprefix("torch.ops.").split(".")


def _not_registered(name: str, parts: list[str], ops: dict[str, set[str]]) -> str:
    """The message for a name in a namespace that torch knows (``aten.…``): no such op, or no such overload."""
    if parts[1] not in ops:
        return f"torch has no op {name!r}{_near(parts[1], ops, prefix=f'{parts[0]}.')}"
    allowed = ", ".join(sorted(ops[parts[1]]))
    return f"{parts[0]}.{parts[1]} has no overload {'.'.join(parts[2:])!r}; allowed: {allowed}"


@functools.cache
def _registered_ops() -> dict[str, dict[str, set[str]]]:
    from inductor_debug_jupyter.pipeline.torch_compat.op_names import registered_ops

    return registered_ops()


def _bare_names() -> set[str]:
    """Every op name without namespace and overload: ``convolution``, ``conv2d``."""
    from inductor_debug_jupyter.pipeline.torch_compat.op_names import python_names

    return {*python_names(), *_of_tables(), *(op.lower() for ops in _registered_ops().values() for op in ops)}


def offered_ops() -> list[str]:
    """Names to suggest for ``--deny``: groups of ops, and torch's public aten ops without overloads."""
    public = sorted(op for op in _registered_ops()["aten"] if op[0] != "_" and not op.endswith(("_", "_out")))
    return [*(f"@{group}" for group in OP_GROUPS), *public, *(f"aten.{op}" for op in public)]


@functools.cache
def _of_tables() -> frozenset[str]:
    """The names of the tables in :mod:`ops`, some of which torch does not have: ``batchnorm2d``, ``gelu_tanh``."""
    names = {*LOWERED, *DECOMPOSED, *VIEWS, *PYTHON_NUMBERS, *(f"{op}_{word}" for op, word in VARIANTS.items())}
    return frozenset(names).union(*LOWERED.values(), *DECOMPOSED.values(), *OP_GROUPS.values())


def _near(word: str, names: Iterable[str], prefix: str = "") -> str:
    near = difflib.get_close_matches(word.lower(), list(names), n=3, cutoff=0.7)
    return f"; did you mean {', '.join(prefix + each for each in near)}?" if near else ""
