"""Change the C++ of Inductor's kernels before it is compiled: faults for benchmarks and tests, not for a user's run."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from inductor_debug_jupyter.pipeline.torch_compat.patches import HookSite

Rewrite = Callable[[str], str]

_active = threading.local()


def _wrap(original: Callable[..., Any]) -> Callable[..., Any]:
    def cpp_pybinding(compiler: Any, argument_types: Any, source_code: str, *args: Any, **kwargs: Any) -> Any:
        rewrite: Rewrite | None = getattr(_active, "rewrite", None)
        return original(compiler, argument_types, rewrite(source_code) if rewrite else source_code, *args, **kwargs)

    return cpp_pybinding


SITE = HookSite("faults in kernels", "torch._inductor.async_compile", "AsyncCompile.cpp_pybinding", _wrap)


@contextmanager
def sources_rewritten(rewrite: Rewrite) -> Iterator[None]:
    """Kernels that are compiled on this thread in the block are compiled from ``rewrite(source)``.

    Raises:
        HookError: this torch compiles kernels some other way.
    """
    with SITE.installed(_active, "rewrite", rewrite):
        yield
