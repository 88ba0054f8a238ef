"""What was captured and what was found, as frozen dataclasses that need no torch.

A record is a copy: it outlives the model, the compile and the process. It saves and loads as JSON (see
:mod:`~inductor_debug_jupyter.pipeline.records.codec`); trees, tables and pictures are derived from it on demand.
"""

from inductor_debug_jupyter.pipeline.records.codec import SCHEMA_VERSION, dump_session, load_session
from inductor_debug_jupyter.pipeline.records.compile import (
    CompileCapture,
    GraphBreak,
    KernelRecord,
    Note,
    Recompile,
    SessionRecord,
)
from inductor_debug_jupyter.pipeline.records.findings import Place, Severity, Violation
from inductor_debug_jupyter.pipeline.records.graph import (
    GRAPH_STAGES,
    STAGES,
    GraphRecord,
    NodeRecord,
    SourceLine,
    Stage,
    TensorSpec,
)

__all__ = [
    "GRAPH_STAGES",
    "SCHEMA_VERSION",
    "STAGES",
    "CompileCapture",
    "GraphBreak",
    "GraphRecord",
    "KernelRecord",
    "NodeRecord",
    "Note",
    "Place",
    "Recompile",
    "SessionRecord",
    "Severity",
    "SourceLine",
    "Stage",
    "TensorSpec",
    "Violation",
    "dump_session",
    "load_session",
]
