"""What the command line says about what was captured."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pty
import shlex
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from inductor_debug_jupyter.cli.main import COMMANDS, EXIT_CODES, build_parsers
from inductor_debug_jupyter.pipeline import errors
from inductor_debug_jupyter.pipeline.store import ArtifactStore

Cli = Callable[..., Any]


def one_error_line(result: Any) -> str:
    assert result.out == ""
    (line,) = result.err.splitlines()
    assert line.startswith("inductor-debug: ")
    return str(line)


def test_list_shows_the_last_session_first(cli: Cli, store: ArtifactStore) -> None:
    result = cli("list")
    assert (result.code, result.err) == (0, "")
    header, first, second, folder = result.out.splitlines()
    assert header.split() == ["id", "age", "name", "target", "graphs", "findings", "size"]
    assert first.startswith("second-2")
    assert second.startswith("first-1")
    assert folder.endswith("(at most 2 GiB, then the oldest go)")
    assert first.split()[1:8] == ["now", "In", "[4]", "default", "1", "1", first.split()[7]]


def test_list_as_json(cli: Cli, store: ArtifactStore) -> None:
    sessions = json.loads(cli("list", "--format", "json").out)
    assert [session["id"] for session in sessions] == ["second-2", "first-1"]
    assert sessions[0]["findings"] == 1
    assert sessions[0]["bytes"] > 100
    assert sessions[0]["saved"].endswith("+00:00")


def test_list_of_one_session_shows_what_show_can_show(cli: Cli, store: ArtifactStore) -> None:
    rows = [line.split() for line in cli("list", "first").out.splitlines()]
    assert rows[0] == ["sha256", "room", "age", "size", "path"]
    (graph,) = [row for row in rows if "fx_graphs" in row]
    assert Path(graph[-1]).read_text() == "graph of first-1"
    assert cli("show", graph[0]).out == "graph of first-1\n"


def test_list_says_when_there_is_nothing(cli: Cli, folder: Path) -> None:
    result = cli("list")
    assert result.code == 0
    assert "Nothing was captured in debug_artifacts yet" in result.out
    assert json.loads(cli("list", "--format", "json").out) == []
    assert list(folder.iterdir()) == []


def test_names_cannot_steer_the_terminal(cli: Cli, save: Callable[[str, str], None]) -> None:
    save("evil", "[red]\x1b[31mred\x1b]0;title\x07\nnext")
    out = cli("list").out
    assert "\x1b" not in out
    assert "\x07" not in out
    assert "[red]" in out, "not read as markup"
    assert len(out.splitlines()) == 3


def test_the_folder_comes_from_the_option_or_the_environment(
    cli: Cli, store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Nothing was captured in elsewhere" in cli("list", "--artifacts", "elsewhere").out
    monkeypatch.setenv("INDUCTOR_DEBUG_ARTIFACTS", "other")
    assert "Nothing was captured in other" in cli("list").out
    assert "first-1" in cli("list", "--artifacts", str(store.folder)).out


def test_a_bad_setting_of_something_else_is_not_looked_at(
    cli: Cli, store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOCK_STRICT", "maybe")
    monkeypatch.setenv("MOCK_ALIGNMENT", "-3")
    for command in (["list"], ["show"], ["analyze"], ["report"], ["clean", "--dry-run"]):
        assert cli(*command).code == 0


@pytest.mark.parametrize("name", ["second-2", "sec", "last"])
def test_show_a_session(cli: Cli, store: ArtifactStore, name: str) -> None:
    result = cli("show", name)
    assert result.code == 0
    assert "align.innermost" in result.out
    assert "30 is not a multiple of 64" in result.out
    assert "\x1b" not in result.out


def test_show_without_an_id_shows_the_last(cli: Cli, store: ArtifactStore) -> None:
    assert cli("show").out == cli("show", "second-2").out


def test_show_what_is_not_there(cli: Cli, store: ArtifactStore) -> None:
    result = cli("show", "zzz")
    assert result.code == 3
    assert "no session 'zzz' in debug_artifacts; there are second-2, first-1" in one_error_line(result)


def test_show_when_nothing_was_captured(cli: Cli) -> None:
    result = cli("show", "last")
    assert result.code == 3
    assert "nothing was captured in debug_artifacts yet" in one_error_line(result)


def test_clean_needs_a_terminal_or_yes(cli: Cli, store: ArtifactStore) -> None:
    result = cli("clean")
    assert result.code == 2
    assert "--yes" in one_error_line(result)
    assert len(store.sessions()) == 2


def test_clean_asks(cli: Cli, store: ArtifactStore, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    answers = iter(["", "n", "y"])
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda question: asked.append(question) or next(answers))
    for _ in range(2):
        assert "Nothing was deleted" in cli("clean").out
        assert len(store.sessions()) == 2
    assert "deleted" in cli("clean").out
    assert store.sessions() == ()
    assert "2 sessions with 6 files" in asked[0]


def test_clean_dry_run_and_rules(cli: Cli, store: ArtifactStore) -> None:
    result = cli("clean", "--dry-run")
    assert "2 sessions with 6 files" in result.out
    assert "would be deleted" in result.out
    assert len(store.sessions()) == 2
    result = cli("clean", "--yes", "--keep-last", "1")
    assert result.code == 0
    assert "1 session with 3 files" in result.out
    assert "Kept 1 session: one of the last 1." in result.out
    assert [session.id for session in store.sessions()] == ["second-2"]
    assert "Nothing to delete" in cli("clean", "--yes", "--older-than", "7d").out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["lst"], "unknown command 'lst'; did you mean list?"),
        (
            ["xyzzy"],
            "unknown command 'xyzzy'; allowed: quickstart, tour, list, show, analyze, report, compare, history, diff",
        ),
        (["list", "--artifcts", "x"], "unknown option '--artifcts'; did you mean --artifacts?"),
        (["clean", "--dryrun"], "unknown option '--dryrun'; did you mean --dry-run?"),
        (["--frob"], "unknown option '--frob'"),
        (["list", "a", "b"], "unexpected argument 'b'"),
        (["list", "--format", "xml"], "'xml'"),
        (["list", "--artifacts"], "--artifacts"),
        (
            ["clean", "--older-than", "soon"],
            "--older-than: 'soon' is not allowed; allowed: a number and s, m, h, d or w",
        ),
        (
            ["analyze", "--type", "gaurds"],
            "--type: 'gaurds' is not allowed; allowed: guards, constraints, summary; did you",
        ),
        (["analyze", "--limit", "0"], "--limit: '0' is not allowed; allowed: a whole number from 1 up, or all"),
        (["analyze", "--fromat", "json"], "unknown option '--fromat'; did you mean --format?"),
        (["report", "--format", "pdf"], "'pdf'"),
        (["report", "--output", "a", "--output-dir", "b"], "--output and --output-dir: give one of them"),
        (["bisect"], "MODULE:ATTRIBUTE"),
        (["clean", "--keep-last", "-1"], "--keep-last"),
        (["list", "--since", "yesterday"], "--since: 'yesterday' is not allowed; allowed: an age such as 30m"),
        (["list", "last", "--model", "x"], "--model x: a filter is for the list of sessions"),
        (["config", "--format", "yaml"], "'yaml'"),
        (["doctor", "--quik"], "unknown option '--quik'; did you mean --quick?"),
        (["clean", "--keep-last", "many"], "--keep-last: 'many' is not allowed; allowed: a whole number"),
    ],
)
def test_what_is_not_understood_gets_one_line(cli: Cli, arguments: list[str], sentence: str) -> None:
    result = cli(*arguments)
    assert result.code == 2
    assert sentence in one_error_line(result)


def test_a_file_in_place_of_the_folder(cli: Cli, folder: Path) -> None:
    (folder / "debug_artifacts").write_text("a file")
    for command in ("list", "show", "clean", "analyze", "report"):
        result = cli(command)
        assert result.code == 4
        assert "debug_artifacts" in one_error_line(result)


def test_an_unexpected_error_is_one_line_and_verbose_shows_the_place(
    cli: Cli, store: ArtifactStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: ArtifactStore) -> None:
        raise ZeroDivisionError("oops\nsecond line")

    monkeypatch.setattr(ArtifactStore, "sessions", broken)
    result = cli("list")
    assert result.code == 1
    assert "unexpected ZeroDivisionError: oops second line" in one_error_line(result)
    assert "Traceback" in cli("list", "--verbose").err


def test_help_documents_every_command_and_exit_code(cli: Cli) -> None:
    result = cli("--help")
    assert result.code == 0
    assert all(name in result.out for name in COMMANDS)
    codes = {
        error.exit_code
        for error in vars(errors).values()
        if isinstance(error, type) and issubclass(error, errors.InductorDebugError)
    }
    assert all(f"\n  {code} " in EXIT_CODES for code in codes)
    for name, command in COMMANDS.items():
        shown = cli(name, "--help").out
        assert EXIT_CODES in shown
        assert f"examples:\n{command.EXAMPLES}" in shown
    assert cli("--version").out.startswith("inductor-debug 0.")
    assert cli().out.startswith("usage: inductor-debug")


@pytest.mark.parametrize("command", ["bisect", "conformance"])
def test_help_speaks_of_no_option_that_the_command_lacks(cli: Cli, command: str) -> None:
    told = cli(command, "--help").out
    assert "--timeout" in told
    assert "--diff" not in told


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_of_the_help_is_understood(name: str) -> None:
    parser, _ = build_parsers()
    lines = COMMANDS[name].EXAMPLES.splitlines()
    used: set[str] = set()
    for line in lines:
        command, *_ = line.split(" > ")
        words = [word for word in shlex.split(command, comments=True) if not word.startswith("MOCK_")]
        assert words[0] == "inductor-debug"
        used.add(parser.parse_args(words[1:]).command)
    assert name in used


def on_a_terminal(*arguments: str, cwd: Path, **environ: str) -> str:
    """What the command writes when its output is a terminal."""
    ours, its = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "inductor_debug_jupyter", *arguments],
        cwd=cwd,
        stdin=its,
        stdout=its,
        stderr=subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if name != "NO_COLOR"}
        | {"TERM": "xterm-256color", "COLUMNS": "200"}
        | environ,
    ) as process:
        os.close(its)
        shown = b""
        with contextlib.suppress(OSError):  # Linux says EIO when the other end is closed
            while some := os.read(ours, 65536):
                shown += some
        assert process.stderr is not None
        assert process.stderr.read() == b""
    os.close(ours)
    assert process.returncode == 0
    return shown.decode()


@pytest.mark.parametrize("command", ["list", "show", "config"])
def test_colour_on_a_terminal_only_and_not_with_no_color(command: str, cli: Cli, store: ArtifactStore) -> None:
    folder = store.folder.parent
    assert "\x1b[" in on_a_terminal(command, cwd=folder)
    assert "\x1b" not in on_a_terminal(command, cwd=folder, NO_COLOR="1")
    assert "\x1b" not in cli(command).out


def test_a_dumb_terminal_gets_no_colour(store: ArtifactStore) -> None:
    assert "\x1b" not in on_a_terminal("list", cwd=store.folder.parent, TERM="dumb")


def test_verbose_tells_what_happens_and_quiet_only_what_was_asked_for(
    cli: Cli, store: ArtifactStore, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDUCTOR_DEBUG_TARGT", "x")
    assert "INDUCTOR_DEBUG_TARGT is not a setting" in cli("config").err
    for quietly in (cli("config", "--quiet"), cli("-q", "config")):
        assert quietly.err == ""
        assert "Config file" not in quietly.out
        assert "No config file" not in quietly.out
        assert "artifacts" in quietly.out
    assert cli("list", "--artifacts", "nowhere", "-q").out == ""
    told = cli("clean", "--yes", "--verbose", "--keep-last", "1").err
    assert "inductor-debug: deleted " in told
    assert cli("clean", "--yes", "--quiet").out == ""
    assert store.sessions() == ()


def test_logging_is_left_as_it_was(cli: Cli, store: ArtifactStore) -> None:
    logger = logging.getLogger("inductor_debug_jupyter")
    before = (list(logger.handlers), logger.level, list(logging.root.handlers), logging.root.level)
    cli("list", "--verbose")
    assert (list(logger.handlers), logger.level, list(logging.root.handlers), logging.root.level) == before


def test_as_a_module_and_without_torch(cold_python: None, store: ArtifactStore) -> None:
    code = (
        "import sys; from inductor_debug_jupyter.cli.main import main\n"
        "for line in (['list'], ['show', 'last'], ['analyze'], ['analyze', '--type', 'guards'], ['report'],\n"
        "             ['analyze', '--type', 'constraints'], ['clean', '--dry-run'], ['config'], ['schema']):\n"
        "    assert main(line) == 0\n"
        "heavy = {'torch', 'IPython', 'jupyterlab', 'nbclient', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], cwd=store.folder.parent, check=True, capture_output=True, timeout=60)
    done = subprocess.run(
        [sys.executable, "-m", "inductor_debug_jupyter", "list"],
        cwd=store.folder.parent,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "second-2" in done.stdout


def test_a_closed_pipe_is_not_an_error(store: ArtifactStore) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run(
        [sys.executable, "-m", "inductor_debug_jupyter", "show"],
        cwd=store.folder.parent,
        stdout=write_end,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, b"")


def test_explain_lists_the_rules_and_explains_one(cli: Cli) -> None:
    listed = cli("explain")
    assert listed.code == 0
    assert "align.innermost" in listed.out
    assert cli("explain", "align.innermost").out.startswith("# align.innermost: the innermost dimension must fill")
    typo = cli("explain", "align.inermost")
    assert typo.code == 3
    assert "did you mean align.innermost" in one_error_line(typo)


def test_docs_lists_the_pages_and_shows_one(cli: Cli) -> None:
    listed = cli("docs").out
    assert "wrong-numbers" in listed
    assert "memory.limit" in listed
    assert cli("docs", "guards").out.startswith("# guards: ")
    assert "did you mean guards" in one_error_line(cli("docs", "guard"))


def test_the_pages_are_in_the_wheel(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(root)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    pages = [str(path.relative_to(root)) for path in (root / "inductor_debug_jupyter" / "docs").rglob("*.md")]
    assert len(pages) > 20
    assert set(pages) <= set(names)
