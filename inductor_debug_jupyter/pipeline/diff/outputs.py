"""What a model returned, flattened to ``{path: value}``, and two of those compared.

Containers are dicts (also HuggingFace's ``ModelOutput``), lists, tuples, named tuples, dataclasses, and any object that
holds tensors in its attributes (a key-value cache, say). A path reads like the expression that gets there:
``logits``, ``[0].hidden``, ``past_key_values[1][0]``; what else an execution gives has a prefix: ``grad:layer.weight``,
``input:x``, ``call 2: buffer:seen``. What is nothing on both sides (None, an empty container) is left out.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy
import torch

from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.details import Place, error_heatmap, look_closer, number_text
from inductor_debug_jupyter.pipeline.diff.gates import check_gates, gated_verdict
from inductor_debug_jupyter.pipeline.diff.metrics import (
    LARGEST_SHARE,
    TensorComparisonResult,
    compare_tensors,
    largest_size,
)
from inductor_debug_jupyter.pipeline.records import ErrorPlace, OutputDiff, Verdict
from inductor_debug_jupyter.pipeline.records.diff import worst_outputs_first
from inductor_debug_jupyter.pipeline.words import clip

WHOLE: Final = "output"
"""The path of an output that is not in any container."""
GRADIENT: Final = "grad:"
"""How the path of a gradient starts."""
INPUT: Final = "input:"
"""How the path of an input starts that the model wrote to."""
HEATMAPS_KEPT: Final = 16
"""So many outputs, the worst, keep a heatmap: it is a hundred kilobytes of JSON."""

_NUMERIC = (torch.Tensor, numpy.ndarray, numpy.generic, bool, int, float, complex)
_LEAVES = (*_NUMERIC, str, bytes, type(None))
_DEEPEST = 64
_COPIED: Final = (
    *("verdict", "reason", "shape", "dtype", "candidate_shape", "candidate_dtype"),
    *("max_error_indices", "reference_nonfinite", "candidate_nonfinite", "signed_zeros", "missed_gates"),
)
"""Fields that a record has as the comparison has them."""
_FIGURES: Final = (
    *("max_absolute_error", "mean_absolute_error", "max_relative_error", "mean_relative_error", "rmse"),
    *("mismatch_percentage", "reference_value", "candidate_value", "atol", "rtol"),
    *("pcc", "cosine", "signal_to_noise", "smallest_atol", "smallest_rtol"),
)
"""Fields that a record has only where they are finite."""


class _Absent:
    """Stands for an output that one side does not have."""


_ABSENT: Final = _Absent()


def flatten_outputs(outputs: Any, *, flatten_lists: bool = True) -> dict[str, Any]:
    """Every leaf of a nested output by its path; empty containers and None are leaves."""
    return dict(_leaves(outputs, "", flatten_lists, ()))


def _leaves(value: Any, path: str, flatten_lists: bool, above: tuple[int, ...]) -> Iterator[tuple[str, Any]]:
    """``above`` are the ids of the containers around ``value``: one that holds itself is not entered twice."""
    children = None
    if id(value) not in above and len(above) < _DEEPEST:
        children = _children(value, path, flatten_lists)
    if not children:
        yield path or WHOLE, value
        return
    for child_path, child in children:
        yield from _leaves(child, child_path, flatten_lists, (*above, id(value)))


def _children(value: Any, path: str, flatten_lists: bool) -> list[tuple[str, Any]] | None:
    """What is in a container, with paths; None when it is none."""
    if isinstance(value, (*_LEAVES, type)) or (not flatten_lists and _is_list_of_numbers(value)):
        return None
    if isinstance(value, Mapping):
        return [(_key_path(path, key), item) for key, item in value.items()]
    if isinstance(value, list | tuple):
        return list(zip(_paths_of_items(value, path), value, strict=True))
    if dataclasses.is_dataclass(value):
        return [(_key_path(path, field.name), getattr(value, field.name)) for field in dataclasses.fields(value)]
    return _attributes(value, path)


def _paths_of_items(value: list[Any] | tuple[Any, ...], path: str) -> list[str]:
    """``[0]``, ``[1]``, …, or a named tuple's own names."""
    if names := getattr(value, "_fields", None):
        return [_key_path(path, name) for name in names]
    return [f"{path}[{index}]" for index in range(len(value))]


