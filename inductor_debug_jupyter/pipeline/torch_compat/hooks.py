"""Watch the compiler: one hook a stage, and every listener is given what the stage made.

A hook wraps one private function of torch, lets it work, and hands what it made to the listeners. What a listener
raises is handed to its :meth:`CompileListener.failed` and never reaches the user's compile. Hooks are installed while
there is at least one listener.

============  ==========================================================================================
part          what is wrapped
============  ==========================================================================================
dynamo        ``OutputGraph.call_user_compiler``: the graph that any backend is given
aot           ``_partition_joint_graph_into_fw_bw`` (training) and ``_aot_stage2b_inference_compile``
post_grad     ``compile_fx._recursive_post_grad_passes``: the graph after Inductor's own passes
ir            ``debug.log_ir_pre_fusion`` and ``log_ir_post_fusion``: Inductor's IR, rendered on demand
code          ``GraphLowering._compile_to_module_lines``: the wrapper code with its kernels
kernels       ``set_kernel_post_grad_provenance_tracing``: which nodes went into which kernel
guards        ``CheckFunctionManager.__init__``: what must hold for a compiled graph to be used again
recompiles    ``get_and_maybe_log_recompilation_reasons``: which check failed, with the values of the new call
caches        ``compile_fx._compile_fx_inner``: a fresh capture bypasses the caches, the lazy backward's too
trace         a handler on torch's structured trace log: graph breaks, recompile reasons, timings, cache hits
============  ==========================================================================================

:func:`sites` lists them all as data.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from types import SimpleNamespace
from typing import Any, Protocol

from inductor_debug_jupyter.pipeline.errors import HookError
from inductor_debug_jupyter.pipeline.interrupts import held_back, uncut
from inductor_debug_jupyter.pipeline.torch_compat import patches
from inductor_debug_jupyter.pipeline.torch_compat.guard_checks import LiveGuards
from inductor_debug_jupyter.pipeline.torch_compat.guard_failures import (
    FailedGuard,
    distinct_of,
    first_failure,
    scope_of,
)
from inductor_debug_jupyter.pipeline.torch_compat.guards import (
    GuardFacts,
    SymbolFacts,
    forget_own_wrapper,
    read_guards,
    read_symbols,
)
from inductor_debug_jupyter.pipeline.torch_compat.inductor_ir import IrSnapshot, fused_nodes
from inductor_debug_jupyter.pipeline.torch_compat.instruments import records_off
from inductor_debug_jupyter.pipeline.torch_compat.open_sizes import SizesSeen, open_places
from inductor_debug_jupyter.pipeline.torch_compat.patches import HookSite
from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed, current_compile_id

log = logging.getLogger("inductor_debug_jupyter")


class CompileListener(Protocol):
    """What the hooks call. ``compile_id`` is torch's own (``0/0``)."""

    fresh: bool
    """Whether what it follows must bypass torch's caches, so that every stage is seen."""

    def wants(self, compile_id: str) -> bool:
        """Whether this listener follows that compile, which runs on the calling thread."""

    def dynamo_graph(self, compile_id: str, graph_module: Any, code: Any) -> SizesSeen | None:
        """Dynamo hands a graph to a backend; ``code`` is the user's code object.

        Returns where the graph's open sizes are to be noted at each call, or None.
        """

    def rewritten(self, compile_id: str, graph_module: Any) -> None:
        """A backend of ours compiles this graph in the place of Dynamo's."""

    def compile_guards(self, compile_id: str, guards: list[GuardFacts]) -> None:
        """Dynamo has built the checks that stand before the compiled code."""

    def frame_compiled(self, compile_id: str, guards: LiveGuards, symbols: list[SymbolFacts]) -> None:
        """Dynamo has compiled a frame: its guards, to be evaluated later, and its symbolic sizes."""

    def recompiling(self, compile_id: str, failure: FailedGuard) -> None:
        """Dynamo compiles a frame again, because this check of the newest entry failed."""

    def aot_graphs(self, compile_id: str, joint: Any, forward: Any, backward: Any) -> None:
        """AOTAutograd has traced and partitioned; ``joint`` and ``backward`` are None for inference."""

    def post_grad_graph(self, compile_id: str, graph_module: Any, is_backward: bool) -> None:
        """Inductor has run its own graph passes."""

    def generated(self, compile_id: str, stage: str, made: Any, is_backward: bool) -> None:
        """Inductor has generated something.

        ``ir_pre_fusion`` and ``ir_post_fusion``: an :class:`IrSnapshot` of its scheduler nodes; ``kernel``: the name of
        a kernel and the post-grad nodes that one call of it computes; ``code``: the wrapper code with its kernels.
        """

    def not_from_dynamo(self) -> None:
        """Inductor compiles a graph that someone else than Dynamo handed to it."""

    def trace_record(self, metadata: dict[str, Any], payload: Any) -> None:
        """One record of torch's structured trace."""

    def failed(self, part: str, error: BaseException) -> None:
        """A hook could not be installed, or one of the methods above raised."""


