"""Run compiled code in a cache region of its own, so that a capture sees a compile and the user's caches stay as they are.

torch keeps compiled code in a list on the Python code object, one list a *region* (``isolate_recompiles``), and looks
an entry up by region, guards and backend object. During a capture:

- a function that the user compiled before is called with a clone of its own callback (same mode, options, fullgraph),
  whose backend is a new object, in a new region: torch finds nothing, compiles again, and the capture sees it. The
  user's entries, and the number of recompiles they have left, are not touched;
- a function that was never compiled is left alone: its compile is the user's own and stays theirs, as without us.

The seam is ``eval_frame._callback_from_stance``, which every compiled function asks for its callback at each call.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch._dynamo import convert_frame, eval_frame, external_utils, trace_rules

from inductor_debug_jupyter.pipeline.torch_compat import patches

_PART = "already compiled functions"


class CompiledCallRedirect:
    """Sends calls of already compiled functions, made on this thread, into a region of their own."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._region = next(eval_frame._next_isolate_recompiles_id)
        self._clones: dict[int, tuple[Any, Any]] = {}
        self._users_own: set[CodeType] = set()

    def install(self) -> None:
        """Start redirecting.

        Raises:
            HookError: this torch has no such seam.
        """
        with _lock:
            _redirects.append(self)
        try:
            patches.acquire(eval_frame, "_callback_from_stance", _wrap_callback_from_stance, _PART)
        except BaseException:
            with _lock:
                _redirects.remove(self)
            raise

    def remove(self) -> None:
        """Stop redirecting."""
        with _lock:
            if self not in _redirects:
                return
            _redirects.remove(self)
        patches.release(eval_frame, "_callback_from_stance")
        self._clones.clear()

    def applies(self) -> bool:
        """Whether calls on this thread are ours to redirect."""
        return threading.get_ident() == self._thread

    def callback_for(self, callback: Any, function: Any) -> Any:
        """The callback to use for this call of ``function``: the user's own, or our clone of it."""
        if not isinstance(callback, convert_frame.CatchErrorsWrapper):
            return callback
        code = _code_of(function)
        key = id(callback)
        if key in self._clones:
            clone = self._clones[key][1]
        elif code is None or code in self._users_own or not _has_entries(code):
            if code is not None:
                self._users_own.add(code)
            return callback
        else:
            clone = _clone_callback(callback)
            self._clones[key] = (callback, clone)
        eval_frame.set_eval_frame_isolate_recompiles_id(self._region)
        return clone


_lock = threading.RLock()
_redirects: list[CompiledCallRedirect] = []


def _wrap_callback_from_stance(original: Callable[..., Any]) -> Callable[..., Any]:
    def callback_from_stance(callback: Any) -> Any:
        chosen = original(callback)
        for redirect in reversed(_redirects):
            if redirect.applies():
                caller = sys._getframe(1)
                return redirect.callback_for(chosen, caller.f_locals.get("fn"))
        return chosen

    return callback_from_stance


def _has_entries(code: CodeType) -> bool:
    """Whether the user has compiled this code before (our own regions do not count)."""
    region = eval_frame.get_eval_frame_isolate_recompiles_id()
    return any(eval_frame._get_cache_entries_for_region(code, each) for each in {-1, region})


def _clone_callback(callback: Any) -> Any:
    """The same callback with a new backend object, so that no existing cache entry matches."""
    inner = callback._torchdynamo_orig_backend
    user_backend = eval_frame.innermost_backend(callback)

    def backend(graph_module: Any, example_inputs: Any, **kwargs: Any) -> Any:
        return user_backend(graph_module, example_inputs, **kwargs)

    backend.__name__ = getattr(user_backend, "__name__", type(user_backend).__name__)
    return convert_frame.catch_errors_wrapper(inner._clone_with_backend(backend), callback.hooks)


def _code_of(function: Any) -> CodeType | None:
    """The code object whose cache holds a compiled function's entries: for a module, its ``forward``."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module) and function.__name__ in {"__call__", "_wrapped_call_impl", "_call_impl"}:
        function = owner.forward
    inner = eval_frame.innermost_fn(function) if callable(function) else None
    code = getattr(inner, "__code__", None)
    return code if isinstance(code, CodeType) else None


def compile_call(module: torch.nn.Module, call: Callable[..., Any], backend: Callable[..., Any]) -> Callable[..., Any]:
    """``module``'s call, compiled with ``backend`` in a region of its own.

    ``call`` is ``nn.Module.__call__`` as torch defines it. Modules whose ``forward`` is torch's own (``nn.Linear`` or
    ``nn.Sequential`` by itself) have no frame that Dynamo would look at: they get an extra one.
    """
    function: Callable[..., Any] = call.__get__(module)
    if trace_rules.check(module.forward):
        function = external_utils.wrap_inline(module)
    compiled: Callable[..., Any] = torch.compile(function, backend=backend, isolate_recompiles=True)
    return compiled


def in_compiled_region() -> bool:
    """Whether a compiled function is running on this thread (also in a part of it that runs eagerly after a break)."""
    return torch._C._dynamo.eval_frame.get_eval_frame_callback() is not None
