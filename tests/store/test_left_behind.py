"""What killed writers left goes by itself, links are not followed, and the folder keeps to its limit."""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from real_faults import assert_consistent, environment, script

from inductor_debug_jupyter.cli.main import main
from inductor_debug_jupyter.pipeline.errors import StoreError
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.store import ROOMS, ArtifactStore

MakeRecord = Callable[..., SessionRecord]


def files(folder: Path) -> set[str]:
    return {f"{room}/{path.name}" for room in ROOMS for path in (folder / room).glob("*")}


def unknown(store: ArtifactStore) -> set[str]:
    return files(store.folder) - {artifact.path for artifact in store.artifacts()}


def sql(store: ArtifactStore, *statement: object) -> None:
    with sqlite3.connect(store.folder / "index.sqlite") as index:
        index.execute(*statement)  # type: ignore[arg-type]
    index.close()


# Killed writers ------------------------------------------------------------------------------------------------------

KILLED = """
    import os, signal
    from pathlib import Path
    from inductor_debug_jupyter.pipeline.store import artifact_store
    from inductor_debug_jupyter.pipeline.store.index import Index
    store = ArtifactStore({folder!r})
    store.save_session(record("kept", "kept"))
    def killed(*_, **__):
        os.kill(os.getpid(), signal.SIGKILL)
    {where} = killed
    store.save_session(record("lost", "lost"))
"""


@pytest.mark.parametrize(
    "where", ["Index.put_session", "artifact_store.ArtifactStore._commit"], ids=["placed", "staged"]
)
def test_what_a_killed_writer_left_is_cleaned(tmp_path: Path, where: str) -> None:
    body = KILLED.format(folder=str(tmp_path), where=where)
    done = subprocess.run(script(body), capture_output=True, text=True, timeout=120, env=environment())
    assert done.returncode == -9, done.stderr
    store = ArtifactStore(tmp_path)
    left = unknown(store)
    assert len(left) == 3, "a session, its text and its statistics, each with its own name or a temporary one"
    mine = tmp_path / "reports" / "mine-0123456789abcdef.txt"
    mine.parent.mkdir(exist_ok=True)
    mine.write_text("of somebody else, with a name like ours")
    if where != "Index.put_session":  # a writer may be suspended: under its temporary name a file stays for an hour
        store.clean(keep_last=1)
        assert unknown(store) == {*left, f"reports/{mine.name}"}
        for name in left:
            os.utime(tmp_path / name, (time.time() - 4000,) * 2)
    store.clean(keep_last=1)
    assert unknown(store) == {f"reports/{mine.name}"}
    assert [session.id for session in store.sessions()] == ["kept"]
    assert_consistent(store)


def test_files_without_a_row_are_cleaned_and_files_of_others_are_not(tmp_path: Path, make_record: MakeRecord) -> None:
    store = ArtifactStore(tmp_path)
    store.save_session(make_record("lost", "lost"))
    orphans = files(tmp_path)
    (tmp_path / "index.sqlite").unlink()
    store.save_session(make_record("kept", "kept"))
    orphans &= unknown(store)
    assert orphans, "an index that was moved away leaves files that a save does not touch"
    name = next(iter(orphans))
    (tmp_path / name).write_text("edited")
    stranger = tmp_path / "sessions" / "thesis-0123456789abcdef.json"
    stranger.write_text("mine")
    plan = store.clean(keep_last=1, dry_run=True)
    assert files(tmp_path) >= orphans
    report = store.clean(keep_last=1)
    assert plan.deleted == report.deleted
    assert {file.path for file in report.deleted} == orphans - {name}
    assert {file.path for file in report.kept} >= {name, f"sessions/{stranger.name}"}
    assert unknown(store) == {name, f"sessions/{stranger.name}"}
    assert store.load("kept") == make_record("kept", "kept")


def test_the_age_rule_holds_for_files_without_a_row(tmp_path: Path, make_record: MakeRecord) -> None:
    store = ArtifactStore(tmp_path)
    store.save_session(make_record("kept"))
    content = b"a report"
    paths = []
    for days in (1, 20):
        name = f"r-{hashlib.sha256(content * days).hexdigest()[:16]}.txt"
        (tmp_path / "reports").mkdir(exist_ok=True)
        paths.append(tmp_path / "reports" / name)
        paths[-1].write_bytes(content * days)
        os.utime(paths[-1], (time.time() - days * 86400,) * 2)
    store.clean(older_than=7 * 86400)
    assert [path.exists() for path in paths] == [True, False]


