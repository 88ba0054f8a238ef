"""Watch the calls of plain modules: ``model(x)`` in a cell that compiles nothing.

``nn.Module.__call__`` is wrapped while a :class:`ModuleCallWatch` is installed. Its handler is given the outermost
calls on its own threads, and the inner calls that Dynamo cannot see because it gave up on the frame around them;
everything else (compiled modules, graph modules, calls in the middle of a compile) goes straight through. Dynamo traces
the plain call in place of the wrapper, so it adds no guards on the wrapper and nothing recompiles when the wrapper is
gone.

:class:`PlainCall` lets such a call be traced by Dynamo, and runs it as the user wrote it. What Dynamo makes of
a call is not quite the call: ``torch.compiler.is_compiling()`` is true in it, torch's own fast
paths are not taken, and parameters of lazy modules are drawn while the generators are turned back. So where a call is
one graph it is only traced: what stands in for the graph ends the compiled call before anything of it has run, and the
module is then called plainly. Behind a graph break Dynamo must run what it made, or it would not see the rest; so it
must where hooks, or a ``__call__`` of the user's own, have run before the graph.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from types import FrameType, FunctionType
from typing import Any

import torch
from torch._C._dynamo.eval_frame import set_eval_frame
from torch._dynamo import eval_frame, trace_rules
from torch._guards import active_fake_mode
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.graph import _PyTreeCodeGen
from torch.nn.parameter import is_lazy

from inductor_debug_jupyter.pipeline.torch_compat import open_sizes
from inductor_debug_jupyter.pipeline.torch_compat.classes_with_own_call import given_later, wrap_own_calls
from inductor_debug_jupyter.pipeline.torch_compat.graphs import node_value
from inductor_debug_jupyter.pipeline.torch_compat.patches import HookSite
from inductor_debug_jupyter.pipeline.torch_compat.stack_levels import not_counted
from inductor_debug_jupyter.pipeline.torch_compat.state import (
    current_compile_id,
    dynamo_errors_fall_back,
    is_compiling,
    torch_logs_muted,
)
from inductor_debug_jupyter.pipeline.torch_compat.trees import of_kind

_PART = "plain modules"

CallHandler = Callable[[torch.nn.Module, Callable[..., Any], tuple[Any, ...], dict[str, Any]], Any]
"""``(module, plain call, args, kwargs) → what the call returns``."""


class ModuleCallWatch:
    """Hands outermost module calls to ``handler`` until :meth:`remove`, on the threads where ``here()`` is true.

    ``missed`` is called with a module, and the reason, when a call of the user's is not handed over; on other threads
    too, since only the owner knows whether they matter. ``unwatched`` is called at the end with the name of each class
    whose calls could not be watched.
    """

    def __init__(
        self,
        handler: CallHandler,
        here: Callable[[], bool],
        missed: Callable[[torch.nn.Module, str], None] = lambda _, __: None,
        unwatched: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.handler = handler
        self.here = here
        self.missed = missed
        self._unwatched = unwatched
        self._undo = ExitStack()

    def install(self) -> None:
        """Start watching.

        Raises:
            HookError: this torch has no such seam.
        """
        with ExitStack() as undo:
            for site in SITES:
                undo.callback(site.install())
            undo.callback(wrap_own_calls(_wrap_call, _wrap_unclear_call, _PART))
            self._undo = undo.pop_all()
        with _lock:
            _watches.append(self)

    def remove(self) -> None:
        """Unwrap the calls of modules, and forget this watch."""
        with _lock:
            if self not in _watches:
                return
            _watches.remove(self)
        for name in given_later():
            self._unwatched(name)
        self._undo.close()


_TORCH = os.path.dirname(torch.__file__)  # noqa: PTH120 - compared with file names of code objects
_COMPILER = tuple(
    os.path.join(_TORCH, *room, "")  # noqa: PTH118
    for room in (["_dynamo"], ["_functorch"], ["_inductor"], ["export"], ["_export"], ["fx", "experimental"])
)
_lock = threading.RLock()
_watches: list[ModuleCallWatch] = []
_inside = threading.local()
_SCRIPTED = "it is TorchScript"
_DISABLED = "torch.compiler.disable switches the compiler off for it"


def _is_plain(module: torch.nn.Module) -> bool:
    """Whether this is a module that the user calls eagerly, as opposed to one that is compiled or a compiler's graph.

    A graph module whose code generator keeps Python signatures comes from ``torch.export``: the user calls it. So is
    any other that is called where no frame of the compiler is on the stack.
    """
    if isinstance(module, torch.fx.GraphModule):
        return isinstance(module.graph._codegen, _PyTreeCodeGen) or not _in_compiler()
    return not isinstance(module, eval_frame.OptimizedModule) and getattr(module, "_compiled_call_impl", None) is None


def _is_disabled(module: torch.nn.Module) -> bool:
    """Whether this is what ``torch.compiler.disable(module)`` made: it holds the module's call as it was then."""
    return isinstance(module, eval_frame.OptimizedModule) and isinstance(module.dynamo_ctx, eval_frame.DisableContext)


