"""Devices that compute single ops in some arithmetic, written here without the package, are recognised or not known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from inductor_debug_jupyter.pipeline.formats.arithmetic import KNOWN, NAMED, Arithmetic, named_arithmetic
from inductor_debug_jupyter.pipeline.formats.designed_inputs import DESIGNS, Design, designed_inputs
from inductor_debug_jupyter.pipeline.formats.recognition import OpSample, recognise

aten = torch.ops.aten
Device = Callable[[str, tuple[Any, ...]], torch.Tensor]


def inputs(seed: int, scale: float = 1.0) -> dict[str, tuple[Any, ...]]:
    """Ops with their inputs."""
    made = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=made)

    return {
        "mm": (aten.mm.default, draw(24, 96) * scale, draw(96, 40)),
        "addmm": (aten.addmm.default, draw(40), draw(24, 96) * scale, draw(96, 40)),
        "gelu": (aten.gelu.default, draw(24, 40)),
        "mul": (aten.mul.Tensor, draw(24, 40), draw(24, 40)),
    }


def through(dtype: torch.dtype, value: torch.Tensor) -> torch.Tensor:
    return value.to(dtype).float()


def e4m3(value: torch.Tensor) -> torch.Tensor:
    scale = value.abs().max() / 448
    return (value / scale).to(torch.float8_e4m3fn).float() * scale


def int8_columns(value: torch.Tensor) -> torch.Tensor:
    scale = value.abs().amax(0, keepdim=True) / 127
    return (value / scale).round().clamp(-127, 127) * scale


def tf32(value: torch.Tensor) -> torch.Tensor:
    fraction, exponent = torch.frexp(value)
    return torch.ldexp((fraction * 2**11).round() / 2**11, exponent)


def products_by(operand: Callable[[torch.Tensor], torch.Tensor], weight: Any = None, result: Any = None) -> Device:
    """A device that rounds what it multiplies, and perhaps its results."""
    keep = result or (lambda value: value)
    weight = weight or operand

    def run(name: str, args: tuple[Any, ...]) -> torch.Tensor:
        if name == "mm":
            return keep(operand(args[0]) @ weight(args[1]))
        if name == "addmm":
            return keep(operand(args[1]) @ weight(args[2]) + keep(args[0]))
        if name == "gelu":
            return keep(torch.nn.functional.gelu(keep(args[0])))
        return keep(keep(args[0]) * keep(args[1]))

    return run


def one_by_one(dtype: torch.dtype) -> Device:
    """A device that adds products up in a narrow format, term by term."""

    def product(first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        total = torch.zeros(first.shape[0], second.shape[1])
        for at in range(first.shape[1]):
            total = through(dtype, total + through(dtype, first)[:, at : at + 1] * through(dtype, second)[at : at + 1])
        return total

    def run(name: str, args: tuple[Any, ...]) -> torch.Tensor:
        if name == "mm":
            return product(*args)
        if name == "addmm":
            return through(dtype, product(*args[1:]) + through(dtype, args[0]))
        return products_by(lambda value: value, result=lambda value: through(dtype, value))(name, args)

    return run


def rounded_before_bias(name: str, args: tuple[Any, ...]) -> torch.Tensor:
    """What OpenVINO does on a CPU with bfloat16: the product is written as bfloat16 where a bias follows."""
    if name == "addmm":
        product = through(torch.bfloat16, args[1]) @ through(torch.bfloat16, args[2])
        return through(torch.bfloat16, product) + args[0]
    return products_by(lambda value: through(torch.bfloat16, value))(name, args)


def rounded_products(name: str, args: tuple[Any, ...]) -> torch.Tensor:
    """As under autocast: products alone are in bfloat16, with operands, bias and result."""
    if name == "addmm":
        bias, first, second = (through(torch.bfloat16, each) for each in args)
        return through(torch.bfloat16, first @ second + bias)
    made = products_by(lambda value: through(torch.bfloat16, value))(name, args)
    return through(torch.bfloat16, made) if name == "mm" else made


def rounded_without_bias(name: str, args: tuple[Any, ...]) -> torch.Tensor:
    """As under autocast where a bias is added by an op of its own."""
    if name == "addmm":
        return rounded_products("mm", args[1:]) + args[0]
    return rounded_products(name, args)


def half(value: torch.Tensor) -> torch.Tensor:
    return through(torch.float16, value)


def brain(value: torch.Tensor) -> torch.Tensor:
    return through(torch.bfloat16, value)


DEVICES: dict[str, tuple[Device, Arithmetic]] = {
    "float32": (products_by(lambda value: value), Arithmetic()),
    "tf32": (products_by(tf32), Arithmetic("tf32")),
    "bfloat16 products": (products_by(brain), Arithmetic("bfloat16")),
    "float16 products": (products_by(half), Arithmetic("float16")),
    "bfloat16": (products_by(brain, result=brain), Arithmetic("bfloat16", "bfloat16")),
    "float16": (products_by(half, result=half), Arithmetic("float16", "float16")),
    "bfloat16 sums": (one_by_one(torch.bfloat16), Arithmetic("bfloat16", "bfloat16", "narrow")),
    "float16 sums": (one_by_one(torch.float16), Arithmetic("float16", "float16", "narrow")),
    "float8": (products_by(e4m3), Arithmetic("float8_e4m3fn")),
    "int8 weights": (products_by(lambda value: value, int8_columns), Arithmetic("int8")),
    "before bias": (rounded_before_bias, Arithmetic("bfloat16", before_bias=True)),
    "rounded products": (rounded_products, Arithmetic("bfloat16", rounds_products=True)),
    "rounded without bias": (rounded_without_bias, Arithmetic("bfloat16", before_bias=True, rounds_products=True)),
}


def samples(device: Device, seed: int, designs: tuple[Design, ...] = DESIGNS) -> list[OpSample]:
    made = []
    for scale in (1.0, 2.0**-18):
        for name, (func, *args) in inputs(seed, scale).items():
            made.append(OpSample(func, tuple(args), {}, device(name, tuple(args))))
    func, *own = inputs(seed)["addmm"]
    for design in designs:
        args = designed_inputs("addmm", tuple(own), design)
        made.append(OpSample(func, args, {}, device("addmm", args), design))
    return made


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", DEVICES)
def test_a_device_is_named_right(name: str, seed: int) -> None:
    device, arithmetic = DEVICES[name]
    found = recognise(samples(device, seed))
    assert found.arithmetic == arithmetic, found


@pytest.mark.parametrize("name", ["bfloat16 sums", "float16 sums"])
def test_narrow_sums_are_named_only_where_a_sample_shows_them(name: str) -> None:
    device, arithmetic = DEVICES[name]
    found = recognise(samples(device, 0, ("whole", "single")))
    assert found.arithmetic is None
    assert f"the errors have the size of {arithmetic}, but no sample shows such sums" in found.reason


def faulty(device: Device, fault: Callable[[torch.Tensor], torch.Tensor]) -> Device:
    return lambda name, args: fault(device(name, args)) if name in {"mm", "addmm"} else device(name, args)


FAULTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "1% too large": lambda value: value * 1.01,
    "a sign": lambda value: -value,
    "one row is zero": lambda value: value * (torch.arange(len(value)) != 3)[:, None],
    "shifted": lambda value: value.roll(1, 0),
    "a constant": lambda value: value + 0.01,
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", DEVICES)
def test_a_faulty_device_has_no_arithmetic(name: str, fault: str) -> None:
    found = recognise(samples(faulty(DEVICES[name][0], FAULTS[fault]), 0))
    assert found.arithmetic is None
    assert "no known arithmetic explains" in found.reason


@pytest.mark.parametrize("name", ["bfloat16 products", "float16", "int8 weights"])
def test_a_faulty_function_hides_no_arithmetic(name: str) -> None:
    device, arithmetic = DEVICES[name]
    found = recognise(samples(lambda op, args: device(op, args) * (1.05 if op == "gelu" else 1.0), 0))
    assert found.arithmetic == arithmetic
    assert set(found.wrong) == {"gelu"}
    assert "but no arithmetic explains gelu" in found.notes("chip")[0]


def test_without_a_product_it_is_not_known() -> None:
    func, *args = inputs(0)["gelu"]
    found = recognise([OpSample(func, tuple(args), {}, torch.nn.functional.gelu(args[0]))])
    assert (found.arithmetic, found.reason) == (None, "no product of enough elements was seen")


def test_float16_and_tf32_differ_in_small_numbers_only() -> None:
    func, *args = inputs(0)["mm"]
    found = recognise([OpSample(func, tuple(args), {}, half(args[0]) @ half(args[1]))])
    assert found.arithmetic is None
    assert "do not tell tf32" in found.reason


def test_where_products_alone_are_seen_all_results_may_be_rounded() -> None:
    """The wider of the two floors: a healthy device that rounds every result must not be red either."""
    seen = [each for each in samples(rounded_products, 0) if each.is_product]
    assert recognise(seen).arithmetic == Arithmetic("bfloat16", "bfloat16")


@pytest.mark.parametrize("has_bias", [True, False])
@pytest.mark.parametrize("early", [True, False])
def test_a_convolution_of_rounded_products_may_be_rounded_with_its_bias_or_before(early: bool, has_bias: bool) -> None:
    made = torch.Generator().manual_seed(0)
    x, weight, bias = (torch.randn(*size, generator=made) for size in ((2, 8, 9, 9), (16, 8, 3, 3), (16,)))
    rest = ([1, 1], [1, 1], [1, 1], False, [0, 0], 1)
    sum_ = aten.convolution.default(brain(x), brain(weight), None, *rest)
    shown = bias.view(-1, 1, 1) if has_bias else torch.zeros(())
    result = brain(sum_) + shown if early else brain(sum_ + brain(shown))
    sample = OpSample(aten.convolution.default, (x, weight, bias if has_bias else None, *rest), {}, result)
    found = recognise([*samples(rounded_without_bias, 0), sample])
    assert found.arithmetic == Arithmetic("bfloat16", before_bias=True, rounds_products=True), found


@pytest.mark.parametrize("arithmetic", KNOWN, ids=str)
def test_an_arithmetic_computes_as_it_is_recognised(arithmetic: Arithmetic) -> None:
    def device(name: str, args: tuple[Any, ...]) -> torch.Tensor:
        return arithmetic.compute(inputs(0)[name][0], args, {})  # type: ignore[no-any-return]

    found = recognise(samples(device, 0)).arithmetic
    assert found is not None
    assert replace(found, flushes=arithmetic.flushes) == arithmetic


@pytest.mark.parametrize("name", NAMED)
def test_every_named_arithmetic_says_what_it_is(name: str) -> None:
    assert name.partition("-")[0].removesuffix("8").rstrip("0123456789") in str(named_arithmetic(name))


def test_a_narrow_convolution_rounds_its_running_sum() -> None:
    made = torch.Generator().manual_seed(0)
    x, weight = torch.randn(2, 64, 5, 5, generator=made), torch.randn(16, 64, 1, 1, generator=made)
    rest = ([1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    narrow = Arithmetic("float16", "float16", "narrow")
    found = narrow.compute(aten.convolution.default, (x, weight, torch.zeros(16), *rest), {})
    product = narrow.compute(aten.bmm.default, (weight.view(1, 16, 64).expand(2, -1, -1), x.flatten(2)), {})
    wide = Arithmetic("float16", "float16").compute(aten.convolution.default, (x, weight, None, *rest), {})
    assert float((found.flatten(2) != product).double().mean()) < 0.05
    assert float((found != wide).double().mean()) > 0.2


def test_a_product_between_two_numbers_may_be_rounded_either_way_before_a_bias_is_added() -> None:
    """As OpenVINO does in a convolution: next to the bias such a product is a hundred units of the result."""
    func, bias, first, second = inputs(0)["addmm"]
    first[0], second[:, 0] = 0, 0
    first[0, :2], second[:2, 0] = torch.tensor([1, 2.0**-8]), 1.0  # their product is between 1 and 1 + 1/128
    bias[0] = -1
    result = rounded_before_bias("addmm", (bias, first, second))
    assert result[0, 0] == 0
    result[0, 0] = 2.0**-7
    found = recognise([OpSample(func, (bias, first, second), {}, result)])
    assert found.arithmetic == Arithmetic("bfloat16", before_bias=True), found
    result[0, 0] = 2.0**-5
    assert recognise([OpSample(func, (bias, first, second), {}, result)]).arithmetic is None
