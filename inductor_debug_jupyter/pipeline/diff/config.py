"""What counts as equal: tolerances, and what else is looked at."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Final

import torch

from inductor_debug_jupyter.pipeline.diff.gates import Gate, Metric, read_gates
from inductor_debug_jupyter.pipeline.errors import OptionError

_SINGLE = (1e-5, 1.3e-6)
DEFAULT_TOLERANCES: Final[dict[torch.dtype, tuple[float, float]]] = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: _SINGLE,
    torch.float16: (1e-5, 1e-3),
    torch.bfloat16: (1e-5, 1.6e-2),
    torch.complex128: (1e-7, 1e-7),
    torch.complex64: _SINGLE,
    torch.complex32: (1e-5, 1e-3),
    # torch.testing has no figures for float8 and would compare exactly. Here: one unit in the last place, and the
    # smallest number above zero.
    torch.float8_e4m3fn: (2.0**-9, 2.0**-3),
    torch.float8_e4m3fnuz: (2.0**-10, 2.0**-3),
    torch.float8_e5m2: (2.0**-16, 2.0**-2),
    torch.float8_e5m2fnuz: (2.0**-17, 2.0**-2),
}
"""dtype → (atol, rtol), as ``torch.testing.assert_close`` documents them. What is not listed is compared exactly."""


@dataclass(frozen=True, slots=True)
class ComparisonConfig:
    """What counts as equal.

    An element is as it should be when ``|reference - candidate| <= atol + rtol * |reference|``.

    Args:
        atol: absolute tolerance; by default the one that ``torch.testing`` has for the dtype, and at most a thousandth
            of the reference's largest element.
        rtol: relative tolerance; likewise.
        max_mismatch_percentage: so many percent of the elements (0 to 100) may be outside the tolerance. Places where
            only one side is NaN or infinite are never let through.
        flatten_lists: compare each item of a list or tuple as an output of its own; otherwise its items are stacked
            and compared as one.
        equal_nan: NaN on both sides is equal. By default it is not when two tensors are compared, as in
            ``torch.testing``, and it is when two executions are: a NaN that both sides have is no fault of one of them.
        check_dtype: different dtypes are a mismatch, whatever the values.
        check_strides: different strides of an output are a mismatch too; off for a candidate that is meant to lay its
            outputs out otherwise.
        heatmaps: keep a small picture of where the errors are, of the worst outputs.
        require: figures that every output of floats must reach beside its verdict, as text (``"pcc=0.99,sqnr=40dB"``)
            or as a mapping: ``pcc``, ``cosine`` and ``sqnr`` (in dB) at least, ``max_error``, ``rmse`` and ``ulp`` at
            most; a function of reference and candidate must give at least its limit.
        numerics: the floating-point format that the candidate's device holds numbers in (``"float16"``), where its
            adapter does not say so: outputs are judged by it, and by its tolerances where a model cannot be run again.
            What single ops of the candidate say against it is noted. Torch's own backends are not judged by it.

    Raises:
        OptionError: a value that makes no sense.
    """

    atol: float | None = None
    rtol: float | None = None
    max_mismatch_percentage: float = 0.0
    flatten_lists: bool = True
    equal_nan: bool | None = None
    check_dtype: bool = True
    check_strides: bool = True
    heatmaps: bool = True
    numerics: str | torch.dtype | None = None
    require: str | Mapping[str | Metric, float] | Sequence[str] | None = None
    gates: tuple[Gate, ...] = field(init=False, default=(), repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("atol", "rtol"):
            if getattr(self, name) is not None:
                _check_number(name, getattr(self, name), math.inf, "allowed: a number that is not negative, or None")
        limits = "allowed: a number from 0 to 100"
        _check_number("max_mismatch_percentage", self.max_mismatch_percentage, 100, limits)
        if self.equal_nan is not None and not isinstance(self.equal_nan, bool):
            raise OptionError(f"equal_nan={self.equal_nan!r}; allowed: True or False")
        object.__setattr__(self, "gates", read_gates(self.require))
        if self.numerics is not None and self.held_as is None:
            allowed = ", ".join(str(each).removeprefix("torch.") for each in DEFAULT_TOLERANCES if not each.is_complex)
            raise OptionError(f"numerics={self.numerics!r}; allowed: {allowed}")
        for each in fields(self):
            if isinstance(each.default, bool) and not isinstance(getattr(self, each.name), bool):
                raise OptionError(f"{each.name}={getattr(self, each.name)!r}; allowed: True or False")

    @property
    def held_as(self) -> torch.dtype | None:
        """``numerics`` as a dtype; None where there is none, or no floating-point format of that name."""
        named = self.numerics
        found = getattr(torch, named.removeprefix("torch."), None) if isinstance(named, str) else named
        return found if isinstance(found, torch.dtype) and found.is_floating_point else None

    def for_executions(self) -> ComparisonConfig:
        """The same for what two executions gave: NaN in the same place is equal unless that was ruled out."""
        return self if self.equal_nan is not None else replace(self, equal_nan=True)

    def tolerances(self, *dtypes: torch.dtype) -> tuple[float, float]:
        """The atol and rtol in force for these dtypes: the widest of their defaults where none was given."""
        defaults = [DEFAULT_TOLERANCES.get(dtype, (0.0, 0.0)) for dtype in dtypes] or [(0.0, 0.0)]
        if self.held_as is not None and any(dtype.is_floating_point or dtype.is_complex for dtype in dtypes):
            defaults.append(DEFAULT_TOLERANCES.get(self.held_as, (0.0, 0.0)))
        atol = max(each[0] for each in defaults) if self.atol is None else float(self.atol)
        rtol = max(each[1] for each in defaults) if self.rtol is None else float(self.rtol)
        return atol, rtol


def _check_number(name: str, value: object, most: float, allowed: str) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= most or math.isinf(value):
        raise OptionError(f"{name}={value!r}; {allowed}")
