"""Run eager code with every rounding off at random: Monte Carlo arithmetic.

Rounding is deterministic, so one run does not show how much of a result it decides. While
:class:`StochasticArithmetic` is active, what each op computes is moved at random by a unit in the last place of the
format that it is written in. Two such runs differ as two correct compilers may differ: next to -1e9, after a
cancellation, in a long sum, in a denormal. Verificarlo and CADNA do the same for C.

What is perturbed follows what is known of kernels:

- Ops that move, select or compare data round nothing (:data:`_EXACT`), and neither do views and ops without floats.
- Sums, differences, products and quotients of two numbers round their result once (:data:`_ROUNDED_ONCE`).
- Everything else is taken for backward stable: the exact result of inputs that are each a little off, rounded. For
  sums of n terms "a little" grows with n: as its cubic root, since a sum may be added up one by one, and as its fourth
  root in products of matrices, which libraries add up in blocks.
- Kernels for 16-bit formats compute in those or in float32. Runs with an odd seed do the latter, op by op.
- Functions that are computed as the small rest of a constant (``gelu`` of -5, the logarithm of a sum near 1),
  and ``erf``, for which vector libraries have short formulas, are off by a unit of that constant, not of their result.
- What is computed from numbers with at least twelve zero bits at their end, and gives such, is taken for exact:
  counting, masks, powers of two.
- No noise leaves the range of a function (``sigmoid`` stays below 1) or of what it is defined on (``acos``).

The noise is drawn from a table of its own; torch's generators stay where they are, so dropout draws what it would.
"""

from __future__ import annotations

import functools
import itertools
import math
import random
from typing import Any, Final

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors, of_kind

QUIET: Final = -1
"""The seed of a run without noise, in which numbers are only rounded to the format that a device holds them in.

Noise hides what exact rounding does: all of 10000 ± 0.01 are the same number in float16, and their variance is 0.
"""
_SEED: Final = 20_260_101
_TABLE: Final = 1_048_573
"""Numbers in the table of noise: a prime, so that rows of a tensor do not get the same noise."""
_SINGLE: Final = float(torch.finfo(torch.float32).eps)
_LIBRARY: Final = 2.0
"""Units of float32 by which a mathematical function may be off, beside the rounding of its result."""
_OF_A_SUM: Final = 0.5
"""Units by which a sum of n terms that are added one by one is off, over the square root of n.

Random terms are off by less. Equal ones, as the gradients behind a mean are, round the same way again and again.
"""
_OF_A_NARROW_INPUT: Final = 0.5
"""Units of a 16-bit input: kernels widen it, so only a value that was not rounded before differs by that much."""
_TRAILING: Final = 0xFFF
_SENTINEL: Final = 0.25
"""Numbers beyond this share of the largest of a format stand for minus infinity; rounding does not move them."""

