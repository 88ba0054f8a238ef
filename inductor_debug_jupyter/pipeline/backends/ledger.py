"""What the backends of this process have seen, as one session in the store.

A script that compiles with ``mock_backend`` holds no session, but ``inductor-debug analyze`` must find what happened.
So every compile adds to one ledger for the process, which is saved after each.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Sequence
from dataclasses import replace

import torch

from inductor_debug_jupyter.pipeline.capture import Recorder
from inductor_debug_jupyter.pipeline.devices import Constraint, JudgingContext
from inductor_debug_jupyter.pipeline.devices.judge import judge
from inductor_debug_jupyter.pipeline.errors import StoreError, UsageError, in_a_line
from inductor_debug_jupyter.pipeline.records import CoverageRecord, GraphBreak, SessionRecord
from inductor_debug_jupyter.pipeline.rerun.capture_run import new_session_id
from inductor_debug_jupyter.pipeline.settings import resolve
from inductor_debug_jupyter.pipeline.store import ArtifactStore
from inductor_debug_jupyter.pipeline.torch_compat.guards import running_compile
from inductor_debug_jupyter.pipeline.torch_compat.state import current_compile_id

log = logging.getLogger("inductor_debug_jupyter")

_lock = threading.Lock()
_unusable: set[str] = set()
"""Artifact folders that could not be written, and were complained about."""


class BackendRules:
    """What a backend checks against, read anew for each compile: the environment may have changed in between."""

    def __init__(
        self,
        strict: bool | None = None,
        constraints: Sequence[Constraint] | None = None,
        target: str | None = None,
    ) -> None:
        self._given = (strict, constraints, target)
        settings = resolve({"strict": strict, "target": target}, defaults={"strict": True})
        self.context = JudgingContext.of(settings, constraints)
        self.strict = self.context.strict

    def read_again(self) -> BackendRules:
        """These rules with the environment as it is now."""
        return BackendRules(*self._given)

    def store(self) -> ArtifactStore:
        """The store of the artifact folder."""
        return ArtifactStore.of(self.context.settings)

    def usable_store(self) -> ArtifactStore | None:
        """The store, or None when its folder could not be written: a warning said so already."""
        store = self.store()
        return None if str(store.folder) in _unusable else store


class Ledger:
    """The compiles of this process's backends."""

    def __init__(self) -> None:
        self.session_id, self.created = new_session_id()
        self._records: list[SessionRecord] = []
        self._started = time.perf_counter()

    def judge(self, recorder: Recorder, rules: BackendRules) -> SessionRecord:
        """Check one compile, and keep it."""
        record = judge(recorder, rules.context, session_id=self.session_id, created=self.created, name="")
        with _lock:
            self._records.append(record)
        return record

    def save(self, store: ArtifactStore) -> None:
        """Write everything seen so far. A folder that cannot be written is one warning, not a failed compile."""
        folder = str(store.folder)
        try:
            store.save_session(self.merged())
        except Exception as error:  # not even a fault of the store may end the user's compile
            reason = str(error) if isinstance(error, StoreError) else f"unexpected {in_a_line(error)}"
            if folder not in _unusable:
                log.warning("nothing was saved: %s", reason)
            _unusable.add(folder)
        else:
            _unusable.discard(folder)

    def merged(self) -> SessionRecord:
        """All compiles as one session."""
        with _lock:
            records = list(self._records)
        last = records[-1]
        return replace(
            last,
            name=records[0].name,
            captures=tuple(capture for record in records for capture in record.captures),
            findings=tuple(finding for record in records for finding in record.findings),
            guards=tuple(guard for record in records for guard in record.guards),
            graph_breaks=_distinct_breaks(records),
            notes=tuple(dict.fromkeys(note for record in records for note in record.notes)),
            sources={label: text for record in records for label, text in record.sources.items()},
            coverage=_merged_coverage(records),
            memory=tuple(memory for record in records for memory in record.memory),
            peak_memory=max((r.peak_memory for r in records if r.peak_memory is not None), default=None),
            seconds=time.perf_counter() - self._started,
        )


def _merged_coverage(records: Sequence[SessionRecord]) -> CoverageRecord | None:
    known = [record.coverage for record in records if record.coverage is not None]
    if not known:
        return None
    return CoverageRecord(known[-1].target, tuple(graph for coverage in known for graph in coverage.graphs))


def _distinct_breaks(records: Sequence[SessionRecord]) -> tuple[GraphBreak, ...]:
    """One break a line: the graph before it knows the reason, the one after it only the place."""
    by_line: dict[object, GraphBreak] = {}
    for graph_break in (each for record in records for each in record.graph_breaks):
        key = (graph_break.source.file, graph_break.source.line) if graph_break.source else graph_break.reason
        if key not in by_line or not by_line[key].reason:
            by_line[key] = graph_break
    return tuple(by_line.values())


_ledger: list[Ledger] = []


def process_ledger() -> Ledger:
    """The one ledger of this process."""
    with _lock:
        if not _ledger:
            _ledger.append(Ledger())
        return _ledger[0]


def forget_compiles() -> None:
    """Begin a new ledger: a process that compiles thousands of graphs would write all of them after each."""
    with _lock:
        _ledger.clear()


def start_record(graph_module: torch.fx.GraphModule) -> Recorder:
    """A recorder that is given the Dynamo graph by us: Dynamo reported it before it called the backend.

    Raises:
        UsageError: it is not a graph.
    """
    if not isinstance(graph_module, torch.fx.GraphModule):
        raise UsageError(
            f"a backend takes a torch.fx.GraphModule, not {type(graph_module).__name__}: "
            "give it to torch.compile(model, backend=…)"
        )
    recorder = Recorder()
    compile_id = current_compile_id() or f"graph-{id(graph_module):x}"
    running = running_compile()
    recorder.dynamo_graph(compile_id, graph_module, running[0] if running else None)
    if running:
        recorder.running(compile_id, *running[1:])
    return recorder
