"""The data of a report: sessions and benchmarks, read from an artifact folder, or one session as it is now."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from inductor_debug_jupyter.pipeline.errors import NotFoundError, RecordError, StoreError
from inductor_debug_jupyter.pipeline.records import BenchmarkRecord, SessionRecord
from inductor_debug_jupyter.pipeline.settings import resolve
from inductor_debug_jupyter.pipeline.store import SETTINGS, Artifact, ArtifactStore, load_benchmarks
from inductor_debug_jupyter.pipeline.views.view_types import Row

ArtifactsLike = ArtifactStore | str | os.PathLike[str] | None
"""An artifact folder, its store, or None for the folder that the settings name."""


@dataclass(frozen=True)
class ReportData:
    """The data of a report; sessions and benchmarks, the newest first.

    ``problems`` has one line for each stored file that could not be read.
    """

    store: ArtifactStore
    created: datetime
    sessions: tuple[SessionRecord, ...]
    artifacts: dict[str, tuple[Artifact, ...]]
    """Session id → its stored files."""
    benchmarks: tuple[BenchmarkRecord, ...]
    problems: tuple[str, ...]
    trials: tuple[Row, ...] = ()
    """The what-ifs of a session that is still there, as the What if tab shows them."""
    patch: str = ""
    """What its fix-its change in the user's source."""


def collect(artifacts: ArtifactsLike = None, sessions: Sequence[str] | None = None) -> ReportData:
    """Read sessions and benchmarks.

    Args:
        artifacts: the artifact folder; the one that the settings name by default.
        sessions: ids, their beginnings, or ``last``; all by default. Benchmarks that belong to none of the chosen
            sessions are left out.

    Raises:
        NotFoundError: nothing was captured, or one of ``sessions`` is not there.
        StoreError: nothing that was captured can be read.
    """
    store = artifacts
    if not isinstance(store, ArtifactStore):
        store = ArtifactStore.of(resolve({"artifacts": store}, names=SETTINGS))
    chosen = dict.fromkeys(
        [saved.id for saved in store.sessions()]
        if sessions is None
        else [store.find_session(name).id for name in sessions]
    )
    benchmarks, problems = load_benchmarks(store)
    if sessions is not None:
        benchmarks = tuple(record for record in benchmarks if record.session_id in chosen)
    if not chosen and not benchmarks:
        raise NotFoundError(f"nothing was captured in {store.folder} yet, so there is nothing to report")
    records, unreadable = _load(store, chosen, one_is_enough=sessions is None)
    if not records and not benchmarks:
        raise StoreError(f"there is nothing to report that can be read: {unreadable[0]}")
    return ReportData(
        store=store,
        created=datetime.now().astimezone(),
        sessions=tuple(sorted(records, key=lambda record: list(chosen).index(record.id))),
        artifacts={
            record.id: tuple({each.path: each for each in store.artifacts(record.id)}.values()) for record in records
        },
        benchmarks=benchmarks,
        problems=(*unreadable, *problems),
    )


def of_session(record: SessionRecord, store: ArtifactStore) -> ReportData:
    """The data of one session as it is now; that its other files cannot be listed is one of the ``problems``."""
    files: tuple[Artifact, ...] = ()
    problems: tuple[str, ...] = ()
    try:
        files = tuple({each.path: each for each in store.artifacts(record.id)}.values())
    except StoreError as error:
        problems = (f"session {record.id}: {error}",)
    return ReportData(store, datetime.now().astimezone(), (record,), {record.id: files}, (), problems)


def _load(
    store: ArtifactStore, ids: dict[str, None], *, one_is_enough: bool
) -> tuple[list[SessionRecord], tuple[str, ...]]:
    """The sessions, and a line for each damaged one; a damaged session that the user named raises."""
    records: list[SessionRecord] = []
    problems: list[str] = []
    for name in ids:
        try:
            records.append(store.load(name))
        except (StoreError, RecordError) as error:
            if not one_is_enough:
                raise
            problems.append(f"session {name}: {error}")
    return records, tuple(problems)
