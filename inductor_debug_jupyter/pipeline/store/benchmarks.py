"""Benchmark results in the artifact folder: JSON in the room ``benchmarks``, each beside the session it captured."""

from __future__ import annotations

from pathlib import Path

import msgspec

from inductor_debug_jupyter.pipeline.errors import InductorDebugError, RecordError
from inductor_debug_jupyter.pipeline.harmless import quoted
from inductor_debug_jupyter.pipeline.records import BenchmarkRecord
from inductor_debug_jupyter.pipeline.records.codec import converted, decoded_json
from inductor_debug_jupyter.pipeline.store.artifact_store import ArtifactStore

ROOM = "benchmarks"
SCHEMA_VERSION = 1


def save_benchmark(store: ArtifactStore, record: BenchmarkRecord) -> Path:
    """Store one result; it is cleaned together with its session."""
    data = msgspec.json.encode({"schema_version": SCHEMA_VERSION, "benchmark": record})
    text = msgspec.json.format(data, indent=1).decode()
    return store.write(ROOM, f"{record.model}.json", text, record.session_id or f"benchmark-{record.model}")


def load_benchmarks(store: ArtifactStore) -> tuple[tuple[BenchmarkRecord, ...], tuple[str, ...]]:
    """Every stored result, the newest first, and one line for each that cannot be read."""
    records: list[BenchmarkRecord] = []
    problems: list[str] = []
    for artifact in reversed(store.artifacts(room=ROOM)):
        try:
            records.append(_decode(store.read(artifact.sha256)))
        except InductorDebugError as error:
            problems.append(f"{artifact.path}: {error}")
    return tuple(records), tuple(problems)


def _decode(text: str) -> BenchmarkRecord:
    raw = decoded_json(text, "stored benchmark")
    version = raw.get("schema_version") if isinstance(raw, dict) else None
    if version != SCHEMA_VERSION:
        raise RecordError(f"a benchmark of schema version {quoted(version)}; this release reads {SCHEMA_VERSION}")
    return converted(raw.get("benchmark"), BenchmarkRecord, "stored benchmark")
