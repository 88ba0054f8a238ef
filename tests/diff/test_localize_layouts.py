"""Outputs with other strides, or that share other memory: the op at fault is named, or it is said that none is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from inductor_debug_jupyter import KernelDiffHarness
from tests.proofs.zoo.backends import AlteredOp, aot_backend, custom_backend, lost_aliases, wrong_strides

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

Model = Callable[[torch.Tensor], Any]


def _turned(op: Any, *args: Any, **kwargs: Any) -> torch.Tensor:
    """The right numbers, column by column in memory."""
    return op(*args, **kwargs).t().contiguous().t()


def _copy(op: Any, x: torch.Tensor) -> torch.Tensor:
    view = op(x)
    return torch.empty_strided(view.shape, view.stride()).copy_(view)


def _itself(op: Any, x: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    return x


def _two_views(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    doubled = x * 2
    return doubled, doubled.t()


def _and_a_product(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.relu(x * 2) + 1, torch.relu(x).sin() @ x.t()


STRIDES = (
    ("the last op", "relu", lambda x: torch.relu(x @ x.t()), _turned, "the strides of its result are [1, 4]"),
    ("an op before", "relu", lambda x: torch.relu(x * 2) + 1, _turned, "the strides of its result are [1, 4]"),
    ("one of two outputs", "relu", _and_a_product, _turned, "the strides of its result are [1, 4]"),
)
MEMORY = (
    ("no copy of an input", "clone", lambda x: x.clone(), _itself, "its result shares memory with arg0_1"),
    ("no copy inside", "clone", lambda x: (x * 2).clone(), _itself, ""),
    ("nothing added", "add", lambda x: (x + 0).view(-1), _itself, "its result shares memory with arg0_1"),
    ("two views", "t", _two_views, _copy, "its result is a copy, in eager mode it shares memory with mul"),
)


@pytest.mark.every(3)
@pytest.mark.parametrize("backend", [aot_backend, custom_backend])
@pytest.mark.parametrize(("op", "model", "fault", "reason"), [case[1:] for case in STRIDES + MEMORY])
def test_the_op_is_named_and_no_other(
    op: str, model: Model, fault: Callable[..., Any], reason: str, backend: Callable[..., Any]
) -> None:
    harness = KernelDiffHarness(model, torch.randn(4, 6), test_backend=backend(AlteredOp(op, fault, None)))
    found = harness.localize()
    if not reason:  # nobody can tell a copy of what is never given away
        assert (found.verdict, found.culprits) == ("match", ())
        return
    assert found.verdict == "mismatch"
    (culprit,) = found.culprits
    assert culprit.op.split(".")[1] == op
    assert culprit.source is not None
    assert culprit.reason.startswith(reason)


@pytest.mark.parametrize(
    ("model", "handing"),
    [
        (torch.relu, wrong_strides),
        (lambda x: torch.relu(x * 2) + 1, wrong_strides),
        (lambda x: (x.t(), x + 1), lost_aliases),
    ],
)
def test_what_changes_where_results_are_handed_over_is_no_ops_fault(model: Model, handing: Any) -> None:
    found = KernelDiffHarness(model, torch.randn(4, 6), test_backend=custom_backend(handing=handing)).localize()
    assert (found.verdict, found.culprits) == ("mismatch", ())
    assert "no op by itself gives such strides" in " ".join(found.notes)
