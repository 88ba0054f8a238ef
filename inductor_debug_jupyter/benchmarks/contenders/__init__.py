"""Who is measured side by side: one module a contender, in the order of the table."""

from __future__ import annotations

from inductor_debug_jupyter.benchmarks.contenders import (
    cached,
    capture,
    compile_debug,
    depyf,
    plain,
    tlparse,
)
from inductor_debug_jupyter.benchmarks.contenders.contender import Contender

CONTENDERS: dict[str, Contender] = {
    "plain": plain,
    "capture": capture,
    "compile_debug": compile_debug,
    "tlparse": tlparse,
    "depyf": depyf,
    "cached": cached,
}

__all__ = ["CONTENDERS", "Contender"]
