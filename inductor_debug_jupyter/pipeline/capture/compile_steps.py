"""What the compiler is doing right now, in a few words, for a progress line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inductor_debug_jupyter.pipeline.harmless import Harmless
from inductor_debug_jupyter.pipeline.records.compile import PHASE_WORDS

_BACKWARD = "entire_backward_compile"
_WHOLE = ("entire_frame_compile", _BACKWARD)
"""The phases that are a whole compile: when the last one ends, the user's own code runs on."""


@dataclass(frozen=True, slots=True)
class CompileStep(Harmless):
    """One step of a compile: compile id, the user's name of the graph, and what is being done.

    The last step of a compile is its end: nothing is done any more, and the code that was compiled runs.
    """

    compile_id: str
    name: str
    doing: str

    @property
    def is_end(self) -> bool:
        """Whether the compiler is done for now."""
        return not self.doing

    def __str__(self) -> str:
        return f"{self.name or 'graph'} ({self.compile_id}): {self.doing or 'compiled, and running'}"


StepObserver = Callable[[CompileStep], None]


class CompileSteps:
    """Turns the trace's events into steps, and calls ``observer`` for each."""

    def __init__(self, observer: StepObserver) -> None:
        self._observer = observer
        self._names: dict[str, str] = {}
        self._backward: set[str] = set()
        self._last: CompileStep | None = None
        self._running = 0

    def named(self, compile_id: str, name: str) -> None:
        """Set the user's name of the graph of that compile."""
        self._names[compile_id] = name

    def add(self, metadata: dict[str, Any], payload: Any) -> None:
        """Add one trace record; all but the beginnings of phases and the ends of compiles are ignored."""
        if "chromium_event" not in metadata or not isinstance(payload, str):
            return
        event = json.loads(payload)
        kind, phase, compile_id = event.get("ph"), event.get("name"), metadata["compile_id"]
        if kind == "E" and phase in _WHOLE:
            self._running = max(0, self._running - 1)
            if not self._running and self._last is not None:
                self._tell(compile_id, "")
        if kind != "B":
            return
        self._running += phase in _WHOLE
        if phase == _BACKWARD:
            self._backward.add(compile_id)
        if (doing := PHASE_WORDS.get(phase)) is not None and compile_id:
            self._tell(compile_id, doing)

    def _tell(self, compile_id: str, doing: str) -> None:
        side = ", backward" if compile_id in self._backward else ""
        step = CompileStep(compile_id, self._names.get(compile_id, "") + side, doing)
        if step != self._last:
            self._last = step
            self._observer(step)
