"""The user's instruments: what watches torch or Python run, and must see the user's own run only.

An instrument is a function mode, a dispatch mode, a profiler, ``torch.jit``'s tracer, a transform of ``torch.func``,
anomaly mode, hooks on saved tensors, a global module hook, or a Python tracer. :func:`active_instrument` names the one
that would notice that a call goes through the compiler; :func:`unseen` removes all of them while we run our own code.

Not instruments: ``torch.device`` as a context and ``torch.set_default_device`` (a function mode of torch's own, which
the compiler knows), and hooks of a module, which are part of it.
"""

from __future__ import annotations

import _lsprof
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.nn.modules import module as global_hooks
from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils._device import DeviceContext
from torch.utils._python_dispatch import _disable_current_modes, _get_current_dispatch_mode_stack

from inductor_debug_jupyter.pipeline.interrupts import uncut
from inductor_debug_jupyter.pipeline.torch_compat.guard_timing import untimed_guards
from inductor_debug_jupyter.pipeline.torch_compat.process_state import process_state_kept

_records = threading.local()


@dataclass(frozen=True, slots=True)
class Instrument:
    """An active instrument of the user's.

    Attributes:
        reason: the instrument, as the end of "not captured: …".
        sees_copies: whether it also sees the inputs being copied.
    """

    reason: str
    sees_copies: bool = False


def python_tracers() -> tuple[Any, Any]:
    """The functions given to ``sys.settrace`` and ``sys.setprofile`` on this thread."""
    return sys.gettrace(), sys.getprofile()


def active_instrument(values: Iterable[Any] = (), tracers: tuple[Any, Any] = (None, None)) -> Instrument | None:
    """The instrument that would notice that a call with these arguments goes through the compiler, or None.

    ``tracers`` are the Python tracers that do not count: those set before the capture began.
    """
    for now, before, name in zip(python_tracers(), tracers, ("settrace", "setprofile"), strict=True):
        if now is not None and now is not before:
            return Instrument(f"a Python tracer is set (sys.{name})", sees_copies=True)
    if torch._C._functorch.maybe_current_level() is not None:
        return Instrument("torch.func transforms it", sees_copies=True)
    if users := [type(value).__name__ for value in values if isinstance(value, torch.Tensor) and _is_users(value)]:
        return Instrument(f"the tensor class {users[0]} of an input sees every op", sees_copies=True)
    if torch._C._get_tracing_state() is not None:
        return Instrument("torch.jit traces it")
    if modes := [mode for mode in _function_mode_stack() if not isinstance(mode, DeviceContext)]:
        return Instrument(f"the function mode {type(modes[-1]).__name__} is on")
    if modes := _get_current_dispatch_mode_stack():
        return Instrument(f"the dispatch mode {type(modes[-1]).__name__} is on")
    if torch._C._autograd._profiler_enabled():
        return Instrument("a profiler is on")
    if torch.is_anomaly_enabled():
        return Instrument("anomaly mode is on")
    if _hooks_on_saved_tensors() is not None:
        return Instrument("hooks on saved tensors are set, as torch.utils.checkpoint does")
    return None


def _is_users(tensor: torch.Tensor) -> bool:
    """Whether ops on a tensor run code of a class that is not torch's."""
    kind = type(tensor)
    if kind in (torch.Tensor, torch.nn.Parameter) or kind.__module__.partition(".")[0] == "torch":
        return False
    for name in ("__torch_function__", "__torch_dispatch__"):
        found = next((vars(each)[name] for each in kind.__mro__ if name in vars(each)), None)
        function = getattr(found, "__func__", found)
        if isinstance(function, FunctionType) and function.__module__.partition(".")[0] != "torch":
            return True
    return False


@uncut
def unseen() -> Iterator[None]:
    """Remove the user's instruments while our own code runs in the block, and restore the process's state.

    Instruments are removed on this thread only, but global module hooks are one table for all threads.
    """
    with ExitStack() as stack:
        stack.callback(sys.settrace, sys.gettrace())
        sys.settrace(None)
        stack.callback(_profiler_stopped())
        stack.enter_context(records_off())
        stack.enter_context(process_state_kept())
        stack.enter_context(untimed_guards())
        set_tracing_state: Any = torch._C._set_tracing_state  # type: ignore[attr-defined]  # it has no annotation
        stack.callback(set_tracing_state, torch._C._get_tracing_state())
        set_tracing_state(None)
        modes = _function_mode_stack()
        if any(not isinstance(mode, DeviceContext) for mode in modes):
            stack.callback(_set_function_modes, modes)
            _set_function_modes([mode for mode in modes if isinstance(mode, DeviceContext)])
        while (pair := _hooks_on_saved_tensors()) is not None:
            torch._C._autograd._pop_saved_tensors_default_hooks()
            stack.callback(torch._C._autograd._push_saved_tensors_default_hooks, *pair)
        stack.callback(torch.set_anomaly_enabled, torch.is_anomaly_enabled(), torch.is_anomaly_check_nan_enabled())
        torch.set_anomaly_enabled(False)
        for name, table in vars(global_hooks).items():  # torch calls them for every module
            if name.startswith("_global_") and isinstance(table, dict) and table:
                stack.callback(table.update, dict(table))
                table.clear()
        if torch._C._functorch.maybe_current_level() is not None:
            stack.enter_context(temporarily_clear_interpreter_stack())
        if _get_current_dispatch_mode_stack():
            stack.enter_context(_disable_current_modes())
        yield


def _profiler_stopped() -> Callable[..., None]:
    """Stop this thread's Python profiler; the function that starts it again.

    ``sys.getprofile`` answers with ``cProfile``'s own object, which is no function: ``sys.setprofile`` would break it.
    """
    profiler: Any = sys.getprofile()
    if isinstance(profiler, _lsprof.Profiler):
        profiler.disable()
        return profiler.enable
    sys.setprofile(None)
    return lambda: sys.setprofile(profiler)


@uncut
def records_off() -> Iterator[None]:
    """Hide this thread from profilers: torch calls no observer for its ops and ranges."""
    depth = getattr(_records, "off", 0)
    _records.off = depth + 1
    torch._C._autograd._enable_record_function(False)
    try:
        yield
    finally:
        _records.off = depth
        if depth == 0:
            torch._C._autograd._enable_record_function(True)


def _set_function_modes(modes: Iterable[Any]) -> None:
    for _ in _function_mode_stack():
        _pop_mode()  # type: ignore[no-untyped-call]
    for mode in modes:
        _push_mode(mode)  # type: ignore[no-untyped-call]


def _function_mode_stack() -> list[Any]:
    return list(_get_current_function_mode_stack())  # type: ignore[no-untyped-call]


def _hooks_on_saved_tensors() -> tuple[Any, Any] | None:
    """The innermost pair; torch's annotation forgets that there may be none."""
    return torch._C._autograd._top_saved_tensors_default_hooks(True)
