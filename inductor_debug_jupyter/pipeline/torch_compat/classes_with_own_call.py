"""Module classes with a ``__call__`` of their own: they are wrapped one by one.

``nn.Module.__call__`` may never be called for them, so a wrapper of that one does not see them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import FunctionType
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.torch_compat import patches

_TORCH = os.path.join(os.path.dirname(torch.__file__), "")  # noqa: PTH118, PTH120 - compared with file names of code
_CALL = "__call__"
_ENDS_IN_TORCHS = frozenset({_CALL, "_call_impl", "_wrapped_call_impl"})


def wrap_own_calls(wrap: patches.Wrapper, wrap_unclear: patches.Wrapper, part: str) -> Callable[[], None]:
    """Wrap ``__call__`` of the classes that have their own, those made later too; returns what undoes it.

    ``wrap_unclear`` is for those of which only the call shows whether they end in ``nn.Module``'s.
    """
    undo = ExitStack()

    def add(kind: type) -> None:
        if (call := _own_call(kind)) is not None:
            patches.acquire(kind, _CALL, wrap if _is_whole(call) else wrap_unclear, part)
            undo.callback(patches.release, kind, _CALL)

    def wrap_creation(original: Callable[..., None]) -> Any:
        def __init_subclass__(cls: type, /, **kwargs: Any) -> None:  # noqa: N807 - it stands in for that name
            original(**kwargs)
            add(cls)

        return classmethod(__init_subclass__)

    for kind in _subclasses(torch.nn.Module):
        add(kind)
    patches.acquire(torch.nn.Module, "__init_subclass__", wrap_creation, part)
    undo.callback(patches.release, torch.nn.Module, "__init_subclass__")
    return undo.close


def given_later() -> list[str]:
    """The names of the classes that were given a ``__call__`` of their own after they were made."""
    return [kind.__qualname__ for kind in _subclasses(torch.nn.Module) if _is_given_later(kind)]


def _is_given_later(kind: type) -> bool:
    call = _own_call(kind)
    file = getattr(getattr(call, "__code__", None), "co_filename", "")
    return call is not None and "-packages" not in file and not patches.is_patched(kind, _CALL)


def _subclasses(kind: type) -> Iterable[type]:
    known: dict[type, None] = {}
    waiting: list[type] = [kind]
    while waiting:
        made_of: list[type] = type.__subclasses__(waiting.pop())
        waiting += [each for each in made_of if each not in known]
        known.update(dict.fromkeys(made_of))
    return known


def _own_call(kind: type) -> Any:
    """The ``__call__`` that comes with this class, from itself or from a base that is no module; None for torch's."""
    definer = next(each for each in kind.__mro__ if _CALL in vars(each))
    if definer is not kind and issubclass(definer, torch.nn.Module):
        return None
    call = vars(definer)[_CALL]
    is_torchs = isinstance(call, FunctionType) and call.__code__.co_filename.startswith(_TORCH)
    return None if is_torchs or definer.__module__.partition(".")[0] == "torch" else call


def _is_whole(call: Any) -> bool:
    return isinstance(call, FunctionType) and _ENDS_IN_TORCHS.isdisjoint(call.__code__.co_names)