def _in_compiler() -> bool:
    """Whether a frame of the compiler, or of what it made, is on the stack."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith(_COMPILER):
        frame = frame.f_back
    return frame is not None


def _watch_for(
    module: torch.nn.Module, values: Iterable[Any], in_compiled_region: bool
) -> tuple[ModuleCallWatch | None, str]:
    """The watch that handles this call, or None; and why it may only note the call.

    An inner call is handed over when Dynamo gave up on the frame around it and the module has no frame of its own that
    Dynamo would trace: it traces the ``forward`` of a user's module, but none of ``nn.Linear``'s.
    """
    watched = getattr(_inside, "modules", ())
    watch = next((each for each in reversed(_watches) if each.here()), None)
    if in_compiled_region:
        is_inner = watched and all(each is not module for each in watched)
        return _watch_in_region(module, watch) if is_inner else (None, "")
    if watched or not _watches or current_compile_id() is not None:
        return None, ""
    is_disabled = _is_disabled(module)
    if not is_disabled and not _is_plain(module):
        return None, ""
    if watch is None:
        return _watches[-1], "it runs on another thread"
    return (watch, _DISABLED) if is_disabled else _watch_outside(module, values, watch)


def _watch_outside(
    module: torch.nn.Module, values: Iterable[Any], watch: ModuleCallWatch
) -> tuple[ModuleCallWatch | None, str]:
    """The watch of a call outside of what is compiled, as :func:`_watch_for`."""
    if active_fake_mode() is not None or any(isinstance(value, FakeTensor) for value in values):
        return (None, "") if _in_compiler() else (watch, "its tensors are fake")
    return watch, _SCRIPTED if isinstance(module, torch.jit.ScriptModule) else ""


def _watch_in_region(module: torch.nn.Module, watch: ModuleCallWatch | None) -> tuple[ModuleCallWatch | None, str]:
    """The watch of an inner call, where Dynamo's callback is set, as :func:`_watch_for`."""
    if _is_disabled(module):
        return watch, _DISABLED
    if is_compiling() or not _is_plain(module):
        return None, ""
    if isinstance(module, torch.jit.ScriptModule):  # its forward is no function that Dynamo's rules could look at
        return watch, _SCRIPTED
    return (watch, "") if trace_rules.check(module.forward) else (None, "")


def _wrap_call(original: Callable[..., Any]) -> Callable[..., Any]:
    @not_counted
    def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it stands in for that name
        callback = set_eval_frame(None)  # Dynamo must not trace our own lines
        try:
            watch, reason = _watch_for(self, (*args, *kwargs.values()), callback is not None)
            if watch is not None:
                getattr(_inside, "waiting", set()).discard(id(self))
                before: tuple[torch.nn.Module, ...] = getattr(_inside, "modules", ())
                _inside.modules = (*before, self)
                try:
                    if not reason:
                        return watch.handler(self, original, args, kwargs)
                    watch.missed(self, reason)
                    return original(self, *args, **kwargs)
                finally:
                    _inside.modules = before
        finally:
            set_eval_frame(callback)
        return original(self, *args, **kwargs)

    eval_frame.skip_code(__call__.__code__)
    __call__._torchdynamo_inline = original  # type: ignore[attr-defined]  # what Dynamo traces in its place
    return __call__


