"""Which dimension is the batch and which the sequence, told from the inputs; and rows that are repeated."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.what_if import WhatIfRequest
from inductor_debug_jupyter.pipeline.what_if.inputs import axis_of, changed_call, inputs_of, repeated, resizes_of


def whole(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int64)


@pytest.mark.parametrize(
    ("kind", "inputs", "axis"),
    [
        ("batch", {"x": torch.ones(8, 3)}, {"x": 0}),
        ("batch", {"x": torch.ones(8, 3), "labels": whole(8)}, {"x": 0, "labels": 0}),
        ("batch", {"x": torch.ones(8, 3), "y": torch.ones(8, 5), "table": torch.ones(16, 4)}, {"x": 0, "y": 0}),
        ("batch", {"x": torch.ones(1, 3), "scale": torch.ones(1)}, {"x": 0}),
        ("batch", {"x": torch.ones(1, 3), "label": whole(1)}, {"x": 0, "label": 0}),
        ("batch", {"x": torch.ones(2, 3), "number": torch.tensor(2.0)}, {"x": 0}),
        ("sequence", {"ids": whole(2, 7)}, {"ids": 1}),
        ("sequence", {"ids": whole(2, 7), "mask": torch.ones(2, 7)}, {"ids": 1, "mask": 1}),
        ("sequence", {"ids": whole(2, 7), "picture": torch.ones(2, 7, 4, 4)}, {"ids": 1}),
        ("sequence", {"x": torch.ones(2, 7, 16), "scale": torch.ones(2, 7)}, {"x": 1}),
    ],
)
def test_it_is_told_from_the_inputs(kind: str, inputs: dict[str, torch.Tensor], axis: dict[str, int]) -> None:
    assert axis_of(kind, inputs) == axis


@pytest.mark.parametrize(
    ("kind", "inputs", "message"),
    [
        ("batch", {"x": torch.ones(8)}, r"cannot be told from x float32\[8\]: no input has more than one dimension"),
        ("batch", {}, "cannot be told from no tensor at all"),
        ("batch", {"x": torch.ones(8, 3), "y": torch.ones(4, 3)}, "the sizes of dimension 0 differ"),
        ("sequence", {"x": torch.ones(8, 3)}, "no input holds tokens, and none has three dimensions"),
        ("sequence", {"x": torch.ones(8, 3, 32, 32)}, "no input holds tokens"),
        ("sequence", {"x": whole(8, 3), "y": whole(8, 5)}, "the sizes of dimension 1 differ"),
    ],
)
def test_what_cannot_be_told_has_to_be_said(kind: str, inputs: dict[str, torch.Tensor], message: str) -> None:
    with pytest.raises(OptionError, match=message) as raised:
        axis_of(kind, inputs)
    assert f"say it, such as {kind}=" in str(raised.value)
    assert "\n" not in str(raised.value)


def test_what_is_said_counts() -> None:
    inputs = {"x": torch.ones(5, 3, 4), "y": torch.ones(7, 3)}

    def told(kind: str, size: Any, dims: Any = None) -> list[tuple[str, int, int, int]]:
        return [(each.name, each.dim, each.old, each.new) for each in resizes_of(kind, size, inputs, dims)]

    assert told("batch", {"x": 9}) == [("x", 0, 5, 9)]
    assert told("batch", 9, 1) == [("x", 1, 3, 9), ("y", 1, 3, 9)]
    assert told("batch", 9, {"y": 0}) == [("y", 0, 7, 9)]
    assert told("sequence", {"x": 2}, {"x": 2}) == [("x", 2, 4, 2)]
    for kind, size, dims, message in (
        ("batch", {"z": 9}, None, "batch: there is no input 'z'; inputs: x, y"),
        ("batch", 9, {"y": 4}, r"batch: y is float32\[7, 3\] and has no dimension 4"),
        ("batch", 9, 5, "dims: no input has a dimension 5, which is to be the batch"),
    ):
        with pytest.raises(OptionError, match=message):
            told(kind, size, dims)
    with pytest.raises(OptionError, match="there is no row that could be repeated"):
        resizes_of("batch", 9, {"x": torch.ones(0, 3)})


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(12.0).view(3, 4),
        torch.arange(12.0).view(4, 3).t(),
        torch.randn(3, 5, 4, 4).to(memory_format=torch.channels_last),
        torch.arange(3).view(3, 1),
        torch.randn(3, 4).requires_grad_(),
    ],
)
def test_rows_are_repeated_and_lie_in_memory_as_before(tensor: torch.Tensor) -> None:
    made = repeated(tensor, 0, 7)
    assert torch.equal(made, tensor[[0, 1, 2, 0, 1, 2, 0]])
    order = [sorted(range(each.ndim), key=lambda at: -each.stride(at)) for each in (tensor, made)]
    assert order[0] == order[1]
    assert made.requires_grad is tensor.requires_grad
    assert torch.equal(repeated(tensor, 0, 2), tensor[:2])


def test_nested_and_shared_inputs_are_changed_once() -> None:
    x = torch.randn(2, 3)

    def model(batch: dict[str, torch.Tensor], again: torch.Tensor, n: int = 2) -> None: ...

    call = ModelCall.of(model, ({"x": x}, x), {"n": 3})
    assert list(inputs_of(call)) == ["batch.x"]
    args, kwargs = changed_call(call, WhatIfRequest(batch=4, dtype="float16")).inputs()
    assert args[0]["x"].shape == args[1].shape == (4, 3)
    assert args[1].dtype is torch.float16
    assert kwargs == {"n": 3}
    assert x.shape == (2, 3)
    with pytest.raises(OptionError, match=r"dimension 0 of batch.x is both batch and sequence; say dims="):
        changed_call(call, WhatIfRequest(batch=4, sequence={"batch.x": 3}, dims={"sequence": 0}))
