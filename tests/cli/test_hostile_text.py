"""No text of a session, a profile or a recording can steer a terminal, and no command needs more than ASCII."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import json
import logging
import os
import pkgutil
import pty
import re
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest
from hostile import EVIL, SURROGATES, control_characters, filled, hostile_session

import inductor_debug_jupyter.pipeline
from inductor_debug_jupyter.pipeline import errors, records
from inductor_debug_jupyter.pipeline.harmless import Harmless, encodable
from inductor_debug_jupyter.pipeline.records import dump_session
from inductor_debug_jupyter.pipeline.records.in_words import InWords
from inductor_debug_jupyter.pipeline.store import ArtifactStore
from inductor_debug_jupyter.pipeline.views.text import session_text, strict_message

COMMANDS = (
    ("list",),
    ("list", "last"),
    ("list", "--format", "json"),
    ("list", "--model", EVIL),
    ("show",),
    ("show", "--format", "json"),
    ("show", "REPRO"),
    ("show", "REPRO", "--format", "json"),
    ("show", f"{EVIL}!"),
    ("analyze",),
    ("analyze", "--type", "guards", "--limit", "all"),
    ("analyze", "--type", "constraints"),
    ("analyze", "--type", "constraints", "--format", "json"),
    ("analyze", "--type", EVIL),
    ("report", "--output-dir", "out"),
    ("report", "--format", "json", "--output-dir", "out"),
    ("clean", "--dry-run"),
    ("config",),
    ("config", "--format", "json"),
    ("schema",),
    ("--help",),
    (EVIL,),
)
"""Every command that quotes something; the others (doctor, quickstart, …) print through the same stream."""

CHILD = """
import json, sys
from inductor_debug_jupyter.cli.main import main
for arguments in json.loads(sys.stdin.readline()):
    print("\\n###", main(arguments), flush=True)
"""

EXPECTED = [0] * 8 + [3] + [0] * 4 + [2] + [0] * 7 + [2]

WITH_TORCH = (
    ("diff", f"{EVIL[:4]}.safetensors", "other.safetensors"),
    ("diff", "evil.safetensors", "other.safetensors"),
    ("diff", "evil.safetensors", "other.safetensors", "--format", "json"),
)
EXPECTED_WITH_TORCH = [3, 1, 1]
"""Importing torch takes seconds: these run in one child only."""

OUR_COLOURS = re.compile(r"\x1b\[(?:0|1|2|3[1-6]|1;3[1-6])m")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a hostile session, a repro of it, a hostile setting, and recordings with hostile names."""
    import torch

    from inductor_debug_jupyter.pipeline.diff.recording import Recording

    folder = tmp_path_factory.mktemp("hostile")
    store = ArtifactStore(folder / "debug_artifacts")
    store.save_session(hostile_session())
    store.write("repros", "evil.py", f"print({EVIL!r})  # {EVIL}", hostile_session().id)
    (folder / "inductor_debug.toml").write_text(f"deny = [{json.dumps(EVIL)}]\n")
    for name, value in (("evil", 1.0), ("other", 2.0)):
        Recording({EVIL: torch.tensor([value])}, {"model": EVIL + name}).save(folder / f"{name}.safetensors")
    return folder


def run(
    folder: Path, stdout: int, commands: tuple[tuple[str, ...], ...], environment: dict[str, str]
) -> subprocess.Popen[str]:
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stdout,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )
    assert child.stdin is not None
    (repro,) = ArtifactStore(folder / "debug_artifacts").artifacts(room="repros")
    told = [[repro.sha256 if word == "REPRO" else word for word in command] for command in commands]
    child.stdin.write(json.dumps(told) + "\n")
    child.stdin.close()
    return child


def on_a_terminal(folder: Path, commands: tuple[tuple[str, ...], ...], environment: dict[str, str]) -> str:
    """What the commands send to a terminal."""
    master, slave = pty.openpty()
    child = run(folder, slave, commands, environment)
    os.close(slave)
    taken = bytearray()
    while True:
        try:
            taken += os.read(master, 65536)
        except OSError:  # how a terminal says that nobody has it open any more
            break
    os.close(master)
    child.wait()
    return taken.decode().replace("\r\n", "\n")


def exit_codes(shown: str) -> list[int]:
    return [int(code) for code in re.findall(r"^### (\d+)$", shown, re.MULTILINE)]


@pytest.mark.parametrize("colour", [False, True])
def test_no_control_character_of_a_session_reaches_the_terminal(folder: Path, colour: bool) -> None:
    variables = {"TERM": "xterm-256color"} if colour else {"NO_COLOR": "1"}
    shown = on_a_terminal(folder, COMMANDS if colour else COMMANDS + WITH_TORCH, variables)
    assert exit_codes(shown) == (EXPECTED if colour else EXPECTED + EXPECTED_WITH_TORCH)
    assert "RED" in shown
    assert ("\x1b[31m" in shown) is colour, "our own colours are there"
    assert "\x1b[31mRED" not in shown
    assert control_characters(OUR_COLOURS.sub("", shown) if colour else shown) == set()


