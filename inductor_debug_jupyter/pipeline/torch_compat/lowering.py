"""Lower a Dynamo graph with AOTAutograd and Inductor, to read what comes out or to run it.

``lower_with_…`` only produce the graphs and the code, for the listeners of the hooks: the generated C++ is not
compiled, which is most of the time. ``compile_with_…`` give a function to run. The backward is lowered at once instead
of on the first ``backward()``.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
import torch._functorch.config as functorch_config
from torch._dynamo.backends.common import AotAutograd, aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition

from inductor_debug_jupyter.pipeline.torch_compat import patches
from inductor_debug_jupyter.pipeline.torch_compat.graphs import copy_graph_module
from inductor_debug_jupyter.pipeline.torch_compat.hooks import code_generation_only
from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed


def lower_with_inductor(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> None:
    """Lower a copy with Inductor, code generation included; listeners of the hooks see every stage."""
    from torch._inductor.compile_fx import compile_fx

    with caches_bypassed(), functorch_config.patch(force_non_lazy_backward_lowering=True), code_generation_only():
        compile_fx(copy_graph_module(graph_module), list(example_inputs))


def lower_with_aot(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> None:
    """Trace and partition a copy with AOTAutograd; listeners of the hooks see forward and backward."""
    with caches_bypassed():
        aot_backend(lambda graph, _: graph.forward)(copy_graph_module(graph_module), list(example_inputs))


def compile_with_inductor(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Compile with Inductor to be run, forward and backward at once; caches are neither read nor written."""
    from torch._inductor.compile_fx import compile_fx

    with caches_bypassed(), functorch_config.patch(force_non_lazy_backward_lowering=True):
        return cast("Callable[..., Any]", compile_fx(graph_module, list(example_inputs)))


def compile_to_compare(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """Compile with Inductor, drawing eager mode's random numbers as :func:`regions.undisturbed` does."""
    from torch._inductor import config as inductor_config

    with inductor_config.patch(fallback_random=True):
        return compile_with_inductor(graph_module, example_inputs)


def backward_backend(backend: Callable[..., Any]) -> Callable[..., Any] | None:
    """The backend that compiles any graph as ``backend`` compiles backward graphs; None where it does not use AOT.

    ``aot_autograd(bw_compiler=…)`` says so itself. A function that calls it hides it: such a one is given a graph of
    two ops, and AOTAutograd is asked what it compiles the backward with.
    """
    settings = backend.kwargs if isinstance(backend, AotAutograd) else _hidden_settings(backend)
    if (compiler := settings.get("bw_compiler")) is None:
        return None
    return AotAutograd(**settings | {"fw_compiler": compiler, "inference_compiler": compiler})


_now = threading.local()


@patches.around
def _note_settings(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    noted: dict[str, Any] | None = getattr(_now, "settings", None)
    if noted is not None:
        given = inspect.signature(original).bind(*args, **kwargs).arguments
        noted |= {
            "bw_compiler": given["bw_compiler"],
            "decompositions": given["aot_config"].decompositions,
        }
    return original(*args, **kwargs)


BACKWARD_SITE = patches.HookSite(
    "backward compilers", "torch._functorch._aot_autograd.graph_compile", "_aot_stage2b_bw_compile", _note_settings
)
"""Where AOTAutograd compiles a backward, with everything that it was configured with."""


def _hidden_settings(backend: Callable[..., Any]) -> dict[str, Any]:
    """What a function gives to AOTAutograd; nothing where it does not use it or does not compile this graph."""
    graph = torch.fx.symbolic_trace(lambda x: (torch.sin(x) * 2,))
    noted: dict[str, Any] = {}
    with caches_bypassed(), functorch_config.patch(force_non_lazy_backward_lowering=True), torch.enable_grad():
        try:
            with BACKWARD_SITE.installed(_now, "settings", noted):
                backend(graph, [torch.ones(3, requires_grad=True)])
        except Exception:
            return {}
    return noted


StageCompiler = Callable[[torch.fx.GraphModule, str], Callable[..., Any]]
"""An AOT graph and its stage (``forward`` or ``backward``) → a function of the graph's inputs."""


def aot_backend(compiler: StageCompiler, decompositions: Any = None) -> Callable[..., Any]:
    """A backend that traces and partitions with AOTAutograd and runs what ``compiler`` makes of each graph."""
    backend: Callable[..., Any] = aot_autograd(
        fw_compiler=lambda graph, _: compiler(graph, "forward"),
        bw_compiler=lambda graph, _: compiler(graph, "backward"),
        inference_compiler=lambda graph, _: compiler(graph, "forward"),
        partition_fn=min_cut_rematerialization_partition,
        decompositions=decompositions or {},
    )
    return backend


def compile_with_aot(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    compiler: StageCompiler,
    *,
    decomposed: bool = False,
) -> Callable[..., Any]:
    """Trace with AOTAutograd, forward and backward at once, and run what ``compiler`` makes of each graph.

    The graphs are functional: what the user's code writes into its inputs is written by AOTAutograd, on the host. With
    ``decomposed`` they have the ops that Inductor decomposes to.
    """
    copy = copy_graph_module(graph_module)
    (made,) = copy.graph.output_node().args
    single = not isinstance(made, tuple | list)
    if single:  # a graph that was traced by hand; Dynamo's give tuples, and AOTAutograd takes nothing else
        copy.graph.output_node().args = ((made,),)
        copy.recompile()
    with caches_bypassed(), functorch_config.patch(force_non_lazy_backward_lowering=True):
        decompositions = inductor_decompositions() if decomposed else None
        backend = aot_backend(lambda graph, stage: make_boxed_func(compiler(graph, stage)), decompositions)
        run: Callable[..., Any] = backend(copy, list(example_inputs))
    return (lambda *args: run(*args)[0]) if single else run


def inductor_decompositions() -> Any:
    """Op → the function that Inductor decomposes it with, as configured now."""
    from torch._inductor.decomposition import select_decomp_table

    return select_decomp_table()


def compile_as_traced(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], *, decomposed: bool
) -> Callable[..., Any]:
    """A backend that runs eager kernels and lays every output out as AOTAutograd's trace says that it is laid out."""

    def laid_out(graph: torch.fx.GraphModule, _: str) -> Callable[..., Any]:
        (made,) = graph.graph.output_node().args
        traced = [node.meta.get("val") if isinstance(node, torch.fx.Node) else None for node in cast("Any", made)]
        return lambda *args: [_laid_out(*pair) for pair in zip(graph.forward(*args), traced, strict=True)]

    return compile_with_aot(graph_module, example_inputs, laid_out, decomposed=decomposed)


def _laid_out(value: Any, traced: Any) -> Any:
    """The value with the strides of the traced tensor, where these are plain numbers."""
    if not isinstance(value, torch.Tensor) or not isinstance(traced, torch.Tensor):
        return value
    strides = traced.stride()
    if value.stride() == strides or not all(isinstance(stride, int) for stride in strides):
        return value
    if value.shape != traced.shape or 0 in strides:
        return value
    return torch.empty_strided(value.shape, strides, dtype=value.dtype, device=value.device).copy_(value)
