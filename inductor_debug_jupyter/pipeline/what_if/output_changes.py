"""Compare the outputs before and after a what-if, where they are comparable.

With another dtype the inputs are the same, so all outputs are compared, with the tolerance of the coarser dtype. With
another batch the rows repeat the kept ones, so the rows that both outputs have must be equal. Another sequence is
another input, and its outputs are not compared; nor are those of a model that draws random numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.diff import ComparisonConfig, flatten_outputs
from inductor_debug_jupyter.pipeline.diff.outputs import compare_flat
from inductor_debug_jupyter.pipeline.records import CompileCapture, OutputDiff
from inductor_debug_jupyter.pipeline.what_if.inputs import ChangedCall

_RANDOM = "<rng>"
MAY_DRAW = "the model draws random numbers"
"""The reason if an op may draw random numbers; attention without dropout draws none, so the caller has to try."""
_CONFIG = ComparisonConfig(check_dtype=False, heatmaps=False)


def why_not_compared(changed: Sequence[ChangedCall], captures: Sequence[CompileCapture]) -> str:
    """Why the outputs cannot be compared; empty when they can."""
    if any(resize.kind == "sequence" for each in changed for resize in each.resizes):
        return "another sequence is another input"
    drawing = any(
        _RANDOM in node.mutates for capture in captures for graph in capture.graphs.values() for node in graph.calls
    )
    return MAY_DRAW if drawing else ""


def are_equal(one: Any, other: Any) -> bool:
    """Whether two runs of one call returned the same bits."""
    outputs = compare_flat(flatten_outputs(one), flatten_outputs(other), replace(_CONFIG, atol=0.0, rtol=0.0))
    return all(each.verdict == "match" for each in outputs)


def compare(changed: ChangedCall, reference: Any, candidate: Any, prefix: str = "") -> tuple[OutputDiff, ...]:
    """Every output of the call before and after."""
    theirs, ours = flatten_outputs(reference), flatten_outputs(candidate)
    batch = {(resize.old, resize.new) for resize in changed.resizes}
    pairs: dict[str, tuple[Any, Any]] = {}
    refused: list[OutputDiff] = []
    for path in dict.fromkeys([*theirs, *ours]):
        made = _aligned(theirs.get(path), ours.get(path), batch)
        if isinstance(made, str):
            kinds = (*_kind(theirs.get(path)), *_kind(ours.get(path)))
            refused.append(OutputDiff(prefix + path, "not_compared", made, *kinds))
        else:
            pairs[prefix + path] = made
    compared = compare_flat(
        {path: pair[0] for path, pair in pairs.items()}, {path: pair[1] for path, pair in pairs.items()}, _CONFIG
    )
    return (*compared, *refused)


def _aligned(one: Any, other: Any, batch: set[tuple[int, int]]) -> tuple[Any, Any] | str:
    """The rows that both outputs have, or why they have none in common."""
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor) or not batch:
        return one, other
    if one.shape == other.shape:
        return "it has no batch dimension"
    differing = [at for at in range(one.ndim) if one.ndim == other.ndim and one.shape[at] != other.shape[at]]
    if len(differing) != 1 or (one.shape[differing[0]], other.shape[differing[0]]) not in batch:
        return f"{list(one.shape)} and {list(other.shape)} have no rows in common"
    (dim,) = differing
    common = min(one.shape[dim], other.shape[dim])
    return one.narrow(dim, 0, common), other.narrow(dim, 0, common)


def _kind(value: Any) -> tuple[tuple[int, ...], str]:
    return tuple(getattr(value, "shape", ())), str(getattr(value, "dtype", "")).removeprefix("torch.")


def largest_error(outputs: Sequence[OutputDiff]) -> float:
    """The largest difference of the compared outputs; infinite when it is not a number."""
    compared = [each for each in outputs if each.verdict != "not_compared"]
    errors = [
        float("inf") if each.max_absolute_error is None and each.verdict == "mismatch" else each.max_absolute_error
        for each in compared
    ]
    return max((error for error in errors if error is not None), default=0.0)


def as_dicts(outputs: Sequence[OutputDiff]) -> list[Mapping[str, Any]]:
    """Path, verdict and error of each output, for JSON."""
    return [
        {"path": each.path, "verdict": each.verdict, "max_absolute_error": each.max_absolute_error, "why": each.reason}
        for each in outputs
    ]
