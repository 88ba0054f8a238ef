"""What installed packages register as entry points, without reading the metadata of all of them at each question.

Reading it takes 60 ms among two hundred packages, and a comparison asks for its backends each time that it is made.
"""

from __future__ import annotations

import functools
import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

BACKENDS = "torch_dynamo_backends"
"""The group in which packages register backends of ``torch.compile``."""


def registered(group: str) -> dict[str, EntryPoint]:
    """Name → entry point of a group; none is imported. What is installed meanwhile counts too."""
    return dict(_read(group, tuple((place, _changed(place)) for place in sys.path)))


def _changed(place: str) -> int | None:
    """When something was last put into a folder or taken out of it: installing a package makes a folder of its own."""
    try:
        return Path(place).stat().st_mtime_ns  # "" is the working folder
    except OSError:
        return None


@functools.lru_cache(maxsize=4)
def _read(group: str, places: tuple[tuple[str, int | None], ...]) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}
