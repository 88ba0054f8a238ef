"""The artifact folder: content-addressed files in rooms, and the SQLite index that says what was written.

How a write works: every file is first written in full, with ``fsync``, under a temporary name in its own room; then,
holding the index's write lock, it is renamed to its final name and its row is inserted. Both names are announced in
the index before: what a process that is killed leaves (a temporary file that nothing reads, or a complete file without
a row) is adopted by the next save of the same content, or removed by the next save of anything. Names
carry the content's SHA-256, so two processes never write different things to the same place, and reading checks it.
"""

from inductor_debug_jupyter.pipeline.store.artifact_store import SETTINGS, ArtifactStore
from inductor_debug_jupyter.pipeline.store.benchmarks import load_benchmarks, save_benchmark
from inductor_debug_jupyter.pipeline.store.cleaning import CleanedFile, CleanReport
from inductor_debug_jupyter.pipeline.store.index import Artifact, SavedSession
from inductor_debug_jupyter.pipeline.store.rooms import ROOMS
from inductor_debug_jupyter.pipeline.store.shelf import Shelf

__all__ = [
    "ROOMS",
    "SETTINGS",
    "Artifact",
    "ArtifactStore",
    "CleanReport",
    "CleanedFile",
    "SavedSession",
    "Shelf",
    "load_benchmarks",
    "save_benchmark",
]
