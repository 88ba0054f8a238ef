"""TOML text → the values of a :class:`DeviceProfile`, every one of them checked.

:data:`_TABLES` is the whole schema: table → key → how to read its value. A reader raises ValueError with what is
allowed; the file and the line of the key are added here.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from inductor_debug_jupyter.pipeline.devices.alignment import DIMS, OPERANDS, AlignmentRule
from inductor_debug_jupyter.pipeline.devices.dtypes import dtype_name
from inductor_debug_jupyter.pipeline.devices.layouts import FORMATS, LayoutRule
from inductor_debug_jupyter.pipeline.devices.ops import DEFAULT_DENY, unknown_op
from inductor_debug_jupyter.pipeline.errors import InductorDebugError, ProfileError
from inductor_debug_jupyter.pipeline.harmless import quoted
from inductor_debug_jupyter.pipeline.options import parse_size
from inductor_debug_jupyter.pipeline.reading import MalformedError, parsed_toml
from inductor_debug_jupyter.pipeline.words import SEVERITIES

Read = Callable[[Any], Any]


def _kind(kind: type, called: str) -> Read:
    def read(value: Any) -> Any:
        if not isinstance(value, kind):
            raise ValueError(f"allowed: a {called}")  # noqa: TRY004 - the file and the line are added to it
        return value

    return read


_text = _kind(str, "text")
_switch = _kind(bool, "true or false")


def _positive(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError("allowed: a whole number from 1 up")
    return value


def _seconds(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < float("inf"):
        raise ValueError("allowed: seconds from 0 up, such as 10e-6")
    return float(value)


def _size(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError("allowed: bytes from 1 up, such as 4096, 512KiB, 1GiB or 2GB")  # noqa: TRY004
    return parse_size(str(value))


def _one_of(*allowed: str) -> Read:
    def read(value: Any) -> Any:
        if value not in allowed:
            raise ValueError(f"allowed: {', '.join(allowed)}{_near(value, allowed)}")
        return value

    return read


def _list(read: Read) -> Read:
    def read_all(value: Any) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise ValueError("allowed: a list of texts")  # noqa: TRY004
        return tuple(read(each) for each in value)

    return read_all


def _mapping(read_key: Read, read_value: Read) -> Read:
    def read(value: Any) -> dict[Any, Any]:
        if not isinstance(value, dict):
            raise ValueError('allowed: a table, such as { "aten.mm" = [...] }')  # noqa: TRY004
        return {read_key(key): read_value(each) for key, each in value.items()}

    return read


def _op(value: Any) -> str:
    """An op's name, or a group's."""
    name: str = _text(value)
    if not re.fullmatch(r"@?[\w.:]+", name):
        raise ValueError("allowed: names of ops, such as aten.convolution, conv2d or @matmul")
    return name


def _deny(value: Any) -> tuple[str, ...]:
    names = _list(_op)(value)
    return tuple(denied for name in names for denied in (DEFAULT_DENY if name == "default" else (name,)))


def _tile(value: Any) -> tuple[int, ...]:
    sizes = tuple(_positive(each) for each in value) if isinstance(value, list) else ()
    if len(sizes) not in {1, 2}:
        raise ValueError("allowed: columns, or rows and columns, such as [8, 128]")
    return sizes


_SEVERITY = _one_of(*SEVERITIES)
_ALIGNMENT: dict[str, Read] = {
    "multiple": _positive,
    "bytes": _positive,
    "dims": _one_of(*DIMS),
    "ops": _list(_op),
    "not_ops": _list(_op),
    "operands": _list(_one_of(*OPERANDS)),
    "dtypes": _list(dtype_name),
    "unit": _text,
    "severity": _SEVERITY,
}
_LAYOUT: dict[str, Read] = {
    "contiguous": _switch,
    "format": _one_of(*FORMATS),
    "tile": _tile,
    "ops": _list(_op),
    "severity": _SEVERITY,
}
FORMATS_OF_PRODUCTS = ("float32", "tf32", "float16", "bfloat16", "float8_e4m3fn", "int8")
_TABLES: dict[str, dict[str, Read]] = {
    "": {"name": _text, "description": _text},
    "dtypes": {"supported": _list(dtype_name), "ops": _mapping(_op, _list(dtype_name))},
    "numerics": {
        "format": _text,
        "accumulate": dtype_name,
        "narrow": _mapping(dtype_name, dtype_name),
        "products": _one_of(*FORMATS_OF_PRODUCTS),
        "precise": _list(_text),
    },
    "ops": {
        "deny": _deny,
        "allow": _list(_op),
        "decompose": _mapping(_op, _list(_op)),
        "fallback": _one_of("cpu", "none"),
    },
    "alignment": _ALIGNMENT,
    "layout": _LAYOUT,
    "memory": {"limit": _size, "tensor": _size, "peak": _size, "scratchpad": _size},
    "transfer": {"bandwidth": _size, "latency": _seconds},
}
_FIELDS = {
    ("dtypes", "supported"): "dtypes",
    ("dtypes", "ops"): "op_dtypes",
    ("numerics", "format"): "number_format",
    ("memory", "limit"): "memory_limit",
    ("memory", "tensor"): "tensor_limit",
    ("memory", "peak"): "peak_limit",
}
"""Table and key → the field of :class:`DeviceProfile`, where it is not called like the key."""
_OPS = {
    ("dtypes", "ops"),
    ("ops", "deny"),
    ("ops", "allow"),
    ("ops", "decompose"),
    ("alignment", "ops"),
    ("alignment", "not_ops"),
    ("layout", "ops"),
}
"""Tables and keys that name ops."""


def read_profile(data: bytes, file: str, *, built_in: bool = False) -> dict[str, Any]:
    """The values of a profile, by the names of the fields of :class:`DeviceProfile`.

    Args:
        data: the TOML.
        file: what to call it in an error.
        built_in: whether it is one of our own, whose ops a test holds against torch's; torch is not needed then.

    Raises:
        ProfileError: the text is not TOML, not a profile, or names an op that torch does not have.
    """
    reader = _Reader(data, file, built_in)
    plain = [table for table in _TABLES if table not in {"alignment", "layout"}]
    values = {_FIELDS.get((table, key), key): value for table in plain for key, value in reader.table(table).items()}
    rules = {"alignments": reader.rules("alignment", _alignment), "layouts": reader.rules("layout", _layout)}
    return {"name": Path(file).stem, **values, **rules}


def _alignment(values: dict[str, Any]) -> AlignmentRule | None:
    if "multiple" in values and "bytes" in values:
        raise ValueError("multiple and bytes are both there; allowed: one of them")
    if "multiple" not in values and "bytes" not in values:
        raise ValueError("neither multiple nor bytes is there; allowed: one of them")
    return AlignmentRule(**values) if values.get("multiple") != 1 else None


def _layout(values: dict[str, Any]) -> LayoutRule | None:
    if values.pop("contiguous", None) is False:
        return None
    if (values.get("format") == "tile") != ("tile" in values):
        raise ValueError('tile = [rows, columns] and format = "tile" are only there together')
    return LayoutRule(**values)


class _Reader:
    """One TOML text with the means to name the line of a key."""

    def __init__(self, data: bytes, file: str, built_in: bool) -> None:
        self._built_in = built_in
        self.file = file
        try:
            self.values: dict[str, Any] = parsed_toml(data)
        except MalformedError as error:
            raise ProfileError(f"{file}: not valid TOML ({error})") from None
        self.lines = data.decode("utf-8").splitlines()
        self._check_tables()

    def table(self, name: str) -> dict[str, Any]:
        """The values of one table, checked."""
        given = self.values.get(name, {}) if name else {k: v for k, v in self.values.items() if k in _TABLES[""]}
        if not isinstance(given, dict):
            raise self._fail(name, "", f"{name} is {quoted(given)}; allowed: a table [{name}]")
        return self._read(name, given, 0)

    def rules(self, name: str, make: Callable[[dict[str, Any]], Any]) -> tuple[Any, ...]:
        """The rules of a table that may be there several times."""
        given = self.values.get(name, [])
        tables = [given] if isinstance(given, dict) else given
        if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
            raise self._fail(name, "", f"{name} is {quoted(given)}; allowed: a table [{name}] or several [[{name}]]")
        made = []
        for index, table in enumerate(tables):
            values = self._read(name, table, index)
            try:
                made.append(make(values))
            except ValueError as error:
                raise self._fail(name, "", f"[{name}]: {error}", index) from None
        return tuple(rule for rule in made if rule is not None)

    def _read(self, table: str, given: Mapping[str, Any], index: int) -> dict[str, Any]:
        known = _TABLES[table]
        values: dict[str, Any] = {}
        for key, value in given.items():
            if key not in known:
                allowed = ", ".join(sorted(known))
                message = f"unknown key {quoted(key)}; allowed: {allowed}{_near(key, known)}"
                raise self._fail(table, key, message, index)
            try:
                values[key] = known[key](value)
            except (ValueError, InductorDebugError) as error:
                raise self._fail(table, key, f"{key} is {quoted(value)}; {error}", index) from None
            if (table, key) in _OPS and not self._built_in:
                self._check_ops(table, key, value, index)
        return values

    def _check_ops(self, table: str, key: str, value: Any, index: int) -> None:
        """Whether torch has the ops that a key names, also those that they are made of."""
        names = [*value]
        if key == "decompose":
            names += [part for parts in value.values() for part in parts]
        for name in names:
            problem = None if (key, name) == ("deny", "default") else unknown_op(name)
            if problem is not None:
                raise self._fail(table, key, f"{key} is {quoted(value)}; {problem}", index)

    def _check_tables(self) -> None:
        for name, value in self.values.items():
            if name in _TABLES or name in _TABLES[""]:
                continue
            tables = [table for table in _TABLES if table]
            if isinstance(value, (dict, list)):
                message = f"unknown table [{quoted(name)[1:-1]}]; allowed: {', '.join(tables)}{_near(name, tables)}"
                raise self._fail(name, "", message)
            allowed = [*_TABLES[""], *tables]
            message = f"unknown key {quoted(name)}; allowed: name, description and the tables{_near(name, allowed)}"
            raise self._fail("", name, message)

    def _fail(self, table: str, key: str, message: str, index: int = 0) -> ProfileError:
        return ProfileError(f"{self.file}, line {self._line(table, key, index)}: {message}")

    def _line(self, table: str, key: str, index: int) -> int:
        """The line of a key in the ``index``-th table of that name; of the table itself when there is no key."""
        current, seen, found = "", -1, 1
        for number, line in enumerate(self.lines, 1):
            if header := re.match(r"\s*\[+\s*([\w-]+)(?:\.([\w-]+))?", line):
                current, inner = header.groups()
                if (current, inner) == (table, key):
                    return number
                seen += (current, inner) == (table, None)
                found = number if current == table and seen <= index else found
            elif current == table and (seen == index or not table) and _sets(line, key):
                return number
            elif not current and table and _sets(line, table):  # table = {key = …}, or table.key = …
                found = number
        return found


def _sets(line: str, key: str) -> bool:
    return bool(key) and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line) is not None


def _near(word: Any, allowed: Any) -> str:
    near = difflib.get_close_matches(str(word), list(allowed), n=1)
    return f"; did you mean {near[0]}?" if near else ""
