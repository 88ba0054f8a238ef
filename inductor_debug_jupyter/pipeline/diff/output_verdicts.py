"""Tell a bug from what rounding explains, for the outputs of two whole executions.

Tolerances know nothing of the model: a hundred layers of rounding can exceed what one op may do, and an absolute
tolerance of 1e-5 lets any fault pass in a softmax over 50,000 classes. So whatever is not equal to the bit is judged
by :mod:`judging` against floors: the model runs a few times more in eager mode under stochastic arithmetic, in the
dtypes that it has, or as a device computes that says in which format it does. Tolerances that the user gave are the
user's word: what is within them passes.

Numbers and arrays of Python's are judged as tensors are. What eager mode itself gives otherwise when it runs again
is not compared: a time of day, or memory that nobody wrote to. Tensors may differ by the usual tolerances.

Of several calls and runs: which call is worse than the first, and what a side differs by from run to run.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.executions import EAGER, Backend, Call
from inductor_debug_jupyter.pipeline.diff.floors import RUNS, Floors, Spread
from inductor_debug_jupyter.pipeline.diff.judging import Judgement, confirm, is_doubtful, judge, judge_common_factor
from inductor_debug_jupyter.pipeline.diff.metrics import compare_tensors
from inductor_debug_jupyter.pipeline.diff.outputs import (
    as_tensor,
    call_number,
    compare_leaf,
    kind_of,
    own_path,
    unless_too_small,
)
from inductor_debug_jupyter.pipeline.formats.arithmetic import Arithmetic
from inductor_debug_jupyter.pipeline.records.diff import VERDICTS, OutputDiff
from inductor_debug_jupyter.pipeline.torch_compat.stochastic import StochasticArithmetic, WideArithmetic, seeds

_LEFT_OUT: Final = "wrong in few places, and not looked at twice: another output is wrong beyond doubt"
_UNSTEADY: Final = "eager mode itself gives something else when it runs again: whether it is wrong cannot be told"
_EXACTLY: Final = ComparisonConfig(atol=0.0, rtol=0.0, equal_nan=True)


def judge_outputs(
    outputs: Iterable[OutputDiff],
    call: Call,
    config: ComparisonConfig,
    reference: Mapping[str, Any],
    candidate: Mapping[str, Any],
    *,
    reference_is_eager: bool = True,
    held_as: torch.dtype | None = None,
    arithmetic: Arithmetic | None = None,
    only_whether: bool = False,
) -> tuple[tuple[OutputDiff, ...], list[str]]:
    """The outputs, each that is not equal judged by its floor, and notes on those that could not be.

    Args:
        outputs: what tolerances say of them.
        call: the model, to be run again.
        config: what the user said.
        reference: the reference's values by path.
        candidate: the candidate's.
        reference_is_eager: whether the reference ran in eager mode. Eager mode runs once more, as what the runs with
            noise are compared with; what then is not as the reference has it does not repeat itself, and has no floor.
        held_as: the format that the candidate's device holds floats in, if it is narrower than their own.
        arithmetic: the candidate's, where it was recognised and the candidate does not say so itself.
        only_whether: the caller asks only whether some output is wrong. Once one is beyond doubt, those that would be
            looked at twice are left out as not compared.
    """
    outputs = tuple(outputs)
    open_ones = _OpenOutputs.of(outputs, config, reference, candidate)
    if not open_ones.suspects and not (open_ones.others and reference_is_eager):
        return outputs, []
    words, multiplied_as = _words(held_as, arithmetic), None
    if arithmetic is not None:
        held_as, multiplied_as = arithmetic.held_as, arithmetic.multiplied_as
    floors, again, notes = _floors(call, config, open_ones.suspects, held_as, multiplied_as)
    unsteady = _unsteady(open_ones.given, again) if reference_is_eager else frozenset()
    spreads = _around(open_ones.suspects, floors.spreads, unsteady)
    noisy = partial(_tensors_under, call=call, config=config)
    judged, left_out = _judged_by(spreads, open_ones.candidate, noisy, held_as, multiplied_as, only_whether)
    unjudged = [path for path in open_ones.suspects if path not in judged and path not in unsteady]
    notes += _without_floors(unjudged, notes)
    left = {**dict.fromkeys(left_out, _LEFT_OUT), **dict.fromkeys(unsteady, _UNSTEADY)}
    return tuple(_with_judgement(output, judged, left, words, reference, config) for output in outputs), notes


@dataclass(frozen=True)
class _OpenOutputs:
    """The outputs of which tolerances alone do not tell whether they are wrong.

    Attributes:
        suspects: those that have floors: the reference's values, as tensors.
        others: the reference's other values that differ.
        given: the reference's values of both sorts, as they are.
        candidate: the candidate's values that are alike, as tensors.
    """

    suspects: dict[str, torch.Tensor]
    others: dict[str, Any]
    given: dict[str, Any]
    candidate: dict[str, torch.Tensor]

    @classmethod
    def of(
        cls,
        outputs: Sequence[OutputDiff],
        config: ComparisonConfig,
        reference: Mapping[str, Any],
        candidate: Mapping[str, Any],
    ) -> _OpenOutputs:
        differing = [output.path for output in outputs if output.verdict in {"mismatch", "rounding"}]
        alike = [path for path in differing if kind_of(reference.get(path)) == kind_of(candidate.get(path))]
        wanted, found = _as_tensors(reference, alike), _as_tensors(candidate, alike)
        suspects = [output.path for output in outputs if _is_open(output, config, wanted, found)]
        others = {path: reference[path] for path in differing if path in reference and path not in wanted}
        given = {path: reference[path] for path in (*others, *suspects)}
        return cls({path: wanted[path] for path in suspects}, others, given, found)


def _judged_by(
    spreads: Mapping[str, Spread],
    candidate: Mapping[str, torch.Tensor],
    noisy: Callable[..., Mapping[str, Any]],
    held_as: torch.dtype | None,
    multiplied_as: torch.dtype | None,
    only_whether: bool,
) -> tuple[dict[str, Judgement], frozenset[str]]:
    """What the floors say, doubts looked at again; and the values that were left out, see ``only_whether``."""
    judged = {path: judge(candidate[path], spread, held_as) for path, spread in spreads.items()}
    left_out = _left_out(judged, spreads) if only_whether else frozenset()
    if not (only_whether and _is_beyond_doubt(judged, spreads)):
        confirm(judged, candidate, spreads, held_as, noisy, multiplied_as)
    if not (held_as or multiplied_as or _is_known(judged, only_whether)):  # a device may truncate: a factor, too
        judge_common_factor(judged, candidate, spreads, noisy)
    return judged, left_out


def _as_tensors(values: Mapping[str, Any], paths: Iterable[str]) -> dict[str, torch.Tensor]:
    """Those of the values that are tensors, numbers or arrays, as tensors."""
    tensors = {path: as_tensor(values.get(path)) for path in paths}
    return {path: value for path, value in tensors.items() if value is not None}


def _unsteady(reference: Mapping[str, Any], again: Mapping[str, Any]) -> frozenset[str]:
    """What eager mode gives otherwise when it runs again: tensors by more than the usual tolerances, all else at all.

    Its floor would tell nothing: each run under stochastic arithmetic is another one anyway.
    """
    unlike = set()
    for path in reference.keys() & again.keys():
        tolerated = ComparisonConfig() if isinstance(reference[path], torch.Tensor) else _EXACTLY
        found = compare_leaf(path, reference[path], again[path], tolerated.for_executions())
        if found is not None and found.verdict == "mismatch":
            unlike.add(path)
    return frozenset(unlike)


def _is_known(judged: Mapping[str, Judgement], only_whether: bool) -> bool:
    """Whether the caller has an answer: it asks only whether something is wrong, and something is."""
    return only_whether and any(found.wrong for found in judged.values())


def _around(
    reference: Mapping[str, torch.Tensor], spreads: Mapping[str, Spread], unsteady: frozenset[str]
) -> dict[str, Spread]:
    """What rounding does around the reference's values, where it was measured and they repeat themselves."""
    return {
        path: replace(spreads[path], base=value)
        for path, value in reference.items()
        if path in spreads and spreads[path].runs and path not in unsteady
    }


