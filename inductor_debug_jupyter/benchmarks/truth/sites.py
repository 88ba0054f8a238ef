"""Where the ops of the zoo's models are written: the lines that a fault must be blamed on.

A line says its own ops, ``# site: gelu (erf) <exp>``: in round brackets what it has only behind Inductor's
decompositions, in pointed ones what only its backward has. The models of the ``transformers`` library have no such
comments: there the line is the one that has a given text.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from inductor_debug_jupyter.pipeline.torch_compat.planting import Place

_MARK = "# site:"

Sites = Mapping[str, frozenset[Place]]
"""Op → the lines that have it; an op in brackets (``(erf)``, ``<exp>``) is not there before decompositions."""


def sites_of(*owners: type | Callable[..., Any]) -> dict[str, frozenset[Place]]:
    """The marked lines of classes and functions."""
    found: dict[str, set[Place]] = {}
    for owner in owners:
        lines, first = inspect.getsourcelines(owner)
        name = Path(inspect.getsourcefile(owner) or "").name
        for offset, line in enumerate(lines):
            _, mark, ops = line.partition(_MARK)
            for op in ops.split() if mark else ():
                found.setdefault(op, set()).add((name, first + offset))
    return {op: frozenset(places) for op, places in found.items()}


def lines_with(module: ModuleType, text: str) -> frozenset[Place]:
    """The lines of a module that have a text."""
    path = Path(inspect.getsourcefile(module) or "")
    lines = path.read_text().splitlines()
    return frozenset((path.name, number) for number, line in enumerate(lines, 1) if text in line)
