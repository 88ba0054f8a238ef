"""The artifact folder: session records go in, content-addressed files with a SQLite index come out, and back.

- ``artifact_store``: save, find, load and clean; the only module that others need;
- ``index``: the SQLite tables; ``files``: atomic writes and hashes; ``file_layout``: subfolder and name of files;
- ``cleaning``: deleting sessions, and files of killed writers; ``benchmarks``: benchmark results as artifacts.

A write: every file is first written in full, with ``fsync``, under a temporary name in its subfolder; then, holding the
index's write lock, it is renamed and its row is inserted. What a killed process leaves is adopted by the next save of
the same content, or removed by ``clean``. Names carry the content's SHA-256, so two processes never write different
things to the same place, and reading checks it.
"""

from inductor_debug_jupyter.pipeline.store.artifact_store import SETTINGS, ArtifactStore, Shelf
from inductor_debug_jupyter.pipeline.store.benchmarks import load_benchmarks, save_benchmark
from inductor_debug_jupyter.pipeline.store.cleaning import CleanReport
from inductor_debug_jupyter.pipeline.store.file_layout import ROOMS
from inductor_debug_jupyter.pipeline.store.index import Artifact, SavedSession

__all__ = [
    "ROOMS",
    "SETTINGS",
    "Artifact",
    "ArtifactStore",
    "CleanReport",
    "SavedSession",
    "Shelf",
    "load_benchmarks",
    "save_benchmark",
]
