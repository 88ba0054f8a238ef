"""The panel's JavaScript and CSS as two texts: what anywidget takes, and what a page that works without Python takes.

The modules of ``static/panel`` import each other, so that editors, ``tsc`` and node understand them; a notebook takes
one module that stands alone. :func:`linked` joins them: each becomes a function of its own, in the order of imports,
and hands on what it exports. Only the forms below are allowed; nothing is read from the network.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

ENTRY = "panel.js"
OFFLINE = "offline.js"
"""The module that shows panels in a page, with saved data in Python's place."""
_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "\./([\w/]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)
_DEFAULT = re.compile(r"^export default (\w+);\n", re.MULTILINE)
_COMMENT = re.compile(r"/\*\*[\s\S]*?\*/[ \t]*\n?|^[ \t]*//.*\n", re.MULTILINE)
_LEFT_OVER = re.compile(r"^\s*(?:import|export)\b.*|\bimport\(.*", re.MULTILINE)


class LinkError(Exception):
    """The modules cannot be joined: a mistake in this package, found by its tests."""


@cache
def esm(entry: str = ENTRY) -> str:
    """The panel's module, or another one that begins elsewhere."""
    return linked(_texts(".js"), entry)


@cache
def css() -> str:
    """The panel's style sheet: the shared one first, since the panes' say more."""
    sheets = _texts(".css")
    return "\n".join(sheets[name] for name in sorted(sheets, key=lambda name: (name != "shared.css", name)))


def _texts(ending: str) -> dict[str, str]:
    folder = files("inductor_debug_jupyter") / "jupyter" / "static" / "panel"  # read as data: Jupyter is not imported
    return {each.name: each.read_text(encoding="utf-8") for each in folder.iterdir() if each.name.endswith(ending)}


def linked(modules: Mapping[str, str], entry: str) -> str:
    """One module that stands alone, from ``entry`` and all that it imports.

    Raises:
        LinkError: an import or export in another form, an unknown module or name, or modules that import each other.
    """
    exported: dict[str, list[str]] = {}
    texts: list[str] = []

    def add(name: str, importers: tuple[str, ...]) -> None:
        if name in importers:
            raise LinkError(f"{' → '.join((*importers, name))}: these modules import each other")
        if name not in modules:
            raise LinkError(f"{importers[-1]} imports {name}, which is not there")
        if name in exported:
            return
        text = _COMMENT.sub("", modules[name])  # every panel takes this text along
        for names, other in _IMPORT.findall(text):
            add(other, (*importers, name))
            if unknown := {each.strip() for each in names.split(",")} - set(exported[other]):
                raise LinkError(f"{name} imports {', '.join(sorted(unknown))}, which {other} does not export")
        exported[name] = _EXPORT.findall(text)
        texts.append(_as_function(name, text, exported[name]))

    add(entry, ())
    return "\n".join(texts)


def _as_function(name: str, text: str, exported: list[str]) -> str:
    """A module as a function that is called once and hands on what it exports."""
    body = _IMPORT.sub(lambda found: f"const {{ {found[1]} }} = {_variable(found[2])};\n", text)
    body = _EXPORT.sub("", body)
    default = _DEFAULT.search(body)
    tail = f"export default {_variable(name)}.{default[1]};\n" if default else ""
    handed_on = ", ".join([*exported, *([default[1]] if default else [])])
    body = _DEFAULT.sub("", body)
    if left := _LEFT_OVER.search(body):
        raise LinkError(f"{name}: {left[0].strip()!r} is not a form that can be joined")
    return f"const {_variable(name)} = (() => {{\n{body}\nreturn {{ {handed_on} }};\n}})();\n{tail}"


def _variable(name: str) -> str:
    return "$" + name.removesuffix(".js").replace("/", "_")
