"""Check which parts of a capture work with this torch: every hook must exist, and be called in a tiny real compile.

A private name can be gone, or it can exist while torch has stopped calling it: only a compile shows that. The compile
is as small as can be (a matrix product and a relu, once for inference and once for training with its backward), goes
through Dynamo, AOTAutograd and Inductor as a user's does, and stops where the C++ compiler would start.
``inductor-debug doctor`` shows the result, and asks the same module for Inductor's cache folder and C++ compiler.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import random
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType
from typing import Any, Final, cast

from inductor_debug_jupyter.pipeline.torch_compat.patches import HookSite

PARTS = {
    "dynamo": "the Dynamo graph, and with it everything else",
    "guards": "guards, and what would recompile",
    "recompiles": "the value that made it recompile",
    "aot": "the joint, forward and backward graphs",
    "post_grad": "the graph after Inductor's own passes",
    "ir": "Inductor's IR before and after fusion",
    "code": "generated code and kernels",
    "kernels": "which nodes went into which kernel",
    "caches": "a fresh look: stages that come from torch's caches",
    "trace": "graph breaks, recompile reasons, timings, cache hits",
    "already compiled functions": "what was compiled before the capture began",
    "plain modules": "modules that are not compiled",
    "localization": "which of Inductor's kernels is wrong: localize() on inductor",
    "backward compilers": "what a backend that calls AOTAutograd in a function does wrong in the backward alone",
}
"""Part → what a capture loses without it."""


@dataclass(frozen=True, slots=True)
class Canary:
    """One part of a capture: ``problem`` is None when it works, else one sentence."""

    part: str
    loses: str
    names: tuple[str, ...]
    problem: str | None


def canaries(*, compiling: bool = True) -> tuple[Canary, ...]:
    """Check every part; without ``compiling`` only that the private names exist."""
    from inductor_debug_jupyter.pipeline.torch_compat import hooks  # not above: it imports the whole compiler

    try:
        from inductor_debug_jupyter.pipeline.torch_compat import (
            kernel_calls,
            lowering,
            module_calls,
            regions,
            suspended_lowering,
        )

        ours = (*regions.SITES, kernel_calls.SITE, lowering.BACKWARD_SITE)
        sites = (*ours, *module_calls.SITES, *suspended_lowering.SITES)
        outside: tuple[HookSite, ...] = sites
    except (ImportError, AttributeError):  # reported by _imports
        outside = ()
    listener = _RecordingListener()
    trouble = _tiny_compiles(listener) if compiling else None
    names: dict[str, list[str]] = {part: [] for part in PARTS}
    problems: dict[str, list[str]] = {part: [] for part in PARTS}
    for site in (*hooks.sites(), hooks.TRACE_SITE, *outside):
        names.setdefault(site.part, []).append(site.name)
        if problem := site.problem():
            problems.setdefault(site.part, []).append(problem)
    found = []
    for part in names:
        problem = _sentence(problems.get(part, ()), listener, part, trouble, compiling)
        found.append(Canary(part, PARTS.get(part, part), tuple(names[part]), problem))
    return (_imports(), *found)


def _sentence(
    problems: Iterable[str], listener: _RecordingListener, part: str, trouble: str | None, compiling: bool
) -> str | None:
    if gone := "; ".join(problems):
        return gone
    if not compiling or (missing := _EXPECTED.get(part, frozenset()) - listener.noted) == frozenset():
        return None
    if failure := listener.failures.get(part):
        return f"it was called, but what it was given could not be read ({failure})"
    what = ", ".join(sorted(missing))
    if trouble is not None:
        return f"the tiny compile failed before it came to {what} ({trouble})"
    return f"it is there, but a tiny compile did not call it for {what}"


_EXPECTED = {
    "dynamo": frozenset({"a Dynamo graph"}),
    "guards": frozenset({"guards"}),
    "aot": frozenset({"an inference graph", "a training graph"}),
    "post_grad": frozenset({"a post-grad graph"}),
    "ir": frozenset({"IR before fusion", "IR after fusion"}),
    "code": frozenset({"code"}),
    "kernels": frozenset({"a kernel's nodes"}),
    "caches": frozenset({"bypassing the caches"}),
    "trace": frozenset({"a trace record"}),
}
"""Part → the calls that must be noted."""


_GENERATED = {
    "ir_pre_fusion": "IR before fusion",
    "ir_post_fusion": "IR after fusion",
    "kernel": "a kernel's nodes",
    "code": "code",
}

_NOTES: dict[str, Callable[..., str]] = {
    "dynamo_graph": lambda *_: "a Dynamo graph",
    "compile_guards": lambda guards: "guards" if guards else "",
    "aot_graphs": lambda joint, *_: "an inference graph" if joint is None else "a training graph",
    "post_grad_graph": lambda *_: "a post-grad graph",
    "generated": lambda stage, made, _: "" if stage == "kernel" and not made[1] else _GENERATED[stage],
}
"""Method of a listener → what is noted of its arguments, the compile id left out; empty where they are empty."""


class _RecordingListener:
    """A listener that notes which of its methods were called.

    The hooks read ``fresh`` around Dynamo's compile and again around Inductor's. It becomes true in between, so that
    bypassed caches prove the second read.
    """

    def __init__(self) -> None:
        self.fresh = False
        self.noted: set[str] = set()
        self.failures: dict[str, str] = {}
        self._thread = threading.get_ident()

    def wants(self, compile_id: str) -> bool:
        return threading.get_ident() == self._thread

    def __getattr__(self, method: str) -> Callable[..., None]:
        def note(compile_id: str, *facts: Any) -> None:
            import torch._inductor.config as inductor_config

            self.noted |= {_NOTES[method](*facts)} if method in _NOTES else set()
            self.fresh = self.fresh or method == "aot_graphs"
            if method == "post_grad_graph" and not inductor_config.fx_graph_cache:
                self.noted.add("bypassing the caches")

        return note

    def trace_record(self, metadata: dict[str, Any], payload: Any) -> None:
        self.noted.add("a trace record")

    def failed(self, part: str, error: BaseException) -> None:
        self.failures.setdefault(part, f"{type(error).__name__}: {error}")


def _tiny_compiles(listener: _RecordingListener) -> str | None:
    """Compile for inference and for training while ``listener`` listens; the error in one line, or None."""
    import torch
    import torch._functorch.config as functorch_config
    import torch._inductor.config as inductor_config

    from inductor_debug_jupyter.pipeline.torch_compat import hooks

    x, weight = torch.ones(4, 4), torch.ones(4, 4, requires_grad=True)
    trouble = None
    hooks.listen(cast("hooks.CompileListener", listener))
    try:
        with (
            inductor_config.patch(fx_graph_cache=True),
            functorch_config.patch(enable_autograd_cache=False, force_non_lazy_backward_lowering=True),
            hooks.code_generation_only(),
        ):
            for grad in (False, True):
                listener.fresh = False
                with torch.set_grad_enabled(grad):
                    trouble = _compiled(_never_compiled(cast("FunctionType", _tiny)), x, weight) or trouble
    except Exception as error:  # a compile that fails is the result
        trouble = f"{type(error).__name__}: {error}"
    finally:
        hooks.unlisten(cast("hooks.CompileListener", listener))
    return trouble


def _tiny(x: Any, weight: Any) -> Any:
    return (x @ weight).relu() * 0.5


def _never_compiled(function: FunctionType) -> FunctionType:
    """A copy of the function with a random number in place of 0.5, so that torch has it in no cache."""
    code = function.__code__
    constants = tuple(random.random() if each == 0.5 else each for each in code.co_consts)  # noqa: S311 - no secret
    return FunctionType(code.replace(co_consts=constants), function.__globals__)


def _compiled(function: Callable[..., Any], *inputs: Any) -> str | None:
    """Compile a function by calling it; the error in one line, or None. That the code is never run is no error."""
    import torch

    try:
        compiled: Callable[..., Any] = torch.compile(function, backend="inductor", fullgraph=True, dynamic=False)
        compiled(*inputs)
    except AssertionError as error:
        return None if "never run" in str(error) else f"AssertionError: {error}"
    except Exception as error:
        first = [line.strip() for line in str(error).splitlines() if line.strip()][:2]  # "… raised:", and what
        return f"{type(error).__name__}: {' '.join(first)}"
    return None


def _imports() -> Canary:
    """The private names that are imported rather than wrapped: every module of this package must load."""
    modules = [module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)])]
    problems = []
    for name in modules:
        try:
            importlib.import_module(f"{__package__}.{name}")
        except (ImportError, AttributeError) as error:
            problems.append(f"{name}: {error}")
    loses = "reading graphs and guards, compiling plain modules"
    return Canary("imports", loses, tuple(f"{__package__}.{name}" for name in modules), "; ".join(problems) or None)


def cache_folder() -> Path:
    """The folder in which Inductor keeps generated code and compiled kernels."""
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return Path(cache_dir())


def cpp_compiler() -> str:
    """The C++ compiler that Inductor would call.

    Raises:
        RuntimeError: it finds none.
    """
    from torch._inductor.cpp_builder import get_cpp_compiler

    return str(get_cpp_compiler())


VARIABLE: Final = "TORCHINDUCTOR_CACHE_DIR"


@contextmanager
def temporary_inductor_cache() -> Iterator[Path]:
    """Point Inductor at an empty cache folder, so that the user's is neither read nor written; deleted at the end."""
    before = os.environ.get(VARIABLE)
    with tempfile.TemporaryDirectory(prefix="inductor-debug-cache-", ignore_cleanup_errors=True) as folder:
        os.environ[VARIABLE] = folder
        try:
            yield Path(folder)
        finally:
            if before is None:
                del os.environ[VARIABLE]
            else:
                os.environ[VARIABLE] = before
