"""See the calls of plain modules: ``model(x)`` in a cell that compiles nothing.

``nn.Module.__call__`` is wrapped while somebody watches. Outermost calls on the watcher's own thread are shown to it, and
inner ones that Dynamo cannot see because it gave up on the frame around them; everything else (compiled modules, graph
modules, calls in the middle of a compile) goes straight through. Dynamo is told that the wrapper *is* the plain call, so that it adds no guards because of us and nothing
recompiles when we are gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo import eval_frame, trace_rules
from torch._dynamo.variables import nn_module as nn_module_variables
from torch._subclasses.fake_tensor import FakeTensor

from inductor_debug_jupyter.pipeline.torch_compat import patches
from inductor_debug_jupyter.pipeline.torch_compat.regions import in_compiled_region
from inductor_debug_jupyter.pipeline.torch_compat.state import is_compiling

_PART = "calls of plain modules"

CallHandler = Callable[[torch.nn.Module, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""``(module, plain call, args, kwargs) → what the call returns``."""


class ModuleCallWatch:
    """Hands the outermost module calls of this thread to ``handler`` until :meth:`remove`."""

    def __init__(self, handler: CallHandler) -> None:
        self.handler = handler
        self.thread = threading.get_ident()

    def install(self) -> None:
        """Start watching.

        Raises:
            HookError: this torch has no such seam.
        """
        patches.acquire(torch.nn.Module, "__call__", _wrap_call, _PART)
        try:
            patches.acquire(
                nn_module_variables, "unpatched_nn_module_call", lambda _: torch.nn.Module.__call__, _PART
            )
        except BaseException:
            patches.release(torch.nn.Module, "__call__")
            raise
        with _lock:
            _watches.append(self)

    def remove(self) -> None:
        """Stop watching."""
        with _lock:
            if self not in _watches:
                return
            _watches.remove(self)
        patches.release(nn_module_variables, "unpatched_nn_module_call")
        patches.release(torch.nn.Module, "__call__")


_lock = threading.RLock()
_watches: list[ModuleCallWatch] = []
_inside = threading.local()


def _watch_of_this_thread() -> ModuleCallWatch | None:
    thread = threading.get_ident()
    for watch in reversed(_watches):
        if watch.thread == thread:
            return watch
    return None


def _is_plain(module: torch.nn.Module) -> bool:
    """Whether this is a module that the user calls eagerly, as opposed to one that is compiled or a graph."""
    return (
        not isinstance(module, (torch.fx.GraphModule, eval_frame.OptimizedModule, torch.jit.ScriptModule))
        and getattr(module, "_compiled_call_impl", None) is None
    )


def _is_real(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return not any(isinstance(value, FakeTensor) for value in (*args, *kwargs.values()))


def _is_missed(module: torch.nn.Module) -> bool:
    """Whether Dynamo lets this inner call pass: it gave the frame around it up, and has none of its own to look at.

    Of a user's own module Dynamo sees the ``forward``; of ``nn.Linear`` it sees nothing.
    """
    return getattr(_inside, "watched", False) and in_compiled_region() and bool(trace_rules.check(module.forward))


def _wrap_call(original: Callable[..., Any]) -> Callable[..., Any]:
    def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it stands in for that name
        watch = _watch_of_this_thread()
        if watch is None or is_compiling():
            return original(self, *args, **kwargs)
        depth = getattr(_inside, "depth", 0)
        outermost = depth == 0 and not in_compiled_region()
        if not (outermost or _is_missed(self)):
            return original(self, *args, **kwargs)
        watched = _is_plain(self) and _is_real(args, kwargs)
        before = (depth, getattr(_inside, "watched", False))
        _inside.depth, _inside.watched = depth + 1, watched
        try:
            return watch.handler(self, original, args, kwargs) if watched else original(self, *args, **kwargs)
        finally:
            _inside.depth, _inside.watched = before

    # Dynamo must not look at this frame: it would find our closure instead of the user's module.
    eval_frame.skip_code(__call__.__code__)
    return __call__
