"""``capture``: this package. Leaving the block checks and stores the session; finishing saves it as one file too."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

TITLE = "our capture"
WARM_CACHES = False

_SAVED = "session.json"
_NODE_STAGES = ("dynamo", "joint", "forward", "backward", "post_grad")


def environment(folder: Path) -> Mapping[str, str]:
    """Nothing."""
    return {}


def unavailable() -> str:
    """It is this package: only import it."""
    import inductor_debug_jupyter.pipeline.session  # noqa: F401 - so that the import is not counted

    return ""


def watching(folder: Path) -> AbstractContextManager[Any]:
    """The public capture, with all its defaults and an artifact folder of its own."""
    from inductor_debug_jupyter.pipeline.session import capture

    return capture(artifacts=str(folder / "artifacts"))


def finish(folder: Path, watched: Any) -> None:
    """Save the session as JSON."""
    watched.save(folder / _SAVED)


def found(folder: Path) -> dict[str, str]:
    """The stages in the saved file."""
    return {stage: _SAVED for capture in _captures(folder) for stage in capture.stages}


def nodes(folder: Path) -> int:
    """How many graph nodes were recorded."""
    graphs = [capture.graph(stage) for capture in _captures(folder) for stage in _NODE_STAGES]
    return sum(len(graph.nodes) for graph in graphs if graph is not None)


def _captures(folder: Path) -> Any:
    from inductor_debug_jupyter.pipeline.records import load_session

    return load_session((folder / _SAVED).read_bytes()).captures
