"""Restore what torch's tracers change for the whole process, after Ctrl-C has stopped one of them.

While torch traces it replaces functions (``torch.fx`` wraps ``nn.Module.__call__``, ``nn.Module.__getattr__`` and the
functions given to ``torch.fx.wrap``), sets flags ("symbolic tracing", "compiling"), pushes modes and patches its
settings. It puts all of it back by hand, in Python: a ``KeyboardInterrupt`` that is raised there leaves the rest as it
is. Every later compile in the kernel then fails, or every module call goes through a dead tracer.

So code that starts work of ours takes a :class:`TracingState` first, and restores it when Ctrl-C has ended the work. In
:meth:`TracingState.restore` Ctrl-C does not strike. Counters are not set back: compile ids are made of them.
"""

from __future__ import annotations

import functools
import logging
import sys
import threading
import traceback
from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

import torch
from torch._C._dynamo.eval_frame import (
    get_eval_frame_callback,
    get_eval_frame_isolate_recompiles_id,
    set_eval_frame,
    set_eval_frame_isolate_recompiles_id,
)
from torch.fx import _symbolic_trace
from torch.fx import traceback as fx_traceback
from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode
from torch.utils import _python_dispatch

from inductor_debug_jupyter.pipeline.interrupts import held_back, never_lost, never_swallowed, uncut
from inductor_debug_jupyter.pipeline.torch_compat.state import torch_logs_muted

log = logging.getLogger("inductor_debug_jupyter")

Given = ParamSpec("Given")
Answer = TypeVar("Answer")

_MODULES = (
    "math",
    "torch._dynamo.compiled_autograd",
    "torch._dynamo.create_parameter_op",
    "torch._dynamo.current_scope_id",
    "torch._dynamo.symbolic_convert",
    "torch._dynamo.utils",
    "torch._functorch._aot_autograd.graph_compile",
    "torch._functorch._aot_autograd.logging_utils",
    "torch._guards",
    "torch._higher_order_ops.invoke_subgraph",
    "torch._higher_order_ops.utils",
    "torch._inductor.virtualized",
    "torch._subclasses.fake_tensor",
    "torch._subclasses.functional_tensor",
    "torch._subclasses.meta_utils",
    "torch.compiler",
    "torch.fx._lazy_graph_module",
    "torch.fx._symbolic_trace",
    "torch.fx.experimental.proxy_tensor",
    "torch.fx.experimental.symbolic_shapes",
    "torch.fx.graph",
    "torch.fx.graph_module",
    "torch.fx.proxy",
    "torch.fx.traceback",
    "torch.utils._python_dispatch",
)
"""Modules whose global names and thread-local objects tracers replace for a while."""

_CONFIGS = (
    "torch._dynamo.config",
    "torch._functorch.config",
    "torch._inductor.config",
    "torch.fx.experimental._config",
)
_COUNTS = (int, float, str)
_WRAPPERS = ("fx/_symbolic_trace.py", "torch_compat/module_calls.py")
"""Files whose functions may be found at ``nn.Module.__call__`` when Ctrl-C struck: torch's tracer's, and our own."""

_SWITCHES: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (torch.is_grad_enabled, torch._C._set_grad_enabled),
    (lambda: torch.is_autocast_enabled("cpu"), lambda value: torch.set_autocast_enabled("cpu", value)),
    (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    (torch.get_default_dtype, torch.set_default_dtype),
    (
        lambda: (torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()),
        lambda value: torch.use_deterministic_algorithms(value[0], warn_only=value[1]),
    ),
    (torch._C._is_multithreading_enabled, torch._C._set_multithreading_enabled),
    (torch._C._is_view_replay_enabled, torch._C._set_view_replay_enabled),
    (torch._C._only_lift_cpu_tensors, torch._C._set_only_lift_cpu_tensors),
    (get_eval_frame_callback, set_eval_frame),
    (get_eval_frame_isolate_recompiles_id, set_eval_frame_isolate_recompiles_id),
    (lambda: _function_modes(), lambda modes: _set_function_modes(modes)),
    (lambda: _dispatch_modes(), lambda modes: _set_dispatch_modes(modes)),
)
"""How a switch in torch's C++ is read, and how it is set."""


