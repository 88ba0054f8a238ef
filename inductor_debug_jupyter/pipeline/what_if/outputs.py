"""The outputs of the kept calls, unchanged and changed: run on copies of the models, and compared where they can be.

With another dtype the inputs are the same, so all outputs are compared, with the tolerance of the coarser dtype. With
another arithmetic they are compared too, and how far apart they are is the answer, not a verdict. With
another batch the rows repeat the kept ones, so the rows that both outputs have must be equal. Another sequence is
another input, and its outputs are not compared; nor are those of a model that draws random numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.diff import ComparisonConfig, flatten_outputs, overall_verdict
from inductor_debug_jupyter.pipeline.diff.executions import describe
from inductor_debug_jupyter.pipeline.diff.outputs import compare_flat
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.records import CompileCapture, OutputDiff, Verdict
from inductor_debug_jupyter.pipeline.rerun.again import as_called
from inductor_debug_jupyter.pipeline.rerun.copies import Memo, clone_inputs
from inductor_debug_jupyter.pipeline.rerun.running import call_from, copied_module
from inductor_debug_jupyter.pipeline.torch_compat.op_interception import ComputedBy
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors
from inductor_debug_jupyter.pipeline.what_if.inputs import ChangedCall

_RANDOM = "<rng>"
_OTHER_SEED = 4321
_CONFIG = ComparisonConfig(check_dtype=False, heatmaps=False)


@dataclass(frozen=True)
class Numbers:
    """The outputs before and after, compared. ``why`` says why nothing was compared."""

    outputs: tuple[OutputDiff, ...] = ()
    why: str = ""
    other_dtype: bool = False
    other_arithmetic: bool = False

    @property
    def _compared(self) -> list[OutputDiff]:
        return [each for each in self.outputs if each.verdict != "not_compared"]

    @property
    def verdict(self) -> Verdict:
        """The verdict on the outputs that were compared; ``not_compared`` when none was."""
        return overall_verdict(self._compared)

    @property
    def largest(self) -> float:
        """The largest difference of the compared outputs; infinite when it is not a number."""
        if any(each.max_absolute_error is None and each.verdict == "mismatch" for each in self._compared):
            return float("inf")
        return max((each.max_absolute_error or 0.0 for each in self._compared), default=0.0)


def run_call(changed: ChangedCall, *, backward: bool = False, seed: int | None = None) -> Any:
    """What the call returns, detached; it runs in the modes of the user's call.

    Args:
        changed: the call.
        backward: also run the backward.
        seed: the seed of torch's generators; None starts where the user's own call did.

    Raises:
        UsageError: the model cannot be copied for another dtype, or raises with these inputs.
    """
    call = changed.call
    memo: Memo = {}
    with as_called(call), copied_module(call.model, call.name, changed.dtype, memo) as model:
        if seed is not None:
            torch.manual_seed(seed)
        args, kwargs = clone_inputs(changed.inputs(), memo)
        computing = ComputedBy(changed.arithmetic.compute) if changed.arithmetic is not None else nullcontext()
        try:
            with computing:
                outputs = call_from("what if", model, args, kwargs, backward=backward)
        except Exception as error:  # the user's model
            raise UsageError(f"{call.name} does not run so: {describe(error)}") from error
        return map_tensors(lambda tensor: tensor.detach(), outputs)


def compared_outputs(
    changed: Sequence[ChangedCall],
    captures: Sequence[CompileCapture],
    reference: Sequence[Any],
    outputs: Sequence[Any],
) -> Numbers:
    """The outputs beside those of the unchanged calls, which run now unless they did already (``reference``).

    ``captures`` are those of the changed calls. Ops that may draw random numbers (attention without dropout draws none)
    are compared when another seed makes no difference.
    """
    if any(resize.kind == "sequence" for each in changed for resize in each.resizes):
        return Numbers((), "another sequence is another input")
    before = [ChangedCall(each.call) for each in changed]
    reference = reference or [run_call(each) for each in before]
    if _draws(captures, before, reference):
        return Numbers((), "the model draws random numbers")
    found = [
        output
        for each, one, other in zip(changed, reference, outputs, strict=True)
        for output in _compare(each, one, other, f"{each.call.name}: " if len(changed) > 1 else "")
    ]
    return Numbers(tuple(found), "", any(each.dtype for each in changed), any(each.arithmetic for each in changed))


def _draws(captures: Sequence[CompileCapture], calls: Sequence[ChangedCall], outputs: Sequence[Any]) -> bool:
    """Whether the outputs of the calls are others with another seed."""
    nodes = (node for capture in captures for graph in capture.graphs.values() for node in graph.calls)
    if not any(_RANDOM in node.mutates for node in nodes):
        return False
    again = flatten_outputs([run_call(each, seed=_OTHER_SEED) for each in calls])
    compared = compare_flat(flatten_outputs(outputs), again, replace(_CONFIG, atol=0.0, rtol=0.0))
    return any(each.verdict != "match" for each in compared)


def _compare(changed: ChangedCall, reference: Any, candidate: Any, prefix: str) -> tuple[OutputDiff, ...]:
    """Every output of the call before and after."""
    theirs, ours = flatten_outputs(reference), flatten_outputs(candidate)
    batch = {(resize.old, resize.new) for resize in changed.resizes}
    pairs: dict[str, tuple[Any, Any]] = {}
    refused: list[OutputDiff] = []
    for path in dict.fromkeys([*theirs, *ours]):
        made = _aligned(theirs.get(path), ours.get(path), batch)
        if isinstance(made, str):
            kinds = [(tuple(each.shape), str(each.dtype).removeprefix("torch.")) for each in (theirs[path], ours[path])]
            refused.append(OutputDiff(prefix + path, "not_compared", made, *kinds[0], *kinds[1]))
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
