"""The report as plain data, for programs.

The newest session is at the top level; when there are several, ``sessions`` has all of them in the same form.
``benchmarks`` and ``problems`` are keys only when there are any. ``schema_version`` grows when a key changes its
meaning or goes; new keys do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict

import msgspec

from inductor_debug_jupyter.pipeline.records import (
    BenchmarkRecord,
    BisectRecord,
    CoverageRecord,
    DiffRecord,
    EnvironmentRecord,
    ErrorBudget,
    GraphBreak,
    Guard,
    LocalizationRecord,
    MemoryRecord,
    Prescription,
    Recompile,
    SessionRecord,
    TimingRecord,
    Violation,
)
from inductor_debug_jupyter.pipeline.reports.collect import ArtifactsLike, ReportData, collect
from inductor_debug_jupyter.pipeline.store import Artifact

SCHEMA_VERSION = 1


class Summary(TypedDict):
    """The four figures of a session."""

    total_graphs: int
    graph_breaks: int
    constraint_violations: int
    kernel_diff_passed: bool | None


class Memory(TypedDict):
    """Peak and limit in bytes, and each graph over time."""

    peak: int | None
    limit: int | None
    graphs: list[MemoryRecord]


class ReportedSession(TypedDict):
    """The keys of one session in the JSON report."""

    model: str | None
    timestamp: str
    summary: Summary
    guards: list[Guard]
    constraints: list[Violation]
    kernel_diff: DiffRecord | None
    localization: LocalizationRecord | None
    bisect: BisectRecord | None
    error_budget: ErrorBudget | None
    kernel_times: TimingRecord | None
    prescription: Prescription | None
    coverage: CoverageRecord | None
    memory: Memory
    breaks: list[GraphBreak]
    recompiles: list[Recompile]
    timings: dict[str, dict[str, float]]
    environment: EnvironmentRecord | None
    repros: list[str]
    artifacts: list[Artifact]


def json_report(artifacts: ArtifactsLike = None, sessions: Sequence[str] | None = None) -> dict[str, Any]:
    """Sessions and benchmarks as data that ``json.dumps`` takes; for the arguments see :func:`collect`."""
    return report_data(collect(artifacts, sessions))


def report_data(data: ReportData) -> dict[str, Any]:
    """A report's data as plain JSON values."""
    sessions = [_session(record, data.artifacts[record.id]) for record in data.sessions]
    report: dict[str, Any] = (
        dict(sessions[0]) if sessions else {"model": None, "timestamp": data.created.isoformat(timespec="seconds")}
    )
    report = {"schema_version": SCHEMA_VERSION, **report}
    if len(sessions) > 1:
        report["sessions"] = [{"id": record.id, **one} for record, one in zip(data.sessions, sessions, strict=True)]
    if data.benchmarks:
        report["benchmarks"] = [{**_plain(record), "speedup": record.speedup} for record in data.benchmarks]
    if data.problems:
        report["problems"] = list(data.problems)
    return report


def report_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a report; ``inductor-debug schema --of report`` prints it."""
    (session, benchmark), components = msgspec.json.schema_components([ReportedSession, BenchmarkRecord])
    properties = components["ReportedSession"]["properties"]
    extra = {
        "schema_version": {"const": SCHEMA_VERSION},
        "sessions": {"type": "array", "items": session, "description": "Every session, when there are several."},
        "benchmarks": {"type": "array", "items": benchmark},
        "problems": {"type": "array", "items": {"type": "string"}, "description": "Stored files that were not read."},
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:inductor-debug-jupyter:report:{SCHEMA_VERSION}",
        "title": "A report of inductor-debug-jupyter",
        "description": "The newest session; with several, all of them in sessions. New keys may come with any release.",
        "type": "object",
        "properties": {**properties, **extra},
        "required": ["schema_version", "model", "timestamp"],
        "$defs": components,
    }


def _session(record: SessionRecord, artifacts: tuple[Artifact, ...]) -> dict[str, Any]:
    return {
        "model": record.name,
        "timestamp": record.created,
        "summary": session_summary(record),
        "guards": _plain(record.guards),
        "constraints": _plain(record.findings),
        "kernel_diff": _plain(record.diff),
        "localization": _plain(record.localization),
        "bisect": _plain(record.bisect),
        "error_budget": _plain(record.error_budget),
        "kernel_times": _plain(record.kernel_times),
        "prescription": _plain(record.prescription),
        "coverage": _plain(record.coverage),
        "memory": {"peak": record.peak_memory, "limit": record.memory_limit, "graphs": _plain(record.memory)},
        "breaks": _plain(record.graph_breaks),
        "recompiles": _plain(record.recompiles),
        "timings": {capture.compile_id: capture.seconds for capture in record.captures},
        "environment": _plain(record.environment),
        "repros": list(record.repros),
        "artifacts": _plain(artifacts),
    }


def session_summary(record: SessionRecord) -> dict[str, Any]:
    """The four figures of a session."""
    return {
        "total_graphs": len(record.captures),
        "graph_breaks": len(record.graph_breaks),
        "constraint_violations": len(record.findings),
        "kernel_diff_passed": kernel_diff_passed(record),
    }


def kernel_diff_passed(record: SessionRecord) -> bool | None:
    """Whether the numbers match; None when nothing was compared."""
    if record.diff is None or record.diff.verdict == "not_compared":
        return None
    return record.diff.passed


def _plain(value: Any) -> Any:
    return msgspec.to_builtins(value)
