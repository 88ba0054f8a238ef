"""Notice calls of what Inductor compiled before: its artifacts are no modules, and Dynamo does not see them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from inductor_debug_jupyter.pipeline.torch_compat import patches

_ARTIFACTS = (
    ("torch._inductor.standalone_compile", "CacheCompiledArtifact"),
    ("torch._inductor.standalone_compile", "AOTCompiledArtifact"),
    ("torch._inductor.package.package", "AOTICompiledModel"),
)
"""Not every torch has all of them; one that has none of them has no such artifacts either."""


def notice_artifacts(on_call: Callable[[str], None]) -> Callable[[], None]:
    """Call ``on_call`` with the class whenever an artifact is called; returns what undoes it."""
    undo = ExitStack()
    for module, name in _ARTIFACTS:
        try:
            kind = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError):
            continue
        patches.acquire(kind, "__call__", _noticed(name, on_call), "compiled functions")
        undo.callback(patches.release, kind, "__call__")
    return undo.close


def _noticed(name: str, on_call: Callable[[str], None]) -> patches.Wrapper:
    def called(original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        on_call(name)
        return original(*args, **kwargs)

    return patches.around(called)