def _wrap_unclear_call(original: Any) -> Callable[..., Any]:
    """Around a ``__call__`` of the user's that may end in ``nn.Module``'s: whether it did is seen when it has run."""

    @not_counted
    def __call__(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:  # noqa: N807 - it stands in for that name
        callback = set_eval_frame(None)
        try:
            watch = _watch_for(self, (), False)[0] if callback is None else None
            waiting: set[int] = getattr(_inside, "waiting", set())
            if watch is not None:
                _inside.waiting = {*waiting, id(self)}
        finally:
            set_eval_frame(callback)
        try:
            result = original.__get__(self, type(self))(*args, **kwargs)
            if watch is not None and id(self) in _inside.waiting:
                watch.missed(self, "its own __call__ does without nn.Module's")
            return result
        finally:
            _inside.waiting = waiting

    eval_frame.skip_code(__call__.__code__)
    if isinstance(original, FunctionType):
        __call__._torchdynamo_inline = original  # type: ignore[attr-defined]
    return __call__


def hooks_of(module: torch.nn.Module) -> tuple[Any, ...]:
    """The code of the hooks that run in a call of this module. Dynamo sets no guards on them."""
    tables = [vars(each).get(name) for each in module.modules() for name in _HOOKS]
    tables += [getattr(torch.nn.modules.module, f"_global{name}", None) for name in _HOOKS]
    return tuple(
        (place, getattr(hook, "__code__", type(hook)))
        for place, table in enumerate(tables)
        for hook in (table or {}).values()
    )


_HOOKS = ("_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks")

SITES = (
    HookSite(_PART, "torch.nn", "Module.__call__", _wrap_call),
    HookSite(
        _PART, "torch._dynamo.variables.nn_module", "unpatched_nn_module_call", lambda _: torch.nn.Module.__call__
    ),
)
"""The call itself, and what Dynamo takes for the unwrapped one."""


_BETWEEN = (
    os.path.join(_TORCH, "_dynamo", ""),  # noqa: PTH118
    os.path.join(_TORCH, "nn", "modules", "module.py"),  # noqa: PTH118
    open_sizes.__file__,
)
"""The files whose frames may be between a call and its graph."""
_now = threading.local()


class _OnlyTracedError(BaseException):
    """Ends a compiled call of which nothing has run; not an Exception, which the user's own code may catch.

    ``note`` is to be called with what the plain call returns.
    """

    def __init__(self, note: Callable[[Any], None]) -> None:
        super().__init__()
        self.note = note


class PlainCall:
    """A module's call, and what Dynamo made of it.

    Args:
        compiled: the call, compiled with a backend that answers with :class:`GraphRun`; the module comes first.
        call: the same, not compiled.
        hooks: the module's hooks; with others the call must be compiled anew.
    """

    def __init__(self, compiled: Callable[..., Any], call: Callable[..., Any], hooks: tuple[Any, ...]) -> None:
        self.compiled = compiled
        self.hooks = hooks
        self._call = call

    @not_counted
    def run(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Show the call to Dynamo, and run it once; what it returns."""
        if any(map(is_lazy, (*module.parameters(), *module.buffers()))):  # it gets them only when it is called
            result = self._call(module, *args, **kwargs)
            if not _has_hooks_before(module):
                self._through_dynamo(module, args, kwargs, only_traced=True)
            return result
        note, result = self._through_dynamo(module, args, kwargs)
        if note is not None:
            result = self._call(module, *args, **kwargs)
            note(result)
        return result

    @not_counted
    def _through_dynamo(
        self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, only_traced: bool = False
    ) -> tuple[Callable[[Any], None] | None, Any]:
        """What the compiled call returned; where it was only traced, what to call with the plain call's result."""
        before = getattr(_now, "call", None)
        _now.call = (module, only_traced)
        state = random.getstate()
        try:
            with dynamo_errors_fall_back(), torch_logs_muted():
                return None, self.compiled(module, *args, **kwargs)
        except _OnlyTracedError as end:
            random.setstate(state)  # Dynamo draws the numbers that a graph is given before it runs the graph
            return end.note, None
        finally:
            _now.call = before


class GraphRun:
    """What a compiled :class:`PlainCall` runs in place of one of its graphs.

    Args:
        graph_module: the graph.
        note_results: called once, with what the graph gives; where the module was called plainly, with the tensors that
            it returned, if they are as many and of the same kinds.
    """

    def __init__(
        self, graph_module: torch.fx.GraphModule, note_results: Callable[[Sequence[Any]], None] | None = None
    ) -> None:
        _LazyGraphModule.force_recompile(graph_module)  # else the first run would call the module, with its hooks
        self._run: Callable[..., Any] = graph_module.forward
        reason = getattr(graph_module, "compile_subgraph_reason", None)
        self._is_whole_call = reason is not None and not reason.graph_break
        results = [node_value(node) for node in graph_module.graph.output_node().all_input_nodes]
        self._kinds = [(each.ndim, each.dtype) if isinstance(each, torch.Tensor) else None for each in results]
        self._note_results = note_results

    def __call__(self, *args: Any) -> Any:
        """Run the graph, or end the call where nothing of it has run."""
        module, only_traced = getattr(_now, "call", None) or (None, False)
        if only_traced or (self._is_whole_call and module is not None and _nothing_has_run(module)):
            raise _OnlyTracedError(self._note_returned)
        results = self._run(*args)
        self._note(results)
        return results

    def _note_returned(self, result: Any) -> None:
        tensors = of_kind(torch.Tensor, result)
        if [(tensor.ndim, tensor.dtype) for tensor in tensors] == self._kinds:
            self._note(tensors)

    def _note(self, results: Sequence[Any]) -> None:
        note, self._note_results = self._note_results, None
        if note is not None:
            note(results)


def _nothing_has_run(module: torch.nn.Module) -> bool:
    """Whether no code of the user's can have run between the module's call and the graph that is to run now."""
    if _has_hooks_before(module):
        return False
    others = 0  # one is the frame that Dynamo compiled
    frame = sys._getframe(2)
    while frame.f_code is not PlainCall._through_dynamo.__code__ and frame.f_back is not None:
        others += not frame.f_code.co_filename.startswith(_BETWEEN)
        frame = frame.f_back
    return others <= 1


def _has_hooks_before(module: torch.nn.Module) -> bool:
    return bool(module._forward_pre_hooks or torch.nn.modules.module._global_forward_pre_hooks)