_EXACT: Final = frozenset(
    (
        *("relu", "neg", "abs", "sign", "clone", "where", "full", "full_like", "copy", "cat", "stack", "index"),
        *("embedding", "gather", "amax", "amin", "max", "min", "aminmax", "maximum", "minimum", "fmax", "fmin"),
        *("clamp", "clamp_min", "clamp_max", "hardtanh", "threshold", "threshold_backward", "hardtanh_backward"),
        *("zeros", "zeros_like", "ones", "ones_like", "new_zeros", "new_ones", "new_full", "empty", "empty_like"),
        *("new_empty", "new_empty_strided", "empty_strided", "scalar_tensor", "fill", "zero", "eye"),
        *("scatter", "select_scatter", "slice_scatter", "as_strided_scatter", "diagonal_scatter", "select_backward"),
        *("slice_backward", "constant_pad_nd", "reflection_pad1d", "reflection_pad2d", "replication_pad2d", "flip"),
        *("max_pool2d_with_indices", "max_pool3d_with_indices", "repeat", "repeat_interleave", "roll", "rot90"),
        *("topk", "sort", "argsort", "argmax", "argmin", "kthvalue", "median", "mode", "tril", "triu", "take"),
        *("index_select", "masked_fill", "masked_select", "masked_scatter", "nonzero", "unique", "_unique2"),
        *("floor", "ceil", "round", "trunc", "frac", "isnan", "isinf", "im2col", "unfold_copy", "pixel_shuffle"),
        *("rand", "randn", "rand_like", "randn_like", "randint", "randint_like", "randperm", "bernoulli", "uniform"),
        *("normal", "exponential", "multinomial", "inductor_random", "inductor_randint", "inductor_lookup_seed"),
        *("upsample_nearest1d", "upsample_nearest2d", "upsample_nearest3d", "lift_fresh", "lift_fresh_copy"),
        *("_local_scalar_dense", "set", "resize", "view_as_real", "view_as_complex", "_conj_physical", "complex"),
        *("real", "imag", "_reshape_alias", "_unsafe_view", "_to_copy", "convert_element_type", "contiguous"),
        *("alias_copy", "view_copy", "permute_copy", "expand_copy", "broadcast_in_dim", "nan_to_num", "copysign"),
        *("getitem", "split_with_sizes_copy", "unbind_copy", "bitwise_and", "bitwise_or", "logical_not"),
    )
)
"""Ops that round nothing, but for a cast to a narrower format."""
_COMPARISONS: Final = frozenset(("eq", "ne", "lt", "le", "gt", "ge", "isclose", "equal"))
"""Ops that read their inputs as they are: the largest of a row stays equal to itself, as its gradient needs it."""
_ROUNDED_ONCE: Final = frozenset(
    ("add", "sub", "rsub", "mul", "div", "true_divide", "sqrt", "rsqrt", "reciprocal", "square", "native_dropout")
)
_TENDS_TO_A_CONSTANT: Final = frozenset(("erf", "erfc", "gelu", "_log_softmax", "log_softmax", "logsumexp"))
_RANGES: Final[dict[str, tuple[float, float]]] = {
    **dict.fromkeys(("sigmoid", "_softmax", "softmax"), (0.0, 1.0)),
    **dict.fromkeys(("tanh", "erf", "sin", "cos"), (-1.0, 1.0)),
    "erfc": (0.0, 2.0),
}
_DEFINED_WITHIN_ONE: Final = frozenset(("acos", "asin", "atanh", "binary_cross_entropy", "logit", "erfinv"))
_SUMS_ROWS: Final = frozenset(
    (
        *("_softmax", "_log_softmax", "softmax", "log_softmax", "_softmax_backward_data", "_log_softmax_backward_data"),
        *("native_layer_norm", "native_layer_norm_backward", "native_group_norm", "native_group_norm_backward"),
        *("native_batch_norm", "native_batch_norm_backward", "_native_batch_norm_legit", "cumsum", "cumprod"),
        *("_fused_rms_norm", "_fused_rms_norm_backward", "logcumsumexp", "_native_batch_norm_legit_no_training"),
    )
)
"""Ops that sum over rows and give as many elements as they get."""
_PRODUCTS: Final = frozenset(("mm", "bmm", "addmm", "baddbmm", "convolution", "mv", "addmv", "dot", "linear", "matmul"))
_ATTENTION: Final = "_scaled_dot_product"
"""How the names of ops begin that compute attention, forward or backward, in one kernel: products and a softmax."""
_REDUCTIONS: Final = frozenset(
    ("sum", "mean", "var", "std", "var_mean", "prod", "linalg_vector_norm", "logsumexp", "norm")
)


_WRITTEN_UNDECLARED: Final = frozenset(("running_mean", "running_var"))
"""Arguments that ``native_batch_norm`` writes to, though its schema does not say so."""


