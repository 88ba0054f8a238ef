"""The README says what is so."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from inductor_debug_jupyter.benchmarks import __main__ as benchmarks
from inductor_debug_jupyter.cli.main import COMMANDS, EXIT_CODES
from inductor_debug_jupyter.pipeline.options import OPTIONS
from tests.proofs import __main__ as proofs

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
    assert blocks == ["python3 binder/run.py quickstart\n", "python3 binder/run.py tests\n"]
    assert README.splitlines().index("python3 binder/run.py tests") < 30


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


def test_the_table_of_figures_has_every_suite() -> None:
    named = [re.match(r"`(benchmarks|proofs) (\w+)", row[0]) for row in rows("suite")]
    suites = {"benchmarks": benchmarks.SUITES, "proofs": proofs.SUITES}
    assert sorted(match.groups() for match in named if match) == sorted(
        (program, suite) for program, each in suites.items() for suite in each
    )


def test_the_exit_codes_are_those_of_the_help() -> None:
    assert [tuple(row) for row in rows("exit code")] == re.findall(r"^  (\d+) +(.*)$", EXIT_CODES, flags=re.MULTILINE)


def pinned(path: str) -> dict[str, str]:
    """The pins of a requirements file, by the name as pip compares it."""
    lines = [line for line in (ROOT / path).read_text().splitlines() if line and not line.startswith(("#", "-r"))]
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in (line.split("==") for line in lines)}


def required(requirements: list[str]) -> set[str]:
    """The names in a list of pyproject.toml."""
    return {re.sub(r"[-_.]+", "-", re.match(r"[\w.-]+", each)[0]).lower() for each in requirements}  # type: ignore[index]


def test_the_pinned_sets_are_complete_and_apart() -> None:
    """Trying the package out installs no test tool; developing takes the same set and adds to it."""
    users, tests = pinned("binder/requirements.txt"), pinned("tests/requirements.txt")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert required(project["dependencies"]) <= set(users)
    further = required([*project["optional-dependencies"]["test"], *project["optional-dependencies"]["benchmarks"]])
    assert further <= set(users) | set(tests)
    assert not set(users) & set(tests)
    assert not {"pytest", "mypy", "ruff", "hypothesis", "playwright", "coverage", "import-linter"} & set(users)
    assert "-r ../binder/requirements.txt" in (ROOT / "tests/requirements.txt").read_text().splitlines()


def test_the_widgets_are_of_the_release_that_vs_code_shows() -> None:
    users = pinned("binder/requirements.txt")
    assert [users[name] for name in ("ipywidgets", "jupyterlab-widgets", "widgetsnbextension")] == [
        *("8.1.8", "3.0.16", "4.0.15")
    ]
