"""Dynamo times the guards of each new graph, and first flushes the CPU's caches: 60 to 300 ms for one number in a log.

Our own compiles skip it (on a small model that is more than half of Dynamo's time); a user's own compile does not.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

from torch._dynamo import guards

from inductor_debug_jupyter.pipeline.interrupts import uncut
from inductor_debug_jupyter.pipeline.torch_compat.patches import around, patched

_TIMED_BY = "profile_guard_manager"
_thread = threading.local()


@uncut
def untimed_guards() -> Iterator[None]:
    """Compiles on this thread do not time their guards."""
    if not hasattr(guards, _TIMED_BY) or getattr(_thread, "untimed", False):
        yield
        return
    with patched(guards, _TIMED_BY, _wrap, "guard timing"):
        _thread.untimed = True
        try:
            yield
        finally:
            _thread.untimed = False


@around
def _wrap(original: Callable[..., float], *args: Any) -> float:
    return 0.0 if getattr(_thread, "untimed", False) else original(*args)
