"""What a measurement of the capture says, in rows and sentences; the same data as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from inductor_debug_jupyter.benchmarks.costs import CallRatios, Cost, Fit, LayerCost, best_ratio, ratio, ratio_range
from inductor_debug_jupyter.pipeline.records.graph import STAGES

CAPTURE_GOAL = 1.10
"""Our capture over a plain compile, at most."""
CALLS_GOAL = 0.02
"""How far from 1.00 the compiled function may run."""
_LINEAR_EXPONENT = 1.15
_LINEAR_R_SQUARED = 0.98
_RECOMPILED = 20.0
_BUSY = 1.10

COLUMNS = ("Contender", "CPU s", "after", "wall s", "× plain", "× with after", "× best runs", "range", "gives")
LAYER_COLUMNS = ("Layers", "nodes", "plain s", "we add in the block, s", "closed and saved, s", "µs a node")

Costs = Mapping[str, Cost]


def cost_rows(costs: Costs) -> list[tuple[str, ...]]:
    """One row a contender; one that failed says so and keeps its place."""
    plain = costs.get("plain")
    return [_row(cost, plain) for cost in costs.values()]


def _row(cost: Cost, plain: Cost | None) -> tuple[str, ...]:
    if not cost.measured:
        return (cost.title, *["–"] * 7, f"failed: {cost.error}" if cost.error else "not measured")
    extremes = ratio_range(cost, plain)
    return (
        cost.title,
        f"{cost.compile_cpu:.2f}",
        f"{cost.after_cpu:.2f}",
        f"{cost.whole_wall:.2f}",
        _times(ratio(cost, plain, whole=False)),
        _times(ratio(cost, plain, whole=True)),
        _times(best_ratio(cost, plain)),
        f"{extremes[0]:.2f}–{extremes[1]:.2f}" if extremes else "–",
        _given(cost),
    )


def _given(cost: Cost) -> str:
    """The stages; a star on those that are only inside a raw log."""
    if not cost.stages:
        return "nothing"
    files = cost.answers[0].found
    if len(cost.stages) == len(STAGES) and not any(name.endswith(".log") for name in files.values()):
        return f"all {len(STAGES)} stages"
    lacking = [stage for stage in STAGES if stage not in cost.stages]
    raw = [stage for stage in cost.stages if files[stage].endswith(".log")]
    parts = [f"{len(cost.stages)} of {len(STAGES)} stages"]
    parts += [f"no {', '.join(lacking)}"] if lacking else []
    parts += [f"{', '.join(raw)} only inside a raw log"] if raw else []
    return "; ".join(parts)


def statements(costs: Costs, calls: CallRatios | None) -> list[str]:
    """What the table means, with the goals, and what makes it doubtful."""
    return [
        *_capture_lines(costs),
        *_cache_lines(costs),
        *(_call_lines(calls) if calls else ()),
        *_doubts(costs),
    ]


def _capture_lines(costs: Costs) -> list[str]:
    own, plain = costs.get("capture"), costs.get("plain")
    if own is None or (block := ratio(own, plain, whole=False)) is None:
        return []
    whole = ratio(own, plain, whole=True) or 0.0
    goal = f"goal ≤ {CAPTURE_GOAL:.2f}×"
    lines = [
        f"Our capture in the block: {block:.2f}× a plain compile ({goal}: {_met(block <= CAPTURE_GOAL)})",
        f"Our capture closed, checked, stored and saved: {whole:.2f}× ({goal}: {_met(whole <= CAPTURE_GOAL)})",
    ]
    debug = costs.get("compile_debug")
    if debug is not None and (theirs := ratio(debug, plain, whole=True)) is not None:
        lines.append(
            f"TORCH_COMPILE_DEBUG=1 costs {theirs:.2f}×: ours is "
            f"{'cheaper' if whole < theirs else 'not cheaper'} ({_met(whole < theirs)})"
        )
    return lines


def _cache_lines(costs: Costs) -> list[str]:
    cached, plain = costs.get("cached"), costs.get("plain")
    if cached is None or plain is None or not cached.measured or not plain.measured:
        return []
    factor = plain.whole_cpu / cached.whole_cpu
    seconds = f"{plain.whole_cpu:.2f} s over {cached.whole_cpu:.2f} s"
    return [f"A compile with the FX and AOT caches off, as in a capture, costs {factor:.1f}× a hit in them ({seconds})"]


def _call_lines(calls: CallRatios) -> list[str]:
    if calls.error:
        return [f"The compiled function's run time was not measured: {calls.error}"]
    goal = f"goal 1.00 ± {CALLS_GOAL:.2f}×: {_met(abs(calls.after - 1) <= CALLS_GOAL)}"
    control = f"two plain ones {calls.control:.3f}×, {calls.milliseconds:.2f} ms a call"
    lines = [
        f"The compiled function afterwards: {calls.after:.3f}× a plainly compiled one ({goal})",
        f"Beside it: {control}; while the capture is still open {calls.under:.3f}×",
    ]
    if calls.first > _RECOMPILED:
        lines.append(
            f"Its first call after the block took {calls.first:.0f}× a usual one: torch compiled it again then"
        )
    return lines


def _doubts(costs: Costs) -> list[str]:
    lines = [
        f"{cost.title}: {cost.cold_runs} of {len(cost.answers)} runs compiled C++, which the others found ready"
        for cost in costs.values()
        if cost.measured and cost.cold_runs
    ]
    plain = costs.get("plain")
    if plain is not None and plain.measured:
        least, most = plain.spread()
        if most / least > _BUSY:
            lines.append(
                f"The plain compile alone varied from {least:.2f} to {most:.2f} s: the machine is busy, "
                "measure again on a quiet one, with more --repeats"
            )
    return lines


def layer_rows(costs: Sequence[LayerCost]) -> list[tuple[str, ...]]:
    """One row for each number of layers."""
    return [
        (
            str(cost.layers),
            str(cost.nodes),
            f"{cost.plain:.2f}",
            f"{cost.block:.3f}",
            f"{cost.whole:.3f}",
            f"{cost.per_node * 1e6:.0f}",
        )
        for cost in costs
    ]


def fit_line(line: Fit | None) -> str:
    """The fit in a sentence."""
    if line is None:
        return "A line needs at least three numbers of layers: no statement about growth"
    linear = (
        line.exponent is not None
        and 0 < line.exponent <= _LINEAR_EXPONENT  # below 1: something of it costs the same for every model
        and line.r_squared >= _LINEAR_R_SQUARED
    )
    power = "" if line.exponent is None else f", grows as nodes^{line.exponent:.2f}"
    return (
        f"{'Linear' if linear else 'Not shown to be linear'}: we add {line.start:+.3f} s {line.slope:+.3f} s a layer "
        f"(R² {line.r_squared:.3f}, at most {line.worst:.0%} off the line{power})"
    )


def cost_json(costs: Costs) -> list[dict[str, Any]]:
    """Every contender with its figures and every single run."""
    plain = costs.get("plain")
    listed = []
    for cost in costs.values():
        entry: dict[str, Any] = {"name": cost.name, "title": cost.title, "error": cost.error}
        if cost.measured:
            entry |= {
                "cpu": cost.compile_cpu,
                "after_cpu": cost.after_cpu,
                "wall": cost.whole_wall,
                "ratio": ratio(cost, plain, whole=False),
                "ratio_whole": ratio(cost, plain, whole=True),
                "ratio_range": ratio_range(cost, plain),
                "stages": cost.stages,
                "runs": [asdict(answer) for answer in cost.answers],
            }
        listed.append(entry)
    return listed


def _times(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}×"


def _met(yes: bool) -> str:
    return "met" if yes else "not met"
