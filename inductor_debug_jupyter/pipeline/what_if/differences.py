"""Compare two sessions: the findings that are gone, new or the same, and every figure before and after."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.comparing.findings import equal_findings, reworded_findings
from inductor_debug_jupyter.pipeline.devices.checker import checked_graphs
from inductor_debug_jupyter.pipeline.harmless import Harmless
from inductor_debug_jupyter.pipeline.records import SessionRecord, Violation
from inductor_debug_jupyter.pipeline.records.findings import severity_counts
from inductor_debug_jupyter.pipeline.records.placement import ON_TARGET
from inductor_debug_jupyter.pipeline.what_if.judging import present_ops
from inductor_debug_jupyter.pipeline.what_if.outputs import Numbers

Kind = Literal["same", "better", "worse", "other"]
NOT_KNOWN = "not known"
NOTHING_RAN = "nothing ran again"
_COVERAGE = (("on the CPU", "fallback", "less"), ("refused", "refused", "less"), ("decomposed", "decomposable", ""))
"""Name of the figure, status of an op, and which change of its count is better."""


@dataclass(frozen=True)
class Figure:
    """One line of the table: part (``memory``), name, both values as text, the change, and whether it is better."""

    part: str
    name: str
    before: str
    after: str
    change: str = ""
    kind: Kind = "same"

    @property
    def changed(self) -> bool:
        """Whether before and after differ."""
        return self.kind != "same"

    @property
    def sign(self) -> str:
        """An arrow for a figure that grew or shrank, else ``=`` or ``≠``: the table can be read without colours."""
        if not self.changed:
            return "="
        if self.change[:1] in ("+", "−"):
            return "▲" if self.change[0] == "+" else "▼"
        return {"better": "▼", "worse": "▲"}.get(self.kind, "≠") if self.part == "findings" else "≠"


@dataclass(frozen=True)
class Changes(Harmless):
    """What a what-if changes: findings, figures and numbers."""

    gone: tuple[Violation, ...] = ()
    new: tuple[Violation, ...] = ()
    same: tuple[Violation, ...] = ()
    reworded: tuple[tuple[Violation, Violation], ...] = ()
    figures: tuple[Figure, ...] = ()
    numbers: Numbers = field(default_factory=Numbers)

    @property
    def what(self) -> tuple[str, ...]:
        """The parts that change: of ``findings, coverage, transfers, ops, graphs, memory, limit, numbers``."""
        return tuple(dict.fromkeys(figure.part for figure in self.figures if figure.changed))

    def figure(self, name: str) -> Figure:
        """The figure of that name."""
        return next(each for each in self.figures if each.name == name)

    def __str__(self) -> str:
        if not self.what:
            return "changes nothing"
        if len(self.what) == 1:
            return f"changes {self.what[0]} and nothing else"
        return f"changes {', '.join(self.what[:-1])} and {self.what[-1]}"


def compared(before: SessionRecord, after: SessionRecord, numbers: Numbers) -> Changes:
    """Compare two records."""
    same, left, unpaired = equal_findings(before.findings, after.findings)
    reworded, gone, new = reworded_findings(left, unpaired)
    figures = [
        _finding_figure(before, after, {"new": len(new), "gone": len(gone), "in other words": len(reworded)}),
        *_coverage_figures(before, after),
        _ops_figure(before, after),
        _count("graphs", "graphs", len(before.captures), len(after.captures)),
        _count("graphs", "graph breaks", len(before.graph_breaks), len(after.graph_breaks)),
        _size("memory", "peak memory", before.peak_memory, after.peak_memory),
        _size("limit", "memory limit", before.memory_limit, after.memory_limit, none="none", judge=False),
        _numbers_figure(numbers),
    ]
    return Changes(gone, new, tuple(now for _, now in same), reworded, tuple(figures), numbers)


def _finding_figure(before: SessionRecord, after: SessionRecord, differing: Mapping[str, int]) -> Figure:
    counts = [tuple(severity_counts(record.findings).values()) for record in (before, after)]
    was, now = _finding_text(before), _finding_text(after)
    change = ", ".join(f"{number:,} {kind}" for kind, number in differing.items() if number)
    if not change:
        return Figure("findings", "findings", was, now)
    kind: Kind = "better" if counts[1] < counts[0] else "worse" if counts[1] > counts[0] else "other"
    return Figure("findings", "findings", was, now, change, kind)


def _finding_text(record: SessionRecord) -> str:
    counts = [words.count(number, severity) for severity, number in severity_counts(record.findings).items() if number]
    return ", ".join(counts) or "none"


def _coverage_figures(before: SessionRecord, after: SessionRecord) -> list[Figure]:
    if before.coverage is None or after.coverage is None:
        texts = [NOT_KNOWN if record.coverage is None else str(record.coverage) for record in (before, after)]
        return [Figure("coverage", "coverage", texts[0], texts[1], kind="same" if texts[0] == texts[1] else "other")]
    coverages = (before.coverage, after.coverage)
    shares = [(found.count(*ON_TARGET), found.nodes) for found in coverages]
    moved = [found.moved("border") for found in coverages]
    texts = [f"{words.share(on_target, total)} of {words.count(total, 'op')}" for on_target, total in shares]
    points = [100.0 * on_target / total if total else 100.0 for on_target, total in shares]
    return [
        _figure("coverage", "on the target", texts, points[1] - points[0], better="more", unit=" points"),
        *(
            _count("coverage", name, before.coverage.count(status), after.coverage.count(status), better=better)
            for name, status, better in _COVERAGE
        ),
        _size("transfers", "moved between CPU and target", *moved),
    ]


def _ops_figure(before: SessionRecord, after: SessionRecord) -> Figure:
    """The number of ops, and which are new or gone."""
    ops = [present_ops(record.captures) for record in (before, after)]
    graphs = ([graph for each in record.captures for graph in checked_graphs(each)] for record in (before, after))
    was, now = (words.count(sum(len(graph.calls) for graph in each), "op") for each in graphs)
    came: Counter[str] = ops[1] - ops[0]
    went: Counter[str] = ops[0] - ops[1]
    if not came and not went and was == now:
        return Figure("ops", "ops", was, now)
    changed = [f"+{number} {op}" for op, number in came.most_common(3)]
    changed += [f"−{number} {op}" for op, number in went.most_common(3)]
    return Figure("ops", "ops", was, now, ", ".join(changed) or "other views", "other")


def _count(part: str, name: str, before: int, after: int, better: str = "less") -> Figure:
    return _figure(part, name, [f"{before:,}", f"{after:,}"], after - before, better=better)


def _figure(part: str, name: str, texts: Sequence[str], more: float, *, better: str, unit: str = "") -> Figure:
    if texts[0] == texts[1] and not more:
        return Figure(part, name, texts[0], texts[1])
    grew = "more" if more > 0 else "less"
    kind: Kind = "other" if not better or not more else "better" if grew == better else "worse"
    return Figure(part, name, texts[0], texts[1], _signed(more) + unit if more else "", kind)


def _size(
    part: str, name: str, before: int | None, after: int | None, *, none: str = NOT_KNOWN, judge: bool = True
) -> Figure:
    texts = [none if size is None else words.size(size) for size in (before, after)]
    if before == after:
        return Figure(part, name, texts[0], texts[1])
    if before is None or after is None or not judge:
        return Figure(part, name, texts[0], texts[1], kind="other")
    change = f"{_signed(100.0 * (after - before) / before)} %" if before else f"+{words.size(after)}"
    return Figure(part, name, texts[0], texts[1], change, "better" if after < before else "worse")


def _numbers_figure(numbers: Numbers) -> Figure:
    """How far the outputs are apart; rounding counts as a change with another dtype, but not with another batch."""
    verdict, largest = numbers.verdict, numbers.largest
    if numbers.why == NOTHING_RAN:
        return Figure("numbers", "numbers", "", f"as before: {NOTHING_RAN}")
    if verdict == "not_compared":
        why = numbers.why or next((each.reason for each in numbers.outputs), "nothing came out")
        return Figure("numbers", "numbers", "", f"not compared: {why}")
    apart = f"up to {largest:.2g} apart" if largest else "equal"
    left = sum(each.verdict == "not_compared" for each in numbers.outputs)
    apart += f", {words.count(left, 'output')} not compared" if left else ""
    if numbers.other_arithmetic and largest:
        return Figure("numbers", "numbers", "", apart, *_noise(numbers))
    if verdict == "mismatch":
        wrong = sum(each.verdict == "mismatch" for each in numbers.outputs)
        return Figure("numbers", "numbers", "", apart, f"{words.count(wrong, 'output')} beyond tolerance", "worse")
    if numbers.other_dtype and largest:
        return Figure("numbers", "numbers", "", apart, "within tolerance", "other")
    return Figure("numbers", "numbers", "", apart, "within tolerance" if largest else "")


def _noise(numbers: Numbers) -> tuple[str, Kind]:
    """The output with the least signal, and whether the numbers are numbers still."""
    known = [each.signal_to_noise for each in numbers.outputs if each.signal_to_noise is not None]
    signal = f"SQNR {min(known):.1f} dB" if known else "not finite"
    return signal, "other" if math.isfinite(numbers.largest) else "worse"


def _signed(number: float) -> str:
    """``+3``, ``−12.5``: with the minus sign of typography."""
    text = f"{abs(number):,.0f}" if abs(number) >= 100 or float(number).is_integer() else f"{abs(number):.3g}"
    return ("−" if number < 0 else "+") + text
