"""The report as Markdown: what an issue needs, and no name of a session is markup in it."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from inductor_debug_jupyter.pipeline.reports.collect import collect
from inductor_debug_jupyter.pipeline.reports.generator import report_text
from inductor_debug_jupyter.pipeline.reports.markdown_report import LONGEST, fenced
from inductor_debug_jupyter.pipeline.store import ArtifactStore

from .conftest import EVIL, hostile_session, plain_session


def test_it_has_what_an_issue_needs(store: ArtifactStore) -> None:
    store.save_session(hostile_session())
    data = collect(store)
    text = report_text(replace(data, trials=({"title": "batch 8", "summary": "1 gone"},), patch="-a\n+b"), "md")
    for part in ("| rule |", "no float64", "### Graph breaks", "### Recompiles", "### Bisect", "torch 2.13.0"):
        assert part in text
    assert "### What if: batch 8\n\n1 gone" in text
    assert "### Fix-its\n\n```diff\n-a\n+b\n```" in text


@pytest.mark.parametrize("evil", [EVIL, "[x](javascript:1)", "```\n# head", "a\0b\x1b[31m\u202egnp", "x" * 1_000_000])
def test_names_stay_text(store: ArtifactStore, evil: str) -> None:
    session = replace(hostile_session(), name=evil, graph_breaks=(), notes=())
    store.save_session(replace(session, findings=(replace(session.findings[0], title=evil),)))
    text = report_text(collect(store), "md")
    assert not re.search(r"(?<!\\)<img", text)
    assert not re.search(r"(?<!\\)\]\(javascript", text)
    assert not [line for line in text.splitlines() if line.startswith("# ")]
    assert all(char.isprintable() or char == "\n" for char in text)
    assert len(text) < LONGEST


def test_a_session_with_little_has_no_empty_parts(store: ArtifactStore) -> None:
    store.save_session(plain_session("one"))
    text = report_text(collect(store), "md")
    assert "###" not in text
    assert text.startswith("## MLP")


def test_a_fence_is_longer_than_any_in_it() -> None:
    assert fenced("a ```` b") == "`````\na ```` b\n`````"
