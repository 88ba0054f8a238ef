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
from typing import Any

import torch
from torch._C._dynamo.eval_frame import set_eval_frame
from torch._dynamo import eval_frame, trace_rules
from torch._subclasses.fake_tensor import FakeTensor
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.fx.graph import _PyTreeCodeGen
from torch.nn.parameter import is_lazy

from inductor_debug_jupyter.pipeline.torch_compat.graphs import node_value
from inductor_debug_jupyter.pipeline.torch_compat.patches import HookSite
from inductor_debug_jupyter.pipeline.torch_compat.state import dynamo_errors_fall_back, is_compiling, torch_logs_muted
from inductor_debug_jupyter.pipeline.torch_compat.trees import of_kind

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


_TORCH = os.path.dirname(torch.__file__)  # noqa: PTH120 - compared with file names of code objects
_BETWEEN = (os.path.join(_TORCH, "_dynamo", ""), os.path.join(_TORCH, "nn", "modules", "module.py"))  # noqa: PTH118
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
    """

    def __init__(self, compiled: Callable[..., Any], call: Callable[..., Any]) -> None:
        self.compiled = compiled
        self._call = call

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