def _without_floors(unjudged: list[str], notes: list[str]) -> list[str]:
    """What to say of values that have no floor, unless notes tell already why."""
    if not unjudged or notes:
        return []
    return [f"judged by tolerance alone, rounding was not measured: {', '.join(unjudged[:10])}"]


def _words(held_as: torch.dtype | None, arithmetic: Arithmetic | None) -> tuple[str, str]:
    """What explains a deviation, and how that is said of one that it explains."""
    if arithmetic is not None:
        return str(arithmetic), f"looks like {arithmetic}"
    what = str(held_as or "rounding").removeprefix("torch.")
    return what, what if held_as is None else f"as {what} gives it"


def _with_judgement(
    output: OutputDiff,
    judged: Mapping[str, Judgement],
    left_out: Mapping[str, str],
    words: tuple[str, str],
    reference: Mapping[str, Any],
    config: ComparisonConfig,
) -> OutputDiff:
    """An output with the verdict of its floor, left out for some reason, or by tolerance where it has no floor."""
    if output.path in left_out:
        return replace(output, verdict="not_compared", reason=left_out[output.path])
    if output.path in judged:
        return _judged(output, judged[output.path], *words)
    return unless_too_small(output, reference.get(output.path), config)


def _is_beyond_doubt(judged: Mapping[str, Judgement], spreads: Mapping[str, Spread]) -> bool:
    """Whether some value is wrong and need not be looked at twice."""
    return any(found.wrong and not is_doubtful(found, spreads[path]) for path, found in judged.items())


