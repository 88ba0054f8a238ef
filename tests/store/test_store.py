"""What is stored can be found, read and loaded again; identical things are stored once."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from inductor_debug_jupyter.pipeline.errors import NotFoundError, RecordError, StoreError
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.store import ROOMS, ArtifactStore

MakeRecord = Callable[..., SessionRecord]


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "debug_artifacts")


def files(store: ArtifactStore) -> list[str]:
    """Every file in the rooms, hidden ones too."""
    return sorted(f"{room}/{path.name}" for room in ROOMS for path in (store.folder / room).glob("*"))


def test_a_saved_session_loads_as_it_was(store: ArtifactStore, make_record: MakeRecord) -> None:
    record = make_record("2026-abc")
    assert store.save_session(record) == "2026-abc"
    assert store.load("2026-abc") == record
    assert store.load("2026") == record
    assert store.load("last") == record


def test_every_stage_lands_in_its_room(store: ArtifactStore, make_record: MakeRecord) -> None:
    store.save_session(make_record())
    names: dict[str, list[str]] = {}
    for artifact in store.artifacts("s1"):
        names.setdefault(artifact.room, []).append(artifact.name)
    assert names == {
        "sessions": ["s1.json"],
        "fx_graphs": ["0/0_dynamo.py"],
        "aot_graphs": ["0/0_forward.py", "0/0_backward.py", "0/0_post_grad.py"],
        "inductor_ir": ["0/0_ir_pre_fusion.txt", "0/0_ir_post_fusion.txt"],
        "inductor_kernels": ["0/0_code.py", "0/0_cpp_fused_relu_0.cpp"],
        "statistics": ["s1.json"],
    }
    for artifact in store.artifacts():
        path = store.folder / artifact.path
        assert path.parent == store.folder / artifact.room
        assert path.stat().st_size == artifact.bytes
        assert artifact.sha256[:16] in path.name


def test_the_backward_goes_into_the_rooms_of_its_stages(store: ArtifactStore, make_record: MakeRecord) -> None:
    record = make_record()
    texts = {f"{stage}:backward": f"{stage} of the backward" for stage in ("post_grad", "ir_post_fusion", "code")}
    store.save_session(replace(record, captures=(replace(record.captures[0], texts=texts, kernels=()),)))
    assert [(a.room, a.name) for a in store.artifacts("s1") if "backward" in a.name] == [
        ("aot_graphs", "0/0_post_grad:backward.py"),
        ("inductor_ir", "0/0_ir_post_fusion:backward.txt"),
        ("inductor_kernels", "0/0_code:backward.py"),
    ]


def test_statistics_count_ops_dtypes_nodes_and_input_bytes(store: ArtifactStore, make_record: MakeRecord) -> None:
    store.save_session(make_record())
    (artifact,) = store.artifacts(room="statistics")
    graph = json.loads(store.read(artifact.sha256))["captures"][0]["graphs"]["dynamo"]
    assert graph == {
        "nodes": 4,
        "calls": 2,
        "ops": {"torch.relu": 2},
        "dtypes": {"float32": 2},
        "input_bytes": 4 * 8 * 4,
        "parameter_bytes": 0,
        "saved_bytes": 0,
        "activation_bytes": 2 * 4 * 8 * 4,
    }


def test_reading_creates_nothing(store: ArtifactStore) -> None:
    assert store.sessions() == ()
    assert store.artifacts() == ()
    assert store.clean().deleted == ()
    with pytest.raises(NotFoundError, match="nothing was captured"):
        store.load("last")
    assert not store.folder.exists()


def test_identical_contents_are_stored_once(store: ArtifactStore, make_record: MakeRecord) -> None:
    store.save_session(make_record("one"))
    before = files(store)
    store.save_session(make_record("two"))
    added = set(files(store)) - set(before)
    assert {path.split("/")[0] for path in added} == {"sessions", "statistics"}
    assert len(store.artifacts(room="fx_graphs")) == 2, "each session lists the file it uses"


def test_last_is_the_one_saved_last(store: ArtifactStore, make_record: MakeRecord) -> None:
    for name in ("b", "a", "c"):
        store.save_session(make_record(name))
    assert [session.id for session in store.sessions()] == ["c", "a", "b"]
    store.save_session(make_record("b"))
    assert store.load("last").id == "b"


def test_saving_again_replaces_the_session_and_keeps_its_repro(store: ArtifactStore, make_record: MakeRecord) -> None:
    repro = store.write("repros", "align.py", "print('repro')\n", "s1")
    store.save_session(make_record(extra="first"))
    first = set(files(store))
    store.save_session(make_record(extra="second"))
    (session,) = store.sessions()
    assert store.load(session.id).captures[0].texts["dynamo"].endswith("second")
    assert repro.read_text() == "print('repro')\n"
    assert len(files(store)) == len(first), "what the first save alone used is gone"
    assert not any("first" in path.read_text() for path in (store.folder / "fx_graphs").iterdir())


def test_a_session_that_others_share_files_with_can_be_replaced(store: ArtifactStore, make_record: MakeRecord) -> None:
    store.save_session(make_record("one", extra="shared"))
    store.save_session(make_record("two", extra="shared"))
    store.save_session(make_record("one", extra="new"))
    (artifact,) = store.artifacts("two", "fx_graphs")
    assert "shared" in store.read(artifact.sha256)


def test_write_answers_with_a_path_that_runs(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    store.folder.parent.mkdir(exist_ok=True)
    monkeypatch.chdir(store.folder.parent)
    path = ArtifactStore("debug_artifacts").write("repros", "../../evil name.py", "x = 1\n", "s1")
    assert path.is_absolute()
    assert path.parent == store.folder / "repros"
    assert path.suffix == ".py"
    assert path.read_text() == "x = 1\n"


@pytest.mark.parametrize("name", ["", ".hidden", "a" * 500 + ".py", "…", "a/b\\c\0d\n.py", "no_suffix"])
def test_any_name_is_a_file_name(store: ArtifactStore, name: str) -> None:
    path = store.write("reports", name, "text", "s1")
    assert path.parent == store.folder / "reports"
    assert not path.name.startswith(".")
    assert path.read_text() == "text"


def test_text_that_utf8_cannot_hold_is_stored_escaped(store: ArtifactStore) -> None:
    assert store.write("reports", "r.txt", "a\ud800b", "s1").read_text() == "a\\ud800b"


def test_a_room_that_does_not_exist_is_refused(store: ArtifactStore) -> None:
    with pytest.raises(StoreError, match=r"no room 'kitchen'.*repros"):
        store.write("kitchen", "a.py", "x", "s1")


def test_prefixes_must_fit_one(store: ArtifactStore, make_record: MakeRecord) -> None:
    store.save_session(make_record("aa1"))
    store.save_session(make_record("aa2"))
    store.save_session(make_record("aa"))
    assert store.load("aa").id == "aa", "an exact id is not ambiguous"
    store.save_session(make_record("ab1"))
    with pytest.raises(NotFoundError, match=r"'a' fits 4 sessions .*give more"):
        store.load("a")
    with pytest.raises(NotFoundError, match=r"no session 'zz'.*there are ab1, aa"):
        store.load("zz")
    with pytest.raises(NotFoundError, match="no artifact 'ffff"):
        store.read("ffffffffffffffffffff")


def test_an_edited_repro_is_not_overwritten(store: ArtifactStore) -> None:
    first = store.write("repros", "r.py", "original", "s1")
    first.write_text("edited by hand")
    second = store.write("repros", "r.py", "original", "s2")
    assert first.read_text() == "edited by hand"
    assert second != first
    assert second.read_text() == "original"


def test_a_damaged_session_says_so(store: ArtifactStore, make_record: MakeRecord) -> None:
    store.save_session(make_record())
    (artifact,) = store.artifacts(room="sessions")
    path = store.folder / artifact.path
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(StoreError, match="changed since it was written"):
        store.load("last")
    path.unlink()
    with pytest.raises(StoreError, match=r"cannot read .*No such file"):
        store.load("last")
    store.save_session(make_record())
    assert store.load("last") == make_record(), "saving again repairs it"


def test_a_session_of_a_newer_release_is_refused(
    store: ArtifactStore, make_record: MakeRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inductor_debug_jupyter.pipeline.records.codec.SCHEMA_VERSION", 99)
    store.save_session(make_record())
    monkeypatch.undo()
    with pytest.raises(RecordError, match="schema version 99"):
        store.load("last")


def test_an_index_of_a_newer_release_is_refused(store: ArtifactStore, make_record: MakeRecord) -> None:
    store.save_session(make_record())
    connection = sqlite3.connect(store.folder / "index.sqlite")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    for use in (store.sessions, lambda: store.save_session(make_record())):
        with pytest.raises(StoreError, match=r"newer release .index version 99"):
            use()


def test_the_index_is_in_wal_mode(store: ArtifactStore, make_record: MakeRecord) -> None:
    store.save_session(make_record())
    connection = sqlite3.connect(store.folder / "index.sqlite")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()
