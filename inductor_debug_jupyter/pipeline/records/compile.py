"""The records of one compile id and of one session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from inductor_debug_jupyter.pipeline.records.bisect import BisectRecord
from inductor_debug_jupyter.pipeline.records.deferred_texts import DeferredTexts, Rest
from inductor_debug_jupyter.pipeline.records.diff import DiffRecord
from inductor_debug_jupyter.pipeline.records.environment import EnvironmentRecord
from inductor_debug_jupyter.pipeline.records.findings import Violation
from inductor_debug_jupyter.pipeline.records.graph import STAGES, GraphRecord, SourceLine
from inductor_debug_jupyter.pipeline.records.guards import Guard, SymbolRecord
from inductor_debug_jupyter.pipeline.records.in_words import InWords
from inductor_debug_jupyter.pipeline.records.localization import LocalizationRecord
from inductor_debug_jupyter.pipeline.records.memory import EagerRun, MemoryRecord
from inductor_debug_jupyter.pipeline.records.numerics import ErrorBudget, Prescription
from inductor_debug_jupyter.pipeline.records.placement import CoverageRecord
from inductor_debug_jupyter.pipeline.records.repro import ReproRecord
from inductor_debug_jupyter.pipeline.records.timing import TimingRecord
from inductor_debug_jupyter.pipeline.records.transfers import KernelSpec, Transfer

BACKWARD = ":backward"
"""Suffix of a stage's key for the part of it that belongs to the backward (``code:backward``)."""

JOIN = "\n\n# ---- backward ----\n\n"


@dataclass(frozen=True, slots=True)
class KernelRecord(InWords):
    """One generated kernel with its own source.

    A kernel of a library (``language`` is ``extern``) has the lines that call it. ``stage`` is ``forward`` or
    ``backward``; ``calls`` has, for each call in the wrapper code, the post-grad nodes that the call computes.
    """

    name: str
    code: str
    language: str = "cpp"
    stage: str = "forward"
    calls: tuple[tuple[str, ...], ...] = ()

    @property
    def nodes(self) -> tuple[str, ...]:
        """Every post-grad node that some call of the kernel computes."""
        return tuple(dict.fromkeys(name for call in self.calls for name in call))

    def __str__(self) -> str:
        return f"{self.name} ({self.language}, {self.stage}, {len(self.code.splitlines()):,} lines)"


@dataclass(frozen=True, slots=True)
class Phase:
    """One step of a compile as torch times it: seconds since the compile began, how long, how deeply nested."""

    name: str
    start: float
    seconds: float
    depth: int = 0


PHASE_WORDS = {
    "bytecode_tracing": "tracing Python",
    "create_aot_dispatcher_function": "tracing forward and backward",
    "_recursive_joint_graph_passes": "rewriting the joint graph",
    "min_cut_rematerialization_partition": "dividing forward and backward",
    "GraphLowering.run": "lowering to Inductor's IR",
    "Scheduler.__init__": "fusing",
    "Scheduler.codegen": "generating code",
    "PyCodeCache.load_by_key_path": "compiling kernels",
    "async_compile.wait": "compiling kernels",
    "build_guards": "writing guards",
}
"""torch's name of a phase → the words of a progress line. Other phases are too short to be shown."""


@dataclass(frozen=True, slots=True)
class GraphBreak(InWords):
    """Why Dynamo split the graph, and on which line.

    ``gb_type`` is torch's name for this kind of break, ``torch_id`` its id (``GB0059``) in torch's list of them.
    """

    compile_id: str
    reason: str
    source: SourceLine | None = None
    hints: tuple[str, ...] = ()
    count: int = 1
    gb_type: str = ""
    torch_id: str = ""

    def __str__(self) -> str:
        where = f" at {self.source}" if self.source else ""
        return f"graph break{where}: {self.reason or 'torch gave no reason'}"


@dataclass(frozen=True, slots=True)
class Recompile(InWords):
    """Which guard failed, so that torch compiled the same code again.

    ``check`` is the newest graph's check that failed, ``expression`` what it looks at, ``old`` the value that it wants
    and ``new`` the value there was; ``aspect`` is the property of a tensor or the process-wide state that differs.
    ``call`` counts the calls of the function from 1. ``seconds`` is what the new compile cost; ``made`` is False when
    torch compiled nothing, because of its limit of recompiles or an error.
    """

    compile_id: str
    reasons: tuple[str, ...]
    source: SourceLine | None = None
    check: str = ""
    expression: str = ""
    old: str = ""
    new: str = ""
    aspect: str = ""
    call: int = 0
    seconds: float = 0.0
    made: bool = True

    def __str__(self) -> str:
        where = f" of {self.source}" if self.source else ""
        return f"recompile {self.compile_id}{where}: {'; '.join(self.reasons)}"


