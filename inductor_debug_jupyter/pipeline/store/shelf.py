"""Where what belongs to one session goes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from inductor_debug_jupyter.pipeline.store.artifact_store import ArtifactStore


@dataclass(frozen=True, slots=True)
class Shelf:
    """A session's place in an artifact folder: what is put there is listed with the session, and cleaned with it."""

    store: ArtifactStore
    session_id: str

    def put(self, room: str, name: str, content: str | bytes) -> Path:
        """Store one text or picture; where it lies.

        Raises:
            StoreError: it cannot be written.
        """
        return self.store.write(room, name, content, self.session_id)
