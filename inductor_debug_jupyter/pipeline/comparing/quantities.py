"""The figures of two runs."""

from __future__ import annotations

from collections.abc import Callable

from inductor_debug_jupyter.pipeline.comparing.changes import Quantity
from inductor_debug_jupyter.pipeline.comparing.kernels import launch_count
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.records.compile import compile_seconds
from inductor_debug_jupyter.pipeline.records.placement import ON_TARGET

Value = Callable[[SessionRecord], float | None]


def _when_captured(count: Value) -> Value:
    """A count is not known where nothing was captured."""
    return lambda record: count(record) if record.captures else None


def _fallbacks(record: SessionRecord) -> float | None:
    return None if record.coverage is None else sum(each.count for each in record.coverage.fallbacks)


def _coverage(record: SessionRecord) -> float | None:
    """The share of ops that the target runs, in percent."""
    found = record.coverage
    return 100.0 * found.count(*ON_TARGET) / found.nodes if found and found.nodes else None


def _moved(record: SessionRecord) -> float | None:
    """Bytes that move between CPU and target inside the graphs."""
    return record.coverage.moved("border") if record.coverage else None


def _largest_error(record: SessionRecord) -> float | None:
    outputs = record.diff.outputs if record.diff else ()
    errors = [output.max_absolute_error for output in outputs]
    return None if None in errors or not errors else max(error or 0.0 for error in errors)


def _ops(record: SessionRecord) -> float | None:
    graphs = [graph for each in record.captures if (graph := each.graph("dynamo")) is not None]
    return sum(len(graph.calls) for graph in graphs) if graphs else None


def _severity(severity: str) -> Value:
    return lambda record: sum(each.severity == severity for each in record.findings) if record.target else None


QUANTITIES: dict[str, tuple[Value, str, bool]] = {
    "graphs": (_when_captured(lambda record: len(record.captures)), "", True),
    "breaks": (lambda record: len(record.graph_breaks), "", True),
    "recompiles": (lambda record: len(record.recompiles), "", True),
    "guards": (_when_captured(lambda record: len(record.guards)), "", True),
    "ops": (_ops, "", True),
    "kernels": (lambda record: launch_count(record.captures), "", True),
    "errors": (_when_captured(_severity("error")), "", True),
    "warnings": (_when_captured(_severity("warning")), "", True),
    "fallbacks": (_fallbacks, "", True),
    "coverage": (_coverage, "%", True),
    "moved": (_moved, "bytes", True),
    "memory": (lambda record: record.peak_memory, "bytes", True),
    "error": (_largest_error, "error", False),
    "compile-time": (
        _when_captured(lambda record: sum(compile_seconds(each.phases) for each in record.captures)),
        "seconds",
        False,
    ),
}
"""Name of a figure → its value, its unit, and whether the same program has the same value each time."""


def quantities_of(before: SessionRecord, after: SessionRecord) -> tuple[Quantity, ...]:
    """Every figure of both runs."""
    return tuple(
        Quantity(name, value(before), value(after), unit, repeats)
        for name, (value, unit, repeats) in QUANTITIES.items()
    )
