"""Remove what our own compiles leave on the user's code objects and in the user's modules.

Dynamo keeps a compiled frame in a list on the code object that it was compiled from, and puts names that the compiled
code needs (``__compiled_fn_3_…``, ``__resume_at_8_2``) into the module's globals. When a capture is over none of
it will run again: the entries are invalidated, which frees code, graphs and guards, and the names are deleted. A
code object that the user never compiled is then exactly as before; on one that they did compile an empty entry stays.

Our entries are recognised by the compile id object that they hold. The region does not say it: torch keeps the
current region in one variable for the whole process, so that of two threads that compile at once either may put its
entry into the other's region.

Beside each object that a guard compares by identity (every submodule and parameter of a model) Dynamo registers a
``weakref.finalize``, which keeps the guards' builder for as long as the user's model lives. Those of our entries are
detached: there is nothing left that they could invalidate. Three more things are freed that torch itself keeps: the
sources of graphs (kept for tracebacks), a traceback of each compile (for an error message), and the fake tensors of
parameters that have a gradient (a reference cycle through C++, which Python's collector does not see).

Names such as ``__import_torch_dot_nn`` are shared between all compiles of a module and stay: they only name modules.
"""

from __future__ import annotations

import linecache
import logging
import weakref
from collections.abc import Callable, Collection, Iterator
from functools import partial
from types import CodeType
from typing import Any

from torch._C._dynamo.eval_frame import reset_code
from torch._dynamo import convert_frame, eval_frame
from torch._dynamo import utils as dynamo_utils
from torch._dynamo.guards import CheckFunctionManager, DeletedGuardManagerWrapper
from torch._dynamo.utils import CleanupManager, get_metrics_context
from torch.fx.graph_module import _loader

from inductor_debug_jupyter.pipeline.interrupts import uncut
from inductor_debug_jupyter.pipeline.torch_compat.guard_timing import untimed_guards
from inductor_debug_jupyter.pipeline.torch_compat.patches import patched

log = logging.getLogger("inductor_debug_jupyter")

_OWN_NAMES = ("__compiled_fn_", "__resume_at_", "__builtins_dict__")
_USERS_REGION = -1
_CLEANUP = "clear_compile_context_weakrefs"


class CompileCleanup:
    """Records what compiles leave behind, and removes it."""

    def __init__(self) -> None:
        self._compiled: dict[int, tuple[CodeType, list[Any]]] = {}
        """The user's code object, by identity → it, and the ids of our compiles of it."""
        self._names: list[tuple[dict[str, Any], str]] = []
        self._sources: set[str] = set()
        """File names under which torch keeps the sources of graphs."""

    @uncut
    def recording(self, frame: Any) -> Iterator[None]:
        """Record what the compile of ``frame`` inside the block leaves behind."""
        names = frame.f_globals
        before, sources = set(names), set(_loader.eval_cache)
        try:
            with _no_metrics_kept(), _no_fakes_kept(), untimed_guards():
                yield
        finally:
            self._sources |= _loader.eval_cache.keys() - sources
            self._names += [(names, name) for name in names if name.startswith(_OWN_NAMES) and name not in before]

    def add(self, code: CodeType, compiled: Any) -> None:
        """Record what Dynamo is going to keep on ``code``: its ``GuardedCode``, or None where it gave up."""
        _, ids = self._compiled.setdefault(id(code), (code, []))
        if compiled is not None:
            ids.append(compiled.compile_id)

    def clean(self) -> None:
        """Remove everything; an entry that cannot be removed is logged, since the user's run must go on."""
        invalidated: list[Any] = []
        for code, compile_ids in self._compiled.values():
            try:
                invalidated += _invalidate(code, compile_ids)
            except Exception:
                log.debug("cache entries of %s stay", code.co_name, exc_info=True)
        try:
            _detach_finalizers(invalidated)
        except Exception:
            log.debug("finalizers of %d guard managers stay", len(invalidated), exc_info=True)
        _call_hooks_of(self._names)
        for names, name in self._names:
            names.pop(name, None)
        for source in self._sources:
            _loader.eval_cache.pop(source, None)
            linecache.cache.pop(source, None)
        self._compiled.clear()
        self._names.clear()
        self._sources.clear()


