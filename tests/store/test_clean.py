"""Cleaning deletes what the index says was written, and nothing else."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.store import ROOMS, ArtifactStore

MakeRecord = Callable[..., SessionRecord]


@pytest.fixture
def store(tmp_path: Path, make_record: MakeRecord) -> ArtifactStore:
    """Three sessions: ``old`` (ten days), ``middle`` (two days) and ``new``."""
    store = ArtifactStore(tmp_path / "debug_artifacts")
    for days, name in ((10, "old"), (2, "middle"), (0, "new")):
        store.save_session(make_record(name, extra=name))
        with sqlite3.connect(store.folder / "index.sqlite") as index:
            index.execute("UPDATE sessions SET saved = saved - ? WHERE id = ?", (days * 86400, name))
            index.execute("UPDATE artifacts SET created = created - ? WHERE session_id = ?", (days * 86400, name))
        index.close()
    return store


def rest(store: ArtifactStore) -> set[str]:
    return {f"{room}/{path.name}" for room in ROOMS for path in (store.folder / room).glob("*")}


def test_clean_deletes_everything(store: ArtifactStore) -> None:
    sizes = {path: (store.folder / path).stat().st_size for path in rest(store)}
    report = store.clean()
    assert set(report.sessions) == {"old", "middle", "new"}
    assert {file.path for file in report.deleted} == set(sizes)
    assert report.freed == sum(sizes.values())
    assert rest(store) == set()
    assert store.sessions() == store.artifacts() == ()


def test_rules_protect_sessions(store: ArtifactStore) -> None:
    assert set(store.clean(older_than=86400, dry_run=True).sessions) == {"old", "middle"}
    assert store.clean(keep_last=2, dry_run=True).sessions == ("old",)
    report = store.clean(older_than=5 * 86400, keep_last=1)
    assert report.sessions == ("old",)
    assert report.kept_sessions == {"new": "one of the last 1", "middle": "not old enough"}
    assert [session.id for session in store.sessions()] == ["new", "middle"]
    assert store.load("middle").id == "middle", "files shared with a cleaned session stay"
    with pytest.raises(NotFoundError):
        store.load("old")


def test_the_newest_that_fit_into_a_size_stay(store: ArtifactStore) -> None:
    whole = store.total_bytes()
    assert whole == sum((store.folder / path).stat().st_size for path in rest(store))
    assert store.clean(max_bytes=whole, dry_run=True).sessions == ()
    report = store.clean(max_bytes=whole - 1)
    assert report.sessions == ("old",)
    assert set(report.kept_sessions.values()) == {"one of the newest that fit"}
    assert store.total_bytes() < whole
    assert set(store.clean(max_bytes=1).sessions) == {"new", "middle"}


def test_a_dry_run_deletes_nothing_and_says_the_same(store: ArtifactStore) -> None:
    before = rest(store)
    plan = store.clean(keep_last=1, dry_run=True)
    assert rest(store) == before
    assert len(store.sessions()) == 3
    done = store.clean(keep_last=1)
    assert (plan.sessions, plan.deleted, plan.kept) == (done.sessions, done.deleted, done.kept)
    assert plan.deleted


def test_files_of_others_stay(store: ArtifactStore) -> None:
    mine = store.folder / "repros" / "mine.py"
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("mine")
    report = store.clean()
    assert mine.read_text() == "mine"
    assert [(file.path, file.reason) for file in report.kept] == [("repros/mine.py", "not in the index")]


def test_an_edited_file_stays(store: ArtifactStore) -> None:
    repro = store.write("repros", "r.py", "original", "new")
    repro.write_text("edited")
    (kept,) = store.clean().kept
    assert repro.read_text() == "edited"
    assert kept.reason == "changed since it was written"


def test_no_link_is_followed_out_of_the_folder(store: ArtifactStore, tmp_path: Path) -> None:
    repro = store.write("repros", "r.py", "content", "new")
    report_file = store.write("reports", "r.txt", "content", "new")
    outside = tmp_path / "outside"
    outside.mkdir()
    victim = outside / repro.name
    victim.write_text("content")
    repro.unlink()
    repro.parent.rmdir()
    repro.parent.symlink_to(outside)
    other_victim = outside / "other"
    other_victim.write_text("content")
    report_file.unlink()
    report_file.symlink_to(other_victim)
    report = store.clean()
    assert victim.read_text() == other_victim.read_text() == "content"
    assert report_file.is_symlink()
    assert {file.reason for file in report.kept} == {
        "reached through a link or path that leads out of the folder",
        "a link, not the file that was written",
    }


def test_a_forged_path_in_the_index_is_refused(store: ArtifactStore, tmp_path: Path) -> None:
    victim = tmp_path / "victim.txt"
    victim.write_bytes((store.folder / store.artifacts("new", "fx_graphs")[0].path).read_bytes())
    with sqlite3.connect(store.folder / "index.sqlite") as index:
        index.execute("UPDATE artifacts SET path = '../victim.txt' WHERE session_id = 'new' AND room = 'fx_graphs'")
        index.execute("UPDATE artifacts SET path = ? WHERE session_id = 'old' AND room = 'fx_graphs'", (str(victim),))
    index.close()
    report = store.clean()
    assert victim.exists()
    assert len([file for file in report.kept if "leads out of the folder" in file.reason]) == 2


def test_a_repro_whose_session_was_never_saved_is_cleaned_too(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path)
    path = store.write("repros", "r.py", "x", "unsaved")
    assert store.clean(keep_last=1).deleted == ()
    assert store.clean().sessions == ("unsaved",)
    assert not path.exists()


def test_files_that_are_gone_already_are_forgotten(store: ArtifactStore) -> None:
    for path in rest(store):
        (store.folder / path).unlink()
    store.clean()
    assert store.artifacts() == ()


def unfinished(place: Path, name: str, *, hours: float) -> Path:
    file = place / name
    file.write_bytes(b"half of")
    then = time.time() - hours * 3600
    os.utime(file, (then, then))
    return file


def test_what_killed_writers_left_goes_and_nothing_else(store: ArtifactStore) -> None:
    room = store.folder / "sessions"
    left = [unfinished(place, f".writing-{'a' * 32}.tmp", hours=2) for place in (room, store.folder)]
    stays = [
        unfinished(room, f".writing-{'b' * 32}.tmp", hours=0.5),
        unfinished(room, ".writing-my-thesis.tmp", hours=2),
        unfinished(room, f"writing-{'c' * 32}.tmp", hours=2),
        unfinished(store.folder.parent, f".writing-{'d' * 32}.tmp", hours=2),
    ]
    (room / f".writing-{'e' * 32}.tmp").symlink_to(stays[-1])
    plan = store.clean(keep_last=3, dry_run=True)
    assert all(file.exists() for file in left)
    report = store.clean(keep_last=3)
    assert report.sessions == ()
    assert plan.deleted == report.deleted
    assert {store.folder / file.path for file in report.deleted} == set(left)
    assert not any(file.exists() for file in left)
    assert all(file.exists() for file in stays)
    reasons = {file.path: file.reason for file in report.kept}
    assert reasons[f"sessions/{stays[0].name}"] == "not in the index: a process may be writing it"
