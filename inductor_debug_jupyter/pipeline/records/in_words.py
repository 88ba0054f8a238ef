"""The text by which a record is shown in place of its fields.

A graph's record alone has megabytes of fields, so a notebook shows a text instead. Texts of more than a line are
written in ``views``, above this room: a view registers its function with :func:`written_by`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from inductor_debug_jupyter.pipeline.harmless import Harmless, plain_lines

Words = Callable[[Any], str]
_writers: dict[type, Words] = {}


def written_by(kind: type, writer: Words) -> None:
    """Register the function that gives the ``str`` of such a record."""
    _writers[kind] = writer


class InWords(Harmless):
    """Shown in a notebook as ``print`` shows it; ``repr`` has every field."""

    __slots__ = ()

    def __init_subclass__(cls) -> None:
        # IPython looks class by class, and a dataclass has a repr of its own: it must find this one in the same class.
        cls._repr_pretty_ = InWords._repr_pretty_  # type: ignore[method-assign]
        super().__init_subclass__()

    def __str__(self) -> str:
        writer = _writers.get(type(self))
        return plain_lines(writer(self)) if writer is not None else repr(self)

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(str(self))
