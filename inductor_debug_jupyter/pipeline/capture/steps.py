"""What the compiler is doing right now, in a few words, for somebody who waits."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inductor_debug_jupyter.pipeline.harmless import Harmless
from inductor_debug_jupyter.pipeline.records.compile import PHASE_WORDS

_BACKWARD = "entire_backward_compile"


@dataclass(frozen=True, slots=True)
class Step(Harmless):
    """One step of a compile: of which graph, how the user calls it, and what is being done."""

    compile_id: str
    name: str
    doing: str

    def __str__(self) -> str:
        return f"{self.name or 'graph'} ({self.compile_id}): {self.doing}"


StepObserver = Callable[[Step], None]


class Steps:
    """Turns the trace's events into steps."""

    def __init__(self, observer: StepObserver) -> None:
        self._observer = observer
        self._names: dict[str, str] = {}
        self._backward: set[str] = set()
        self._last: Step | None = None

    def named(self, compile_id: str, name: str) -> None:
        """What the user calls the graph of that compile."""
        self._names[compile_id] = name

    def add(self, metadata: dict[str, Any], payload: Any) -> None:
        """Take one trace record; only the beginning of a phase is of interest."""
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
            step = Step(compile_id, self._names.get(compile_id, "") + side, doing)
            if step != self._last:
                self._last = step
                self._observer(step)
