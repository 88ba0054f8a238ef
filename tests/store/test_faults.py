"""Full disk, read-only folder, killed process, two writers: nothing lost, nothing half-written, one clear line."""

from __future__ import annotations

import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from real_faults import assert_consistent, environment, in_namespace, leftovers, script

from inductor_debug_jupyter.pipeline.errors import StoreError
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.store import ROOMS, ArtifactStore

MakeRecord = Callable[..., SessionRecord]


def test_a_file_in_place_of_the_folder(tmp_path: Path, make_record: MakeRecord) -> None:
    place = tmp_path / "debug_artifacts"
    place.write_text("a file")
    store = ArtifactStore(place)
    for use in (
        lambda: store.save_session(make_record()),
        lambda: store.write("repros", "r.py", "x", "s1"),
        store.sessions,
        store.clean,
        lambda: ArtifactStore(place / "inner").save_session(make_record()),
    ):
        with pytest.raises(StoreError) as caught:
            use()
        message = str(caught.value)
        assert "\n" not in message
        assert str(place) in message
        assert "--artifacts" in message


def test_a_file_in_place_of_a_room(tmp_path: Path, make_record: MakeRecord) -> None:
    (tmp_path / "aot_graphs").write_text("a file")
    store = ArtifactStore(tmp_path)
    with pytest.raises(StoreError, match="aot_graphs: File exists"):
        store.save_session(make_record())
    assert store.sessions() == ()
    assert leftovers(tmp_path) == []


def test_a_read_only_folder_can_be_read_and_says_why_it_cannot_be_written(shared_folder: Path) -> None:
    body = f"""
        store = ArtifactStore({str(shared_folder)!r})
        store.save_session(record("s1", "text"))
        make_read_only(store.folder)
        print(store.load("last").id)
        for use in (
            lambda: store.write("reports", "r.txt", "x", "s1"),
            lambda: store.save_session(record("s2", "b")),
            lambda: store.save_session(record("s1", "again")),
            store.clean,
        ):
            try:
                use()
            except StoreError as error:
                print(error)
        print(store.load("last").captures[0].texts["dynamo"])
    """
    how, loaded, *errors, after = in_namespace(body).splitlines()
    assert (loaded, after) == ("s1", "text"), how
    assert len(errors) == 4, how
    for line in errors:
        assert line.startswith("cannot ")
        assert str(shared_folder) in line
        assert "--artifacts" in line


@pytest.mark.parametrize("kib", [12, 64, 96, 128, 160, 224])
def test_a_full_disk_leaves_what_was_saved_and_no_half_file(tmp_path: Path, kib: int) -> None:
    body = f"""
        folder = make_small_disk({str(tmp_path)!r}, {kib})
        store = ArtifactStore(folder / "debug_artifacts")
        saved = {{}}
        for number in range(40):
            one = record(f"s{{number % 4}}", f"{{number}} " * 3_000)
            try:
                store.save_session(one)
                saved[one.id] = one
            except StoreError as error:
                print(error)
        assert {{session.id: store.load(session.id) for session in store.sessions()}} == saved
        assert_consistent(store)
        assert leftovers(store.folder) == [], leftovers(store.folder)
        known = {{artifact.path for artifact in store.artifacts()}}
        assert {{f"{{room}}/{{path.name}}" for room in ROOMS for path in (store.folder / room).glob("*")}} == known
        make_room(folder)
        store.save_session(record("after", "there is space again"))
        assert store.load("last").id == "after"
        print(len(saved))
    """
    how, *errors, saved = in_namespace(body).splitlines()
    assert (int(saved) > 0) is (kib > 100 and how.startswith("tmpfs")), f"{how}: {saved} of 4 were saved"
    assert errors, f"{how} was never full"
    for line in errors:
        assert line.startswith("cannot ")
        assert str(tmp_path) in line
        assert "full" in line or "No space left" in line or "I/O error" in line or "too large" in line


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="this system has no file-size limit")
@pytest.mark.parametrize("limit", [0, 1_000, 9_000, 40_000])
def test_a_real_size_limit_gives_one_clear_error(tmp_path: Path, limit: int) -> None:
    body = f"""
        import resource, signal
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
        try:
            ArtifactStore({str(tmp_path / "a")!r}).save_session(record("big", "x" * 100_000))
        except StoreError as error:
            print(error)
    """
    done = subprocess.run(script(body), capture_output=True, text=True, timeout=120, check=True, env=environment())
    (line,) = done.stdout.splitlines()
    assert line.startswith("cannot write")
    assert str(tmp_path / "a") in line
    store = ArtifactStore(tmp_path / "a")
    assert store.sessions() == ()
    assert leftovers(store.folder) == []
    assert_consistent(store)


def test_two_processes_of_200_saves_each_lose_nothing(tmp_path: Path) -> None:
    def body(who: str) -> str:
        return f"""
            store = ArtifactStore({str(tmp_path)!r})
            for number in range(200):
                store.save_session(record(f"{who}-{{number}}", f"text {{number // 2}}"))
                if number % 4 == 0:
                    store.write("repros", "r.py", f"repro {{number}}", f"{who}-{{number}}")
        """

    writers = [
        subprocess.Popen(script(body(who)), stderr=subprocess.PIPE, text=True, env=environment())
        for who in ("one", "two")
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=240)
        assert writer.returncode == 0, errors
        assert errors == ""
    store = ArtifactStore(tmp_path)
    names = {f"{who}-{number}" for who in ("one", "two") for number in range(200)}
    assert {session.id for session in store.sessions()} == names
    assert len(store.artifacts(room="repros")) == 100
    assert len(list((tmp_path / "repros").iterdir())) == 50, "identical contents are stored once"
    assert len(list((tmp_path / "fx_graphs").iterdir())) == 100
    assert leftovers(tmp_path) == []
    assert_consistent(store)


def test_threads_that_save_clean_and_read_do_not_hurt_each_other(tmp_path: Path, make_record: MakeRecord) -> None:
    store = ArtifactStore(tmp_path)
    errors: list[BaseException] = []

    def run(work: Callable[[], object]) -> None:
        try:
            for _ in range(15):
                work()
        except BaseException as error:
            errors.append(error)

    work: list[Callable[[], object]] = [
        lambda: store.save_session(make_record("kept")),
        lambda: store.write("repros", "r.py", "same text", "kept"),
        lambda: store.clean(older_than=3600),
        store.sessions,
    ]
    threads = [threading.Thread(target=run, args=(one,)) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert store.load("kept") == make_record("kept")
    assert_consistent(store)


def test_a_damaged_index_says_so(tmp_path: Path, make_record: MakeRecord) -> None:
    (tmp_path / "index.sqlite").write_bytes(b"this is not a database, not at all" * 100)
    store = ArtifactStore(tmp_path)
    for use in (store.sessions, lambda: store.save_session(make_record())):
        with pytest.raises(StoreError, match="not a database; the index is damaged: move it away"):
            use()
    assert leftovers(tmp_path) == []


def test_a_file_left_by_a_killed_process_is_adopted(tmp_path: Path, make_record: MakeRecord) -> None:
    store = ArtifactStore(tmp_path)
    store.save_session(make_record())
    before = sorted(path.name for room in ROOMS for path in (tmp_path / room).glob("*"))
    (tmp_path / "index.sqlite").unlink()
    store.save_session(make_record())
    assert sorted(path.name for room in ROOMS for path in (tmp_path / room).glob("*")) == before
