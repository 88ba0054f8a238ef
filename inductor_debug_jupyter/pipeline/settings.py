"""The value of each option and its origin: call > environment > config file > default.

The config file is ``inductor_debug.toml`` or ``[tool.inductor_debug]`` in ``pyproject.toml``, looked for in the working
folder and its parents; the nearest one wins, and of two in one folder the former. A relative path in it is relative to
it. Every value keeps its origin, so that an error (and ``inductor-debug config``) can name it. An empty environment
variable counts as not set.

Code that has no session (the simulator, the log of transfers, the native comparison) resolves :data:`OF_THE_PROCESS`
by itself. For these, what a cell's line says is in force while the cell and its comparisons run: :func:`in_force`.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.harmless import quoted
from inductor_debug_jupyter.pipeline.options import OPTIONS
from inductor_debug_jupyter.pipeline.reading import LARGEST_TEXT, MalformedError, parsed_toml, read_regular

OF_THE_PROCESS = ("transfers", "native", "faults")
"""Options that are read by code which has no session."""
_in_force: list[dict[str, Setting]] = []
"""What the lines of the running cells say about these, innermost last."""
_OWN_FILE = "inductor_debug.toml"
_OTHER_VARIABLES = {"INDUCTOR_DEBUG_CHROMIUM"}
"""Variables of ours that are no settings: where the browser tests find Chromium."""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and where it came from."""

    value: Any
    origin: str


@dataclass(frozen=True)
class Settings:
    """The values in force: ``settings["alignment"]``, and ``settings.values["alignment"].origin`` for where from."""

    values: dict[str, Setting]

    def __getitem__(self, name: str) -> Any:
        return self.values[name].value


def resolve(
    given: Mapping[str, Any] | None = None,
    *,
    defaults: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    names: Iterable[str] | None = None,
) -> Settings:
    """The value of every option, or of the named ones; values of others are not checked.

    Args:
        given: the caller's values; None means "not given".
        defaults: defaults that differ from the declared ones (``mock_backend`` is strict by default).
        environ: the environment; the process's own by default.
        folder: where to look for a config file; the working folder by default.
        names: the options that are wanted; all by default.

    Raises:
        OptionError: a variable or a config file has a bad value; the message names it.
    """
    environment = os.environ if environ is None else environ
    wanted = set(OPTIONS if names is None else names)
    from_file = _read_config(find_config(folder or Path.cwd()), wanted)
    values: dict[str, Setting] = {}
    for name in (name for name in OPTIONS if name in wanted):
        option = OPTIONS[name]
        if (value := (given or {}).get(name)) is not None:
            origin = f"call ({option.flag})"
            values[name] = Setting(option.accept(value, origin), origin)
        elif (on_the_line := given_on_the_line(name)) is not None:
            values[name] = on_the_line
        elif text := environment.get(option.environment):
            values[name] = Setting(option.read(text, option.environment), option.environment)
        elif name in from_file:
            values[name] = from_file[name]
        else:
            values[name] = Setting((defaults or {}).get(name, option.default), "default")
    return Settings(values)


@contextmanager
def in_force(settings: Settings) -> Iterator[None]:
    """Inside the block, :data:`OF_THE_PROCESS` are what a call or a magic's line gave for them."""
    given = {name: settings.values[name] for name in OF_THE_PROCESS if name in settings.values}
    _in_force.append({name: each for name, each in given.items() if each.origin.startswith("call")})
    try:
        yield
    finally:
        _in_force.pop()


def given_on_the_line(name: str) -> Setting | None:
    """What the line of a running cell says about one of :data:`OF_THE_PROCESS`; None when it says nothing."""
    return next((given[name] for given in reversed(_in_force) if name in given), None)


def variables_in_force() -> dict[str, str]:
    """The environment variables by which a child process has what the line of a running cell says."""
    given = {name: setting.value for lines in _in_force for name, setting in lines.items()}
    texts = {"lines": "1", "": "0", True: "1", False: "0"}
    return {
        OPTIONS[name].environment: ",".join(value) if isinstance(value, tuple) else texts.get(value, str(value))
        for name, value in given.items()
    }


def unknown_variables(environ: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """One sentence for each variable that looks like a setting and is none: a typo that has no other effect."""
    environment = os.environ if environ is None else environ
    known = {option.environment for option in OPTIONS.values()} | _OTHER_VARIABLES
    ours = (name for name in environment if name.startswith(("INDUCTOR_DEBUG_", "MOCK_")) and name not in known)
    sentences = []
    for name in sorted(ours):
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.8)
        if near or name.startswith("INDUCTOR_DEBUG_"):
            hint = f"; did you mean {near[0]}?" if near else ""
            sentences.append(f"the environment variable {name} is not a setting, and does nothing{hint}")
    return tuple(sentences)


def find_config(folder: Path) -> Path | None:
    """The config file that holds in that folder."""
    for place in (folder, *folder.parents):
        own = place / _OWN_FILE
        if own.is_file():
            return own
        project = place / "pyproject.toml"
        if project.is_file() and _mentions_us(project):
            return project
    return None


def _mentions_us(project: Path) -> bool:
    """Whether that pyproject.toml has our table; invalid TOML counts if it mentions us, so that the error is shown."""
    try:
        text = read_regular(project, LARGEST_TEXT).decode("utf-8", "replace")
    except OSError:
        return False
    if not re.search(r"\binductor_debug\b", text):
        return False
    try:
        tool = parsed_toml(text).get("tool")
    except MalformedError:
        return True
    return isinstance(tool, dict) and "inductor_debug" in tool


def _read_config(path: Path | None, wanted: set[str]) -> dict[str, Setting]:
    if path is None:
        return {}
    try:
        table: Any = parsed_toml(read_regular(path, LARGEST_TEXT))
    except OSError as error:
        raise OptionError(f"{path}: cannot be read ({error.strerror})") from None
    except MalformedError as error:
        raise OptionError(f"{path}: not valid TOML ({error})") from None
    if path.name != _OWN_FILE:
        table = table["tool"]["inductor_debug"]
    if not isinstance(table, dict):
        raise OptionError(f"{path}, inductor_debug: {quoted(table)} is not allowed; allowed: a table of settings")
    settings: dict[str, Setting] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        if name not in OPTIONS:
            raise OptionError(f"{path}: {_unknown(key)}")
        if name in settings:
            raise OptionError(f"{path}: {name} is said twice; once with a dash and once without")
        if name in wanted:
            origin = f"{path}, {key}"
            accepted = OPTIONS[name].accept(value, origin)
            settings[name] = Setting(_relative_to(path.parent, name, accepted), origin)
    return settings


def _relative_to(folder: Path, name: str, value: Any) -> Any:
    """A path in a config file is relative to the file's folder."""
    if name == "artifacts":
        return str(folder / value)
    if name == "target" and (folder / value).is_file():
        return str(folder / value)
    return value


def _unknown(key: str) -> str:
    allowed = f"allowed: {', '.join(sorted(OPTIONS))}"
    if key in {"tool", "inductor_debug"}:
        return f"unknown setting {key!r}; in {_OWN_FILE} settings stand at the top, in no table; {allowed}"
    near = difflib.get_close_matches(key.replace("-", "_"), OPTIONS, n=1)
    return f"unknown setting {quoted(key)}; {f'did you mean {near[0]}? ' if near else ''}{allowed}"
