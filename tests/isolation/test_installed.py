"""Entry points of installed packages are read once, and again when something was installed."""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path

import pytest

from inductor_debug_jupyter.pipeline.isolation import installed

GROUP = "inductor_debug.test_group"


def install(site: Path, name: str) -> None:
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{GROUP}]\n{name} = {name}:backend\n")


def test_what_is_installed_meanwhile_is_found_and_the_rest_is_read_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    monkeypatch.setattr(installed, "entry_points", lambda group: read.append(group) or entry_points(group=group))
    assert installed.registered(GROUP) == {}
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    install(tmp_path / "site", "first")
    assert list(installed.registered(GROUP)) == ["first"]
    before = len(read)
    installed.registered(GROUP).clear()  # the answer is the caller's own
    assert [point.value for point in installed.registered(GROUP).values()] == ["first:backend"]
    assert len(read) == before
    install(tmp_path / "site", "second")
    assert set(installed.registered(GROUP)) == {"first", "second"}
