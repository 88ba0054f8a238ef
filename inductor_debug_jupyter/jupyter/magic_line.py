"""Find ``%%inductor_debug`` in a cell, and comment it out so that the cell runs as it is.

The magic is not a cell magic in IPython's sense: running a cell from inside a magic loses top-level ``await``, the last
expression's value and the right line numbers. Instead an input transformer turns the magic's line into a comment, so
that IPython runs the rest of the cell itself, and events around the cell do our work.
"""

from __future__ import annotations

import re

from IPython.core.error import UsageError

from inductor_debug_jupyter.pipeline.adapters.lookup import check_name
from inductor_debug_jupyter.pipeline.capture.sources import magic_as_comment
from inductor_debug_jupyter.pipeline.devices import load_profile
from inductor_debug_jupyter.pipeline.devices.dtypes import dtype_name
from inductor_debug_jupyter.pipeline.errors import InductorDebugError, OptionError
from inductor_debug_jupyter.pipeline.options import parse_magic_line
from inductor_debug_jupyter.pipeline.settings import Settings, resolve

NAME = "inductor_debug"
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
        load_profile(settings["target"]).with_settings(settings)
        for name in settings["dtypes"] or ():
            dtype_name(name)
        for option in given.keys() & {"diff", "candidate"}:
            if ":" not in given[option]:
                check_name(given[option], f"--{option}", also=("eager",))
        if "memory_limit" in given and not settings["isolate"]:
            raise OptionError("--memory-limit limits a process of its own: give --isolate as well")
        if given.get("localize"):
            _check_localize(settings)
    except InductorDebugError as error:
        raise UsageError(f"%%{NAME}: {error}") from None
    return settings


def _check_localize(settings: Settings) -> None:
    if not settings["diff"]:
        raise OptionError("--localize searches what a comparison found wrong: give --diff as well")
    if settings["candidate"] == "eager":
        raise OptionError("--localize: --candidate eager runs nothing compiled; allowed: what compiles, as inductor")


def strip_magic_line(lines: list[str]) -> list[str]:
    """IPython's input transformer: check the options, and comment the magic out so that lines keep their numbers.

    IPython calls it several times for one cell, also while the user types: it must have no side effects.
    """
    if not lines or not (match := _MAGIC.match(lines[0].rstrip("\n"))):
        return lines
    read_options(match["options"].strip())
    if len(lines) > 1 and _MAGIC.match(lines[1].rstrip("\n")):
        raise UsageError(f"%%{NAME}: it stands twice on top of this cell; give all options in one line")
    if len(lines) > 1 and lines[1].startswith("%%"):
        return lines[1:]  # another cell magic must come first to be seen
    return [magic_as_comment(lines[0]), *lines[1:]]
