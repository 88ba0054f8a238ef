"""Compile up to AOTAutograd's graphs, and let Inductor do its part later.

AOTAutograd hands its finished graphs to the compiler in two private functions, one for the forward (or inference) and
one for the backward. Inside :func:`suspend` both only note what they were called with and answer with a stand-in, which
nobody runs; so everything above (decompositions, joint passes, partition) is as in a whole compile. Later
:meth:`SuspendedLowering.finish` calls them with what was noted, inside the contexts that ``compile_fx`` and AOTAutograd
had around them, and under the settings of that time. The backward is given the strides that the forward was lowered to.

What is noted are graphs and fake tensors: no parameter and no input is kept alive.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
import torch._dynamo.config as dynamo_config
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
from torch._decomp.decompositions_for_rng import PhiloxStateTracker
from torch._dispatch.python import enable_python_dispatcher
from torch._dynamo import compiled_autograd
from torch._dynamo.utils import preserve_rng_state
from torch._guards import CompileContext, TracingContext, compile_context, tracing
from torch.fx._lazy_graph_module import _use_lazy_graph_module
from torch.fx.experimental.symbolic_shapes import has_free_symbols
from torch.fx.traceback import preserve_node_meta
from torch.utils._pytree import tree_leaves

from inductor_debug_jupyter.pipeline.interrupts import uncut
from inductor_debug_jupyter.pipeline.torch_compat import patches
from inductor_debug_jupyter.pipeline.torch_compat.graphs import copy_graph_module
from inductor_debug_jupyter.pipeline.torch_compat.hooks import code_generation_only
from inductor_debug_jupyter.pipeline.torch_compat.patches import HookSite
from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed

_CONFIGS: tuple[Any, ...] = (inductor_config, functorch_config, dynamo_config)
_AOT = "torch._functorch._aot_autograd.graph_compile"
_PART = "post_grad"
_now = threading.local()

Strides = Any
"""The strides of the forward's outputs, as AOTAutograd passes them on to the backward."""


class SuspendedLowering:
    """Inductor's part of one compile: its forward and, where there is one, its backward."""

    def __init__(self) -> None:
        self._graph: torch.fx.GraphModule | None = None
        self._forward: Callable[[torch.fx.GraphModule], tuple[Strides, Any]]
        self._backward: Callable[[Strides], Any] = lambda _: None
        self._fake_mode: Any = None
        self._fake_flags: dict[str, bool] = {}
        self._compile: CompileContext | None = None
        self._tracing: TracingContext | None = None
        self._settings = [config.get_config_copy() for config in _CONFIGS]
        self._dtype = torch.get_default_dtype()

    @property
    def is_held(self) -> bool:
        """Whether there is something to be done later."""
        return self._graph is not None

    def finish(self) -> None:
        """Let Inductor lower what was suspended; listeners of the hooks see it.

        It changes the forward's graph: after a Ctrl-C this can be called again, since a copy was made.

        Raises:
            Exception: whatever Inductor raises.
        """
        if self._graph is None:
            return
        if self._fake_mode is not None:  # Ctrl-C may have left torch's mode in the middle of an op
            vars(self._fake_mode).update(self._fake_flags)
        graph, self._graph = self._graph, copy.deepcopy(self._graph)
        with self._as_then():
            strides, _ = self._forward(graph)
            self._backward(strides)
        self._graph = None

    def hold(self, graph: torch.fx.GraphModule, forward: Callable[[torch.fx.GraphModule], tuple[Strides, Any]]) -> None:
        """Note the compile that runs now. Parameters, which its context holds, are left out."""
        from torch._inductor.virtualized import V

        self._graph, self._forward = graph, forward
        self._fake_mode, self._compile = V.fake_mode, CompileContext.try_get()
        self._fake_flags = {name: flag for name, flag in vars(self._fake_mode or self).items() if type(flag) is bool}
        if (context := TracingContext.try_get()) is not None:
            self._tracing = copy.copy(context)
            self._tracing.params_flat = self._tracing.params_flat_unwrap_subclasses = None
            self._tracing.module_context = type(context.module_context)()

    def hold_backward(self, backward: Callable[[Strides], Any]) -> None:
        """Note the backward; it is lowered after the forward, whose strides it is given."""
        self._backward = backward

    @uncut
    def _as_then(self) -> Iterator[None]:
        """The contexts and settings in which the compile ran."""
        from torch._inductor import debug
        from torch._inductor.virtualized import V

        dtype = torch.get_default_dtype()
        with ExitStack() as stack:
            for config, then in zip(_CONFIGS, self._settings, strict=True):
                stack.enter_context(config.patch(_differing(then, config.get_config_copy())))
            stack.callback(torch.set_default_dtype, dtype)
            torch.set_default_dtype(self._dtype)
            for context in (
                caches_bypassed(),
                code_generation_only(),
                functorch_config.patch(unlift_effect_tokens=True, force_non_lazy_backward_lowering=True),
                _use_lazy_graph_module(dynamo_config.use_lazy_graph_module),
                enable_python_dispatcher(),
                preserve_node_meta(_provenance_level() == 1),
                debug.reset_provenance_globals(),
                V.set_fake_mode(self._fake_mode),
                compile_context(self._compile),
                tracing(self._tracing),
                compiled_autograd._disable(),
                torch.autograd.set_multithreading_enabled(False),
                preserve_rng_state(),
                self._fake_mode,
                PhiloxStateTracker(),
            ):
                stack.enter_context(context)
            yield


