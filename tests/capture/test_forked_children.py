"""What a cell compiles in a child that it forks is not captured, and strict mode does not pass over it."""

from __future__ import annotations

import os

import pytest
import torch

from inductor_debug_jupyter import ConstraintViolationError, capture

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def forked(compiles: bool) -> None:
    if (child := os.fork()) == 0:
        try:
            if compiles:
                torch.compile(lambda x: x + 1, backend="eager")(torch.ones(64))
        finally:
            os._exit(0)
    os.waitpid(child, 0)


def captured(compiles: bool) -> int:
    with capture(strict=True) as session:
        torch.compile(torch.nn.Linear(64, 64), backend="eager")(torch.ones(64, 64))
        forked(compiles)
    return len(session.captures)


def test_strict_cannot_check_what_a_forked_child_compiled() -> None:
    with pytest.raises(ConstraintViolationError, match=r"could not be checked[^$]*forked child"):
        captured(compiles=True)


def test_a_child_that_compiles_nothing_is_none_of_our_business() -> None:
    assert captured(compiles=False) == 1
