"""How many random draws a property test makes: all of them with ``--long``, else a sample."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")

ALL_DRAWS = "TESTS_LONG"
"""Set by ``pytest --long``; an environment variable, because draws are counted when a test file is imported."""


def draws(whole: T, sample: T) -> T:
    """How many to make, or which."""
    return whole if os.environ.get(ALL_DRAWS) else sample


def but_long(values: Iterable[Any], long: Collection[Any]) -> list[Any]:
    """Parameters of a test, of which those in ``long`` are left to ``--long``."""
    chosen = list(values)
    assert set(long) <= set(chosen), f"no such parameter: {sorted(set(long) - set(chosen))}"
    return [pytest.param(value, marks=pytest.mark.long) if value in long else value for value in chosen]