@dataclass(frozen=True, slots=True)
class Note(InWords):
    """A remark on the capture itself: a part that failed, a call that could not be traced."""

    part: str
    message: str

    def __str__(self) -> str:
        return f"{self.part}: {self.message}"


@dataclass(frozen=True)
class CompileCapture(InWords):
    """Everything one compile id produced. ``missing`` says why a stage is absent (stage → reason).

    ``graphs`` and ``texts`` are keyed by stage; what Inductor made of the backward by ``<stage>:backward``.
    ``caches`` says for ``aot`` and ``fx`` whether torch's cache was ``hit``, ``missed`` or ``bypassed``. ``call``
    counts the calls of the function that was called, from 1; it is 0 when they were not counted. ``eager`` is what is
    alive while the program runs eagerly; None when it was not run so. ``sizes`` has the values that the open sizes had in
    the calls of a strict session (``{"s0": 30}``), each combination once.
    """

    compile_id: str
    name: str = ""
    source: SourceLine | None = None
    graphs: dict[str, GraphRecord] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    kernels: tuple[KernelRecord, ...] = ()
    missing: dict[str, str] = field(default_factory=dict)
    phases: tuple[Phase, ...] = ()
    caches: dict[str, str] = field(default_factory=dict)
    call: int = 0
    eager: EagerRun | None = None
    sizes: tuple[dict[str, int], ...] = ()

    @property
    def stages(self) -> tuple[str, ...]:
        """The stages that were captured, in compile order."""
        have = {key.removesuffix(BACKWARD) for key in (*self.graphs, *self.texts)}
        if self.kernels:
            have.add("kernel")
        return tuple(stage for stage in STAGES if stage in have)

    @property
    def rest(self) -> Rest | None:
        """What makes the stages that are still to be made; None when all are there, and in a loaded session."""
        return self.texts.rest if isinstance(self.texts, DeferredTexts) else None

    def graph(self, stage: str) -> GraphRecord | None:
        """The graph of that stage, or None."""
        return self.graphs.get(stage)

    def text(self, stage: str) -> str | None:
        """The text of that stage (readable graph, IR or code), the backward's after the forward's, or None."""
        parts = [self.texts[key] for key in (stage, f"{stage}{BACKWARD}") if key in self.texts]
        return JOIN.join(parts) if parts else None

    def kernel(self, name: str) -> KernelRecord | None:
        """The first kernel of that name, or None."""
        return next((kernel for kernel in self.kernels if kernel.name == name), None)

    @property
    def seconds(self) -> dict[str, float]:
        """Phase → seconds, added up over the times that it ran."""
        totals: dict[str, float] = {}
        for phase in self.phases:
            totals[phase.name] = totals.get(phase.name, 0.0) + phase.seconds
        return totals

    @property
    def cost(self) -> float:
        """Seconds from the beginning of the compile to its end, without a backward that was compiled later."""
        return compile_seconds(self.phases)

    def __str__(self) -> str:
        missing = f"; missing: {', '.join(self.missing)}" if self.missing else ""
        return f"{self.compile_id} {self.name}: {', '.join(self.stages)}{missing}"


def compile_seconds(phases: Iterable[Phase]) -> float:
    """Seconds that Dynamo and what it called took; torch has no ``dynamo`` phase in a process's first compile."""
    return sum(phase.seconds for phase in phases if phase.name == "entire_frame_compile")


@dataclass(frozen=True)
class SessionRecord(InWords):
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
    symbols: tuple[SymbolRecord, ...] = ()
    """Symbolic sizes and numbers, with their ranges."""
    diff: DiffRecord | None = None
    bisect: BisectRecord | None = None
    localization: LocalizationRecord | None = None
    error_budget: ErrorBudget | None = None
    prescription: Prescription | None = None
    kernel_times: TimingRecord | None = None
    """Where the time of a call goes."""
    notes: tuple[Note, ...] = ()
    sources: dict[str, str] = field(default_factory=dict)
    """Label (``In [4]``) → the whole text of every user file or cell with a captured line."""
    repros: tuple[str, ...] = ()
    seconds: float = 0.0
    peak_memory: int | None = None
    memory_limit: int | None = None
    coverage: CoverageRecord | None = None
    memory: tuple[MemoryRecord, ...] = ()
    transfers: tuple[Transfer, ...] = ()
    """Tensors that adapters sent to their device and got back, in order."""
    kernel_specs: tuple[KernelSpec, ...] = ()
    """The kernels that adapters made."""
    environment: EnvironmentRecord | None = None
    """Where it ran; None in files of earlier releases."""
    minimal: ReproRecord | None = None
    """The last reduction's script."""
