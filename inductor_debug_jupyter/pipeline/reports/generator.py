"""Write reports as files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from inductor_debug_jupyter.pipeline.errors import OptionError, StoreError
from inductor_debug_jupyter.pipeline.reports.collect import ArtifactsLike, ReportData, collect
from inductor_debug_jupyter.pipeline.reports.html_report import render
from inductor_debug_jupyter.pipeline.reports.json_report import report_data
from inductor_debug_jupyter.pipeline.reports.markdown_report import markdown_report

FORMATS = ("html", "json", "md")


class HTMLReportGenerator:
    """Writes an HTML page on the sessions and benchmarks of an artifact folder.

    Args:
        artifacts: the artifact folder; the one that the settings name by default.
    """

    def __init__(self, artifacts: ArtifactsLike = None) -> None:
        self.artifacts = artifacts

    def generate(self, output_path: str | Path | None = None, sessions: Sequence[str] | None = None) -> Path:
        """Write the page and return its path.

        Args:
            output_path: the file; ``reports/debug_report_<timestamp>….html`` in the artifact folder by default.
            sessions: ids, their beginnings, or ``last``; all by default.

        Raises:
            NotFoundError: nothing was captured, or one of ``sessions`` is not there.
            StoreError: the file cannot be written.
        """
        return write_report(collect(self.artifacts, sessions), "html", output_path)


def report_text(data: ReportData, form: str) -> str:
    """The whole report in one of :data:`FORMATS`."""
    if form == "html":
        return render(data)
    if form == "json":
        return json.dumps(report_data(data), indent=2, ensure_ascii=False) + "\n"
    if form == "md":
        return markdown_report(data)
    raise OptionError(f"report format {form!r} is not allowed; allowed: {', '.join(FORMATS)}")


def report_name(data: ReportData, form: str) -> str:
    """The file name of a report by its time: ``debug_report_20260102_030405.html``."""
    return f"debug_report_{data.created:%Y%m%d_%H%M%S}.{form}"


def write_report(data: ReportData, form: str = "html", output: str | Path | None = None) -> Path:
    """Write a report.

    Args:
        data: what :func:`~inductor_debug_jupyter.pipeline.reports.collect.collect` read.
        form: ``html``, ``json`` or ``md``.
        output: the file. By default the report goes into the artifact folder, as a file of the newest session, with
            which it is cleaned.

    Raises:
        StoreError: the file cannot be written.
    """
    text = report_text(data, form)
    if output is None:
        owner = data.sessions[0].id if data.sessions else data.benchmarks[0].session_id or "report"
        return data.store.write("reports", report_name(data, form), text, owner)
    path = Path(output)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", errors="backslashreplace")
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror or error}; choose another file") from error
    return path.absolute()