def suspend(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> SuspendedLowering | None:
    """Trace, decompose and partition a copy as Inductor does; the rest is in the answer.

    None when Inductor has done its part at once, because it cannot wait: with open sizes it adds guards to the compile
    that runs now, and with ``freezing`` it needs the parameters.

    Raises:
        HookError: this torch has no such seam.
    """
    from torch._inductor.compile_fx import compile_fx

    suspended = SuspendedLowering()
    with (
        caches_bypassed(),
        code_generation_only(),
        functorch_config.patch(force_non_lazy_backward_lowering=True),
        SITES[0].installed(_now, "suspended", suspended),
        SITES[1].installed(_now, "suspended", suspended),
    ):
        compile_fx(copy_graph_module(graph_module), list(example_inputs))
    return suspended if suspended.is_held else None


def _can_wait(graph: torch.fx.GraphModule) -> bool:
    """Whether Inductor's part of that graph can be done later."""
    kinds = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)
    values = (
        leaf for node in graph.graph.nodes for leaf in tree_leaves(node.meta.get("val")) if isinstance(leaf, kinds)
    )
    return not inductor_config.freezing and not any(map(has_free_symbols, values))


def _differing(then: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of then that are others now."""
    return {name: value for name, value in then.items() if now.get(name) is not value and now.get(name) != value}


def _provenance_level() -> int:
    """How closely Inductor follows where its code comes from; torch 2.15 has a function for it."""
    level: Any = getattr(inductor_config, "effective_provenance_tracking_level", None)
    return int(level() if level is not None else inductor_config.trace.provenance_tracking_level)


def _stand_in(*_: Any) -> Any:
    raise AssertionError("this graph was only traced; it is never run")


@patches.around
def _wrap_forward(original: Callable[..., Any], graph: torch.fx.GraphModule, *args: Any, **kwargs: Any) -> Any:
    suspended: SuspendedLowering | None = getattr(_now, "suspended", None)
    if suspended is None or not _can_wait(graph):
        return original(graph, *args, **kwargs)
    suspended.hold(graph, lambda graph: original(graph, *args, **kwargs))
    return None, _stand_in


@patches.around
def _wrap_backward(
    original: Callable[..., Any], graph: Any, subclasses: Any, metadata: Any, strides: Any, *args: Any, **kwargs: Any
) -> Any:
    suspended: SuspendedLowering | None = getattr(_now, "suspended", None)
    if suspended is None or not suspended.is_held:
        return original(graph, subclasses, metadata, strides, *args, **kwargs)
    suspended.hold_backward(lambda strides: original(graph, subclasses, metadata, strides, *args, **kwargs))
    return None, _stand_in


SITES = (
    HookSite(_PART, _AOT, "_aot_stage2b_compile_forward_or_inference", _wrap_forward),
    HookSite(_PART, _AOT, "_aot_stage2b_bw_compile", _wrap_backward),
)
"""Where AOTAutograd hands the forward, and the backward, to the compiler."""