@uncut
def _no_metrics_kept() -> Iterator[None]:
    """Remove the metrics of a compile from torch's list of the last 64 (20 kB each), and the tracebacks beside them.

    torch keeps a traceback whenever a compile sets a metric, and never frees it.
    """
    context = get_metrics_context()
    tracebacks: list[Any] = getattr(context, "_edits", [])
    metrics: Any = getattr(dynamo_utils, "_compilation_metrics", None)
    before, kept = len(tracebacks), list(metrics or ())
    try:
        yield
    finally:
        if not context.in_progress():
            del tracebacks[before:]
            if metrics is not None:
                metrics.clear()
                metrics.extend(kept)


@uncut
def _no_fakes_kept() -> Iterator[None]:
    """When torch cleans up after a compile, empty the list of the fake tensors that the graph was traced with."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        def cleanup(output: Any, *args: Any, **kwargs: Any) -> None:
            original(output, *args, **kwargs)
            graph = getattr(output, "output_graph_for_cleanup", None)
            shapes = getattr(getattr(graph, "_old_fake_mode", None), "shape_env", None)
            if shapes is not None:
                shapes.tracked_fakes = None

        return cleanup

    if not hasattr(convert_frame, _CLEANUP):
        yield
        return
    with patched(convert_frame, _CLEANUP, wrap, "cleanup"):
        yield


def _invalidate(code: CodeType, compile_ids: Collection[Any]) -> list[Any]:
    """Invalidate the entries of these compiles; returns the guard managers that they had."""
    ours = {id(each) for each in compile_ids}
    managers = []
    for entry in eval_frame._debug_get_cache_entry_list(code):
        if id(entry.compile_id) not in ours or entry.code is None:
            continue
        manager = entry.guard_manager
        managers.append(manager)
        _forget_names(entry.code)
        if (state := getattr(manager, "extra_state", None)) is not None:
            state.invalidate(entry, DeletedGuardManagerWrapper("the capture that compiled this is over"))
    left: list[Any] = eval_frame._debug_get_cache_entry_list(code)
    if not any(entry.code is not None or _may_be_the_users(entry, ours) for entry in left):
        reset_code(code)
    return managers


def _may_be_the_users(entry: Any, ours: Collection[int]) -> bool:
    return entry.isolate_recompiles_id == _USERS_REGION and id(entry.compile_id) not in ours


def _detach_finalizers(managers: Collection[Any]) -> None:
    """Detach the finalizers that would invalidate the entries of these guard managers.

    Python lists its finalizers only in ``finalize._registry``; without it they stay, which only costs memory.
    """
    ours = {id(manager) for manager in managers}
    for finalizer in list(getattr(weakref.finalize, "_registry", ())) if ours else ():
        _, function, _, _ = finalizer.peek() or (None, None, None, None)
        builder = getattr(function.func, "__self__", None) if isinstance(function, partial) else None
        # Ctrl-C may have struck while torch built it: then it has no guard manager.
        if isinstance(builder, CheckFunctionManager) and id(getattr(builder, "guard_manager", None)) in ours:
            finalizer.detach()


def _call_hooks_of(names: Collection[tuple[dict[str, Any], str]]) -> None:
    """Let torch delete these names itself where it still means to: a compile that Ctrl-C ended left no entry."""
    ours = {(id(scope), name) for scope, name in names}
    for hooks in list(CleanupManager.instance.values.values()) if ours else ():
        for hook in [hook for hook in hooks if (id(hook.scope), hook.name) in ours and hook.name in hook.scope]:
            hook()
            hooks.remove(hook)


def _forget_names(code: CodeType) -> None:
    """Delete the compiled code's names now, rather than when Python happens to free it."""
    for hook in CleanupManager.instance.get(code, ()):
        if hook.name in hook.scope:
            hook()
    if code in CleanupManager.instance:
        CleanupManager.instance[code] = []
