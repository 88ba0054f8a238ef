"""The subfolder (room) and the name of each file in an artifact folder.

A file is named ``<readable name>-<16 digits of its SHA-256><suffix>``, so that a user finds it and two contents
never share a name.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import PurePosixPath

from inductor_debug_jupyter.pipeline.errors import StoreError
from inductor_debug_jupyter.pipeline.records import BACKWARD, CompileCapture, SessionRecord, dump_session

ROOMS = (
    "sessions",
    "fx_graphs",
    "aot_graphs",
    "inductor_ir",
    "inductor_kernels",
    "statistics",
    "reports",
    "repros",
    "visualizations",
    "benchmarks",
)
"""The folders inside an artifact folder."""

_ROOM_OF_STAGE = {
    "dynamo": "fx_graphs",
    "joint": "aot_graphs",
    "forward": "aot_graphs",
    "backward": "aot_graphs",
    "post_grad": "aot_graphs",
    "ir_pre_fusion": "inductor_ir",
    "ir_post_fusion": "inductor_ir",
    "code": "inductor_kernels",
    "kernel": "inductor_kernels",
}
_SUFFIX_OF_STAGE = {"ir_pre_fusion": ".txt", "ir_post_fusion": ".txt"}
_SUFFIX_OF_LANGUAGE = {"cpp": ".cpp", "c++": ".cpp", "cuda": ".cu", "python": ".py", "triton": ".py"}


@dataclass(frozen=True)
class Content:
    """One file to store: its subfolder, readable name and bytes."""

    room: str
    name: str
    data: bytes

    @cached_property
    def sha256(self) -> str:
        """The content's address."""
        return hashlib.sha256(self.data).hexdigest()

    def path(self, attempt: int = 1) -> str:
        """Its path relative to the folder; later attempts are for a name that is taken."""
        name = PurePosixPath(_plain(self.name))
        again = f"-{attempt}" if attempt > 1 else ""
        return f"{self.room}/{name.stem}-{self.sha256[:16]}{again}{name.suffix}"


def content_of(room: str, name: str, content: str | bytes) -> Content:
    """Make something ready to store; what UTF-8 cannot hold of a text (lone surrogates) is written as an escape."""
    if room not in ROOMS:
        raise StoreError(f"there is no room {room!r} in an artifact folder; allowed: {', '.join(ROOMS)}")
    data = content if isinstance(content, bytes) else content.encode("utf-8", "backslashreplace")
    return Content(room, name, data)


def session_contents(record: SessionRecord) -> Iterator[Content]:
    """Yield the session itself, then every text that it holds, then its statistics."""
    try:
        yield Content("sessions", f"{record.id}.json", dump_session(record))
    except (UnicodeEncodeError, TypeError, ValueError) as error:
        raise StoreError(f"session {record.id} cannot be written as JSON: {error}") from error
    for capture in record.captures:
        yield from _capture_contents(capture)
    yield content_of("statistics", f"{record.id}.json", statistics_json(record))


def statistics_json(record: SessionRecord) -> str:
    """Counts of every graph, timings and cache outcomes of every compile, as indented JSON."""
    captures = [
        {
            "compile_id": capture.compile_id,
            "graphs": {stage: asdict(graph.statistics) for stage, graph in capture.graphs.items()},
            "kernels": len(capture.kernels),
            "seconds": capture.seconds,
            "caches": capture.caches,
        }
        for capture in record.captures
    ]
    return json.dumps({"session": record.id, "captures": captures}, indent=1, ensure_ascii=False) + "\n"


def _capture_contents(capture: CompileCapture) -> Iterator[Content]:
    for key, text in capture.texts.items():
        stage = key.removesuffix(BACKWARD)
        suffix = _SUFFIX_OF_STAGE.get(stage, ".py")
        room = _ROOM_OF_STAGE.get(stage, "visualizations")
        yield content_of(room, f"{capture.compile_id}_{key}{suffix}", text)
    for kernel in capture.kernels:
        suffix = _SUFFIX_OF_LANGUAGE.get(kernel.language.lower(), ".txt")
        yield content_of("inductor_kernels", f"{capture.compile_id}_{kernel.name}{suffix}", kernel.code)


def _plain(name: str) -> str:
    """Make a name that every file system takes: no separators, no leading dot, not too long."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "_", name).strip("._-") or "artifact"
    stem, dot, suffix = plain.rpartition(".")
    return f"{stem[:80]}{dot}{suffix[:8]}" if stem else plain[:80]
