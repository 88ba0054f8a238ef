"""``config`` says of every setting what it is and where it came from."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inductor_debug_jupyter.pipeline.options import OPTIONS

Cli = Callable[..., Any]


def test_each_value_and_where_it_came_from(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "pyproject.toml").write_text("[tool.inductor_debug]\ntarget = 'stick128'\ndtypes = ['float16', 'int8']\n")
    monkeypatch.setenv("MOCK_ALIGNMENT", "64")
    result = cli("config", "--artifacts", "elsewhere")
    assert (result.code, result.err) == (0, "")
    rows = {line.split()[0]: line for line in result.out.splitlines()[1:] if line}
    assert rows["target"].split()[1:] == [
        "stick128",
        *f"{folder}/pyproject.toml, target".split(),
        "INDUCTOR_DEBUG_TARGET",
    ]
    assert rows["dtypes"].split()[1] == "float16,int8"
    assert rows["alignment"].split() == ["alignment", "64", "MOCK_ALIGNMENT", "MOCK_ALIGNMENT"]
    assert rows["artifacts"].split()[1:4] == ["elsewhere", "call", "(--artifacts)"]
    assert rows["strict"].split() == ["strict", "off", "default", "MOCK_STRICT"]
    assert f"Config file: {folder}/pyproject.toml" in result.out


def test_as_json(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOCK_MAX_MEMORY", "1KiB")
    data = json.loads(cli("config", "--format", "json").out)
    assert data["config_file"] is None
    assert list(data["settings"]) == list(OPTIONS)
    assert data["settings"]["max_memory"] == {
        "value": 1024,
        "origin": "MOCK_MAX_MEMORY",
        "flag": "--max-memory",
        "environment": "MOCK_MAX_MEMORY",
        "problem": None,
    }


def test_a_bad_value_does_not_hide_the_others(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOCK_ALIGNMENT", "many")
    monkeypatch.setenv("MOCK_STRICT", "maybe")
    monkeypatch.setenv("INDUCTOR_DEBUG_LOWER", "aot")
    result = cli("config")
    assert result.code == 2
    rows = {line.split()[0]: line.split()[1:] for line in result.out.splitlines()[1:] if line}
    assert rows["alignment"] == ["not", "allowed", "MOCK_ALIGNMENT", "MOCK_ALIGNMENT"]
    assert rows["lower"][:2] == ["aot", "INDUCTOR_DEBUG_LOWER"]
    assert [line.split(": ")[1] for line in result.err.splitlines()] == ["MOCK_STRICT", "MOCK_ALIGNMENT"]
    assert result.err.count("is not allowed; allowed: ") == 2
    data = json.loads(cli("config", "--format", "json").out)
    assert data["settings"]["alignment"]["problem"].startswith("MOCK_ALIGNMENT: 'many' is not allowed")


def test_a_config_file_that_cannot_be_understood_is_told_once(cli: Cli, folder: Path) -> None:
    (folder / "inductor_debug.toml").write_text("alignmant = 8\n")
    result = cli("config")
    assert result.code == 2
    (line,) = result.err.splitlines()
    assert "inductor_debug.toml: unknown setting 'alignmant'; did you mean alignment?" in line
