"""A localization: which nodes introduce a numerical error.

A number that is not finite is None (JSON has no infinity).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from inductor_debug_jupyter.pipeline.records.crash import CrashRecord
from inductor_debug_jupyter.pipeline.records.diff import Verdict
from inductor_debug_jupyter.pipeline.records.graph import SourceLine
from inductor_debug_jupyter.pipeline.records.in_words import InWords

NodeStatus = Literal["introduced", "amplified", "rounding", "not_compared"]
"""The node itself is wrong; it passes on an error from upstream; it is within rounding; it was not compared."""
STATUS_WORDS: Final[dict[str, str]] = {
    "introduced": "introduced here",
    "amplified": "amplified from upstream",
    "rounding": "rounding",
    "not_compared": "not compared",
}


@dataclass(frozen=True, slots=True)
class NodeError:
    """One node of a graph on the candidate.

    ``error`` is that of the node alone, on the candidate's own inputs (teacher-forced), at the worst element and
    relative to it; ``allowed`` is what rounding explains there. ``free_error`` is against a reference that ran from
    the start (free-running), with ``free_allowed`` beside it.
    """

    graph: str
    node: str
    op: str
    status: NodeStatus
    error: float | None = None
    allowed: float | None = None
    free_error: float | None = None
    free_allowed: float | None = None
    kernel: str = ""
    module_path: str = ""
    source: SourceLine | None = None
    reason: str = ""

    @property
    def in_sequence(self) -> tuple[float | None, float]:
        """The free-running error and its allowance, or the node's own where there is none."""
        if self.free_allowed is not None:
            return self.free_error, self.free_allowed
        return self.error, self.allowed or 0.0


@dataclass(frozen=True, slots=True)
class Culprit(InWords):
    """The op that introduces the error, with its node, kernel, module and the user's line.

    ``index`` is the worst element, with the expected and the found value. ``only_fused`` means that the error is gone
    when the op's result is written to memory. ``spec`` is the kernel's own description, where a device gives one. An
    op that crashed the candidate's process has neither ``error`` nor ``allowed``; ``reason`` says how it ended.
    """

    op: str
    node: str
    graph: str
    kernel: str = ""
    module_path: str = ""
    source: SourceLine | None = None
    error: float | None = None
    allowed: float | None = None
    index: tuple[int, ...] = ()
    expected: float | None = None
    found: float | None = None
    only_fused: bool = False
    reason: str = ""
    spec: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        where = f" at {self.source}" if self.source else ""
        within = f" in {self.kernel}" if self.kernel else ""
        return f"{self.op} ({self.graph} {self.node}){within}{where}"


@dataclass(frozen=True, slots=True)
class LocalizationRecord(InWords):
    """Every node that could be compared, in the order of execution, and the culprits.

    ``verdict`` is that of the outputs as a whole: without culprits, only ``match`` and ``rounding`` are a pass.
    ``crashes`` has how a candidate's process ended, with the end of what it wrote.
    """

    model: str
    candidate: str
    culprits: tuple[Culprit, ...] = ()
    nodes: tuple[NodeError, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    compiles: int = 0
    peak_bytes: int = 0
    images: tuple[str, ...] = ()
    crashes: tuple[CrashRecord, ...] = ()
    verdict: Verdict = "not_compared"

    @property
    def compared(self) -> int:
        """The number of compared nodes."""
        return sum(node.status != "not_compared" for node in self.nodes)
