"""Finding a session or an artifact again, by filters and by name."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from inductor_debug_jupyter.pipeline.store import ArtifactStore

Cli = Callable[..., Any]
PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"


def listed(cli: Cli, *filters: str) -> list[str]:
    result = cli("list", "--format", "json", *filters)
    assert result.code == 0, result.err
    return [session["id"] for session in json.loads(result.out)]


@pytest.fixture
def several(store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> ArtifactStore:
    """``first-1`` and ``second-2`` (In [4], default, 1 finding), ``bert`` without findings, ``old`` of last week."""
    record = store.load("last")
    store.save_session(replace(record, id="bert", name="BertModel", target="stick128", findings=()))
    with monkeypatch.context() as patch:
        import time

        long_ago = time.time() - 7 * 86400
        patch.setattr("time.time", lambda: long_ago)
        store.save_session(replace(record, id="old", name="old model"))
    return store


def test_filters(cli: Cli, several: ArtifactStore) -> None:
    assert listed(cli) == ["bert", "second-2", "first-1", "old"]
    assert listed(cli, "--model", "MODEL") == ["bert", "old"]
    assert listed(cli, "--target", "stick128") == ["bert"]
    assert listed(cli, "--with-findings") == ["second-2", "first-1", "old"]
    assert listed(cli, "--since", "2d") == ["bert", "second-2", "first-1"]
    assert listed(cli, "--since", (datetime.now(UTC) - timedelta(days=30)).date().isoformat())[-1] == "old"
    assert listed(cli, "--since", (datetime.now(UTC) + timedelta(days=2)).isoformat()) == []
    assert listed(cli, "--model", "model", "--with-findings") == ["old"]


def test_the_table_says_what_was_left_out(cli: Cli, several: ArtifactStore) -> None:
    out = cli("list", "--model", "bert").out
    assert out.splitlines()[1].split()[:2] == ["bert", "now"]
    assert out.splitlines()[2] == "… and 3 sessions that --model bert left out"
    assert cli("list", "--model", "mamba").out == "None of the 4 sessions in debug_artifacts passes --model mamba.\n"
    assert "7 d" in cli("list").out


def test_sizes_and_ages_as_json(cli: Cli, several: ArtifactStore) -> None:
    data = json.loads(cli("list", "--format", "json").out)
    assert data[-1]["age"] == pytest.approx(7 * 86400, abs=120)
    artifacts = json.loads(cli("list", "old", "--format", "json").out)
    assert sum(artifact["bytes"] for artifact in artifacts) == data[-1]["bytes"]
    assert {artifact["room"] for artifact in artifacts} == {"sessions", "fx_graphs", "statistics"}


def test_show_finds_an_artifact_by_hash_and_by_path(cli: Cli, store: ArtifactStore) -> None:
    (artifact,) = store.artifacts("first-1", "fx_graphs")
    for name in (
        artifact.sha256[:10],
        artifact.path,
        f"debug_artifacts/{artifact.path}",
        str(store.folder / artifact.path),
    ):
        assert cli("show", name).out == "graph of first-1\n"
    data = json.loads(cli("show", artifact.path, "--format", "json").out)
    assert (data["text"], data["room"], data["session_id"]) == ("graph of first-1", "fx_graphs", "first-1")


def test_show_every_artifact_of_a_session(cli: Cli, store: ArtifactStore) -> None:
    for artifact in store.artifacts("first-1"):
        shown = cli("show", artifact.sha256)
        assert shown.code == 0
        assert shown.out.rstrip("\n") == (store.folder / artifact.path).read_text().rstrip("\n")


def test_a_picture_comes_out_as_it_is(cli: Cli, store: ArtifactStore) -> None:
    path = store.write("visualizations", "heatmap.png", PNG, "first-1")
    command = [sys.executable, "-m", "inductor_debug_jupyter", "show", str(path)]
    assert subprocess.run(command, cwd=store.folder.parent, capture_output=True, check=True).stdout == PNG
    data = json.loads(cli("show", str(path), "--format", "json").out)
    assert base64.b64decode(data["base64"]) == PNG


def test_a_terminal_gets_no_picture_and_no_control_characters(
    cli: Cli, store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    picture = store.write("visualizations", "heatmap.png", PNG, "first-1")
    text = store.write("repros", "r.py", "x = 1\n\ty = '\x1b[31m'\n", "first-1")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert "is no text (16 B); open it there" in cli("show", str(picture)).out
    assert cli("show", str(text)).out == "x = 1\n\ty = '�[31m'\n"


def test_an_artifact_that_was_changed_is_not_shown_as_if_it_were_not(cli: Cli, store: ArtifactStore) -> None:
    (artifact,) = store.artifacts("first-1", "fx_graphs")
    (store.folder / artifact.path).write_text("edited")
    result = cli("show", artifact.path)
    assert result.code == 4
    assert "was changed since it was written" in result.err


def test_schema_prints_what_show_writes(cli: Cli, store: ArtifactStore) -> None:
    import jsonschema

    schema = json.loads(cli("schema").out)
    jsonschema.validate(json.loads(cli("show", "--format", "json").out), schema)


def test_clean_does_not_leave_the_folder_through_a_link(cli: Cli, store: ArtifactStore, folder: Path) -> None:
    outside = folder / "outside"
    (store.folder / "fx_graphs").rename(outside)
    (store.folder / "fx_graphs").symlink_to(outside)
    before = sorted(path.name for path in outside.iterdir())
    out = cli("clean", "--yes").out
    assert sorted(path.name for path in outside.iterdir()) == before
    assert out.count("leads out of the folder") == 2
