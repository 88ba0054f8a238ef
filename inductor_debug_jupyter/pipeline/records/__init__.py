"""What was captured and what was found, as frozen dataclasses that need no torch.

A record is a copy: it outlives the model, the compile and the process. Trees, tables and pictures are derived from it.

- captured: compile (one compile, and a whole session), graph, guards, guard_expressions, environment, deferred_texts
  (rendered on demand);
- found: findings (violations), placement (coverage and fallbacks), memory, transfers, diff, localization, numerics
  (error budget, prescription, tokens), timing (where the time of a call goes), bisect, repro, crash,
  conformance, benchmark;
- ``codec``: a session ↔ JSON of schema versions 1 and 2; ``schema``: its JSON Schema;
- ``in_words``: the text by which a record is shown; ``record_parts``: the parts of a session's record as attributes.
"""

from inductor_debug_jupyter.pipeline.records.benchmark import BackendTiming, BenchmarkRecord
from inductor_debug_jupyter.pipeline.records.bisect import BisectRecord, Rung
from inductor_debug_jupyter.pipeline.records.codec import SCHEMA_VERSION, dump_session, load_session
from inductor_debug_jupyter.pipeline.records.compile import (
    BACKWARD,
    CompileCapture,
    GraphBreak,
    KernelRecord,
    Note,
    Phase,
    Recompile,
    SessionRecord,
)
from inductor_debug_jupyter.pipeline.records.conformance import CheckRecord, ConformanceRecord
from inductor_debug_jupyter.pipeline.records.crash import CrashKind, CrashRecord
from inductor_debug_jupyter.pipeline.records.deferred_texts import DeferredTexts, Rest
from inductor_debug_jupyter.pipeline.records.diff import SUMS, DiffRecord, ErrorPlace, Heatmap, OutputDiff, Verdict
from inductor_debug_jupyter.pipeline.records.environment import EnvironmentRecord
from inductor_debug_jupyter.pipeline.records.findings import Place, Severity, Violation
from inductor_debug_jupyter.pipeline.records.graph import (
    STAGES,
    GraphRecord,
    NodeRecord,
    SourceLine,
    TensorSpec,
)
from inductor_debug_jupyter.pipeline.records.guards import Guard, SymbolRecord
from inductor_debug_jupyter.pipeline.records.localization import Culprit, LocalizationRecord, NodeError, NodeStatus
from inductor_debug_jupyter.pipeline.records.memory import EagerRun, EagerStorage, LiveTensor, MemoryRecord
from inductor_debug_jupyter.pipeline.records.numerics import (
    BudgetShare,
    ErrorBudget,
    GenerationDiff,
    GenerationStep,
    Narrowing,
    Prescription,
)
from inductor_debug_jupyter.pipeline.records.placement import (
    OP_STATUSES,
    CoverageRecord,
    Fallback,
    GraphCoverage,
    OpRow,
    OpStatus,
    PlannedTransfer,
    Segment,
    Side,
)
from inductor_debug_jupyter.pipeline.records.repro import ReproRecord
from inductor_debug_jupyter.pipeline.records.timing import KernelTime, ModuleTime, Roofs, TimingRecord
from inductor_debug_jupyter.pipeline.records.tokens import TokenDiff, TokenFlip
from inductor_debug_jupyter.pipeline.records.transfers import KernelSpec, Transfer

__all__ = [
    "BACKWARD",
    "OP_STATUSES",
    "SCHEMA_VERSION",
    "STAGES",
    "SUMS",
    "BackendTiming",
    "BenchmarkRecord",
    "BisectRecord",
    "BudgetShare",
    "CheckRecord",
    "CompileCapture",
    "ConformanceRecord",
    "CoverageRecord",
    "CrashKind",
    "CrashRecord",
    "Culprit",
    "DeferredTexts",
    "DiffRecord",
    "EagerRun",
    "EagerStorage",
    "EnvironmentRecord",
    "ErrorBudget",
    "ErrorPlace",
    "Fallback",
    "GenerationDiff",
    "GenerationStep",
    "GraphBreak",
    "GraphCoverage",
    "GraphRecord",
    "Guard",
    "Heatmap",
    "KernelRecord",
    "KernelSpec",
    "KernelTime",
    "LiveTensor",
    "LocalizationRecord",
    "MemoryRecord",
    "ModuleTime",
    "Narrowing",
    "NodeError",
    "NodeRecord",
    "NodeStatus",
    "Note",
    "OpRow",
    "OpStatus",
    "OutputDiff",
    "Phase",
    "Place",
    "PlannedTransfer",
    "Prescription",
    "Recompile",
    "ReproRecord",
    "Rest",
    "Roofs",
    "Rung",
    "Segment",
    "SessionRecord",
    "Severity",
    "Side",
    "SourceLine",
    "SymbolRecord",
    "TensorSpec",
    "TimingRecord",
    "TokenDiff",
    "TokenFlip",
    "Transfer",
    "Verdict",
    "Violation",
    "dump_session",
    "load_session",
]
