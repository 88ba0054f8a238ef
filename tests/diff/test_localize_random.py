"""Ops that draw random numbers: a wrong one is named, another generator is not called a fault."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional

from inductor_debug_jupyter import KernelDiffHarness
from tests.proofs.inside_torch.planting import Lowered, lowering_planted
from tests.support.planted import wrong

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

Model = Callable[[torch.Tensor], torch.Tensor]


def _dropped(x: torch.Tensor) -> torch.Tensor:
    return functional.dropout(x * 2, 0.3, True) + 1


def _scaled(factor: float) -> Callable[..., Any]:
    def replacement(op: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        made = op(x, *args, **kwargs)
        return (made[0] * factor, *made[1:]) if isinstance(made, tuple) else made * factor

    return replacement


FAULTS = (
    ("native_dropout", _dropped, _scaled(0.7)),
    ("native_dropout", _dropped, _scaled(0.99)),
    ("native_dropout", _dropped, lambda op, x, p, train: op(x, p + 0.05, train)),
    ("bernoulli", lambda x: torch.bernoulli(torch.sigmoid(x)) * x, lambda op, x: op(x * 0.9)),
    ("rand_like", lambda x: torch.rand_like(x) * x, _scaled(0.97)),
    ("randn_like", lambda x: torch.randn_like(x) + x, lambda op, x, **more: op(x, **more) + 0.1),
    ("randint_like", lambda x: torch.randint_like(x, 9) + x, lambda op, x, high, **more: op(x, high - 1, **more)),
)


@pytest.mark.every(3)
@pytest.mark.parametrize(("op", "model", "fault"), FAULTS)
def test_a_wrong_random_op_is_named_and_no_other(op: str, model: Model, fault: Callable[..., Any]) -> None:
    torch.manual_seed(0)
    found = KernelDiffHarness(model, torch.randn(64, 64), test_backend=wrong(op, fault)).localize()
    assert found.verdict == "mismatch"
    (culprit,) = found.culprits
    assert culprit.op.split(".")[1] == op
    assert culprit.source is not None
    assert "of another distribution" in culprit.reason


def test_a_wrong_dropout_in_training() -> None:
    model = nn.Sequential(nn.Linear(16, 32), nn.Dropout(0.2), nn.ReLU(), nn.Linear(32, 4))
    harness = KernelDiffHarness(
        model, torch.randn(8, 16), test_backend=wrong("native_dropout", _scaled(0.9)), backward=True
    )
    assert [culprit.op for culprit in harness.localize().culprits] == ["aten.native_dropout.default"]


def test_a_wrong_lowering_of_dropout_on_inductor() -> None:
    def lowered(original: Any, *args: Any) -> Any:
        made, mask = original(*args)
        return Lowered.of("mul", made, 0.9), mask

    with lowering_planted("native_dropout", lowered):
        found = KernelDiffHarness(_dropped, torch.randn(64, 64)).localize()
    assert [culprit.op for culprit in found.culprits] == ["aten.native_dropout.default"]


def _own_generator(op: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
    torch.manual_seed(int(torch.randint(10**6, ())) + 7)
    return op(x, *args, **kwargs)


@pytest.mark.every(3)
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("op", "model"),
    [
        ("native_dropout", _dropped),
        ("bernoulli", FAULTS[3][1]),
        ("randn_like", FAULTS[5][1]),
        ("rand_like", FAULTS[4][1]),
    ],
)
def test_another_generator_is_told_and_no_fault(op: str, model: Model, seed: int) -> None:
    torch.manual_seed(seed)
    harness = KernelDiffHarness(model, torch.randn(16, 8 + seed), test_backend=wrong(op, _own_generator))
    report = harness.compare()
    assert (report.verdict, report.passed) == ("not_compared", False)
    assert "draws random numbers of its own" in report.outputs[0].reason
    found = harness.localize()
    assert found.verdict == "not_compared"
    assert not found.culprits
    assert "which does not show that each is right" in " ".join(found.notes)


@pytest.mark.parametrize("seed", range(2))
def test_beside_another_generator_what_draws_nothing_is_still_compared(seed: int) -> None:
    def model(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return _dropped(x), torch.sigmoid(x)

    def backend(op: Any, x: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        return _own_generator(op, x, *args, **kwargs) if args else op(x) * 1.01

    torch.manual_seed(seed)
    for name, verdicts in (("native_dropout", ["not_compared", "match"]), ("sigmoid", ["mismatch", "match"])):
        report = KernelDiffHarness(model, torch.randn(16, 8), test_backend=wrong(name, backend)).compare()
        assert [output.verdict for output in report.outputs] == verdicts


def test_a_random_op_that_the_candidate_refuses_is_named_once() -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise RuntimeError("no dropout on this device")

    found = KernelDiffHarness(_dropped, torch.randn(4, 4), test_backend=wrong("native_dropout", refuse)).localize()
    (culprit,) = found.culprits
    assert culprit.op == "aten.native_dropout.default"
    assert "no dropout on this device" in culprit.reason
