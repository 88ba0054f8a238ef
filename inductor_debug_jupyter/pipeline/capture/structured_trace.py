"""Timings, cache hits and texts from torch's structured trace (breaks and recompiles: ``graph_breaks``).

torch renders the graphs of every stage for its trace anyway, so those texts are taken from it. On a cache hit the
trace is all there is: torch replays the texts of the compile that filled the cache, and nothing else.

:class:`CompileSteps` gives a progress line the compiler's current step, in a few words.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inductor_debug_jupyter.pipeline.harmless import Harmless
from inductor_debug_jupyter.pipeline.records import BACKWARD, Phase
from inductor_debug_jupyter.pipeline.records.compile import PHASE_WORDS

_TEXTS = {
    "dynamo_output_graph": "dynamo",
    "aot_joint_graph": "joint",
    "aot_forward_graph": "forward",
    "aot_inference_graph": "forward",
    "aot_backward_graph": "backward",
    "inductor_post_grad_graph": "post_grad",
    "inductor_output_code": "code",
}
_INDUCTOR = frozenset({"post_grad", "code"})
"""Stages that come twice: for the forward, then for the backward."""

_CACHES = {"fx_graph_cache_": "fx", "aotautograd_cache_": "aot"}
_OUTCOMES = {"hit": "hit", "miss": "missed", "bypass": "bypassed", "disabled": "bypassed"}
_LEAST_PASS_SECONDS = 0.001
"""Inductor times dozens of passes that do nothing; one is kept only when it took that long."""


class CompileTrace:
    """Texts, cache outcomes and phases of one compile id."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        self.caches: dict[str, str] = {}
        self.phases: list[Phase] = []
        self._open: list[tuple[str, float]] = []
        self._began: float | None = None

    def undo_later(self) -> Callable[[], None]:
        """A function that takes back what is added from now on."""
        before = (dict(self.texts), dict(self.caches), list(self.phases), list(self._open))

        def undo() -> None:
            self.texts, self.caches, self.phases, self._open = before

        return undo

    @property
    def is_received(self) -> bool:
        """Whether torch's trace of this compile arrives; it then has the text of its graphs."""
        return self._began is not None

    def add(self, metadata: dict[str, Any], payload: Any) -> None:
        """Add one trace record; those of other kinds are ignored."""
        if "chromium_event" in metadata:
            self._add_event(json.loads(payload))
            return
        name = str((metadata.get("artifact") or {}).get("name", ""))
        for kind in (name, *metadata):
            if kind in _TEXTS and isinstance(payload, str):
                self._add_text(_TEXTS[kind], payload)
                return
        for prefix, cache in _CACHES.items():
            if name.startswith(prefix) and (outcome := _OUTCOMES.get(name.removeprefix(prefix))):
                self.caches[cache] = outcome

    def _add_text(self, stage: str, text: str) -> None:
        if stage in self.texts and stage in _INDUCTOR:
            stage += BACKWARD
        self.texts.setdefault(stage, text)

    def _add_event(self, event: dict[str, Any]) -> None:
        """Begin and end of a phase; an end without its beginning is not ours."""
        name, seconds = str(event["name"]), float(event["ts"]) / 1e6
        if event["ph"] == "B":
            self._began = seconds if self._began is None else self._began
            self._open.append((name, seconds))
        elif event["ph"] == "E" and any(name == other for other, _ in self._open):
            while self._open:
                opened, start = self._open.pop()
                if opened == name:
                    self._keep(name, start, seconds)
                    return

    def _keep(self, name: str, start: float, end: float) -> None:
        if name.startswith("pass.") and end - start < _LEAST_PASS_SECONDS:
            return
        since = start - (self._began or start)
        self.phases.append(Phase(name, round(since, 6), round(end - start, 6), len(self._open)))


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
                self._report(compile_id, "")
        if kind != "B":
            return
        self._running += phase in _WHOLE
        if phase == _BACKWARD:
            self._backward.add(compile_id)
        if (doing := PHASE_WORDS.get(phase)) is not None and compile_id:
            self._report(compile_id, doing)

    def _report(self, compile_id: str, doing: str) -> None:
        side = ", backward" if compile_id in self._backward else ""
        step = CompileStep(compile_id, self._names.get(compile_id, "") + side, doing)
        if step != self._last:
            self._last = step
            self._observer(step)
