"""Which compiled functions the user calls, and how often: a recompile is shown with the number of its call."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from inductor_debug_jupyter.pipeline.capture.editable_inputs import CallInputs
from inductor_debug_jupyter.pipeline.torch_compat.guard_checks import CalledFunction


class _RunningCall(threading.local):
    """The call that runs on a thread, or ran there last, and its number, from 1."""

    number = 0
    current: CalledFunction | None = None
    outer: CalledFunction | None = None
    depth = 0


class CalledFunctions:
    """Counts the calls of each function; ``now`` is the call that runs on the calling thread."""

    def __init__(self) -> None:
        self.now = _RunningCall()
        self.inputs: dict[CalledFunction, CallInputs] = {}
        """The inputs of each function's first call, without their values."""
        self._counts: dict[tuple[int, int], int] = {}
        self._functions: dict[tuple[int, int], CalledFunction] = {}

    @property
    def functions(self) -> tuple[CalledFunction, ...]:
        """Every function that was called, in the order of their first calls."""
        return tuple(self._functions.values())

    @property
    def outermost(self) -> CalledFunction | None:
        """The function that the user called; ``now.current`` may be a call inside it."""
        return self.now.outer or self.now.current

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around a call: calls inside belong to it, and at its end the call around it is current again."""
        now = self.now
        before = now.number, now.current, now.outer
        now.depth += 1
        try:
            yield
        finally:
            now.depth -= 1
            now.number, now.current, now.outer = before

    def add(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        region: int = -1,
        backend: Any = None,
    ) -> None:
        """Count a call; ``backend`` is None where the compile is not the user's own."""
        owner = getattr(function, "__self__", None)
        key = (id(getattr(function, "__func__", function)), id(owner))
        if key not in self._functions or not self._functions[key].is_alive():
            called = self._functions[key] = CalledFunction(function, region, backend)
            self._counts[key] = 0
            self.inputs[called] = CallInputs(args, kwargs, called.parameters())
        self.now.number = self._counts[key] = self._counts[key] + 1
        self.now.current = self._functions[key]
        if self.now.depth and self.now.outer is None:
            self.now.outer = self.now.current
