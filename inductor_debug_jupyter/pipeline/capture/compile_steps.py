"""What the compiler is doing right now, in a few words, for a progress line."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inductor_debug_jupyter.pipeline.harmless import Harmless
from inductor_debug_jupyter.pipeline.records.compile import PHASE_WORDS

_BACKWARD = "entire_backward_compile"


@dataclass(frozen=True, slots=True)
class CompileStep(Harmless):
    """One step of a compile: compile id, the user's name of the graph, and what is being done."""

    compile_id: str
    name: str
    doing: str

    def __str__(self) -> str:
        return f"{self.name or 'graph'} ({self.compile_id}): {self.doing}"


StepObserver = Callable[[CompileStep], None]


class CompileSteps:
    """Turns the trace's events into steps, and calls ``observer`` for each."""

    def __init__(self, observer: StepObserver) -> None:
        self._observer = observer
        self._names: dict[str, str] = {}
        self._backward: set[str] = set()
        self._last: CompileStep | None = None

    def named(self, compile_id: str, name: str) -> None:
        """Set the user's name of the graph of that compile."""
        self._names[compile_id] = name

    def add(self, metadata: dict[str, Any], payload: Any) -> None:
        """Add one trace record; all but the beginnings of phases are ignored."""
        if "chromium_event" not in metadata or not isinstance(payload, str):
            return
        event = json.loads(payload)
        if event.get("ph") != "B":
            return
        compile_id = metadata["compile_id"]
        if event["name"] == _BACKWARD:
            self._backward.add(compile_id)
        if (doing := PHASE_WORDS.get(event["name"])) is not None and compile_id:
            side = ", backward" if compile_id in self._backward else ""
            step = CompileStep(compile_id, self._names.get(compile_id, "") + side, doing)
            if step != self._last:
                self._last = step
                self._observer(step)
