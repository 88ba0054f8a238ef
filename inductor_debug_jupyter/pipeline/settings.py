"""Where each value comes from: call > environment > config file > default.

The config file is ``inductor_debug.toml`` or ``[tool.inductor_debug]`` in ``pyproject.toml``, looked for in the working
folder and its parents; the nearest one wins. Every value remembers its origin, so that an error (and ``inductor-debug
config``) can name it.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.options import OPTIONS


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

    def is_default(self, name: str) -> bool:
        """Whether nobody said anything about this option."""
        return self.values[name].origin == "default"


def resolve(
    given: Mapping[str, Any] | None = None,
    *,
    defaults: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    folder: Path | None = None,
    names: Iterable[str] | None = None,
) -> Settings:
    """The value of every option, or of the named ones: what is not asked for is not checked either.

    Args:
        given: what the caller said; None means "not said".
        defaults: defaults that differ from the declared ones (``mock_backend`` is strict by default).
        environ: the environment; the process's own by default.
        folder: where to look for a config file; the working folder by default.
        names: the options that are wanted; all by default.

    Raises:
        OptionError: a variable or a config file has a bad value; the message names it.
    """
    environment = os.environ if environ is None else environ
    wanted = set(OPTIONS if names is None else names)
    from_file = _read_config(_find_config(folder or Path.cwd()), wanted)
    values: dict[str, Setting] = {}
    for name in (name for name in OPTIONS if name in wanted):
        option = OPTIONS[name]
        if (said := (given or {}).get(name)) is not None:
            values[name] = Setting(said, f"call ({option.flag})")
        elif option.environment and (text := environment.get(option.environment)):
            values[name] = Setting(option.read(text, option.environment), option.environment)
        elif name in from_file:
            values[name] = from_file[name]
        else:
            values[name] = Setting((defaults or {}).get(name, option.default), "default")
    return Settings(values)


def _find_config(folder: Path) -> Path | None:
    for place in (folder, *folder.parents):
        own = place / "inductor_debug.toml"
        if own.is_file():
            return own
        project = place / "pyproject.toml"
        if project.is_file() and "[tool.inductor_debug]" in project.read_text(encoding="utf-8", errors="replace"):
            return project
    return None


def _read_config(path: Path | None, wanted: set[str]) -> dict[str, Setting]:
    if path is None:
        return {}
    try:
        text = path.read_text(encoding="utf-8")
        table: Any = tomllib.loads(text)
    except OSError as error:
        raise OptionError(f"{path}: cannot be read ({error.strerror})") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: not valid TOML ({error})") from None
    if path.name == "pyproject.toml":
        table = table.get("tool", {}).get("inductor_debug", {})
    settings: dict[str, Setting] = {}
    for key, value in table.items():
        name = key.replace("-", "_")
        origin = f"{path}, line {_line_of(text, key)}"
        if name not in OPTIONS:
            raise OptionError(f"{origin}: unknown setting {key!r}; allowed: {', '.join(sorted(OPTIONS))}")
        if name in wanted:
            settings[name] = Setting(OPTIONS[name].read(_as_text(value), origin), origin)
    return settings


def _as_text(value: Any) -> str:
    if isinstance(value, bool):
        return "1" if value else "0"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return str(value)


def _line_of(text: str, key: str) -> int:
    pattern = re.compile(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=")
    return next((number for number, line in enumerate(text.splitlines(), 1) if pattern.match(line)), 1)