def _is_list_of_numbers(value: Any) -> bool:
    """A list or plain tuple of numbers, arrays and tensors; named tuples have fields and stay containers."""
    if not isinstance(value, list | tuple) or hasattr(value, "_fields"):
        return False
    return all(isinstance(item, _NUMERIC) for item in value)


def _attributes(value: Any, path: str) -> list[tuple[str, Any]] | None:
    """The attributes of an object that holds tensors, directly or in containers of its own."""
    found = {name: item for name, item in getattr(value, "__dict__", {}).items() if not name.startswith("_")}
    if callable(value) or not any(_holds_tensor(item) for item in found.values()):
        return None
    return [(_key_path(path, name), item) for name, item in found.items() if _holds_tensor(item)]


def _holds_tensor(value: Any, depth: int = 6) -> bool:
    if isinstance(value, torch.Tensor):
        return True
    if depth == 0 or isinstance(value, _LEAVES) or callable(value):
        return False
    inside = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else None
    if inside is None:
        inside = getattr(value, "__dict__", {}).values()
    return any(_holds_tensor(item, depth - 1) for item in inside)


def _key_path(path: str, key: Any) -> str:
    if isinstance(key, str) and key.isidentifier():
        return f"{path}.{key}" if path else key
    return f"{path}[{key!r}]"


def path_of_call(number: int, path: str) -> str:
    """The path of something that a call gave; the first call is not mentioned."""
    return path if number == 1 else f"call {number}: {path}"


def call_number(path: str) -> int:
    """Which call it is of, from 1."""
    number = path.partition(": ")[0].removeprefix("call ")
    return int(number) if path.startswith("call ") and number.isdecimal() else 1


def own_path(path: str) -> str:
    """The path without the call that it is of."""
    return path.partition(": ")[2] if call_number(path) > 1 else path


def is_gradient(path: str) -> bool:
    """Whether it is the path of a gradient, of any call."""
    return own_path(path).startswith(GRADIENT)


def compare_outputs(reference: Any, candidate: Any, config: ComparisonConfig | None = None) -> tuple[OutputDiff, ...]:
    """Every output of two executions, in the order of the reference. An output that one side lacks is a mismatch."""
    config = config or ComparisonConfig()
    return compare_flat(
        flatten_outputs(reference, flatten_lists=config.flatten_lists),
        flatten_outputs(candidate, flatten_lists=config.flatten_lists),
        config,
    )


def compare_flat(
    reference: Mapping[str, Any], candidate: Mapping[str, Any], config: ComparisonConfig
) -> tuple[OutputDiff, ...]:
    """The same for outputs that are flat already."""
    config = config.for_executions()
    paths = dict.fromkeys([*reference, *candidate])
    found = (compare_leaf(p, reference.get(p, _ABSENT), candidate.get(p, _ABSENT), config) for p in paths)
    outputs = tuple(each for each in found if each is not None)
    return _with_heatmaps(outputs, reference, candidate, config) if config.heatmaps else outputs


def held_to_gates(
    outputs: tuple[OutputDiff, ...],
    reference: Mapping[str, Any],
    candidate: Mapping[str, Any],
    config: ComparisonConfig,
) -> tuple[OutputDiff, ...]:
    """The same outputs; those that miss a figure that the user requires are a mismatch, whatever rounding explains."""
    if not config.gates:
        return outputs
    return tuple(_held_to_gates(each, reference.get(each.path), candidate.get(each.path), config) for each in outputs)


def _held_to_gates(output: OutputDiff, reference: Any, candidate: Any, config: ComparisonConfig) -> OutputDiff:
    if output.verdict == "not_compared" or output.mismatch_percentage is None or _is_whole(reference):
        return output
    plainly = dataclasses.replace(config.for_executions(), require=None)
    found = compare_tensors(reference, candidate, plainly, details=any(gate.name == "ulp" for gate in config.gates))
    answer = check_gates(config.gates, found, torch.as_tensor(reference), torch.as_tensor(candidate))
    return dataclasses.replace(
        output,
        verdict=gated_verdict(output.verdict, answer),
        reason="; ".join(filter(None, [*answer.reasons, output.reason])),
        missed_gates=answer.missed,
    )


