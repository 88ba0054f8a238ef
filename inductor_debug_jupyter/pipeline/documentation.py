"""The pages that are shipped with the package: one for each rule, one for each topic, as Markdown.

They are files of ``inductor_debug_jupyter/docs/``, so that they can be read offline: in a terminal
(``inductor-debug explain``, ``inductor-debug docs``), in a notebook (``%inductor_debug --explain``) and in the panel.
A page's name is its file's name; its title is its first line.
"""

from __future__ import annotations

import difflib
import functools
from dataclasses import dataclass
from importlib.resources import files

from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.harmless import Harmless

_FOLDERS = ("rules", "topics")


@dataclass(frozen=True, slots=True)
class Page(Harmless):
    """One page: ``name`` (``align.innermost``), ``kind`` (``rules`` or ``topics``), title, and the whole Markdown."""

    name: str
    kind: str
    title: str
    text: str

    def _repr_markdown_(self) -> str:
        return self.text

    def __str__(self) -> str:
        return self.text


@functools.cache
def pages(kind: str) -> dict[str, Page]:
    """Name → page, of all ``rules`` or of all ``topics``, by name."""
    assert kind in _FOLDERS, kind
    found = {}
    for entry in files("inductor_debug_jupyter").joinpath("docs", kind).iterdir():
        if entry.name.endswith(".md"):
            text = entry.read_text(encoding="utf-8")
            name = entry.name.removesuffix(".md")
            found[name] = Page(name, kind, text.partition("\n")[0].lstrip("# ").strip(), text)
    return dict(sorted(found.items()))


def rule_ids() -> tuple[str, ...]:
    """The rules that have a page."""
    return tuple(pages("rules"))


def explain(rule_id: str) -> Page:
    """The page of a rule: what it means, why hardware has it, ways out, an example.

    Raises:
        NotFoundError: there is none; with the nearest names.
    """
    return _page(rule_id, pages("rules"), "no rule")


def documentation(topic: str) -> Page:
    """The page of a topic or of a rule.

    Raises:
        NotFoundError: there is none; with the nearest names.
    """
    return _page(topic, pages("topics") | pages("rules"), "no page")


def _page(name: str, known: dict[str, Page], nothing: str) -> Page:
    wanted = name.strip().lower()
    if wanted in known:
        return known[wanted]
    near = difflib.get_close_matches(wanted, known, n=3, cutoff=0.5)
    near = near or [each for each in known if wanted and wanted in each.split(".")]
    hint = f"did you mean {', '.join(near)}?" if near else f"there are {', '.join(known)}"
    raise NotFoundError(f"{nothing} is called {name!r}; {hint}")
