"""The table at the end of a benchmark."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import BackendTiming, BenchmarkRecord
from inductor_debug_jupyter.pipeline.reports.noise import is_noisy
from inductor_debug_jupyter.pipeline.views.diff import VERDICT_WORDS

COLUMNS = (
    *("Model", "Params", "Eager ms", "Inductor ms", "Mock ms", "Speedup", "Compile s"),
    *("Graphs", "Breaks", "Findings", "KernelDiff"),
)


def model_rows(records: Sequence[BenchmarkRecord]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Columns and rows."""
    return COLUMNS, [_row(record) for record in records]


def failure_lines(records: Iterable[BenchmarkRecord]) -> list[str]:
    """One line for each backend that failed."""
    return [
        f"{plain(record.model)} on {timing.backend} failed: {plain(timing.error)}"
        for record in records
        for timing in record.timings
        if timing.error
    ]


def noise_lines(records: Iterable[BenchmarkRecord]) -> list[str]:
    """One line for each latency that varied too much to be relied on."""
    return [
        f"{plain(record.model)} on {timing.backend} is noisy (± {timing.latency_std / timing.latency_mean:.0%}): "
        "measure again on a quiet machine, with more --runs"
        for record in records
        for timing in record.timings
        if is_noisy(timing)
    ]


def print_table(columns: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[str] = ()) -> None:
    """Print a table to stdout: as wide as the terminal, or as wide as needed when the output goes elsewhere."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold")
    numbers = set(right)
    for column in columns:
        table.add_column(column, justify="right" if column in numbers else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(plain(cell)) for cell in row))
    Console(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False).print(table)


def print_line(text: str) -> None:
    """One line on stdout; suites are programs, so they may print."""
    print(text)  # noqa: T201 - the program's own output


def _row(record: BenchmarkRecord) -> tuple[str, ...]:
    inductor = record.timing("inductor")
    compiled = inductor is not None and not inductor.error
    return (
        record.model,
        f"{record.parameters / 1e6:.1f}M",
        _latency(record.timing("eager")),
        _latency(inductor),
        _latency(record.timing("mock_backend")),
        f"{record.speedup:.2f}×" if compiled and record.speedup else "–",
        f"{inductor.compile_seconds:.1f}" if compiled and inductor else "–",
        str(record.graphs),
        str(record.graph_breaks),
        str(sum(record.findings.values())),
        VERDICT_WORDS[record.diff_verdict],
    )


def _latency(timing: BackendTiming | None) -> str:
    if timing is None:
        return "–"
    if timing.error:
        return "failed"
    return f"{timing.latency_mean * 1000:.1f} ± {timing.latency_std * 1000:.1f}"