def _left_out(judged: Mapping[str, Judgement], spreads: Mapping[str, Spread]) -> frozenset[str]:
    """The values that would be looked at twice, where another one is wrong beyond doubt.

    A whole number that no run under noise has changed is not left out: beside such a value it is a count that is not
    kept, or was made from what is wrong.
    """
    if not _is_beyond_doubt(judged, spreads):
        return frozenset()
    doubtful = (path for path, found in judged.items() if is_doubtful(found, spreads[path]))
    return frozenset(path for path in doubtful if not _is_steady_number(spreads[path]))


def _is_steady_number(spread: Spread) -> bool:
    """Whether a value has whole numbers or truth values, and no run under noise has changed any."""
    return spread.largest is None and spread.unstable is not None and not bool(spread.unstable.any())


def _is_open(
    output: OutputDiff, config: ComparisonConfig, reference: Mapping[str, Any], candidate: Mapping[str, Any]
) -> bool:
    """Whether an output differs in its values alone, and the user has not said how far it may."""
    ours, theirs = candidate.get(output.path), reference.get(output.path)
    if output.verdict not in {"mismatch", "rounding"} or ours is None or theirs is None:
        return False
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype or not ours.numel() or ours.layout != torch.strided:
        return False
    if config.equal_nan is False and bool((theirs != theirs).any()):
        return False  # the user has said that NaN is never right
    said = config.atol is not None or config.rtol is not None or config.max_mismatch_percentage > 0
    return output.verdict == "mismatch" or not said


def _floors(
    call: Call,
    config: ComparisonConfig,
    reference: Mapping[str, Any],
    held_as: torch.dtype | None,
    multiplied_as: torch.dtype | None,
) -> tuple[Floors, Mapping[str, Any], list[str]]:
    """The floors of these values, what eager mode gives when it runs again, and why there are no floors, if so."""
    try:
        plain = _under(None, call, config)
    except RuntimeError as error:
        return Floors(), {}, [f"bug or rounding is not known: in eager mode the model raised {error}"]
    notes: list[str] = []
    base = _as_tensors(plain, reference)
    if not base:
        return Floors(), plain, notes
    floors = Floors.of(
        base,
        lambda seed: _tensors_under(StochasticArithmetic(seed, held_as, multiplied_as=multiplied_as), call, config),
        seeds(RUNS, held_as),
    )
    if floors.problems and not any(spread.runs for spread in floors.spreads.values()):
        notes.append(f"bug or rounding is not known: under stochastic arithmetic the model raised {floors.problems[0]}")
    return floors, plain, notes


def _tensors_under(
    noise: StochasticArithmetic | WideArithmetic, call: Call, config: ComparisonConfig
) -> Mapping[str, Any]:
    """That of :func:`_under`, numbers and arrays as tensors."""
    values = _under(noise, call, config)
    return _as_tensors(values, values)


def _under(
    noise: StochasticArithmetic | WideArithmetic | None, call: Call, config: ComparisonConfig
) -> Mapping[str, Any]:
    """Everything that eager mode gives and leaves behind, under some noise.

    Raises:
        RuntimeError: the model raised, or wrote to what is the user's own, so that the next run starts otherwise.
    """
    wide = isinstance(noise, WideArithmetic)  # autograd insists on the formats: gradients have no factor then
    execution = replace(call, noise=noise, backward=call.backward and not wide).execute(Backend(EAGER), config)
    if execution.error:
        raise RuntimeError(execution.error)
    if execution.spoiled:
        raise RuntimeError(f"it wrote to the user's own {execution.spoiled[0]}")
    return {**execution.after, **execution.values}


def _judged(output: OutputDiff, found: Judgement, what: str, explained: str) -> OutputDiff:
    """The output with the verdict that its floor gives, and why: ``what`` explains so much, ``explained`` says that."""
    times = f"{found.floors:.3g}×" if math.isfinite(found.floors) else "more than"
    figures = f"{times} what {what} explains at {list(found.index)}"
    if not found.wrong:
        return replace(output, verdict="rounding", reason=f"{explained}: at most {figures}")
    reason = f"{figures}: {_number(found.expected)} expected, {_number(found.found)} found"
    if found.factor:
        reason = f"all of it is off by a common factor of {1 + found.factor:.4g}: {what} explains {found.allowed:.2g}"
    beside = output.reason if output.verdict == "mismatch" else ""  # that it is within a tolerance means nothing here
    if beside and not math.isfinite(found.floors):
        return output  # NaN or infinity says it all: no rounding explains that
    return replace(output, verdict="mismatch", reason="; ".join(filter(None, [beside, reason])))


def _number(value: Any) -> str:
    return f"{value:.6g}" if isinstance(value, float) else repr(value)


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
