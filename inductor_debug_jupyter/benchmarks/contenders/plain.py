"""``plain``: torch.compile with nothing around it. What everything else is compared with."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

TITLE = "plain compile"
WARM_CACHES = False


def environment(folder: Path) -> Mapping[str, str]:
    """Nothing."""
    return {}


def unavailable() -> str:
    """Nothing is needed."""
    return ""


def watching(folder: Path) -> AbstractContextManager[Any]:
    """Nobody watches."""
    return nullcontext()


def finish(folder: Path, watched: Any) -> None:
    """Nothing is left to do."""


def found(folder: Path) -> dict[str, str]:
    """It shows nothing."""
    return {}
