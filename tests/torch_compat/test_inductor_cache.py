"""Inductor's cache in a folder of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from inductor_debug_jupyter.pipeline.torch_compat.canaries import VARIABLE, temporary_inductor_cache


@pytest.mark.parametrize("before", [None, "/somewhere/of/mine"])
def test_the_users_folder_comes_back_also_after_an_error(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    if before is not None:
        monkeypatch.setenv(VARIABLE, before)
    seen: list[Path] = []

    def fail() -> None:
        with temporary_inductor_cache() as folder:
            assert Path(os.environ[VARIABLE]) == folder
            assert list(folder.iterdir()) == []
            seen.append(folder)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert os.environ.get(VARIABLE) == before
    assert not seen[0].exists()