def unless_too_small(output: OutputDiff, reference: Any, config: ComparisonConfig) -> OutputDiff:
    """The same output; where the usual absolute tolerance is as large as a share of its values, nothing is known of it.

    For comparisons that have tolerances only: there is no model at hand that could be run again for a floor.
    """
    if (
        output.verdict not in {"rounding", "mismatch"}
        or config.atol is not None
        or output.smallest_atol is None
        or not isinstance(reference, torch.Tensor)
        or (output.candidate_shape, output.candidate_dtype) != (output.shape, output.dtype)
    ):
        return output
    usual, _ = config.tolerances(reference.dtype)
    largest = largest_size(reference)
    if usual <= LARGEST_SHARE * largest or output.smallest_atol > usual:
        return output
    why = f"its values are at most {largest:.3g}: an absolute tolerance of {usual:g} tells nothing (give atol)"
    return dataclasses.replace(output, verdict="not_compared", reason=why)


def _with_heatmaps(
    outputs: tuple[OutputDiff, ...],
    reference: Mapping[str, Any],
    candidate: Mapping[str, Any],
    config: ComparisonConfig,
) -> tuple[OutputDiff, ...]:
    """The same outputs; those of the worst that have errors get a picture of where these are."""
    differing = [o for o in worst_outputs_first(outputs) if o.verdict != "match" and o.mismatch_percentage is not None]
    drawn: dict[str, OutputDiff] = {}
    for output in differing[:HEATMAPS_KEPT]:
        one, other = _stacked(reference[output.path]), _stacked(candidate[output.path])
        if isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor) and one.ndim:
            heatmap = error_heatmap(one, other, equal_nan=bool(config.equal_nan))
            closer = _closer(one, other, config)
            drawn[output.path] = dataclasses.replace(output, heatmap=heatmap, **closer)
    return tuple(drawn.get(output.path, output) for output in outputs)


def _closer(reference: torch.Tensor, candidate: torch.Tensor, config: ComparisonConfig) -> dict[str, Any]:
    """What a second look finds, as fields of an output."""
    one, other = (each.dequantize() if each.is_quantized else each for each in (reference, candidate))
    found = look_closer(one, other, equal_nan=bool(config.equal_nan))
    return {
        "max_ulp": finite(found.max_ulp),
        "mean_ulp": finite(found.mean_ulp),
        "ulp_quantiles": found.ulp_quantiles,
        "quantiles": found.quantiles,
        "histogram": tuple((each.low, each.high, each.count) for each in found.histogram),
        "worst": tuple(map(_as_place, found.worst)),
        "nonfinite": tuple(map(_as_place, found.nonfinite)),
    }


def _as_place(place: Place) -> ErrorPlace:
    return ErrorPlace(place.index, number_text(place.reference), number_text(place.candidate), finite(place.error))


def compare_leaf(path: str, reference: Any, candidate: Any, config: ComparisonConfig) -> OutputDiff | None:
    """One pair; None when there is nothing on either side."""
    if _is_nothing(reference) and _is_nothing(candidate):
        return None
    if _is_nothing(reference):
        return _one_sided(path, "reference", "candidate", candidate)
    if _is_nothing(candidate):
        return _one_sided(path, "candidate", "reference", reference)
    reference, candidate = _stacked(reference), _stacked(candidate)
    if isinstance(reference, _NUMERIC) and isinstance(candidate, _NUMERIC):
        if (kinds := (kind_of(reference), kind_of(candidate)))[0] != kinds[1]:
            return _compare_objects(path, reference, candidate, unlike=True)
        result = compare_tensors(reference, candidate, _exactly(config) if _is_whole(reference) else config)
        if result.dtype or isinstance(reference, torch.Tensor):
            return _as_output(path, result)
    return _compare_objects(path, reference, candidate)


def _one_sided(path: str, without: str, having: str, value: Any) -> OutputDiff:
    what = "gradient" if is_gradient(path) else "such output"
    return OutputDiff(path, "mismatch", f"the {without} has no {what}; the {having} has {_what(value)}")


