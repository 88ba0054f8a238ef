"""Several calls, and several runs: which call is worse than the first, and what a side differs by from run to run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.metrics import compare_tensors
from inductor_debug_jupyter.pipeline.diff.paths import call_number, own_path
from inductor_debug_jupyter.pipeline.records.diff import VERDICTS, OutputDiff

_EXACTLY: Final = ComparisonConfig(atol=0.0, rtol=0.0, equal_nan=True)


def spread_of(first: Mapping[str, Any], again: Mapping[str, Any]) -> dict[str, float]:
    """The largest difference of each output that two runs of the same side do not agree on."""
    spread = {}
    for path, value in first.items():
        result = compare_tensors(value, again.get(path), _EXACTLY)
        if result.verdict not in {"match", "not_compared"}:
            spread[path] = result.max_absolute_error
    return spread


def with_spread(output: OutputDiff, spreads: Mapping[str, Mapping[str, float]]) -> OutputDiff:
    """An output that differs from run to run says so.

    One whose error is no larger than what the *reference* differs by is not called wrong. What the candidate differs by
    excuses nothing: where the reference is steady, a run of the candidate that is wrong is wrong.
    """
    unsteady = {role: spread[output.path] for role, spread in spreads.items() if output.path in spread}
    if not unsteady:
        return output
    told = " and ".join(f"the {role} by up to {largest:.3g}" for role, largest in unsteady.items())
    reason = f"differs from run to run, {told}"
    verdict = output.verdict
    error = output.max_absolute_error
    if verdict == "mismatch" and error is not None and error <= 2 * unsteady.get("reference", 0.0):
        verdict, reason = "not_compared", f"{reason}: whether it is wrong cannot be told"
    return replace(output, verdict=verdict, reason="; ".join(filter(None, [output.reason, reason])))


def one_of_each_call(outputs: Iterable[OutputDiff]) -> tuple[OutputDiff, ...]:
    """Of what several calls gave, the first call's, and a later call's only where it is worse."""
    shown: dict[str, int] = {}
    kept = []
    for output in sorted(outputs, key=lambda output: call_number(output.path)):
        path = own_path(output.path)
        rank = VERDICTS.index(output.verdict)
        if path not in shown or rank < shown[path]:
            kept.append(output)
            shown[path] = rank
    return tuple(kept)
