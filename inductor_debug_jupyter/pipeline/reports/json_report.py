"""The report as plain data, for programs.

The newest session is at the top level; when there are several, ``sessions`` has all of them in the same form.
``benchmarks`` and ``problems`` are keys only when there are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.reports.collect import ArtifactsLike, ReportData, collect
from inductor_debug_jupyter.pipeline.store import Artifact


def json_report(artifacts: ArtifactsLike = None, sessions: Sequence[str] | None = None) -> dict[str, Any]:
    """Sessions and benchmarks as data that ``json.dumps`` takes; for the arguments see :func:`collect`."""
    return report_data(collect(artifacts, sessions))


def report_data(data: ReportData) -> dict[str, Any]:
    """A report's data as plain JSON values."""
    sessions = [_session(record, data.artifacts[record.id]) for record in data.sessions]
    report: dict[str, Any] = (
        dict(sessions[0]) if sessions else {"model": None, "timestamp": data.created.isoformat(timespec="seconds")}
    )
    if len(sessions) > 1:
        report["sessions"] = [{"id": record.id, **one} for record, one in zip(data.sessions, sessions, strict=True)]
    if data.benchmarks:
        report["benchmarks"] = [{**_plain(record), "speedup": record.speedup} for record in data.benchmarks]
    if data.problems:
        report["problems"] = list(data.problems)
    return report


def _session(record: SessionRecord, artifacts: tuple[Artifact, ...]) -> dict[str, Any]:
    return {
        "model": record.name,
        "timestamp": record.created,
        "summary": session_summary(record),
        "guards": _plain(record.guards),
        "constraints": _plain(record.findings),
        "kernel_diff": _plain(record.diff),
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
