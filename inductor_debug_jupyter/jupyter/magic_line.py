"""Find ``%%inductor_debug`` in a cell, and comment it out so that the cell runs as it is.

The magic is not a cell magic in IPython's sense: running a cell from inside a magic loses top-level ``await``, the last
expression's value and the right line numbers. Instead an input transformer turns the magic's line into a comment, so
that IPython runs the rest of the cell itself, and events around the cell do our work.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Mapping
from typing import Any

from IPython.core.error import UsageError

from inductor_debug_jupyter.pipeline.adapters.lookup import check_candidate
from inductor_debug_jupyter.pipeline.adapters.stick.faults import faults_of
from inductor_debug_jupyter.pipeline.capture.sources import magic_as_comment
from inductor_debug_jupyter.pipeline.devices import load_profile
from inductor_debug_jupyter.pipeline.devices.dtypes import dtype_name
from inductor_debug_jupyter.pipeline.errors import InductorDebugError, OptionError
from inductor_debug_jupyter.pipeline.options import check_needs, parse_magic_line
from inductor_debug_jupyter.pipeline.settings import Settings, resolve

NAME = "inductor_debug"
_ORIGIN = re.compile(r"^call \((--[\w-]+)\)")
"""How settings call a value's origin; on a line the option alone says it."""
_MAGIC = re.compile(rf"^%%{NAME}(?![\w?])(?P<options>.*)$")


def options_of_cell(cell: str) -> str | None:
    """The text behind ``%%inductor_debug`` in a cell, or None. Other cell magics may stand above it (``%%time``)."""
    for line in cell.splitlines():
        if match := _MAGIC.match(line.rstrip()):
            return match["options"].strip()
        if line.strip() and not line.startswith("%%"):
            return None
    return None


def read_options(text: str) -> Settings:
    """The settings of a magic's line, all of them checked.

    Raises:
        UsageError: IPython's own, which it shows as one line; the cell does not run.
    """
    try:
        given = parse_magic_line(text)
        settings = resolve(given)
        for name in settings["dtypes"] or ():
            dtype_name(name, "--dtypes")
        load_profile(settings["target"]).with_settings(settings)
        for option in given.keys() & {"diff", "candidate"}:
            check_candidate(given[option], f"--{option}", imports=False)
        check_needs(given, settings.__getitem__)
        if given.get("localize") and settings["candidate"] == "eager":
            raise OptionError(
                "--localize: --candidate eager runs nothing compiled; allowed: what compiles, as inductor"
            )
        faults_of(given.get("faults", ()))
    except InductorDebugError as error:
        told = _ORIGIN.sub(r"\1", str(error))
        raise UsageError(f"%%{NAME}: {told}") from None
    return settings


def asks_for_text(options: str) -> bool:
    """Whether a magic's line asks for help or for a rule's explanation, and for nothing to be run."""
    return any(word in ("--help", "-h") or word.partition("=")[0] == "--explain" for word in options.split())


def check_in_kernel(settings: Settings, variables: Mapping[str, Any], code: str) -> None:
    """Check what needs the kernel and may run foreign code: the candidate's module, and the variable of ``--model``.

    It is called once, before the cell runs.

    Args:
        settings: those of the line.
        variables: the user's.
        code: that of the cell, which may make the variable.

    Raises:
        UsageError: IPython's own.
    """
    try:
        if settings["diff"]:
            check_candidate(settings["candidate"], "--candidate", imports=not settings["isolate"])
        if settings["model"]:
            _check_model(settings["model"], variables, code)
    except InductorDebugError as error:
        raise UsageError(f"%%{NAME}: {error}") from None


def _check_model(name: str, variables: Mapping[str, Any], code: str) -> None:
    if _may_bind(code, name):
        return  # what is called is known when the cell has run
    if name not in variables:
        callables = [each for each, value in variables.items() if callable(value) and not each.startswith("_")]
        near = difflib.get_close_matches(name, callables, n=1, cutoff=0.6)
        raise OptionError(f"--model: there is no variable {name!r}{f'; did you mean {near[0]}?' if near else ''}")
    if not callable(variables[name]):
        kind = type(variables[name]).__name__
        raise OptionError(f"--model: {name} is of type {kind} and cannot be called; allowed: a model or a function")


def _may_bind(code: str, name: str) -> bool:
    """Whether a cell assigns, defines or imports that name; a cell that cannot be read may do anything."""
    lines = [line for line in code.splitlines() if not line.lstrip().startswith(("%", "!"))]
    try:
        tree = ast.parse("\n".join(lines))
    except (SyntaxError, ValueError):
        return True
    bound = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.alias):
            bound |= {node.asname or node.name.partition(".")[0]}
    return name in bound or "*" in bound


def strip_magic_line(lines: list[str]) -> list[str]:
    """IPython's input transformer: check the options, and comment the magic out so that lines keep their numbers.

    IPython calls it several times for one cell, also while the user types: it must have no side effects.
    """
    if not lines or not (match := _MAGIC.match(lines[0].rstrip("\n"))):
        return lines
    options = match["options"].strip()
    if asks_for_text(options):
        return [f"get_ipython().run_line_magic({NAME!r}, {options!r})\n"]
    read_options(options)
    if len(lines) > 1 and _MAGIC.match(lines[1].rstrip("\n")):
        raise UsageError(f"%%{NAME}: it stands twice on top of this cell; give all options in one line")
    if len(lines) > 1 and lines[1].startswith("%%"):
        return lines[1:]  # another cell magic must come first to be seen
    return [magic_as_comment(lines[0]), *lines[1:]]
