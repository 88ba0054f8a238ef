"""How many random draws a property test makes: all of them with ``--long``, else a sample."""

from __future__ import annotations

import os

ALL_DRAWS = "TESTS_LONG"
"""Set by ``pytest --long``; an environment variable, because draws are counted when a test file is imported."""


def draws(whole: int, sample: int) -> int:
    """How many to make."""
    return whole if os.environ.get(ALL_DRAWS) else sample