@pytest.mark.parametrize(
    "variables",
    [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}],
    ids=["PYTHONIOENCODING", "LC_ALL"],
)
def test_every_command_works_in_ascii(folder: Path, variables: dict[str, str]) -> None:
    child = run(folder, subprocess.PIPE, COMMANDS, variables)
    assert child.stdout is not None
    shown = child.stdout.read()
    assert child.wait() == 0
    assert exit_codes(shown) == EXPECTED
    assert "unexpected" not in shown
    assert "x error: ?[31mRED" in shown, "our own signs have ASCII ones"


def test_json_says_what_was_there(folder: Path) -> None:
    """A script that reads JSON gets the very characters: they are escaped, not replaced."""
    code = "import sys; from inductor_debug_jupyter.cli.main import main; sys.exit(main(['show', '--format', 'json']))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        capture_output=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.stdout.isascii()
    assert json.loads(done.stdout) == json.loads(dump_session(hostile_session()))


def words_of(value: Any) -> str:
    return f"{value!s}\n{value!r}"


def test_what_records_say_is_harmless() -> None:
    kinds = [kind for kind in vars(records).values() if dataclasses.is_dataclass(kind)]
    assert len(kinds) > 30
    for kind in kinds:
        for text in (EVIL, SURROGATES):
            assert control_characters(words_of(filled(kind, text))) == set(), kind
    evil = hostile_session(EVIL + SURROGATES)
    coloured = session_text(evil, colour=True)
    assert control_characters(OUR_COLOURS.sub("", coloured)) == set()
    assert "\x1b[31mRED" not in coloured
    encodable(coloured, "utf-8").encode("utf-8")
    message = strict_message(evil.findings, target=EVIL, repro=EVIL)
    assert control_characters(str(errors.ConstraintViolationError(message))) == set()


def test_whatever_says_itself_is_harmless() -> None:
    """A class with words of its own derives from Harmless, or quotes nothing of others."""
    quotes_nothing = {
        "ArtifactStore",  # the repr of its folder
        "AcceleratorAdapter",
        "Constraint",
        "DebugSession",  # session_text
        "Fault",
        "InductorDebugError",
        "DeferredTexts",  # the repr of its stages
        "Progress",
        "TensorComparisonResult",
    }
    found: dict[str, type] = {}
    for module in pkgutil.walk_packages(inductor_debug_jupyter.pipeline.__path__, "inductor_debug_jupyter.pipeline."):
        loaded = importlib.import_module(module.name)
        for kind in vars(loaded).values():
            if inspect.isclass(kind) and kind.__module__ == module.name:
                own = [vars(kind).get(name) for name in ("__str__", "__repr__")]
                if any(getattr(each, "__module__", "") == module.name and _is_written(each) for each in own):
                    found[kind.__name__] = kind
    assert {name for name, kind in found.items() if not issubclass(kind, Harmless)} == quotes_nothing
    assert issubclass(InWords, Harmless)


def _is_written(function: Any) -> bool:
    """Whether somebody wrote it: what a dataclass makes has no file, and quotes every text."""
    return Path(inspect.unwrap(function).__code__.co_filename).is_file()


def test_errors_and_logs_are_harmless(capfd: pytest.CaptureFixture[str]) -> None:
    for kind in vars(errors).values():
        if inspect.isclass(kind) and issubclass(kind, errors.InductorDebugError):
            error = kind(EVIL, None) if kind is errors.BackendCrashError else kind(EVIL)
            assert control_characters("".join(traceback.format_exception_only(error))) == set()
    for name in ("inductor_debug_jupyter", "inductor_debug_jupyter.transfers"):
        logging.getLogger(name).warning("100 %% of %s and %s", EVIL, SURROGATES)
        logging.getLogger(name).warning(f"{EVIL} 100%")
    assert control_characters(capfd.readouterr().err) == set()


def test_only_these_loggers_are_used() -> None:
    """The filter that makes logs harmless sits on two loggers; one of another name would go past it."""
    source = Path(inductor_debug_jupyter.pipeline.__file__).parent
    named = {
        name
        for path in source.rglob("*.py")
        for name in re.findall(r"getLogger\(([^)]*)\)", path.read_text())
        if "torch_compat/state" not in path.as_posix()
    }
    assert named == {'"inductor_debug_jupyter"', '"inductor_debug_jupyter.transfers"', "", "_name"}
