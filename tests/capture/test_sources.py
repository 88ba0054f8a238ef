"""Which lines are the user's own."""

from __future__ import annotations

import linecache
from pathlib import Path

import pytest
import torch

import inductor_debug_jupyter
from inductor_debug_jupyter.pipeline.capture import sources
from inductor_debug_jupyter.pipeline.capture.sources import is_library, spellings


def test_torch_and_this_package_are_no_users_lines():
    torch_folder, our_folder = (Path(package.__file__).parent for package in (torch, inductor_debug_jupyter))
    assert is_library(str(torch_folder / "nn" / "modules" / "linear.py"))
    assert is_library(str(our_folder / "pipeline" / "session.py"))


def test_a_package_whose_name_begins_with_torch_is_not_torch():
    assert not is_library(str(Path(torch.__file__).parents[1] / "torchvision" / "models" / "resnet.py"))


def test_a_folder_behind_a_link_is_known_by_both_names(tmp_path):
    """An environment behind a link: code objects have the link's name, and torch's frames must not be the user's."""
    (tmp_path / "real" / "torch").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    places = spellings(tmp_path / "link" / "torch")
    assert str(tmp_path / "link" / "torch" / "nn.py").startswith(places)
    assert str(tmp_path / "real" / "torch" / "nn.py").startswith(places)
    assert not str(tmp_path / "link" / "torchvision" / "models.py").startswith(places)


def _cell(monkeypatch: pytest.MonkeyPatch, text: str) -> str:
    monkeypatch.setitem(linecache.cache, "<cell>", (len(text), None, text.splitlines(keepends=True), "<cell>"))
    monkeypatch.setattr(sources, "_cell_labels", [lambda file: "In [1]" if file == "<cell>" else None])
    return sources.source_text("<cell>")


@pytest.mark.parametrize("line", ["%%inductor_debug", "%%inductor_debug --strict  # no", "%%inductor_debug\n"])
def test_the_magic_comes_back_from_its_comment(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = f"{line}\nx = 1\n" if not line.endswith("\n") else line
    first, *rest = cell.splitlines(keepends=True)
    assert _cell(monkeypatch, "".join([sources.magic_as_comment(first), *rest])) == cell


@pytest.mark.parametrize(
    "first", ["# %%", "# %% a cell of the user's editor", "# %%inductor_debug --strict", "#%%", ""]
)
def test_the_users_own_comment_is_the_users(first: str, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = f"{first}\nx = 1\n"
    assert _cell(monkeypatch, cell) == cell