class StochasticArithmetic(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is active, every op that rounds is a unit in the last place off, at random.

    Args:
        seed: which random numbers; the same seed gives the same run. :data:`QUIET` gives none.
        loudness: units in the last place by which values move at most; more than 1 finds what is only just decided.
        mirrored: move every value the other way.
        held_as: the format that a device holds every float in, where that is narrower than the tensors' own: each
            result is rounded to it, and the unit is that format's. What is beyond its range becomes its largest
            number for an even seed and infinite for an odd one: devices do either.
        multiplied_as: the format that a device rounds the operands and the results of products to, where it computes
            all else in the tensors' own.
    """

    supports_higher_order_operators = True

    def __init__(
        self,
        seed: int,
        held_as: torch.dtype | None = None,
        *,
        multiplied_as: torch.dtype | None = None,
        loudness: float = 1.0,
        mirrored: bool = False,
    ) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._random = random.Random(_SEED + seed)  # noqa: S311 - noise, not a secret
        self._loudness = 0.0 if seed == QUIET else -loudness if mirrored else loudness
        self._held_as = held_as
        self._multiplied_as = multiplied_as
        self._saturates = seed % 2 == 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Perturb what the op reads and what it writes, as far as it rounds."""
        kwargs = kwargs or {}
        name = bare_op(func)
        if getattr(func, "is_view", False) or getattr(func, "namespace", "") == "prim" or _counts(name, args):
            return func(*args, **kwargs)
        if name in _COMPARISONS:
            held = args if self._held_as is None else map_tensors(self._held, args)
            return func(*held, **kwargs)
        if name in _EXACT:
            return self._moved_data(name, func, args, kwargs)
        if self._multiplied_as is None or not multiplies(func):
            return self._computed(name, func, args, kwargs)
        self._held_as, held = self._multiplied_as, self._held_as
        try:
            return self._computed(name, func, args, kwargs)
        finally:
            self._held_as = held

    def _moved_data(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """The result of an op that rounds only in a cast to a narrower format."""
        result = func(*args, **kwargs)
        narrowed = name in {"_to_copy", "convert_element_type", "copy"} and _narrows(args, kwargs, result)
        if not narrowed and self._held_as is None:
            return result
        return self._written(func, args, result, 1.0 if narrowed else 0.0)

    def _computed(self, name: str, func: Any, args: Any, kwargs: Any) -> Any:
        """The result of an op that rounds, with its inputs and its result off at random."""
        if name not in _ROUNDED_ONCE:
            args, kwargs = self._read(func, _terms(name, args) ** _growth(name), args, kwargs)
        elif self._held_as is not None:  # the inputs are rounded on their way to such a device
            args, kwargs = self._read(func, 0.5, args, kwargs)
        exact = name in _ROUNDED_ONCE or _are_short(args)
        result = func(*args, **kwargs)
        if not self._saturates and self._held_as is None:
            result = _as_in_float32(func, args, kwargs, result)
        terms = _terms_added_up(name, args)
        result = self._written(func, args, result, 1.0, _constant_of(name, args), exact, _RANGES.get(name), terms)
        return self._with_common_error(name, result, terms) if "norm_backward" in name else result

    def _units_of_sum(self, terms: float, dtype: torch.dtype) -> float:
        """Units in the last place of a sum of so many terms: of one sign and added one by one, they lose more and more.

        Kernels add 16-bit numbers up in float32, and round the sum once; a device that holds numbers in a narrower
        format may add them up in that.
        """
        own = float(torch.finfo(dtype).eps)
        accumulated = own if self._held_as is not None else min(own, _SINGLE)
        return max(1.0, _OF_A_SUM * math.sqrt(terms) * accumulated / own)

    def _with_common_error(self, name: str, result: Any, terms: float) -> Any:
        """The gradient of a norm's input, off by the same in all that shares a mean: the mean itself is a long sum."""
        gradient = result[0]
        if not isinstance(gradient, torch.Tensor) or gradient.ndim < 2 or not gradient.is_floating_point():
            return result
        shared = [dim for dim in range(gradient.ndim) if dim != 1] if "batch" in name else [gradient.ndim - 1]
        largest = gradient.abs().amax(shared, keepdim=True)
        units = self._units_of_sum(terms, gradient.dtype)
        common = self._noise(largest) * largest * (units * _eps(gradient.dtype, self._held_as))
        return (gradient + common, *result[1:])

    def _read(self, func: Any, units: float, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The inputs, each a little off; what the op writes to stays the tensor that it is."""
        written = written_to(func)

        def moved(value: torch.Tensor) -> torch.Tensor:
            if not _rounds(value):
                return value
            narrow = value.dtype.itemsize <= 2 and self._held_as is None
            off = self._moved(value, _OF_A_NARROW_INPUT if narrow else units)
            if bare_op(func) in _DEFINED_WITHIN_ONE:
                off = torch.where(value.abs() <= 1, off.clamp(-1, 1), off)
            return self._held(off)

        def read(name: str, value: Any) -> Any:
            return value if name in written else map_tensors(moved, value)

        names = _argument_names(func)[: len(args)]
        given = tuple(read(name, value) for name, value in itertools.zip_longest(names, args, fillvalue=""))
        return given, {key: read(key, value) for key, value in kwargs.items()}

    def _written(
        self,
        func: Any,
        args: Any,
        result: Any,
        units: float,
        constant: float | torch.Tensor | None = None,
        short_is_exact: bool = True,
        within: tuple[float, float] | None = None,
        terms: float = 1.0,
    ) -> Any:
        """The result a little off: a new tensor, or in place where the op wrote in place.

        ``terms`` is how many numbers were added up, one by one, to each element of the result.
        """
        names, written = _argument_names(func), written_to(func)
        targets = [value for name, value in zip(names, args, strict=False) if name in written]
        in_place = {id(value) for value in of_kind(torch.Tensor, targets)}

        def moved(value: torch.Tensor) -> torch.Tensor:
            if not _rounds(value):
                return value
            of_sum = self._units_of_sum(terms, value.dtype) if terms > 1 else 1.0
            made = self._moved(value, units * of_sum, constant, short_is_exact) if units else value
            made = self._held(made if within is None else made.clamp(*within))
            return value.copy_(made) if id(value) in in_place else made

        return map_tensors(moved, result)

    def _moved(
        self,
        value: torch.Tensor,
        units: float,
        constant: float | torch.Tensor | None = None,
        short_is_exact: bool = True,
    ) -> torch.Tensor:
        if not value.numel():
            return value
        if value.is_complex():
            parts = torch.view_as_real(value.resolve_conj())
            size = value.abs().unsqueeze(-1).to(parts.dtype)
            off = parts + size * self._noise(parts) * (units * torch.finfo(parts.dtype).eps)
            return torch.view_as_complex(torch.where(off.isfinite(), off, parts).contiguous())
        if value.dtype.itemsize == 1:  # float8 has no arithmetic
            return self._moved(value.float(), units * torch.finfo(value.dtype).eps / _SINGLE).to(value.dtype)
        eps = _eps(value.dtype, self._held_as)
        noise = self._noise(value)
        off = torch.addcmul(value, value, noise, value=units * eps)
        if constant is not None:
            unit = eps if self._held_as is not None else min(eps, _SINGLE)  # 16-bit numbers are widened for functions
            off = off + noise * constant * (_LIBRARY * unit)
        mobile = value.abs() < _SENTINEL * torch.finfo(value.dtype).max
        if value.dtype is torch.float32 and constant is None and self._held_as is None and short_is_exact:
            mobile &= (value.view(torch.int32) & _TRAILING) != 0
        return torch.where(mobile, off, value)

    def _held(self, value: torch.Tensor) -> torch.Tensor:
        held = self._held_as
        if held is None or not value.is_floating_point() or value.dtype.itemsize <= held.itemsize:
            return value
        if self._saturates:
            largest = torch.finfo(held).max
            value = torch.where(value.isinf(), value, value.clamp(-largest, largest))
        return value.to(held).to(value.dtype)

    def _noise(self, value: torch.Tensor) -> torch.Tensor:
        """A number from -1 to 1 for each element, from a random place of the table on."""
        table = _table(value.dtype, value.device)
        count, start = value.numel(), self._random.randrange(_TABLE)
        if start + count > len(table):
            table = table.repeat(1 + (start + count) // len(table))
        noise = table[start : start + count].view(value.shape)
        return noise if self._loudness == 1.0 else noise * self._loudness


def multiplies(target: Any) -> bool:
    """Whether an op is a product of matrices, a convolution or its gradients, or has such products inside."""
    name = bare_op(target)
    return name in _PRODUCTS or name == "convolution_backward" or name.startswith(_ATTENTION)


def adds_up(target: Any) -> bool:
    """Whether each element of an op's result is a sum, or a sum of products."""
    return bare_op(target) in _PRODUCTS | _REDUCTIONS - {"prod"}


class WideArithmetic(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is active, 16-bit floats are computed in float32 and stay so: nothing is rounded to 16 bits.

    What is written in place is rounded to its format. A model that insists on a format raises.
    """

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the op on widened inputs; a cast to 16 bits is one to float32."""
        kwargs = kwargs or {}
        if getattr(func, "is_view", False):
            return func(*args, **kwargs)
        written = written_to(func)
        copies: list[tuple[torch.Tensor, torch.Tensor]] = []

        def read(name: str, value: Any) -> Any:
            if name in _WRITTEN_UNDECLARED and isinstance(value, torch.Tensor) and _is_narrow(value):
                copies.append((value, value.float()))
                return copies[-1][1]
            return value if name in written else _widened(value)

        names = _argument_names(func)[: len(args)]
        given = tuple(read(name, value) for name, value in itertools.zip_longest(names, args, fillvalue=""))
        result = func(*given, **{key: read(key, value) for key, value in kwargs.items()})
        for value, wide in copies:
            if not torch.equal(value.float(), wide):
                value.copy_(wide)
        return result


def _widened(values: Any) -> Any:
    """Tensors of 16-bit floats as float32, and such a dtype too."""
    if isinstance(values, torch.dtype):
        return torch.float32 if values.is_floating_point and values.itemsize == 2 else values
    return map_tensors(lambda value: value.float() if _is_narrow(value) else value, values)


def _is_narrow(value: torch.Tensor) -> bool:
    return value.is_floating_point() and value.dtype.itemsize == 2 and value.layout == torch.strided


def seeds(count: int, held_as: torch.dtype | None) -> tuple[int, ...]:
    """The seeds of so many runs with noise; for a device with a format of its own, also of one without noise."""
    return tuple(range(count)) if held_as is None else (*range(count), QUIET)


@functools.lru_cache(maxsize=8)
def _table(dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    generator = torch.Generator().manual_seed(_SEED)
    return (torch.rand(_TABLE, generator=generator, dtype=torch.float64) * 2 - 1).to(device=device, dtype=dtype)


def bare_op(func: Any) -> str:
    """The op's name without its namespace, overload and the underscore of one that writes in place."""
    schema = getattr(func, "_schema", None)
    if schema is None:
        return str(getattr(func, "__name__", func))
    name: str = schema.name.rpartition("::")[2]
    return name[:-1] if name.endswith("_") and not name.endswith("__") else name


def rounds_nothing(func: Any, args: Any) -> bool:
    """Whether an op only views, moves, selects, compares or counts."""
    name = bare_op(func)
    is_prim = getattr(func, "namespace", "") == "prim"
    return getattr(func, "is_view", False) or is_prim or name in _EXACT | _COMPARISONS or _counts(name, args)


def _rounds(value: torch.Tensor) -> bool:
    """Whether a tensor has floats that can be moved."""
    return (value.is_floating_point() or value.is_complex()) and value.layout == torch.strided


@functools.lru_cache(maxsize=4096)
def _argument_names(func: Any) -> list[str]:
    return [argument.name for argument in getattr(getattr(func, "_schema", None), "arguments", ())]


@functools.lru_cache(maxsize=4096)
def written_to(func: Any) -> frozenset[str]:
    """The arguments that an op writes to, by name."""
    arguments = getattr(getattr(func, "_schema", None), "arguments", ())
    return frozenset(
        each.name
        for each in arguments
        if each.name in _WRITTEN_UNDECLARED or (each.alias_info is not None and each.alias_info.is_write)
    )


def _narrows(args: Any, kwargs: Any, result: Any) -> bool:
    """Whether a cast loses digits."""
    read, made = (
        [torch.finfo(value.dtype).eps for value in of_kind(torch.Tensor, values) if value.is_floating_point()]
        for values in ((args, kwargs), result)
    )
    return bool(read and made) and max(made) > min(read)


def _as_in_float32(func: Any, args: Any, kwargs: Any, result: Any) -> Any:
    """The result of an op whose 16-bit inputs are widened to float32 first, cast to its own dtypes."""
    floats = [value for value in of_kind(torch.Tensor, (args, kwargs)) if value.is_floating_point()]
    if written_to(func) or not floats or any(value.dtype.itemsize != 2 for value in floats):
        return result

    def widened(value: torch.Tensor) -> torch.Tensor:
        return value.float() if value.is_floating_point() else value

    wide_args, wide_kwargs = map_tensors(widened, (args, kwargs))
    try:
        wide = func(*wide_args, **{key: value for key, value in wide_kwargs.items() if key != "dtype"})
    except (RuntimeError, NotImplementedError):
        return result
    theirs = iter(of_kind(torch.Tensor, wide))
    return map_tensors(lambda value: _saturated(next(theirs, value), value.dtype), result)


def _saturated(value: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A cast that does not overflow: a kernel that keeps the value in float32 has no infinity there."""
    if not value.is_floating_point() or not dtype.is_floating_point:
        return value.to(dtype)
    largest = torch.finfo(dtype).max
    return torch.where(value.isinf(), value, value.clamp(-largest, largest)).to(dtype)


def _counts(name: str, args: Any) -> bool:
    """Whether an op only counts: ``arange`` in whole steps."""
    return name == "arange" and all(float(value).is_integer() for value in args if isinstance(value, int | float))


def _are_short(args: Any) -> bool:
    """Whether every float among the arguments has few digits: whole numbers, masks, powers of two."""
    tensors = [value for value in of_kind(torch.Tensor, args) if value.is_floating_point()]
    return bool(tensors) and all(
        value.dtype is torch.float32 and not bool((value.view(torch.int32) & _TRAILING).any()) for value in tensors
    )


def _eps(dtype: torch.dtype, held_as: torch.dtype | None) -> float:
    own = float(torch.finfo(dtype).eps)
    return own if held_as is None else max(own, float(torch.finfo(held_as).eps))


def _constant_of(name: str, args: Any) -> float | torch.Tensor | None:
    """The constant that a function tends to: 1, for ``gelu`` its own input, for ``linspace`` its largest number."""
    if name in {"linspace", "arange"}:
        return max((abs(float(value)) for value in args if isinstance(value, int | float)), default=1.0)
    if name not in _TENDS_TO_A_CONSTANT:
        return None
    return args[0].abs() if name == "gelu" and isinstance(args[0], torch.Tensor) else 1.0


def _growth(name: str) -> float:
    """The power of the number of terms with which the error of a sum grows."""
    return 1 / 4 if name in _PRODUCTS else 1 / 3


def _terms_added_up(name: str, args: Any) -> float:
    """How many terms the sum has that an element of the result is; 1 for ops that add up in blocks, or not at all."""
    if name in _REDUCTIONS or ("backward" in name and ("norm" in name or "convolution" in name)):
        return _terms(name, args)
    return 1.0


def _terms(name: str, args: Any) -> float:
    """About how many terms each sum inside an op has."""
    tensors = [value for value in of_kind(torch.Tensor, args) if value.is_floating_point() or value.is_complex()]
    if not tensors:
        return 1.0
    first = tensors[0]
    if "convolution" in name and len(tensors) > 1:
        return _terms_of_convolution(tensors, is_backward="backward" in name)
    if name.startswith(("upsample", "_upsample", "grid_sampler")):  # places are off by a unit of the size, not of 1
        return float(max([1, *first.shape])) ** 3
    if name in _SUMS_ROWS:
        return _terms_of_rows(name, first)
    if name in _REDUCTIONS:
        return _terms_of_reduction(first, args)
    if len(tensors) == 1:
        return float(max([1, *first.shape]))
    first, second = tensors[-2:] if name in {"addmm", "baddbmm", "addmv"} else tensors[:2]
    return float(max([1, *first.shape[-1:], *second.shape[-2:-1]]))


def _terms_of_convolution(tensors: list[torch.Tensor], *, is_backward: bool) -> float:
    first = tensors[0]
    weight = tensors[2] if is_backward and len(tensors) > 2 else tensors[1]
    of_weights = first.numel() / max(1, first.shape[1]) if is_backward else 1.0
    return float(max(1.0, weight.numel() / max(1, weight.shape[0]), of_weights))


def _terms_of_reduction(first: torch.Tensor, args: Any) -> float:
    dims = next((value for value in args[1:] if isinstance(value, list | tuple)), None)
    return float(max(1, math.prod(first.shape[dim] for dim in dims) if dims else first.numel()))


def _terms_of_rows(name: str, first: torch.Tensor) -> float:
    """The longest row or, for a norm, the sums for the weights or over a batch."""
    kept = first.shape[1] if "batch_norm" in name and first.ndim > 1 else first.shape[-1] if first.ndim else 1
    over_rows = first.numel() / max(1, kept) if "norm" in name else 1.0
    return float(max([1, over_rows, *first.shape]))