class TracingState:
    """The process's tracing state at the time when this is made; the thread's own parts are those of this thread."""

    def __init__(self) -> None:
        self._switches = [read() for read, _ in _SWITCHES]
        names = [vars(module) for module in _loaded(_MODULES)]
        local = [value for each in _loaded(_MODULES) for value in _thread_locals(each, len(vars(each)))]
        self._names = [(each, each.copy()) for each in (*names, *map(vars, local))]
        self._lists = [(value, list(value)) for each in local for value in vars(each).values() if type(value) is list]
        self._meta = dict(fx_traceback.current_meta)
        self._wrapped = [
            (names, name, names[name]) for (_, name), names in _wrapped_functions().items() if name in names
        ]
        self._patcher = _symbolic_trace.CURRENT_PATCHER
        self._methods = {name: getattr(torch.nn.Module, name) for name in ("__call__", "__getattr__")}
        self._configs = [(config, _overrides(config)) for config in _loaded(_CONFIGS)]

    def restore(self) -> None:
        """Set back whatever differs; a part that cannot be is logged, and the others are."""
        with held_back():
            for step in (self._unpatch, self._set_names, self._set_configs, self._set_switches):
                try:
                    step()
                except Exception:
                    log.debug("after an interrupt, not everything of torch's tracers is restored", exc_info=True)

    def restore_after(self, error: BaseException) -> None:
        """Clear the frames that an error came through, and :meth:`restore`.

        Clearing frames closes generators, so that a ``with`` that had only just been entered restores what it changed.
        torch then logs how long its steps took, which is muted.
        """
        with torch_logs_muted():
            traceback.clear_frames(error.__traceback__)
        self.restore()

    def _unpatch(self) -> None:
        patcher = _symbolic_trace.CURRENT_PATCHER
        if patcher is not None and patcher is not self._patcher:
            for patch in reversed(patcher.patches_made):
                patch.revert()
        for name, method in self._methods.items():
            code = getattr(vars(torch.nn.Module)[name], "__code__", None)
            if vars(torch.nn.Module)[name] is not method and code and code.co_filename.endswith(_WRAPPERS):
                setattr(torch.nn.Module, name, method)
        for names, name, function in self._wrapped:
            names[name] = function

    def _set_names(self) -> None:
        for names, before in self._names:
            for name, value in before.items():
                if names.get(name) is not value and (isinstance(value, bool) or not isinstance(value, _COUNTS)):
                    names[name] = value

        for values, contents in self._lists:
            values[:] = contents
        if fx_traceback.current_meta != self._meta:
            fx_traceback.current_meta.clear()
            fx_traceback.current_meta.update(self._meta)

    def _set_configs(self) -> None:
        for config, before in self._configs:
            now = _overrides(config)
            for name in [name for name, value in before.items() if now.get(name) is not value]:
                config._config[name].user_override.set(before[name])
                config._hash_dirty_var.set(True)
                config._mark_get_dict_dirty(name)

    def _set_switches(self) -> None:
        for (read, write), value in zip(_SWITCHES, self._switches, strict=True):
            if read() != value:
                write(value)


def _loaded(names: Iterable[str]) -> list[Any]:
    """The modules of these names that are imported."""
    return [module for name in names if (module := sys.modules.get(name)) is not None]


@functools.cache
def _thread_locals(module: ModuleType, names: int) -> tuple[threading.local, ...]:
    """The thread-local objects among a module's names, which are looked through again when it has got more of them.

    A state is taken for each frame that Dynamo looks at, and there are thousands of names.
    """
    return tuple(value for value in vars(module).values() if isinstance(value, threading.local))


def _wrapped_functions() -> dict[tuple[int, str], dict[str, Any]]:
    """The functions that ``torch.fx.wrap`` was given: (id, name) → the global names in which they are."""
    found: dict[tuple[int, str], dict[str, Any]] = _symbolic_trace._wrapped_fns_to_patch
    return found


def _overrides(config: Any) -> dict[str, Any]:
    """The settings as they were set, without the defaults. They are kept in context variables."""
    return {name: entry.user_override.get() for name, entry in config._config.items()}


def _function_modes() -> list[Any]:
    return list(_get_current_function_mode_stack())  # type: ignore[no-untyped-call]


def _set_function_modes(modes: list[Any]) -> None:
    for _ in _function_modes():
        _pop_mode()  # type: ignore[no-untyped-call]
    for mode in modes:
        _push_mode(mode)  # type: ignore[no-untyped-call]


def _dispatch_modes() -> list[Any]:
    return list(_python_dispatch._get_current_dispatch_mode_stack())


def _set_dispatch_modes(modes: list[Any]) -> None:
    for mode in reversed(_dispatch_modes()):
        _python_dispatch._pop_mode(getattr(mode, "_mode_key", None) or getattr(mode, "_dispatch_key", None))
    for mode in modes:
        _python_dispatch._push_mode(mode)


@uncut
def tracing_state_kept() -> Iterator[None]:
    """Restore the tracing state when Ctrl-C, or another error, ends the block."""
    before = TracingState()
    try:
        yield
    except BaseException:
        before.restore()
        raise


def stoppable(method: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """Decorator: Ctrl-C leaves the method as a ``KeyboardInterrupt`` without the frames inside, and torch as it was.

    IPython would take many seconds to print the hundred frames of a compile.
    """

    @functools.wraps(method)
    def run(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
        before = TracingState()
        try:
            with never_lost(), never_swallowed():
                return method(*args, **kwargs)
        except KeyboardInterrupt as error:
            before.restore_after(error)
        raise KeyboardInterrupt

    return run
