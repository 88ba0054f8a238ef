"""Mute prints and log records of the user's model while it runs again for us: its own run showed them already.

Prints are dropped for the whole process: all threads share ``sys.stdout``. Log records are dropped on this thread only,
for every handler; torch's go to the capture's own handler only. Our own log records are shown.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from inductor_debug_jupyter.pipeline.torch_compat import patches
from inductor_debug_jupyter.pipeline.torch_compat.state import torch_logs_muted

_OWN = "inductor_debug_jupyter"


class _Silence(threading.local):
    stderr: Any = None
    """The stream of errors before muting; None while nothing is muted."""


_silence = _Silence()


@contextlib.contextmanager
def unheard() -> Iterator[None]:
    """Drop what the user's model prints and logs inside the block."""
    outer = _silence.stderr
    with patches.patched(logging.Logger, "callHandlers", _wrap_call_handlers, "silence"), torch_logs_muted():
        _silence.stderr = outer or sys.stderr
        try:
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                yield
        finally:
            _silence.stderr = outer


@patches.around
def _wrap_call_handlers(original: Callable[..., Any], logger: logging.Logger, record: logging.LogRecord) -> None:
    name = logger.name.partition(".")[0]
    if _silence.stderr is None or name == "torch":
        original(logger, record)
    elif name == _OWN:
        with contextlib.redirect_stderr(_silence.stderr):
            original(logger, record)
