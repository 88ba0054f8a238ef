"""Let a plain module's call be traced by Dynamo, and run as the user wrote it.

What Dynamo makes of a call is not quite the call: ``torch.compiler.is_compiling()`` is true in it, torch's own fast
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
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx._lazy_graph_module import _LazyGraphModule
from torch.nn.parameter import is_lazy

from inductor_debug_jupyter.pipeline.torch_compat.graphs import node_value
from inductor_debug_jupyter.pipeline.torch_compat.state import dynamo_errors_fall_back, torch_logs_muted
from inductor_debug_jupyter.pipeline.torch_compat.trees import of_kind

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
