"""A cache folder of one's own for Inductor: nothing is found there, and nothing is left in the user's."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

VARIABLE: Final = "TORCHINDUCTOR_CACHE_DIR"


@contextmanager
def inductor_cache_of_its_own() -> Iterator[Path]:
    """Give Inductor an empty cache folder for a while; it is gone afterwards."""
    before = os.environ.get(VARIABLE)
    with tempfile.TemporaryDirectory(prefix="inductor-debug-cache-", ignore_cleanup_errors=True) as folder:
        os.environ[VARIABLE] = folder
        try:
            yield Path(folder)
        finally:
            if before is None:
                del os.environ[VARIABLE]
            else:
                os.environ[VARIABLE] = before
