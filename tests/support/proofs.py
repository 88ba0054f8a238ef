"""How many random draws a property test makes: all of them with ``--long``, else a sample."""

from __future__ import annotations

import os

ALL_DRAWS = "TESTS_LONG"
"""Set by ``pytest --long``; an environment variable, because draws are counted when a test file is imported."""


def drawn(whole: int) -> int:
    """``whole`` draws, or an eighth of them."""
    return whole if os.environ.get(ALL_DRAWS) else max(whole // 8, 1)
