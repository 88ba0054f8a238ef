"""The README says what is so."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from inductor_debug_jupyter.cli.main import COMMANDS, EXIT_CODES
from inductor_debug_jupyter.pipeline.options import OPTIONS

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def rows(heading: str) -> list[list[str]]:
    """The cells of the table whose first column has that heading."""
    lines = README.splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith(f"| {heading} |"))
    table: list[list[str]] = []
    for line in lines[start + 2 :]:
        if not line.startswith("|"):
            break
        table.append([cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]])
    return table


def test_the_first_screen_has_the_two_commands() -> None:
    blocks = re.findall(r"^```(?:bash|sh|console|shell)\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    assert blocks[0].splitlines()[-1] == "inductor-debug quickstart"
    assert blocks[1].splitlines()[-1] == "python -m pytest"
    assert README.splitlines().index("python -m pytest") < 30


def test_the_option_table_is_the_options() -> None:
    table = rows("option")
    assert len(table) == len(OPTIONS)
    for (flag, meaning, default, environment), option in zip(table, OPTIONS.values(), strict=True):
        flags = re.findall(r"`([^`]*)`", flag)
        assert flags[0] == f"{option.flag} {option.metavar}".strip()
        assert flags[1:] == ([option.off_flag] if option.off_flag else [])
        assert meaning == option.help
        shown = {None: "", False: "off"}.get(option.default, f"`{option.default}`")
        assert default == shown
        assert environment.strip("`") == (option.environment or "")


def test_the_command_table_is_the_commands() -> None:
    assert {row[0].split()[1] for row in rows("command")} == set(COMMANDS)


def test_the_exit_codes_are_those_of_the_help() -> None:
    assert [tuple(row) for row in rows("exit code")] == re.findall(r"^  (\d+) +(.*)$", EXIT_CODES, flags=re.MULTILINE)


def test_the_pinned_set_is_complete_and_names_no_place() -> None:
    text = (ROOT / "binder" / "requirements.txt").read_text()
    pins = dict(line.split("==") for line in text.splitlines() if line and not line.startswith("#"))
    names = {re.sub(r"[-_.]+", "-", name).lower() for name in pins}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for requirement in (*project["dependencies"], *project["optional-dependencies"]["test"]):
        name = re.split(r"[^A-Za-z0-9_.-]", requirement)[0].rstrip("<>=")
        assert re.sub(r"[-_.]+", "-", name).lower() in names
    assert "/" not in text, "no address, path or index"
