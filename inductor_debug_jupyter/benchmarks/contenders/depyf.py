"""``depyf``: its documented ``prepare_debug``, which writes decompiled code and graphs when it is left."""

from __future__ import annotations

import importlib
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from inductor_debug_jupyter.benchmarks.contenders.contender import CODE, GRAPH, IR, KERNEL, search
from inductor_debug_jupyter.benchmarks.contenders.plain import environment, finish
from inductor_debug_jupyter.benchmarks.wording import error_line

TITLE = "depyf"
WARM_CACHES = False

__all__ = ["TITLE", "WARM_CACHES", "environment", "finish", "found", "unavailable", "watching"]

_PATTERNS = (
    ("dynamo", "dump/__compiled_fn_*.__compiled_fn_*.py", GRAPH),
    ("joint", "dump/*Joint_graph*.py", GRAPH),
    ("forward", "dump/*Forward_graph*.py", GRAPH),
    ("backward", "dump/*Backward_graph*.py", GRAPH),
    ("post_grad", "dump/*AFTER_POST_GRAD*.py", GRAPH),
    ("ir_pre_fusion", "dump/*pre_fusion*", IR),
    ("ir_post_fusion", "dump/*post_fusion*", IR),
    ("code", "dump/*kernel*.py", CODE),
    ("kernel", "dump/*kernel*.py", KERNEL),
)


def unavailable() -> str:
    """The package must be there, and must like this torch; imported here, so that the import is not counted."""
    try:
        importlib.import_module("depyf")
    except ModuleNotFoundError as error:
        return f"not installed: {error}; pip install depyf"
    except Exception as error:  # it patches torch's private names: whatever goes wrong is its result
        return f"cannot be imported: {error_line(error)}"
    return ""


def watching(folder: Path) -> AbstractContextManager[Any]:
    """Its context manager."""
    manager: AbstractContextManager[Any] = importlib.import_module("depyf").prepare_debug(str(folder / "dump"))
    return manager


def found(folder: Path) -> dict[str, str]:
    """The stages in its files."""
    return search(folder, _PATTERNS)