def test_the_command_says_what_it_cleaned(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = ArtifactStore(tmp_path / "debug_artifacts")
    path = store.write("repros", "r.py", "x", "s1")
    sql(store, "DELETE FROM artifacts")
    assert main(["clean", "--yes", "--artifacts", str(store.folder)]) == 0
    assert "1 file written by us and named in no row" in capsys.readouterr().out
    assert not path.exists()


# Links ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["", "sessions", "repros", "index.sqlite"])
def test_no_write_follows_a_link(tmp_path: Path, make_record: MakeRecord, what: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = tmp_path / "debug_artifacts"
    if what == "index.sqlite":
        sqlite3.connect(outside / "browser.sqlite").close()
        (outside / "browser.sqlite").write_bytes(b"")
        folder.mkdir()
        (folder / what).symlink_to(outside / "browser.sqlite")
    elif what:
        folder.mkdir()
        (folder / what).symlink_to(outside)
    else:
        folder.symlink_to(outside)
    before = {path.name: path.stat().st_size for path in outside.iterdir()}
    store = ArtifactStore(folder)
    uses: list[Callable[[], object]] = [lambda: store.write("repros", "r.py", "x", "s1")]
    uses += [] if what == "repros" else [lambda: store.save_session(make_record())]
    uses += [store.probe, store.clean] if not what else []
    for use in uses[-1:] if what == "sessions" else uses:
        with pytest.raises(StoreError, match=r"is a link to .*outside.*, and writes follow no links") as caught:
            use()
        assert "\n" not in str(caught.value)
    assert {path.name: path.stat().st_size for path in outside.iterdir()} == before


def test_a_folder_below_a_link_is_no_link(tmp_path: Path, make_record: MakeRecord) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    store = ArtifactStore(tmp_path / "link" / "debug_artifacts")
    store.save_session(make_record())
    assert store.load("last").id == "s1"


# The limit -----------------------------------------------------------------------------------------------------------


def aged(store: ArtifactStore, name: str, hours: float) -> None:
    sql(store, "UPDATE sessions SET saved = saved - ? WHERE id = ?", (hours * 3600, name))
    sql(store, "UPDATE artifacts SET created = created - ? WHERE session_id = ?", (hours * 3600, name))


@pytest.fixture
def full(tmp_path: Path, make_record: MakeRecord) -> ArtifactStore:
    """Four sessions of some 100 kB each: pinned (5 h old), old (4 h), older than an hour (2 h) and recent (½ h)."""
    store = ArtifactStore(tmp_path / "debug_artifacts", limit=0)
    for name, hours in (("pinned", 5), ("old", 4), ("middle", 2), ("recent", 0.5)):
        store.save_session(make_record(name, name * 10_000), pinned=name == "pinned")
        aged(store, name, hours)
    return store


def names(store: ArtifactStore) -> set[str]:
    return {session.id for session in store.sessions()}


def test_the_oldest_sessions_go_when_the_folder_is_too_large(
    full: ArtifactStore, make_record: MakeRecord, caplog: pytest.LogCaptureFixture
) -> None:
    total = sum(path.stat().st_size for path in map(full.folder.joinpath, files(full.folder)))
    limited = ArtifactStore(full.folder, limit=total + 1_000)
    with caplog.at_level(logging.WARNING):
        limited.save_session(make_record("new", "new" * 10))
        assert names(full) == {"pinned", "middle", "recent", "new"}, "the oldest that is not pinned, and no more"
        (line,) = [record.getMessage() for record in caplog.records]
        assert "was larger than its limit" in line
        assert "its 1 oldest sessions" in line
        assert "INDUCTOR_DEBUG_ARTIFACTS_LIMIT" in line
        small = ArtifactStore(full.folder, limit=10)
        small.save_session(make_record("newer", "newer"))
    assert names(full) == {"pinned", "recent", "new", "newer"}, "what was written within the hour stays"
    assert len(caplog.records) == 1, "said once"
    assert unknown(full) == set()
    assert_consistent(full)


def test_no_limit_and_a_limit_that_is_not_reached(full: ArtifactStore, make_record: MakeRecord) -> None:
    for limit in (0, 1 << 30):
        ArtifactStore(full.folder, limit).save_session(make_record("new"))
    assert names(full) == {"pinned", "old", "middle", "recent", "new"}


def test_a_session_that_is_saved_again_stays_pinned_until_it_is_cleaned(
    full: ArtifactStore, make_record: MakeRecord
) -> None:
    full.save_session(make_record("pinned", "changed"))
    aged(full, "pinned", 9)
    ArtifactStore(full.folder, limit=10).save_session(make_record("new"))
    assert "pinned" in names(full)
    full.clean()
    full.save_session(make_record("pinned", "captured anew"))
    aged(full, "pinned", 9)
    ArtifactStore(full.folder, limit=10).save_session(make_record("new"))
    assert "pinned" not in names(full)


def test_an_index_of_the_first_version_is_taken_over(tmp_path: Path, make_record: MakeRecord) -> None:
    store = ArtifactStore(tmp_path)
    store.save_session(make_record("before"))
    for statement in ("DROP TABLE pinned", "PRAGMA user_version = 1"):
        sql(store, statement)
    assert store.load("before").id == "before"
    assert store.clean(keep_last=9, dry_run=True).sessions == ()
    store.save_session(make_record("after"), pinned=True)
    assert names(store) == {"before", "after"}


def test_the_limit_is_a_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    from inductor_debug_jupyter.pipeline.settings import resolve
    from inductor_debug_jupyter.pipeline.store import SETTINGS

    assert ArtifactStore.of(resolve(names=SETTINGS)).limit == 2 * 1024**3
    monkeypatch.setenv("INDUCTOR_DEBUG_ARTIFACTS_LIMIT", "0")
    assert ArtifactStore.of(resolve(names=SETTINGS)).limit == 0
