"""The page of a rule as the panel shows it: blocks of text, so that no markup goes to the browser.

A block is a heading, a paragraph, an item of a list, or code; its lines are lists of ``[class, text]`` pieces, as those
of the Code tab. Of Markdown only what the shipped pages use is known: ``#``, ``-``, fences, backquotes and asterisks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from inductor_debug_jupyter.pipeline.documentation import Page
from inductor_debug_jupyter.pipeline.views.code import highlighted
from inductor_debug_jupyter.pipeline.views.view_types import Row

_BLOCK = re.compile(
    r"^```(?P<language>\w*)\n(?P<code>[\s\S]*?)\n```$|^#+ (?P<heading>.*)$|^- (?P<item>.*(?:\n  .*)*)"
    r"|^(?P<text>\S.*(?:\n(?!```|#|- ).+)*)",
    re.MULTILINE,
)
_PIECE = re.compile(r"`([^`]+)`|\*+([^*]+)\*+")


def page_view(page: Page) -> Row:
    """Name, title and blocks of a page."""
    return Row(name=page.name, title=page.title, blocks=list(_blocks(page.text.partition("\n")[2])))


def _blocks(text: str) -> Iterator[Row]:
    for found in _BLOCK.finditer(text):
        if (code := found["code"]) is not None:
            yield Row(
                kind="code", lines=[[list(piece) for piece in line] for line in highlighted(code, found["language"])]
            )
        else:
            kind = next(kind for kind in ("heading", "item", "text") if found[kind] is not None)
            yield Row(kind=kind, lines=[list(_pieces(" ".join(found[kind].split())))])


def _pieces(text: str) -> Iterator[list[str]]:
    at = 0
    for found in _PIECE.finditer(text):
        if plain := text[at : found.start()]:
            yield ["", plain]
        yield ["code", found[1]] if found[1] else ["emphasis", found[2]]
        at = found.end()
    if at < len(text):
        yield ["", text[at:]]
