"""``report`` writes one file and says where."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from inductor_debug_jupyter.pipeline.store import ArtifactStore

Cli = Callable[..., Any]


def test_html_goes_into_the_artifact_folder(cli: Cli, store: ArtifactStore) -> None:
    result = cli("report", "--format", "html")
    assert (result.code, result.err) == (0, "")
    path = Path(result.out.strip())
    assert path.parent == store.folder / "reports"
    assert path.name.startswith("debug_report_")
    page = path.read_text()
    assert "first-1" in page
    assert "second-2" in page
    assert "30 is not a multiple of 64" in page


def test_json_to_a_file_about_one_session(cli: Cli, store: ArtifactStore, folder: Path) -> None:
    result = cli("report", "--format", "json", "--output", "out/r.json", "first")
    assert result.out == f"{folder / 'out' / 'r.json'}\n"
    report = json.loads(Path("out/r.json").read_text())
    assert report["summary"]["constraint_violations"] == 1
    assert "sessions" not in report


def test_output_dir(cli: Cli, store: ArtifactStore, folder: Path) -> None:
    path = Path(cli("report", "--format", "json", "--output-dir", "pages").out.strip())
    assert path.parent == folder / "pages"
    assert [one["id"] for one in json.loads(path.read_text())["sessions"]] == ["second-2", "first-1"]


def test_what_cannot_be_done_is_one_line(cli: Cli, store: ArtifactStore, folder: Path) -> None:
    for arguments, code, sentence in (
        (["zzz"], 3, "no session 'zzz'"),
        (["--artifacts", "nowhere"], 3, "nothing was captured in nowhere yet"),
        (["--output", str(folder)], 4, "cannot write"),
    ):
        result = cli("report", *arguments)
        assert (result.code, result.out) == (code, "")
        (line,) = result.err.splitlines()
        assert sentence in line
