"""The tutorials: put where the user is, or run here."""

from __future__ import annotations

from pathlib import Path

import pytest

from inductor_debug_jupyter.cli import quickstart, tour
from inductor_debug_jupyter.pipeline.errors import InductorDebugError

from .conftest import Cli


def test_every_tutorial_is_shipped_with_what_it_reads(tmp_path: Path) -> None:
    tour.put_tutorials(tmp_path / "tour")
    names = {path.name for path in (tmp_path / "tour").iterdir()}
    assert names == {*tour.TUTORIALS.values(), *tour.BESIDE}
    repo = Path(__file__).resolve().parents[2] / "notebooks"
    assert names | {quickstart.NOTEBOOK} == {path.name for path in repo.iterdir() if path.is_file()}


def test_what_the_user_changed_stays(tmp_path: Path) -> None:
    (tmp_path / "my_chip.toml").write_text("mine")
    tour.put_tutorials(tmp_path)
    assert (tmp_path / "my_chip.toml").read_text() == "mine"


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InductorDebugError, match="say --plain"):
        tour.put_tutorials(tmp_path / "file" / "tour")


def test_plain_runs_the_tutorial_among_its_files(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[tuple[str, list[str]]] = []

    def run_here(path: Path, environment: dict[str, str], command: str) -> int:
        ran.append((path.name, sorted(each.name for each in path.parent.iterdir())))
        return 0

    monkeypatch.setattr(tour, "run_here", run_here)
    assert cli("tour", "3", "--plain").code == 0
    assert [name for name, _ in ran] == ["03_recompiles_and_breaks.ipynb"]
    assert "my_chip.toml" in ran[0][1]
    assert list(folder.iterdir()) == []


def test_without_plain_it_opens_in_the_working_folder(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Path] = []
    monkeypatch.setattr(tour, "open_in_lab", lambda path, environment: opened.append(path) or 0)
    assert cli("tour").code == 0
    assert opened == [folder / tour.FOLDER / "01_port_a_model.ipynb"]
    assert opened[0].is_file()
