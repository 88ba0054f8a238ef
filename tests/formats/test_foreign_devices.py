"""No arithmetic is named of a device that has none of the known ones, nor of one with a fault."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from inductor_debug_jupyter.pipeline.formats.designed_inputs import DESIGNS, designed_inputs, terms_of
from inductor_debug_jupyter.pipeline.formats.recognition import OpSample, recognise
from tests.support.foreign_devices import FAULTS, KNOWN_OTHERWISE, UNKNOWN, Device, with_fault

aten = torch.ops.aten
Op = tuple[Any, ...]


def models(seed: int) -> dict[str, list[Op]]:
    """The ops of four models, with inputs."""
    made = torch.Generator().manual_seed(seed)

    def draw(*shape: int, by: float = 1.0) -> torch.Tensor:
        return torch.randn(*shape, generator=made) * by

    linear = (aten.addmm.default, draw(48, by=0.1), draw(32, 64), draw(64, 48, by=0.125))
    norm = (aten.native_layer_norm.default, draw(32, 64, by=0.1), [64], torch.ones(64), torch.zeros(64), 1e-5)
    return {
        "mlp": [linear, (aten.gelu.default, draw(32, 48)), (aten.relu.default, draw(32, 48)), norm],
        "convolutions": [
            (aten.convolution.default, draw(2, 8, 10, 10), draw(16, 8, 3, 3), draw(16), *([1, 1], [1, 1], [1, 1])),
            (aten.relu.default, draw(2, 16, 10, 10)),
            linear,
            (aten.gelu.default, draw(8, 8)),
            norm,
        ],
        "attention": [
            linear,
            (aten.bmm.default, draw(4, 16, 32), draw(4, 32, 16)),
            (aten._softmax.default, draw(4, 16, 16), -1, False),
            (aten.gelu.default, draw(8, 8)),
            norm,
            (aten.relu.default, draw(8, 8)),
        ],
        "state space": [
            (aten.mm.default, draw(32, 64), draw(64, 48)),
            linear,
            (aten.exp.default, draw(8, 64)),
            (aten.mul.Tensor, draw(8, 64), draw(8, 64)),
            (aten.gelu.default, draw(8, 8)),
            norm,
            (aten.relu.default, draw(8, 8)),
        ],
    }


def samples(device: Device, ops: list[Op]) -> list[OpSample]:
    """What the device makes of them, and of designed inputs of the product with the most terms."""
    made = []
    most = max(ops, key=lambda op: terms_of(op[0].__name__.partition(".")[0], op[1:]))
    for op in ops:
        func, *args = op
        if func is aten.convolution.default:
            args += [False, [0, 0], 1]
        variants = [(tuple(args), None)]
        if op is most:
            name = func.__name__.partition(".")[0]
            small = tuple(each * 2.0**-18 if at == len(args) - 2 else each for at, each in enumerate(args))
            variants += [(small, None), *((designed_inputs(name, tuple(args), each), each) for each in DESIGNS)]
        for given, design in variants:
            result = device(func, given, {})
            first = result[0] if isinstance(result, tuple) else result
            made.append(OpSample(func, given, {}, first, design))
    return made


@pytest.mark.parametrize("name", UNKNOWN)
@pytest.mark.parametrize("seed", range(2))
def test_an_arithmetic_that_is_not_known_is_not_named(name: str, seed: int) -> None:
    for model, ops in models(seed).items():
        found = recognise(samples(UNKNOWN[name], ops))
        assert found.arithmetic is None, (model, str(found.arithmetic), found)


@pytest.mark.parametrize("name", KNOWN_OTHERWISE)
@pytest.mark.parametrize("seed", range(2))
def test_a_known_one_is_named_whatever_the_order_of_its_sums(name: str, seed: int) -> None:
    device, words = KNOWN_OTHERWISE[name]
    for model, ops in models(seed).items():
        found = recognise(samples(device, ops))
        assert (model, str(found.arithmetic), found.wrong) == (model, words, ()), found


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", KNOWN_OTHERWISE)
def test_a_device_with_a_fault_looks_like_nothing_without_it_being_said(name: str, fault: str) -> None:
    op, spoil = FAULTS[fault]
    for model, ops in models(0).items():
        found = recognise(samples(with_fault(KNOWN_OTHERWISE[name][0], op, spoil), ops))
        assert found.arithmetic is None or op in found.wrong, (model, found)