_lock = threading.RLock()
_listeners: list[CompileListener] = []
_release: list[Callable[[], None]] = []
_generating = threading.local()
_alone = threading.local()


def _here() -> tuple[CompileListener, ...]:
    """The listeners that may follow what is compiled on this thread."""
    listener: CompileListener | None = getattr(_alone, "listener", None)
    return tuple(_listeners) if listener is None else (listener,)


def _notify(part: str, call: Callable[[CompileListener, str], None], compile_id: str | None = None) -> None:
    """Call every listener that follows a compile, by default the one that runs on this thread."""
    compile_id = current_compile_id() if compile_id is None else compile_id
    if compile_id is None:
        return
    for listener in _here():
        try:
            if listener.wants(compile_id):
                with records_off():
                    call(listener, compile_id)
        except Exception as error:
            listener.failed(part, error)


def notify_rewritten(graph_module: Any) -> None:
    """Called by a backend of ours that compiles ``graph_module`` in place of Dynamo's graph."""
    _notify("dynamo", lambda listener, compile_id: listener.rewritten(compile_id, graph_module))


def _caches() -> AbstractContextManager[None]:
    """Bypass the caches when a listener that follows this compile is ``fresh``.

    The config is changed only around the compile itself: torch keeps it in a context variable, and a notebook may end a
    cell in another context than it began (top-level ``await``).
    """
    compile_id = current_compile_id() or ""
    wanted = any(listener.fresh and listener.wants(compile_id) for listener in _here())
    return caches_bypassed() if wanted else nullcontext()


