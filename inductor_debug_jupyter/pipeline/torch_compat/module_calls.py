"""Watch the calls of plain modules: ``model(x)`` in a cell that compiles nothing.

``nn.Module.__call__`` is wrapped while a :class:`ModuleCallWatch` is installed. Its handler is given the outermost
calls on its own threads, and the inner calls that Dynamo cannot see because it gave up on the frame around them;
everything else (compiled modules, graph modules, calls in the middle of a compile) goes straight through. Dynamo traces
the plain call in place of the wrapper, so it adds no guards on the wrapper and nothing recompiles when the wrapper is
gone.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from typing import Any

import torch
from torch._C._dynamo.eval_frame import set_eval_frame
from torch._dynamo import eval_frame, trace_rules
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx.graph import _PyTreeCodeGen

from inductor_debug_jupyter.pipeline.torch_compat.patches import HookSite
from inductor_debug_jupyter.pipeline.torch_compat.state import is_compiling

_PART = "plain modules"

CallHandler = Callable[[torch.nn.Module, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""``(module, plain call, args, kwargs) → what the call returns``."""


class ModuleCallWatch:
    """Hands outermost module calls to ``handler`` until :meth:`remove`, on the threads where ``here()`` is true."""

    def __init__(self, handler: CallHandler, here: Callable[[], bool]) -> None:
        self.handler = handler
        self.here = here
        self._undo = ExitStack()

    def install(self) -> None:
        """Start watching.

        Raises:
            HookError: this torch has no such seam.
        """
        with ExitStack() as undo:
            for site in SITES:
                undo.callback(site.install())
            self._undo = undo.pop_all()
        with _lock:
            _watches.append(self)

    def remove(self) -> None:
        """Stop watching."""
        with _lock:
            if self not in _watches:
                return
            _watches.remove(self)
        self._undo.close()


_lock = threading.RLock()
_watches: list[ModuleCallWatch] = []
_inside = threading.local()


def _is_plain(module: torch.nn.Module) -> bool:
    """Whether this is a module that the user calls eagerly, as opposed to one that is compiled or a compiler's graph.

    A graph module whose code generator keeps Python signatures comes from ``torch.export``: the user calls it.
    """
    if isinstance(module, torch.fx.GraphModule):
        return isinstance(module.graph._codegen, _PyTreeCodeGen)
    return (
        not isinstance(module, (eval_frame.OptimizedModule, torch.jit.ScriptModule))
        and getattr(module, "_compiled_call_impl", None) is None
    )


def _watch_for(module: torch.nn.Module, values: Iterable[Any], in_compiled_region: bool) -> ModuleCallWatch | None:
    """The watch that this call is handed to, or None.

    An inner call is handed over when Dynamo gave up on the frame around it and the module has no frame of its own that
    Dynamo would trace: it traces the ``forward`` of a user's module, but none of ``nn.Linear``'s.
    """
    watch = next((each for each in reversed(_watches) if each.here()), None)
    if watch is None or is_compiling() or not _is_plain(module):
        return None
    watched = getattr(_inside, "modules", ())
    is_outermost = not in_compiled_region and not watched
    is_missed = in_compiled_region and watched and module not in watched and trace_rules.check(module.forward)
    if not (is_outermost or is_missed) or any(isinstance(value, FakeTensor) for value in values):
        return None
    return watch


def _wrap_call(original: Callable[..., Any]) -> Callable[..., Any]:
    def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it stands in for that name
        callback = set_eval_frame(None)  # Dynamo must not trace our own lines
        try:
            watch = _watch_for(self, (*args, *kwargs.values()), callback is not None)
            if watch is not None:
                before: tuple[torch.nn.Module, ...] = getattr(_inside, "modules", ())
                _inside.modules = (*before, self)
                try:
                    return watch.handler(self, original, args, kwargs)
                finally:
                    _inside.modules = before
        finally:
            set_eval_frame(callback)
        return original(self, *args, **kwargs)

    eval_frame.skip_code(__call__.__code__)
    __call__._torchdynamo_inline = original  # type: ignore[attr-defined]  # what Dynamo traces in its place
    return __call__


SITES = (
    HookSite(_PART, "torch.nn", "Module.__call__", _wrap_call),
    HookSite(
        _PART, "torch._dynamo.variables.nn_module", "unpatched_nn_module_call", lambda _: torch.nn.Module.__call__
    ),
)
"""The call itself, and what Dynamo takes for the unwrapped one."""
