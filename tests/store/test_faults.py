"""Full disk, read-only folder, killed process, two writers: nothing lost, nothing half-written, one clear line."""

from __future__ import annotations

import errno
import hashlib
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from inductor_debug_jupyter.pipeline.errors import StoreError
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.store import ROOMS, ArtifactStore

MakeRecord = Callable[..., SessionRecord]

RECORD = """
from inductor_debug_jupyter.pipeline.records import CompileCapture, SessionRecord
from inductor_debug_jupyter.pipeline.store import ArtifactStore
def record(name, text):
    capture = CompileCapture("0/0", texts={"dynamo": text, "code": "shared by all"})
    return SessionRecord(name, "2026-01-01", "cell", "default", False, "2.13", "0.1", (capture,))
"""


def script(body: str) -> list[str]:
    return [sys.executable, "-c", RECORD + textwrap.dedent(body)]


def leftovers(folder: Path) -> list[str]:
    return [path.name for room in ROOMS for path in (folder / room).glob(".*")]


def assert_consistent(store: ArtifactStore) -> None:
    """Every row's file has the content it should have, and every session loads."""
    for artifact in store.artifacts():
        assert hashlib.sha256((store.folder / artifact.path).read_bytes()).hexdigest() == artifact.sha256
    for session in store.sessions():
        assert store.load(session.id).id == session.id


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


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="permissions of POSIX only")
def test_a_read_only_folder_can_be_read_and_says_why_it_cannot_be_written() -> None:
    body = """
        import os, pathlib, shutil, tempfile
        from inductor_debug_jupyter.pipeline.errors import StoreError
        folder = pathlib.Path(tempfile.mkdtemp())
        store = ArtifactStore(folder)
        store.save_session(record("s1", "text"))
        folder.chmod(0o555)
        if os.geteuid() == 0:
            os.seteuid(65534)  # root may write everywhere
        try:
            print(store.load("last").id)
            writes = (lambda: store.write("reports", "r.txt", "x", "s1"), lambda: store.save_session(record("s2", "b")))
            for use in writes:
                try:
                    use()
                except StoreError as error:
                    print(error)
        finally:
            os.seteuid(os.getuid())
            folder.chmod(0o755)
            shutil.rmtree(folder)
    """
    done = subprocess.run(script(body), capture_output=True, text=True, timeout=60, check=True)
    loaded, *errors = done.stdout.splitlines()
    assert loaded == "s1"
    assert len(errors) == 2
    for line in errors:
        assert line.startswith("cannot ")
        assert "--artifacts" in line


def test_a_full_disk_leaves_the_old_session_and_no_half_file(
    tmp_path: Path, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ArtifactStore(tmp_path)
    store.save_session(make_record(extra="first"))
    real = os.write
    left = 1500

    def full(handle: int, data: bytes) -> int:
        nonlocal left
        if left <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = real(handle, bytes(data)[:left])
        left -= written
        return written

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(StoreError) as caught:
            store.save_session(make_record(extra="second"))
    assert "No space left on device" in str(caught.value)
    assert "inductor-debug clean" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert leftovers(tmp_path) == []
    assert store.load("last") == make_record(extra="first")
    assert_consistent(store)
    store.save_session(make_record(extra="second"))
    assert store.load("last") == make_record(extra="second"), "works again when there is space"


@pytest.mark.skipif(not hasattr(signal, "SIGXFSZ"), reason="this system has no file-size limit")
@pytest.mark.parametrize("limit", [0, 1_000, 9_000, 40_000])
def test_a_real_size_limit_gives_one_clear_error(tmp_path: Path, limit: int) -> None:
    body = f"""
        import resource, signal
        from inductor_debug_jupyter.pipeline.errors import StoreError
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))
        try:
            ArtifactStore({str(tmp_path / "a")!r}).save_session(record("big", "x" * 100_000))
        except StoreError as error:
            print(error)
    """
    done = subprocess.run(script(body), capture_output=True, text=True, timeout=120, check=True)
    (line,) = done.stdout.splitlines()
    assert line.startswith("cannot write")
    assert str(tmp_path / "a") in line
    store = ArtifactStore(tmp_path / "a")
    assert store.sessions() == ()
    assert leftovers(store.folder) == []
    assert_consistent(store)


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="this system has no SIGKILL")
def test_killed_writers_leave_nothing_that_loads_half(tmp_path: Path) -> None:
    body = f"""
        store = ArtifactStore({str(tmp_path)!r})
        print("ready", flush=True)
        for number in range(100_000):
            store.save_session(record(f"s{{number % 7}}", f"{{number}} " * 20_000))
    """
    for pause in (0.0, 0.02, 0.05, 0.11, 0.2):
        with subprocess.Popen(script(body), stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            time.sleep(pause)
            process.kill()
        assert_consistent(ArtifactStore(tmp_path))
    store = ArtifactStore(tmp_path)
    assert store.sessions(), "some of it was saved before the kill"
    report = store.clean()
    assert store.sessions() == ()
    assert all(file.reason.startswith("not in the index") for file in report.kept)


def test_two_processes_lose_nothing(tmp_path: Path) -> None:
    def body(who: str) -> str:
        return f"""
            store = ArtifactStore({str(tmp_path)!r})
            for number in range(60):
                store.save_session(record(f"{who}-{{number}}", f"text {{number // 2}}"))
                store.write("repros", "r.py", f"repro {{number}}", f"{who}-{{number}}")
        """

    writers = [subprocess.Popen(script(body(who)), stderr=subprocess.PIPE, text=True) for who in ("one", "two")]
    for writer in writers:
        _, errors = writer.communicate(timeout=120)
        assert writer.returncode == 0, errors
    store = ArtifactStore(tmp_path)
    assert {session.id for session in store.sessions()} == {f"{who}-{n}" for who in ("one", "two") for n in range(60)}
    assert len(store.artifacts(room="repros")) == 120
    assert len(list((tmp_path / "repros").iterdir())) == 60, "identical contents are stored once"
    assert len(list((tmp_path / "fx_graphs").iterdir())) == 30
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
