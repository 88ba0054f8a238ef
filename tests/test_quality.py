"""The checks around the code, so that the one test command covers them: lint, types, layers, complexity, notebooks."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

import javascript_tools
import pytest
import rooms

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOKS = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "notebooks").glob("*.ipynb"))


def check(*command: str, seconds: float = 280, environ: dict[str, str] | None = None) -> None:
    """Run a tool of this environment in the project's root; its output is the failure's message."""
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=os.environ | {"NO_COLOR": "1"} | (environ or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=seconds,
    )
    if done.returncode != 0:
        pytest.fail(f"{' '.join(command)}\n{done.stdout[-8000:]}", pytrace=False)


def test_ruff_finds_nothing() -> None:
    check(sys.executable, "-m", "ruff", "check", ".")


def test_everything_is_formatted() -> None:
    check(sys.executable, "-m", "ruff", "format", "--check", ".")


def test_types_hold() -> None:
    check(sys.executable, "-m", "mypy")


def test_imports_go_down_only() -> None:
    check(str(Path(sys.executable).parent / "lint-imports"), "--no-cache")


@pytest.mark.parametrize(
    "room", [each.parent for each in (ROOT / "inductor_debug_jupyter").rglob("__init__.py")], ids=str
)
def test_a_rooms_docstring_names_all_that_is_in_it(room: Path) -> None:
    room = ROOT / room
    text = ast.get_docstring(ast.parse((room / "__init__.py").read_text(encoding="utf-8"))) or ""
    files = {path.stem for path in room.glob("*.py")} - {"__init__", "__main__", "version"}
    folders = {path.parent.name for path in room.glob("*/__init__.py")}
    assert [name for name in sorted(files | folders) if not re.search(rf"\b{name}\b", text)] == []


def test_no_function_has_a_cognitive_complexity_above_15(tmp_path: Path) -> None:
    tool = str(Path(sys.executable).parent / "complexipy")
    where = ("inductor_debug_jupyter", "tests/proofs", "tests/support/rooms.py")
    check(tool, *where, "--max-complexity-allowed", "15", "--failed", "--plain", "--cache-dir", str(tmp_path))


@pytest.mark.timeout(500)
def test_the_panels_javascript_is_typed_linted_and_tested(request: pytest.FixtureRequest) -> None:
    from inductor_debug_jupyter.pipeline.reports import panel_assets as assets  # with torch

    folder = javascript_tools.tools_folder(request.config)
    javascript_tools.copy_modules(folder)
    (folder / "linked.js").write_text(assets.esm(), encoding="utf-8")
    assert "</script" not in assets.esm(assets.OFFLINE), "it stands in a page"
    binaries = folder / "node_modules" / ".bin"
    javascript_tools.run(folder, str(binaries / "tsc"), "-p", ".")
    javascript_tools.run(folder, str(binaries / "eslint"), "panel", *(path.name for path in folder.glob("*.test.js")))
    javascript_tools.run(folder, "node", "--test", *sorted(path.name for path in folder.glob("*.test.js")))


def test_the_rooms_and_what_they_import_are_counted() -> None:
    before = {
        "inductor_debug_jupyter/cli/main.py": "from inductor_debug_jupyter.pipeline import words\n",
        "inductor_debug_jupyter/pipeline/words.py": "",
        "inductor_debug_jupyter/pipeline/diff/__init__.py": "",
        "inductor_debug_jupyter/pipeline/diff/config.py": "import inductor_debug_jupyter.pipeline.words\n\n",
        "tests/test_it.py": "\n",
    }
    after = {**before, "inductor_debug_jupyter/pipeline/words.py": "from inductor_debug_jupyter.cli.main import main\n"}
    houses = [{PurePosixPath(path): text for path, text in files.items()} for files in (before, after)]
    rows = [re.split(r"  +", line) for line in rooms.table(*houses).splitlines()]
    assert rows == [
        ["room", "modules", "lines", "fan-in", "fan-out", "imports"],
        ["cli", "1", "1", "0 → 1", "1", "words"],
        ["pipeline/diff", "2", "2", "0", "1", "words"],
        ["pipeline/words", "1", "0 → 1", "2", "0 → 1", "cli"],
        ["all of inductor_debug_jupyter", "4", "3 → 4"],
        ["all of tests", "1", "1"],
    ]


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "notebook",
    [
        # The quickstart runs in a browser and by its command in other tests.
        pytest.param(name, marks=[pytest.mark.long] if "quickstart" in name else [])
        for name in NOTEBOOKS
    ],
)
def test_notebooks_show_what_they_say(notebook: str, tmp_path: Path) -> None:
    check(
        *(sys.executable, "-m", "pytest", "--nbval-lax", "--nbval-current-env", "-p", "no:cacheprovider"),
        *("-o", "addopts=", "-o", "timeout=0", "-q", notebook),
        seconds=590,
        environ={"INDUCTOR_DEBUG_ARTIFACTS": str(tmp_path / "debug_artifacts")},
    )
