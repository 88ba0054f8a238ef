"""How a device computes, and one op computed so.

Products (matrix products, convolutions, attention) have operands, a sum and a result; devices round each of them to a
format of its own. Everything else that rounds has a result. An :class:`Arithmetic` names the three formats; ops that
only move or compare data round nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast, get_args

import torch

from inductor_debug_jupyter.pipeline.devices import DeviceProfile
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.formats.rounding import NARROW, Format, rounded, rounded_weight
from inductor_debug_jupyter.pipeline.harmless import Harmless
from inductor_debug_jupyter.pipeline.torch_compat.stochastic import bare_op, rounds_nothing, written_to
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors

Sums = Literal["wide", "narrow"]

OPERANDS: Final[dict[str, tuple[int, ...]]] = {
    **dict.fromkeys(("mm", "bmm", "mv", "dot", "matmul", "linear", "convolution", "_convolution"), (0, 1)),
    **dict.fromkeys(("addmm", "baddbmm", "addmv"), (1, 2)),
    "convolution_backward": (0, 1, 2),
    **dict.fromkeys(
        (
            "_scaled_dot_product_flash_attention_for_cpu",
            "_scaled_dot_product_flash_attention",
            "_scaled_dot_product_efficient_attention",
            "_scaled_dot_product_attention_math",
            "scaled_dot_product_attention",
        ),
        (0, 1, 2),
    ),
}
"""Op → which of its arguments are multiplied."""
_WEIGHTS: Final[dict[str, tuple[int, int]]] = {
    **dict.fromkeys(("mm", "bmm"), (1, -1)),
    **dict.fromkeys(("addmm", "baddbmm"), (2, -1)),
    **dict.fromkeys(("convolution", "_convolution", "linear"), (1, 0)),
}
"""Op → the argument that is a weight, and the dimension of it that counts output channels."""
_BIASED: Final = frozenset(("addmm", "baddbmm"))
_STEP: Final = 8
"""Terms that are added up at once before a narrow sum is rounded."""


@dataclass(frozen=True, slots=True)
class Arithmetic(Harmless):
    """The formats of a device.

    Attributes:
        operands: what operands of products are rounded to; ``int8`` means their weights alone.
        results: what the result of every op is rounded to.
        sums: ``narrow`` when products are added up in the format of the results.
        before_bias: whether a product is rounded to the format of its operands before a bias is added to it.
        flushes: whether operands and results below the smallest normal number of a 16-bit format become zero.
        rounds_products: whether the results of products are rounded to the format of their operands, where those of
            other ops are float32, as under autocast. With ``before_bias`` not again when the bias has been added.
    """

    operands: Format = "float32"
    results: Format = "float32"
    sums: Sums = "wide"
    before_bias: bool = False
    flushes: bool = False
    rounds_products: bool = False

    def __str__(self) -> str:
        if self.operands == self.results == "float32":
            return "float32"
        flushed = " without denormals" if self.flushes else ""
        bias = f", rounded to {self.operands} before a bias is added" if self.before_bias else ""
        if self.rounds_products:
            bias = f", each rounded to {self.operands}{' before a bias is added' if self.before_bias else ''}"
        if self.results == "float32":
            return f"{self._products}{flushed} with float32 sums{bias}"
        sums = f"{self.results} sums" if self.sums == "narrow" else "float32 sums"
        products = "" if self.operands == self.results else f" with {self._products}"
        return f"{self.results} throughout{flushed}{products}, {sums}{bias}"

    @property
    def held_as(self) -> torch.dtype | None:
        """The 16-bit format that results are rounded to; None where they are not."""
        return getattr(torch, self.results) if self.results in NARROW else None

    @property
    def multiplied_as(self) -> torch.dtype | None:
        """The 16-bit format that operands of products are rounded to; None for any other."""
        return getattr(torch, self.operands) if self.operands in NARROW else None

    @property
    def _products(self) -> str:
        return "int8 weights" if self.operands == "int8" else f"{self.operands} products"

    def of(self, name: str) -> Arithmetic:
        """The same for one op: ``results`` are those of that op alone, and ``rounds_products`` is not needed."""
        if not self.rounds_products or name not in OPERANDS:
            return replace(self, rounds_products=False)
        early = self.before_bias and name in _BIASED
        return replace(self, results="float32" if early else self.operands, before_bias=early, rounds_products=False)

    @property
    def is_exact(self) -> bool:
        """Whether it rounds as torch's own float32 does."""
        return self == Arithmetic()

    def compute(
        self,
        func: Any,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        as_given: Callable[[Any], bool] = lambda _: False,
    ) -> Any:
        """What a device of this arithmetic makes of one ATen op; it reads those tensors ``as_given`` that are so."""
        name = bare_op(func)
        if self.rounds_products:
            return self.of(name).compute(func, args, kwargs, as_given)
        if rounds_nothing(func, args):
            return func(*args, **kwargs)
        written = bool(written_to(func))
        if name in OPERANDS and not written:
            result = self._product(name, func, args, kwargs, as_given)
        else:
            held = args if written else map_tensors(lambda value: value if as_given(value) else self._held(value), args)
            result = func(*held, **kwargs)
        return map_tensors(self._held_in_place if written else self._held, result)

    def _product(
        self, name: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], as_given: Callable[[Any], bool]
    ) -> Any:
        operands = list(map_tensors(lambda value: value if as_given(value) else self._held(value), args))
        for at in OPERANDS[name]:
            if at < len(args) and isinstance(args[at], torch.Tensor) and not as_given(args[at]):
                operands[at] = self.operand(name, at, args[at])
        if self.sums == "narrow" and name in {"mm", "addmm", "bmm", "baddbmm"}:
            return self._with_bias(name, operands, kwargs, lambda first, second: narrow_sum(first, second, self._held))
        if self.sums == "narrow" and name == "convolution" and _is_plain_convolution(operands):
            return self._narrow_convolution(func, operands)
        if self.before_bias and name in _BIASED:
            return self._with_bias(
                name, operands, kwargs, lambda first, second: rounded(torch.matmul(first, second), self.operands)
            )
        if self.before_bias and name == "convolution" and isinstance(operands[2], torch.Tensor):
            product = rounded(func(*operands[:2], None, *operands[3:], **kwargs), self.operands)
            return product + operands[2].view(-1, *[1] * (product.ndim - 2))
        return func(*operands, **kwargs)

    def operand(self, name: str, at: int, value: torch.Tensor) -> torch.Tensor:
        """The op's argument number ``at``, one of those that it multiplies, as the device multiplies it."""
        if self.operands != "int8":
            return self._rounded(value, self.operands)
        weight, channel = _WEIGHTS.get(name, (-1, 0))
        return rounded_weight(value, channel) if at == weight else value

    def _with_bias(
        self,
        name: str,
        operands: list[Any],
        kwargs: dict[str, Any],
        product: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    ) -> torch.Tensor:
        """A product, computed by ``product``, and the bias added to it where the op has one."""
        bias, first, second = operands[:3] if name in _BIASED else (None, *operands[:2])
        total = product(first, second)
        if bias is None:
            return total
        return self._held(kwargs.get("beta", 1) * bias + kwargs.get("alpha", 1) * total)

    def _narrow_convolution(self, func: Any, operands: list[Any]) -> torch.Tensor:
        """A convolution whose running sum is rounded after about :data:`_STEP` terms: some channels at once."""
        value, weight, bias, *rest = operands
        step = max(1, _STEP // max(1, weight[0, 0].numel()))
        total = torch.zeros((), dtype=value.dtype)
        for channels, own in zip(value.split(step, 1), weight.split(step, 1), strict=True):
            total = self._held(total + func(channels, own, None, *rest))
        return total if bias is None else total + bias.view(-1, *[1] * (weight.ndim - 2))

    def _held(self, value: torch.Tensor) -> torch.Tensor:
        return self._rounded(value, self.results)

    def _rounded(self, value: torch.Tensor, kind: Format) -> torch.Tensor:
        made = rounded(value, kind)
        if not self.flushes or kind not in NARROW or not made.is_floating_point():
            return made
        return torch.where(made.abs() < torch.finfo(getattr(torch, kind)).smallest_normal, 0.0, made)

    def _held_in_place(self, value: torch.Tensor) -> torch.Tensor:
        return value.copy_(self._held(value)) if value.is_floating_point() else value


def _is_plain_convolution(args: list[Any]) -> bool:
    """Whether it has a batch, is not transposed, and has one group."""
    return len(args) == 9 and not args[6] and args[8] == 1 and args[0].ndim == args[1].ndim


def narrow_sum(
    first: torch.Tensor, second: torch.Tensor, held: Callable[[torch.Tensor], torch.Tensor], step: int = _STEP
) -> torch.Tensor:
    """A matrix product whose running sum is rounded after every ``step`` terms."""
    total = torch.zeros((), dtype=first.dtype)
    for at in range(0, first.shape[-1], step):
        total = held(total + first[..., at : at + step] @ second[..., at : at + step, :])
    return total


KNOWN: Final[tuple[Arithmetic, ...]] = (
    Arithmetic(),
    Arithmetic("tf32"),
    Arithmetic("bfloat16"),
    Arithmetic("bfloat16", before_bias=True),
    Arithmetic("float16"),
    Arithmetic("float16", before_bias=True),
    Arithmetic("float16", flushes=True),
    Arithmetic("bfloat16", "bfloat16"),
    Arithmetic("float16", "float16"),
    Arithmetic("float32", "bfloat16"),
    Arithmetic("float32", "float16"),
    Arithmetic("bfloat16", "bfloat16", before_bias=True),
    Arithmetic("float16", "float16", before_bias=True),
    Arithmetic("bfloat16", "bfloat16", "narrow"),
    Arithmetic("float16", "float16", "narrow"),
    Arithmetic("float16", "float16", flushes=True),
    Arithmetic("float16", "float16", "narrow", flushes=True),
    *(Arithmetic(each, before_bias=early, rounds_products=True) for each in NARROW for early in (False, True)),
    *(Arithmetic("float16", before_bias=early, flushes=True, rounds_products=True) for early in (False, True)),
    Arithmetic("float8_e4m3fn"),
    Arithmetic("float8_e4m3fn", "bfloat16"),
    Arithmetic("float8_e4m3fn", "float16"),
    Arithmetic("int8"),
    Arithmetic("int8", "bfloat16"),
    Arithmetic("int8", "float16"),
)
"""What devices are known to have."""

NAMED: Final[dict[str, Arithmetic]] = {
    "float32": Arithmetic(),
    "float16": Arithmetic("float16", "float16"),
    "bfloat16": Arithmetic("bfloat16", "bfloat16"),
    "float16-sums": Arithmetic("float16", "float16", "narrow"),
    "bfloat16-sums": Arithmetic("bfloat16", "bfloat16", "narrow"),
    "float16-products": Arithmetic("float16"),
    "bfloat16-products": Arithmetic("bfloat16"),
    "tf32-products": Arithmetic("tf32"),
    "float8-products": Arithmetic("float8_e4m3fn"),
    "int8-weights": Arithmetic("int8"),
}
"""The arithmetics that a user can name; ``float16`` rounds every result to it and adds products up in float32."""


def named_arithmetic(name: str) -> Arithmetic:
    """The arithmetic of that name.

    Raises:
        OptionError: there is none.
    """
    if name not in NAMED:
        raise OptionError(f"numerics={name!r}; allowed: {', '.join(NAMED)}")
    return NAMED[name]


def arithmetic_of_profile(profile: DeviceProfile) -> Arithmetic | None:
    """The arithmetic that a device profile describes; None when it says nothing of it, or a format of no known kind."""
    results = profile.narrow.get("float32", "float32")
    operands = profile.products or results
    if operands == "float32" or results not in {"float32", *NARROW} or operands not in get_args(Format):
        return None
    sums: Sums = "narrow" if results in NARROW and profile.accumulate == results else "wide"
    return Arithmetic(cast("Format", operands), results, sums)
