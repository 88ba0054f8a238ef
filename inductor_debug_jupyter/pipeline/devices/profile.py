"""A device, as data.

A profile is a TOML file; every table is optional, and what it does not mention is not restricted::

    name = "my-chip"
    description = "one line for people"

    [dtypes]
    supported = ["float16", "float32", "int32", "bool"]

    [ops]
    deny = ["aten.convolution"]        # "default" stands for the documented default list

    [alignment]
    multiple = 64                      # elements
    dims = "innermost"                 # or "feature" (all but batch dimensions), or "all"
    unit = "stick"                     # what the hardware calls one multiple

    [layout]
    contiguous = true
    severity = "warning"               # or "error"

    [memory]
    limit = "16GiB"                    # each tensor, and the peak
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any, cast

from inductor_debug_jupyter.pipeline.devices.ops import DEFAULT_DENY
from inductor_debug_jupyter.pipeline.devices.rules import dtype_name
from inductor_debug_jupyter.pipeline.devices.shapes import DIMS
from inductor_debug_jupyter.pipeline.errors import InductorDebugError, ProfileError
from inductor_debug_jupyter.pipeline.options import parse_size
from inductor_debug_jupyter.pipeline.records import Severity
from inductor_debug_jupyter.pipeline.settings import Settings


@dataclass(frozen=True)
class DeviceProfile:
    """What a device accepts. None means "not restricted"."""

    name: str
    description: str = ""
    dtypes: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    alignment: int = 1
    alignment_dims: str = "feature"
    alignment_unit: str = ""
    layout: Severity | None = None
    memory_limit: int | None = None

    def with_settings(self, settings: Settings) -> DeviceProfile:
        """This profile, with what the user set beside it (``--alignment``, ``MOCK_MAX_MEMORY``, …) taking over."""
        changes: dict[str, Any] = {}
        if settings["alignment"] is not None:
            changes["alignment"] = settings["alignment"]
        if settings["max_memory"] is not None:
            changes["memory_limit"] = settings["max_memory"]
        if settings["dtypes"] is not None:
            changes["dtypes"] = tuple(dtype_name(name) for name in settings["dtypes"])
        if settings["deny"] is not None:
            changes["deny"] = (*self.deny, *settings["deny"])
        return replace(self, **changes)


def profile_names() -> tuple[str, ...]:
    """The built-in profiles."""
    folder = resources.files(__package__) / "profiles"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_profile(target: str) -> DeviceProfile:
    """The built-in profile of that name, or the one in that TOML file.

    Raises:
        ProfileError: there is none, or it is malformed; the message names file and line.
    """
    if target in profile_names():
        text = (resources.files(__package__) / "profiles" / f"{target}.toml").read_text(encoding="utf-8")
        return _parse(text, f"{target}.toml")
    path = Path(target).expanduser()
    if path.suffix == ".toml" or path.is_file():
        try:
            return _parse(path.read_text(encoding="utf-8"), str(path))
        except OSError as error:
            raise ProfileError(f"target {target!r}: the file cannot be read ({error.strerror})") from None
        except UnicodeDecodeError:
            raise ProfileError(f"target {target!r}: the file is not UTF-8 text") from None
    near = difflib.get_close_matches(target, profile_names(), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ProfileError(f"unknown target {target!r}; allowed: {', '.join(profile_names())}, or a .toml file{hint}")


_KEYS: dict[str, set[str]] = {
    "": {"name", "description"},
    "dtypes": {"supported"},
    "ops": {"deny"},
    "alignment": {"multiple", "dims", "unit"},
    "layout": {"contiguous", "severity"},
    "memory": {"limit"},
}


class _Reader:
    """One TOML text with the means to name the line of a key."""

    def __init__(self, text: str, file: str) -> None:
        self.lines = text.splitlines()
        self.file = file
        try:
            self.tables: dict[str, Any] = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ProfileError(f"{file}: not valid TOML ({error})") from None

    def fail(self, table: str, key: str, message: str) -> ProfileError:
        return ProfileError(f"{self.file}, line {self._line(table, key)}: {message}")

    def _line(self, table: str, key: str) -> int:
        current, found = "", 1
        for number, line in enumerate(self.lines, 1):
            if header := re.match(r"\s*\[([\w-]+)\]", line):
                current = header[1]
                if key == "" and current == table:
                    return number
            elif current == table and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*=", line):
                return number
            elif current == "" and re.match(rf"\s*{re.escape(table)}\.{re.escape(key)}\s*=", line):
                found = number
        return found

    def take(self, table: str, key: str, kind: type, default: Any, parse: Callable[[Any], Any] | None = None) -> Any:
        """One value, checked; ``parse`` may refuse it with a sentence."""
        values = self.tables.get(table, {}) if table else self.tables
        if key not in values:
            return default
        value = values[key]
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise self.fail(table, key, f"{key} is {value!r}; allowed: a {_KINDS[kind]}")
        if parse is None:
            return value
        try:
            return parse(value)
        except (ValueError, InductorDebugError) as error:
            raise self.fail(table, key, f"{key} is {value!r}; {error}") from None

    def check_keys(self) -> None:
        """Refuse tables and keys that mean nothing."""
        for name, value in self.tables.items():
            if isinstance(value, dict):
                if name not in _KEYS:
                    raise self.fail(name, "", f"unknown table [{name}]; allowed: {', '.join(k for k in _KEYS if k)}")
                for key in value:
                    if key not in _KEYS[name]:
                        raise self.fail(name, key, f"unknown key {key!r}; allowed: {', '.join(sorted(_KEYS[name]))}")
            elif name not in _KEYS[""]:
                raise self.fail("", name, f"unknown key {name!r}; allowed: name, description and the tables")


_KINDS = {str: "text", int: "whole number", bool: "true or false", list: "list of texts", (str, int): "size"}


def _one_of(allowed: tuple[str, ...]) -> Callable[[str], str]:
    def parse(value: str) -> str:
        if value not in allowed:
            raise ValueError(f"allowed: {', '.join(allowed)}")
        return value

    return parse


def _multiple(value: int) -> int:
    if value < 1:
        raise ValueError("allowed: a whole number from 1 up")
    return value


def _deny(names: list[Any]) -> tuple[str, ...]:
    if not all(isinstance(name, str) for name in names):
        raise ValueError("allowed: a list of texts")
    return tuple(denied for name in names for denied in (DEFAULT_DENY if name == "default" else (name,)))


def _parse(text: str, file: str) -> DeviceProfile:
    reader = _Reader(text, file)
    reader.check_keys()
    contiguous = reader.take("layout", "contiguous", bool, False)
    severity = reader.take("layout", "severity", str, "error", _one_of(("error", "warning", "info")))
    return DeviceProfile(
        name=reader.take("", "name", str, Path(file).stem),
        description=reader.take("", "description", str, ""),
        dtypes=reader.take("dtypes", "supported", list, None, lambda names: tuple(map(dtype_name, names))),
        deny=reader.take("ops", "deny", list, (), _deny),
        alignment=reader.take("alignment", "multiple", int, 1, _multiple),
        alignment_dims=reader.take("alignment", "dims", str, "feature", _one_of(DIMS)),
        alignment_unit=reader.take("alignment", "unit", str, ""),
        layout=cast("Severity", severity) if contiguous else None,
        memory_limit=reader.take("memory", "limit", str, None, parse_size),
    )
