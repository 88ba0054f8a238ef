"""``fixed(model, …)`` under random calls: what the original gives (values, gradients, writes), or a clear error."""

from __future__ import annotations

import contextlib
import copy
import random
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from proofs import draws
from random_calls import SUBJECTS, Draw, Subject
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves as leaves

from inductor_debug_jupyter import fixed
from inductor_debug_jupyter.pipeline.errors import InductorDebugError

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

SIGNATURES = 5
CALLS = 44
TOLERANCES = {torch.float64: 1e-10, torch.float32: 1e-4, torch.bfloat16: 4e-2}


@contextlib.contextmanager
def around(draw: Draw) -> Iterator[None]:
    modes = {"grad": torch.enable_grad, "no_grad": torch.no_grad, "inference": torch.inference_mode}
    with modes[draw.mode](), torch.autocast("cpu", torch.bfloat16, enabled=draw.autocast):
        yield


def one_call(model: Any, own: nn.Module, subject: Subject, draw: Draw, seed: int) -> dict[str, Any]:
    """Everything that a call leaves behind: results, gradients, buffers, what was written into the inputs."""
    own.zero_grad()
    with around(draw):
        args, kwargs = subject.inputs(draw, seed)
        torch.manual_seed(seed + 1)
        made = leaves(model(*args, **kwargs))
        drawn = torch.rand(())
    results = [each for each in made if isinstance(each, Tensor) and each.requires_grad]
    if results:
        sum((each.float() * torch.arange(each.numel()).view(each.shape).cos()).sum() for each in results).backward()
    given = [each for each in leaves((args, kwargs)) if isinstance(each, Tensor)]
    return {
        "results": made,
        "requires_grad": [each.requires_grad for each in made if isinstance(each, Tensor)],
        "strides": [strides(each) for each in made if isinstance(each, Tensor)],
        "inputs": [each.detach() for each in given],
        "gradients": [each.grad for each in (*given, *own.parameters())],
        "buffers": [each.clone() for each in own.buffers()],
        "generator": drawn,
    }


def strides(tensor: Tensor) -> list[int]:
    """Those that mean something."""
    return [stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True) if size > 1 and tensor.numel()]


def assert_same(found: dict[str, Any], expected: dict[str, Any], tolerance: float, place: str) -> None:
    for what, value in expected.items():
        pairs = list(zip(leaves(found[what]), leaves(value), strict=True))
        inexact = [each.detach() for _, each in pairs if isinstance(each, Tensor) and each.is_floating_point()]
        finite = [each[each.isfinite()] for each in inexact]
        scale = max((float(each.abs().max()) for each in finite if each.numel()), default=0.0)
        for number, (ours, theirs) in enumerate(pairs):
            where = f"{place}: {what} {number}"
            if not isinstance(theirs, Tensor):
                assert ours == theirs, where
                continue
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype), where
            is_inexact = theirs.is_floating_point()
            torch.testing.assert_close(
                ours,
                theirs,
                rtol=tolerance if is_inexact else 0.0,
                atol=tolerance * scale if is_inexact else 0.0,
                equal_nan=True,
                msg=lambda said, where=where: f"{where}: {said}",
            )


def change_weights(model: nn.Module, rng: random.Random) -> None:
    """Sometimes, as users do between calls: in place, by new data, by new parameters."""
    how = rng.choice(["not", "not", "in place", "data", "loaded", "assigned"])
    state = {name: value + (0.01 if value.is_floating_point() else 0) for name, value in model.state_dict().items()}
    if how == "in place":
        with torch.no_grad():
            for each in model.parameters():
                each.mul_(1.01)
    elif how == "data":
        for each in model.parameters():
            each.data = each.data * 0.99
    elif how in {"loaded", "assigned"}:
        model.load_state_dict(state, assign=how == "assigned")


def run(subject: Subject, seed: int, signatures: int = SIGNATURES, calls: int = CALLS) -> dict[str, int]:
    """How many calls of a model were equal, were refused by us, and were refused by the original too."""
    rng = random.Random(f"{subject.name} {seed}")
    torch.manual_seed(seed)
    model = subject.build()
    draws = [subject.draw(rng) for _ in range(signatures)]
    order = [*draws, *(rng.choice(draws) for _ in range(calls - len(draws)))]
    tally = {"equal": 0, "refused": 0, "refused by both": 0}
    made = fixed(model, **subject.options)
    for number, draw in enumerate(order):
        change_weights(model, rng)
        model.to(draw.dtype).train(draw.train)
        twin = copy.deepcopy(model)
        place = f"{subject.name}, seed {seed}, call {number}, {draw}"
        try:
            expected = one_call(twin, twin, subject, draw, number)
        except Exception:
            with pytest.raises(Exception):  # noqa: B017, PT011  # torch's own, of any kind
                one_call(made, model, subject, draw, number)
            tally["refused by both"] += 1
            continue
        try:
            found = one_call(made, model, subject, draw, number)
        except InductorDebugError:
            tally["refused"] += 1
            continue
        low = torch.bfloat16 if draw.autocast else draw.dtype
        assert_same(found, expected, max(TOLERANCES[low], subject.tolerance or 0.0), place)
        tally["equal"] += 1
    return tally


@pytest.mark.every(4)
@pytest.mark.parametrize("subject", SUBJECTS, ids=lambda subject: subject.name)
def test_random_calls_give_what_the_original_gives(subject: Subject) -> None:
    signatures, calls = draws(SIGNATURES, 2), draws(CALLS, 6)
    tally = run(subject, 0, signatures, calls)
    assert sum(tally.values()) == calls, tally
    assert not tally["refused"], "these models can be computed for all of these calls"


def test_there_are_enough_calls() -> None:
    assert len(SUBJECTS) >= 12
    assert len(SUBJECTS) * CALLS >= 500
