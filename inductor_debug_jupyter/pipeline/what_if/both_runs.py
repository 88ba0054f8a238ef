"""The outputs of the kept calls, unchanged and changed, run and compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inductor_debug_jupyter.pipeline.records import CompileCapture
from inductor_debug_jupyter.pipeline.what_if.differences import Numbers
from inductor_debug_jupyter.pipeline.what_if.inputs import ChangedCall
from inductor_debug_jupyter.pipeline.what_if.output_changes import MAY_DRAW, are_equal, compare, why_not_compared
from inductor_debug_jupyter.pipeline.what_if.rerun import run

_OTHER_SEED = 4321


def run_all(calls: Sequence[ChangedCall], *, backward: bool = False, seed: int | None = None) -> list[Any]:
    """What the calls return, each in the modes of the user's call."""
    return [run(each, backward=backward, seed=seed) for each in calls]


def unchanged(changed: Sequence[ChangedCall]) -> list[ChangedCall]:
    """The calls without their changes."""
    return [ChangedCall(each.call) for each in changed]


def compared_outputs(
    changed: Sequence[ChangedCall],
    captures: Sequence[CompileCapture],
    reference: Sequence[Any],
    outputs: Sequence[Any],
) -> Numbers:
    """The outputs beside those of the unchanged calls, which run now unless they did already (``reference``).

    ``captures`` are those of the changed calls. Ops that may draw random numbers are compared when another seed makes
    no difference.
    """
    why = why_not_compared(changed, captures)
    if why in ("", MAY_DRAW) and not reference:
        reference = run_all(unchanged(changed))
    if why == MAY_DRAW:
        others = run_all(unchanged(changed), seed=_OTHER_SEED)
        why = "" if are_equal(reference, others) else why
    if why:
        return Numbers((), why)
    found = [
        output
        for each, one, other in zip(changed, reference, outputs, strict=True)
        for output in compare(each, one, other, f"{each.call.name}: " if len(changed) > 1 else "")
    ]
    return Numbers(tuple(found), other_dtype=any(each.dtype for each in changed))
