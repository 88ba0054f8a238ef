"""The compiler's current compile id, and its configuration changed for the length of a block."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import ExitStack

import torch._dynamo.config as dynamo_config
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
from torch._guards import CompileContext, active_fake_mode

from inductor_debug_jupyter.pipeline.interrupts import uncut


def current_compile_id() -> str | None:
    """The id (``0/0``) of the compile that runs on this thread, also in a lazily compiled backward."""
    compile_id = CompileContext.current_compile_id()
    return None if compile_id is None else str(compile_id)


def is_compiling() -> bool:
    """Whether this thread is inside Dynamo, AOTAutograd, Inductor or export right now.

    Not ``torch.compiler.is_compiling()``: that is one flag for the process, set also while another thread compiles.
    """
    return CompileContext.current_compile_id() is not None or active_fake_mode() is not None


@uncut
def caches_bypassed() -> Iterator[None]:
    """Neither read nor write the FX graph cache and the AOT cache; compiled ``.so`` files are still reused.

    Config values are per thread and fall back on the process's: the ``patch`` of torch's own config module puts back
    what was there.
    """
    with ExitStack() as stack:
        stack.enter_context(inductor_config.patch(fx_graph_cache=False))
        stack.enter_context(functorch_config.patch(enable_autograd_cache=False))
        yield


def changed_inductor_settings() -> list[str]:
    """Python lines that set Inductor's settings as they are now, as far as the user changed them."""
    lines = [line for line in inductor_config.codegen_config().splitlines() if not _is_default(line)]
    return ["import torch._inductor.config", *lines] if lines else []


def _is_default(line: str) -> bool:
    """Whether a line sets a setting to its default: torch also names those that were only put back."""
    name, _, value = line.removeprefix("torch._inductor.config.").partition(" = ")
    entry = inductor_config._config.get(name)  # type: ignore[attr-defined]
    return entry is not None and repr(entry.default) == value


def lines_for_eager_randomness() -> list[str]:
    """Python lines that make compiled code draw eager's random numbers, as :func:`regions.undisturbed` does."""
    return ["import torch._inductor.config", "torch._inductor.config.fallback_random = True"]


_AS_EAGER = {
    "emulate_precision_casts": True,
    "eager_numerics.division_rounding": True,
    "eager_numerics.disable_ftz": True,
    "eager_numerics.use_pytorch_libdevice": True,
}


@uncut
def rounding_as_eager() -> Iterator[None]:
    """Inductor rounds where eager mode does, as far as this torch has switches for it."""
    known = inductor_config.get_config_copy()
    with inductor_config.patch({name: value for name, value in _AS_EAGER.items() if name in known}):
        yield


@uncut
def dynamo_errors_fall_back() -> Iterator[None]:
    """When Dynamo cannot trace a frame, run it eagerly instead of raising."""
    with dynamo_config.patch(suppress_errors=True):
        yield


@uncut
def sizes(kind: str) -> Iterator[None]:
    """Which sizes Dynamo makes symbolic: ``fixed`` none, ``open`` all that it can, ``usual`` as configured."""
    if kind == "usual":
        yield
        return
    with dynamo_config.patch(automatic_dynamic_shapes=False, assume_static_by_default=kind == "fixed"):
        yield


class _ThreadFilter(logging.Filter):
    """Drops torch's records on muted threads; other threads may use the same handler."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not getattr(_muted, "depth", 0) or record.name.partition(".")[0] != "torch"


_muted = threading.local()
_filter = _ThreadFilter()


def _torch_handlers() -> list[logging.Handler]:
    """Every handler of torch's that writes to a terminal or file. The hooks' own handler has no stream: it goes on.

    They are recognised by their stream, not their class: torch 2.15 has a handler class of its own that looks up
    ``sys.stderr`` each time.
    """
    loggers = [
        logging.getLogger(name) for name in list(logging.root.manager.loggerDict) if name.split(".")[0] == "torch"
    ]
    return [handler for logger in loggers for handler in logger.handlers if hasattr(handler, "stream")]


@uncut
def torch_logs_muted() -> Iterator[None]:
    """Drop torch's log records on this thread: the user of a plain module did not call the compiler."""
    handlers = [handler for handler in _torch_handlers() if _filter not in handler.filters]
    for handler in handlers:
        handler.addFilter(_filter)
    _muted.depth = getattr(_muted, "depth", 0) + 1
    try:
        yield
    finally:
        _muted.depth -= 1
        for handler in handlers:
            handler.removeFilter(_filter)


def graph_cache_hits() -> int:
    """How many compiles of this process were answered by the AOT cache or the FX graph cache."""
    from torch._dynamo.utils import counters

    return int(counters["aot_autograd"]["autograd_cache_hit"]) + int(counters["inductor"]["fxgraph_cache_hit"])
