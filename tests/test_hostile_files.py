"""Files that others wrote: damaged in any way they give our own error in one line, and never a hang."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fuzzing import CONFIG, USES, real_profiles, real_recording, use
from hostile import control_characters, hostile_session

from inductor_debug_jupyter.pipeline.errors import (
    InductorDebugError,
    OptionError,
    ProfileError,
    RecordError,
    StoreError,
)
from inductor_debug_jupyter.pipeline.records import dump_session, load_session
from inductor_debug_jupyter.pipeline.settings import resolve
from inductor_debug_jupyter.pipeline.store import ArtifactStore

SESSION = dump_session(hostile_session("x", "one"))


def in_session(old: bytes, new: bytes) -> bytes:
    assert old in SESSION
    return SESSION.replace(old, new, 1)


DAMAGED_SESSIONS: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "truncated"),
    "truncated": (SESSION[: len(SESSION) // 2], "damaged JSON"),
    "not UTF-8": (in_session(b'"name":"x"', b'"name":"\xff\xfe"'), "not UTF-8"),
    "not UTF-8 at all": (b"\xff\xfe\x00\x00", "damaged JSON"),
    "nested deeply": (b"[" * 200_000, "nested too deeply"),
    "nested deeply inside": (
        in_session(b'"spec":{"x":"x"}', b'"spec":' + b'{"a":' * 150 + b"1" + b"}" * 150),
        "more than 100 levels",
    ),
    "5,000 digits": (in_session(b'"peak_memory":3', b'"peak_memory":' + b"9" * 5_000), "out of range"),
    "30 digits": (in_session(b'"peak_memory":3', b'"peak_memory":' + b"9" * 30), "more than 63 bits"),
    "NaN": (in_session(b'"peak_memory":3', b'"peak_memory":NaN'), "damaged JSON"),
    "infinite": (in_session(b'"seconds":3.0', b'"seconds":1e999'), "out of range"),
    "wrong type": (in_session(b'"captures":[', b'"captures":7,"x":['), "Expected `array`, got `int`"),
    "a version of another type": (b'{"schema_version": "2"}', "no schema_version"),
    "a version below all": (b'{"schema_version": -7}', "-7 cannot be read any more"),
    "an old version of another shape": (b'{"schema_version": 1, "session": []}', "no session of schema version 1"),
    "a heatmap larger than its values": (in_session(b'"rows":1', b'"rows":999999999'), "a heatmap of 999999999"),
}


@pytest.mark.parametrize("kind", DAMAGED_SESSIONS)
def test_a_damaged_session_is_a_record_error_of_one_line(kind: str) -> None:
    data, said = DAMAGED_SESSIONS[kind]
    with pytest.raises(RecordError, match=said) as caught:
        load_session(data)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 300


def test_a_key_that_is_there_twice_counts_once() -> None:
    assert load_session(in_session(b'"name":"x"', b'"name":"first","name":"last"')).name == "last"


@pytest.fixture
def places(tmp_path: Path) -> dict[str, Path]:
    """What can stand in a file's place. Each name ends as a profile's does."""
    places = {name: tmp_path / f"{name}.toml" for name in ("folder", "pipe", "gone", "loop", "endless", "huge")}
    places["folder"].mkdir()
    os.mkfifo(places["pipe"])
    places["loop"].symlink_to(places["loop"])
    places["endless"].symlink_to("/dev/zero")
    with places["huge"].open("wb") as file:
        file.truncate(1 << 40)
    places["long"] = tmp_path / f"{'x' * 5_000}.toml"
    places["unreal"] = Path("a\0b.toml")
    return places


def load_as_session(path: Path) -> object:
    from inductor_debug_jupyter.pipeline.session import DebugSession

    return DebugSession.load(path)


def load_as_profile(path: Path) -> object:
    from inductor_debug_jupyter.pipeline.devices import load_profile

    return load_profile(str(path))


def load_as_recording(path: Path) -> object:
    from inductor_debug_jupyter.pipeline.diff.recording import Recording

    return Recording.load(path)


@pytest.mark.parametrize("load", [load_as_session, load_as_profile, load_as_recording])
def test_what_is_no_file_is_said_and_nobody_waits(load: Callable[[Path], object], places: dict[str, Path]) -> None:
    for path in places.values():
        with pytest.raises(InductorDebugError) as caught:
            load(path)
        message = str(caught.value)
        assert "\n" not in message
        assert control_characters(message) == set()


def test_a_folder_or_a_pipe_of_the_name_of_a_config_file(tmp_path: Path) -> None:
    (tmp_path / "inductor_debug.toml").mkdir()
    os.mkfifo(tmp_path / "pyproject.toml")
    assert resolve()["target"] == "default"


DAMAGED_TOML = {
    "not UTF-8": b'name = "\xff"',
    "nested deeply": b"a = " + b"[" * 50_000,
    "nested by dots": b".".join([b"a"] * 20_000) + b" = 1",
    "5,000 digits": b"alignment = " + b"9" * 5_000,
    "5,000 hexadecimal digits": b"alignment = 0x" + b"f" * 5_000,
    "said twice": b"strict = true\nstrict = false",
    "truncated": b'target = "stick',
    "a date of no calendar": b"timeout = 2026-99-99",
    "larger than any": b"# " + b"x" * (1 << 20),
}


@pytest.mark.parametrize("kind", DAMAGED_TOML)
def test_damaged_toml_is_one_line(tmp_path: Path, kind: str) -> None:
    for name, error, load in (
        ("inductor_debug.toml", OptionError, lambda path: resolve()),
        ("chip.toml", ProfileError, load_as_profile),
    ):
        path = tmp_path / name
        path.write_bytes(DAMAGED_TOML[kind])
        with pytest.raises(error) as caught:
            load(path)
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 400
        path.unlink()


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[transfer]\nlatency = nan", "latency is nan; allowed: seconds from 0 up"),
        ("[transfer]\nlatency = inf", "latency is inf"),
        ("[alignment]\nmultiple = 9223372036854775808", "more than 63 bits"),
        ("[memory]\nlimit = nan", "limit is nan"),
        (f"[dtypes]\nsupported = [{', '.join(['7'] * 500)}]", "supported is \\[7, 7"),
    ],
)
def test_odd_numbers_of_a_profile_are_named(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "chip.toml"
    path.write_text(line)
    with pytest.raises(ProfileError, match=said) as caught:
        load_as_profile(path)
    assert len(str(caught.value)) < 700


def test_a_config_file_made_to_be_parsed_for_ever_is_not(tmp_path: Path) -> None:
    (tmp_path / "inductor_debug.toml").write_text("# alignment\n" * 5_000 + "alignment = 0\n")
    with pytest.raises(OptionError, match="0' is not allowed"):
        resolve()


@pytest.mark.parametrize("value", ["~nobody-has-this-name/x", "~nobody-has-this-name/x.toml"])
def test_a_user_whom_nobody_knows(value: str) -> None:
    with pytest.raises(OptionError, match="there is no such user here"):
        resolve({"artifacts": value})
    with pytest.raises(ProfileError):
        load_as_profile(Path(value))


MANIFESTS: dict[str, Any] = {
    "[" * 100_000: "nested too deeply",
    json.dumps([]): "its manifest is",
    json.dumps({"version": [1] * 500}): "manifest version",
    json.dumps({"plain": []}): "plain is",
    json.dumps({"complex": 7}): "complex is",
    json.dumps({"arrays": [["a"]]}): "arrays is",
    json.dumps({"plain": {"a": {"b": 1}}}): "plain is",
    "9" * 5_000: "not a recording",
}


@pytest.mark.parametrize("manifest", MANIFESTS, ids=range(len(MANIFESTS)))
def test_a_damaged_manifest_is_one_line(tmp_path: Path, manifest: str) -> None:
    import torch
    from safetensors.torch import save_file

    path = tmp_path / "r.safetensors"
    save_file({"a": torch.ones(3)}, str(path), metadata={"inductor_debug": manifest})
    with pytest.raises(InductorDebugError, match=MANIFESTS[manifest]) as caught:
        load_as_recording(path)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 600


def test_a_recording_that_changes_after_it_was_opened_is_said(tmp_path: Path) -> None:
    from inductor_debug_jupyter.pipeline.diff import compare_recordings
    from inductor_debug_jupyter.pipeline.diff.recording import Recording

    path = tmp_path / "r.safetensors"
    path.write_bytes(real_recording())
    recording = Recording.load(path)
    path.write_bytes(real_recording()[:100])
    with pytest.raises(InductorDebugError, match="cannot be read from it"):
        compare_recordings(recording, recording)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE sessions SET saved = x'ff'",
        "UPDATE sessions SET saved = 1e300",
        "UPDATE sessions SET saved = 'soon'",
        "UPDATE sessions SET graphs = 'many'",
        "UPDATE artifacts SET path = x'00ff'",
        "UPDATE artifacts SET bytes = -5",
        "ALTER TABLE sessions DROP COLUMN name",
        "DROP TABLE artifacts",
    ],
)
def test_a_damaged_index_is_one_line(tmp_path: Path, statement: str) -> None:
    store = ArtifactStore(tmp_path / "store")
    store.save_session(hostile_session("x", "one"))
    with sqlite3.connect(store.folder / "index.sqlite", isolation_level=None) as index:
        index.execute(statement)
    index.close()

    def everything() -> None:
        store.sessions()
        store.artifacts()
        store.load("one")

    with pytest.raises(StoreError) as caught:
        everything()
    assert "\n" not in str(caught.value)
    assert "index.sqlite" in str(caught.value)


def test_what_is_fuzzed_is_real() -> None:
    """Undamaged, the files are good: what is refused is refused for its damage."""
    assert len(real_profiles()) == 5
    assert b"strict" in CONFIG


SAMPLE = {"session": 36, "profile": 24, "recording": 20, "config": 10, "index": 10}
"""How many of the 2,000 the suite takes; ``python tests/support/fuzzing.py --all`` takes all of them."""


@pytest.mark.parametrize("kind", USES)
def test_fuzzed_files_give_our_own_errors_only(kind: str) -> None:
    total = USES[kind][1]
    for number in range(0, total, total // SAMPLE[kind]):
        use(kind, number)
