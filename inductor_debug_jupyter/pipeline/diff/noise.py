"""Tell a bug from what the format's rounding explains.

Tolerances know nothing of the model: a hundred layers of rounding can exceed what one op may do. So when an output is
outside its tolerance, the model runs once more in float64, and both sides are measured against that, by the policy of
:mod:`judging`: a candidate that is not much further from it than the reference is itself differs by rounding.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.executions import EAGER, Backend, Call
from inductor_debug_jupyter.pipeline.diff.judging import judge
from inductor_debug_jupyter.pipeline.records import OutputDiff
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors

_NARROW = (torch.float32, torch.float16, torch.bfloat16)


def explained_by_rounding(
    outputs: Iterable[OutputDiff],
    call: Call,
    config: ComparisonConfig,
    reference: Mapping[str, Any],
    candidate: Mapping[str, Any],
) -> tuple[tuple[OutputDiff, ...], list[str]]:
    """The outputs, those that rounding explains marked as such, and notes on why others could not be judged."""
    outputs = tuple(outputs)
    suspects = [output.path for output in outputs if output.verdict == "mismatch" and _is_narrow(output, reference)]
    if not suspects:
        return outputs, []
    exact = _in_float64(call).execute(Backend(EAGER), config)
    if exact.error:
        return outputs, [f"bug or rounding is not known: in float64 the model raised {exact.error}"]
    judged = {path: _judge(reference[path], candidate.get(path), exact.values.get(path)) for path in suspects}
    return tuple(
        replace(output, verdict="rounding", reason=reason) if (reason := judged.get(output.path)) else output
        for output in outputs
    ), []


def _is_narrow(output: OutputDiff, reference: Mapping[str, Any]) -> bool:
    value = reference.get(output.path)
    same = output.shape == output.candidate_shape and output.dtype == output.candidate_dtype
    return same and isinstance(value, torch.Tensor) and value.dtype in _NARROW and bool(value.numel())


def _in_float64(call: Call) -> Call:
    """The same call with every float widened; the user's module stays as it is."""

    def widen(tensor: torch.Tensor) -> torch.Tensor:
        wide = tensor.detach().double() if tensor.is_floating_point() else tensor
        return wide.requires_grad_(tensor.requires_grad)

    args, kwargs = map_tensors(widen, (call.args, dict(call.kwargs)))
    return replace(call, args=args, kwargs=kwargs, in_float64=True)


def _judge(reference: Any, candidate: Any, exact: Any) -> str:
    """One sentence when rounding explains the difference, else an empty string."""
    if not isinstance(exact, torch.Tensor) or not isinstance(candidate, torch.Tensor):
        return ""  # one side has nothing here: that is no rounding
    if not exact.shape == reference.shape == candidate.shape:
        return ""
    exact, theirs = exact.detach(), float((reference.detach().double() - exact.detach().double()).abs().max())
    # Noise is small: a reference far from float64 ran something else (other dropout masks), and shows nothing.
    largest_noise = torch.finfo(reference.dtype).eps ** 0.5 * float(exact.abs().max())
    found = judge(candidate.detach(), exact, [reference.detach()])
    if found.wrong or not theirs <= largest_noise:  # nor does anything explain NaN and infinity
        return ""
    return (
        f"outside its tolerance, but {found.error:.1e} of its largest element from float64, where rounding explains "
        f"{found.allowed:.1e}"
    )