@patches.around
def _wrap_inner_compile(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if current_compile_id() is None:
        _notify("aot", lambda listener, _: listener.not_from_dynamo(), "")
    with _caches():
        return original(*args, **kwargs)


@patches.around
def _wrap_dynamo(original: Callable[..., Any], output_graph: Any, graph_module: Any, example_inputs: Any) -> Any:
    noted: list[tuple[SizesSeen, list[tuple[str, int, int | None]]]] = []

    def report(listener: CompileListener, compile_id: str) -> None:
        seen = listener.dynamo_graph(compile_id, graph_module, getattr(output_graph.root_tx, "f_code", None))
        if seen is not None and (places := open_places(graph_module)):
            noted.append((seen, places))

    _notify("dynamo", report)
    with _caches():
        compiled = original(output_graph, graph_module, example_inputs)
    for seen, places in noted:
        compiled = seen.noting(compiled, places)
    return compiled


@patches.around
def _wrap_guards(
    original: Callable[..., Any], manager: Any, f_code: Any, output_graph: Any, *args: Any, **kwargs: Any
) -> None:
    try:
        forget_own_wrapper(output_graph.guards)
    except Exception:
        log.debug("guards on our own wrapper stay", exc_info=True)
    with held_back():  # torch's C++ checks the new guards, and takes Ctrl-C in one of them for a guard that fails
        original(manager, f_code, output_graph, *args, **kwargs)
    _notify(
        "guards",
        lambda listener, compile_id: listener.compile_guards(compile_id, read_guards(f_code, output_graph, manager)),
    )
    _notify("guards", lambda listener, compile_id: _notify_frame(listener, compile_id, f_code, output_graph, manager))


def _notify_frame(listener: CompileListener, compile_id: str, code: Any, output_graph: Any, manager: Any) -> None:
    reason = getattr(output_graph, "compile_subgraph_reason", None)
    breaks = bool(reason is not None and reason.graph_break)
    builtins = getattr(output_graph, "name_of_builtins_dict_key_in_fglobals", None)
    installed = {*getattr(output_graph, "installed_globals", ()), *([builtins] if builtins else [])}
    live = LiveGuards.of(compile_id, code, manager.guard_manager, breaks=breaks, installed=installed)
    listener.frame_compiled(compile_id, live, read_symbols(output_graph, code))


def _reporting(part: str, report: Callable[..., None], *, before: bool = False) -> patches.Wrapper:
    """A wrapper that calls ``report(listener, compile_id, result, *args, **kwargs)`` after the original.

    With ``before`` it is called before the original, and without ``result``.
    """

    def reporting(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if before:
            _notify(part, lambda listener, compile_id: report(listener, compile_id, *args, **kwargs))
            return original(*args, **kwargs)
        result = original(*args, **kwargs)
        _notify(part, lambda listener, compile_id: report(listener, compile_id, result, *args, **kwargs))
        return result

    return patches.around(reporting)


def _report_failure(
    listener: CompileListener, compile_id: str, _: Any, cache_entries: Any, frame: Any, *__: Any, **___: Any
) -> None:
    """Report the failure of the newest entry only: its reason is the one that is shown first."""
    manager: Any = cache_entries[0].guard_manager if cache_entries else None
    if getattr(manager, "global_scope", None) is None:
        return
    failure = first_failure(manager.root, frame.f_locals, scope_of(manager), distinct_of(manager))
    if failure is not None:
        listener.recompiling(compile_id, failure)


def _report_partition(listener: CompileListener, compile_id: str, made: Any, joint: Any, *_: Any, **__: Any) -> None:
    listener.aot_graphs(compile_id, joint, made[0], made[1])


def _report_inference(listener: CompileListener, compile_id: str, forward: Any, *_: Any, **__: Any) -> None:
    listener.aot_graphs(compile_id, None, forward, None)


def _report_post_grad(listener: CompileListener, compile_id: str, _: Any, graph: Any, *__: Any, **___: Any) -> None:
    is_backward = any(node.name.startswith("tangents") for node in graph.graph.nodes)
    listener.post_grad_graph(compile_id, graph, is_backward)


def _report_ir(stage: str) -> Callable[..., None]:
    return lambda listener, compile_id, nodes, *_, **__: listener.generated(
        compile_id, stage, IrSnapshot.of(nodes), _lowers_backward()
    )


def _report_kernel(
    listener: CompileListener, compile_id: str, node_schedule: Any, kernel_name: str, *_: Any, **__: Any
) -> None:
    if kernel_name:
        listener.generated(compile_id, "kernel", (kernel_name, fused_nodes(node_schedule)), _lowers_backward())


def _lowers_backward() -> bool:
    from torch._inductor.virtualized import V

    return bool(V.graph.is_backward)


@patches.around
def _wrap_code(original: Callable[..., Any], lowering: Any, wrapper_code: Any) -> Any:
    """Report the generated code; inside :func:`code_generation_only`, do not compile it."""

    def report(listener: CompileListener, compile_id: str) -> None:
        listener.generated(compile_id, "code", wrapper_code.value, bool(lowering.is_backward))

    _notify("code", report)
    if not getattr(_generating, "only", False):
        return original(lowering, wrapper_code)
    from torch._inductor.codecache import PyCodeCache

    key, path = PyCodeCache.write(wrapper_code.value)
    lowering.cache_key, lowering.cache_path, lowering.cache_linemap = key, path, []
    return SimpleNamespace(call=_never_run, __file__=path)


def _never_run(*_: Any) -> Any:
    raise AssertionError("this code was generated to be read; it is never run")


@uncut
def code_generation_only() -> Iterator[None]:
    """Inductor generates code on this thread, but does not compile or load it."""
    with CODE_SITE.installed(_generating, "only", True):
        yield


class _TraceHandler(logging.Handler):
    """Receives torch's structured trace in process. Nothing raised here may reach the user's compile."""

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", None)
        if not isinstance(metadata, dict):
            return
        payload, compile_id = getattr(record, "payload", None), current_compile_id() or ""
        known = {**metadata, "compile_id": compile_id}
        _notify("trace", lambda listener, _: listener.trace_record(known, payload), compile_id)


def _install_trace(site: HookSite) -> Callable[[], None]:
    owner, name = site.owner()
    trace_log: logging.Logger = getattr(owner, name)
    handler = _TraceHandler()
    level = trace_log.level
    trace_log.addHandler(handler)
    trace_log.setLevel(logging.DEBUG)

    def remove() -> None:
        trace_log.removeHandler(handler)
        trace_log.setLevel(level)

    return remove


def sites() -> tuple[HookSite, ...]:
    """Every private function of the compiler that a capture wraps."""
    fx, debug, codegen = "torch._inductor.compile_fx", "torch._inductor.debug", "torch._inductor.codegen"
    reasons, provenance = "get_and_maybe_log_recompilation_reasons", "set_kernel_post_grad_provenance_tracing"
    kernel = _reporting("kernels", _report_kernel, before=True)
    return (
        HookSite("dynamo", "torch._dynamo.output_graph", "OutputGraph.call_user_compiler", _wrap_dynamo),
        HookSite("guards", "torch._dynamo.guards", "CheckFunctionManager.__init__", _wrap_guards),
        HookSite("recompiles", "torch._dynamo.convert_frame", reasons, _reporting("recompiles", _report_failure)),
        HookSite("aot", _AOT, "_partition_joint_graph_into_fw_bw", _reporting("aot", _report_partition)),
        HookSite("aot", _AOT, "_aot_stage2b_inference_compile", _reporting("aot", _report_inference, before=True)),
        HookSite("post_grad", fx, "_recursive_post_grad_passes", _reporting("post_grad", _report_post_grad)),
        HookSite("ir", debug, "log_ir_pre_fusion", _reporting("ir", _report_ir("ir_pre_fusion"), before=True)),
        HookSite("ir", debug, "log_ir_post_fusion", _reporting("ir", _report_ir("ir_post_fusion"), before=True)),
        CODE_SITE,
        *(HookSite("kernels", module, provenance, kernel) for module in (debug, f"{codegen}.cpp", f"{codegen}.triton")),
        HookSite("caches", fx, "_compile_fx_inner", _wrap_inner_compile),
    )


_AOT = "torch._functorch._aot_autograd.graph_compile"
TRACE_SITE = HookSite("trace", "torch._logging._internal", "trace_log", lambda log: log)
"""The logger of torch's structured trace: it is given a handler, not wrapped."""

CODE_SITE = HookSite("code", "torch._inductor.graph", "GraphLowering._compile_to_module_lines", _wrap_code)


def listen(listener: CompileListener) -> None:
    """Add ``listener``; installs the hooks when it is the first."""
    with _lock:
        _listeners.append(listener)
        if len(_listeners) > 1:
            return
        for site in (*sites(), TRACE_SITE):
            try:
                _release.append(_install_trace(site) if site is TRACE_SITE else site.install())
            except HookError as error:
                listener.failed(site.part, error)


def unlisten(listener: CompileListener) -> None:
    """Remove ``listener``; removes the hooks when it was the last."""
    with _lock:
        if listener not in _listeners:
            return
        _listeners.remove(listener)
        if not _listeners:
            while _release:
                _release.pop()()


@uncut
def only_heard_by(listener: CompileListener) -> Iterator[None]:
    """Tell only that listener of what is compiled on this thread in the block: it is no other capture's."""
    before = getattr(_alone, "listener", None)
    listen(listener)
    _alone.listener = listener
    try:
        yield
    finally:
        _alone.listener = before
        unlisten(listener)
