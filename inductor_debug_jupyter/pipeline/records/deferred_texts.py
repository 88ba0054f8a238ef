"""Texts that are rendered when they are first read.

Rendering what a compile made (IR above all) costs more than capturing it. While a session is alive its texts may
therefore be *handles*: functions that render. The first read calls the handle and keeps its result; saving reads
everything, so a saved record is plain text. A handle may also render a little at a time: ``pieces()`` has one piece
after the other, ``joined(pieces)`` makes the whole of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol

Handle = Callable[[], str]


class Rest(Protocol):
    """What the compiler has still to make of a compile."""

    def make(self) -> tuple[Any, tuple[Any, ...]]:
        """Make it now: the whole :class:`CompileCapture`, and notes on what failed."""


class DeferredTexts(Mapping[str, str]):
    """Stage → text, or the function that renders it; ``rest`` makes the stages that are not made yet."""

    __slots__ = ("_texts", "rest")

    def __init__(self, texts: Mapping[str, str | Handle], rest: Rest | None = None) -> None:
        self._texts = dict(texts)
        self.rest = rest

    def __getitem__(self, stage: str) -> str:
        text = self._texts[stage]
        if not isinstance(text, str):
            text = self._texts[stage] = _rendered(stage, text)
        return text

    def steps(self) -> Iterator[None]:
        """Render everything that was not read yet, a little at a time."""
        for stage, text in list(self._texts.items()):
            if hasattr(text, "pieces"):
                yield from self._piece_by_piece(stage, text)
            elif not isinstance(text, str):
                self[stage]
                yield

    def _piece_by_piece(self, stage: str, text: Any) -> Iterator[None]:
        pieces: list[str] = []
        try:
            for piece in text.pieces():
                pieces.append(piece)
                yield
        except Exception:  # reported when the whole is rendered
            pieces = []
        if not isinstance(self._texts[stage], str):
            self._texts[stage] = text.joined(pieces) if pieces else _rendered(stage, text)

    def __contains__(self, stage: object) -> bool:
        return stage in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)

    def __eq__(self, other: object) -> bool:
        return dict(self) == dict(other) if isinstance(other, Mapping) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # like a dict's

    def __repr__(self) -> str:
        late = [stage for stage, text in self._texts.items() if not isinstance(text, str)]
        return f"DeferredTexts({sorted(self._texts)}, not yet rendered: {late})"


def _rendered(stage: str, render: Handle) -> str:
    """The handle's text; one that raises gives a line with the error, and other texts are not affected."""
    try:
        return render()
    except Exception as error:
        return f"# {stage} could not be rendered: {type(error).__name__}: {error}\n"