def kind_of(value: Any) -> str:
    """Tensor, array, number or object: a caller can use one only as what it is.

    What numpy gives for a single number is one too: Dynamo makes an array without dimensions of it.
    """
    if isinstance(value, torch.Tensor):
        return "tensor"
    if isinstance(value, numpy.ndarray) and value.ndim:
        return "array"
    return "number" if isinstance(value, _NUMERIC) else "object"


def as_tensor(value: Any) -> torch.Tensor | None:
    """A tensor, number or array as a tensor, so that its rounding can be measured; None for anything else."""
    if isinstance(value, torch.Tensor):
        return value
    if not isinstance(value, _NUMERIC):
        return None
    try:
        return torch.from_numpy(numpy.array(value))
    except (OverflowError, TypeError, ValueError):  # a width that torch does not have
        return None


def _is_whole(value: Any) -> bool:
    """Integers and truth values: they are equal or not."""
    if isinstance(value, torch.Tensor):
        return not (value.is_floating_point() or value.is_complex() or value.is_quantized)
    return bool(numpy.asarray(value).dtype.kind in "biu")


def _exactly(config: ComparisonConfig) -> ComparisonConfig:
    return dataclasses.replace(config, atol=0.0, rtol=0.0)


def _is_nothing(value: Any) -> bool:
    """Absent, None, or an empty container."""
    if value is _ABSENT or value is None:
        return True
    return isinstance(value, Mapping | list | tuple | set | frozenset) and not value


def _stacked(value: Any) -> Any:
    """A list of equally shaped numbers or tensors (``flatten_lists=False``) as one tensor, if it can be one."""
    if not isinstance(value, list | tuple) or not all(isinstance(item, _NUMERIC) for item in value):
        return value
    try:
        return torch.stack([torch.as_tensor(item) for item in value])
    except (RuntimeError, TypeError, ValueError):
        return value


def _compare_objects(path: str, reference: Any, candidate: Any, *, unlike: bool = False) -> OutputDiff:
    """What has no elements is compared with ``==``, if its class says what that means; ``unlike`` kinds differ."""

    def found(verdict: Verdict, reason: str = "") -> OutputDiff:
        return OutputDiff(
            path, verdict, reason, dtype=type(reference).__name__, candidate_dtype=type(candidate).__name__
        )

    if unlike or isinstance(reference, _NUMERIC) != isinstance(candidate, _NUMERIC):
        return found("mismatch", f"{_what(reference)} against {_what(candidate)}")
    if not _has_equality(reference) and reference is not candidate:
        why = f"{_what(reference)} has no == of its own, and is not a tensor or a container of tensors"
        return found("not_compared", why)
    try:
        equal = bool(reference == candidate)
    except Exception as error:  # whatever a foreign class raises
        why = f"{_what(reference)} == {_what(candidate)} raised {type(error).__name__}: {error}"
        return found("not_compared", why)
    if equal:
        return found("match")
    return found("mismatch", f"{_what(reference)} is not {_what(candidate)}")


def _has_equality(value: Any) -> bool:
    """Whether the class defines ``==``, or one that it inherits from does; ``object`` only knows identity."""
    return any("__eq__" in vars(each) for each in type(value).__mro__[:-1])


def _what(value: Any) -> str:
    """A value in a few words."""
    if isinstance(value, torch.Tensor):
        return f"a tensor {str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    if isinstance(value, numpy.ndarray):
        return f"a numpy array {value.dtype} {list(value.shape)}"
    if isinstance(value, str | bytes | int | float | complex):
        return clip(repr(value), 60)
    return f"an object of type {type(value).__name__}"


def _as_output(path: str, result: TensorComparisonResult) -> OutputDiff:
    """The result as a record: a figure that is not finite becomes None."""
    fields: dict[str, Any] = {name: getattr(result, name) for name in _COPIED}
    fields |= {name: finite(getattr(result, name)) for name in _FIGURES}
    return OutputDiff(path, **fields)


def finite(value: Any) -> float | None:
    """The value as a float; None when it is complex or not finite."""
    if value is None or isinstance(value, complex):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
