"""Everything of one compile id, and everything of one session."""

from __future__ import annotations

from dataclasses import dataclass, field

from inductor_debug_jupyter.pipeline.records.bisect import BisectRecord
from inductor_debug_jupyter.pipeline.records.diff import DiffRecord
from inductor_debug_jupyter.pipeline.records.findings import Violation
from inductor_debug_jupyter.pipeline.records.graph import STAGES, GraphRecord, SourceLine
from inductor_debug_jupyter.pipeline.records.guards import Guard
from inductor_debug_jupyter.pipeline.records.memory import MemoryRecord
from inductor_debug_jupyter.pipeline.records.placement import CoverageRecord


@dataclass(frozen=True, slots=True)
class KernelRecord:
    """One generated kernel with its own source."""

    name: str
    code: str
    language: str = "cpp"
    stage: str = "forward"


@dataclass(frozen=True, slots=True)
class GraphBreak:
    """Why Dynamo split the graph, and on which line."""

    compile_id: str
    reason: str
    source: SourceLine | None = None
    hints: tuple[str, ...] = ()
    count: int = 1

    def __str__(self) -> str:
        where = f" at {self.source}" if self.source else ""
        return f"graph break{where}: {self.reason or 'torch gave no reason'}"


@dataclass(frozen=True, slots=True)
class Recompile:
    """Which guard failed, so that torch compiled the same code again."""

    compile_id: str
    reasons: tuple[str, ...]
    source: SourceLine | None = None

    def __str__(self) -> str:
        where = f" of {self.source}" if self.source else ""
        return f"recompile {self.compile_id}{where}: {'; '.join(self.reasons)}"


@dataclass(frozen=True, slots=True)
class Note:
    """Something the user should know about the capture itself: a part that failed, a call that could not be traced."""

    part: str
    message: str

    def __str__(self) -> str:
        return f"{self.part}: {self.message}"


@dataclass(frozen=True)
class CompileCapture:
    """Everything one compile id produced. What is absent says why in ``missing`` (stage → reason)."""

    compile_id: str
    name: str = ""
    source: SourceLine | None = None
    graphs: dict[str, GraphRecord] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    kernels: tuple[KernelRecord, ...] = ()
    missing: dict[str, str] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that were captured, in compile order."""
        have = set(self.graphs) | set(self.texts)
        if self.kernels:
            have.add("kernel")
        return tuple(stage for stage in STAGES if stage in have)

    def graph(self, stage: str) -> GraphRecord | None:
        """The graph of that stage, or None."""
        return self.graphs.get(stage)

    def text(self, stage: str) -> str | None:
        """The text of that stage (readable graph, IR or code), or None."""
        return self.texts.get(stage)


@dataclass(frozen=True)
class SessionRecord:
    """Everything a :class:`DebugSession` holds that outlives the process."""

    id: str
    created: str
    name: str
    target: str
    strict: bool
    torch_version: str
    tool_version: str
    captures: tuple[CompileCapture, ...] = ()
    findings: tuple[Violation, ...] = ()
    graph_breaks: tuple[GraphBreak, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    guards: tuple[Guard, ...] = ()
    diff: DiffRecord | None = None
    bisect: BisectRecord | None = None
    notes: tuple[Note, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)
    """Label (``In [4]``) → the whole text of every user file or cell that a captured line stands in."""
    repros: tuple[str, ...] = ()
    seconds: float = 0.0
    peak_memory: int | None = None
    memory_limit: int | None = None
    coverage: CoverageRecord | None = None
    memory: tuple[MemoryRecord, ...] = ()
