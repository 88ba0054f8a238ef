"""The page of a rule as blocks: nothing of its text is lost, and no mark of Markdown is left."""

from __future__ import annotations

import re

import pytest

from inductor_debug_jupyter.pipeline.documentation import explain, rule_ids
from inductor_debug_jupyter.pipeline.views.rule_page import page_view


@pytest.mark.parametrize("rule", rule_ids())
def test_every_word_of_a_page_is_in_a_block(rule: str) -> None:
    page = explain(rule)
    view = page_view(page)
    shown = [view["title"]] + ["".join(text for _, text in line) for block in view["blocks"] for line in block["lines"]]
    written = re.sub(r"^(#+ |- |```\w*)", "", page.text, flags=re.MULTILINE)
    assert re.sub(r"[\s`*]", "", "".join(shown)) == re.sub(r"[\s`*]", "", written)


def test_blocks_are_told_apart_and_code_inside_of_text_too() -> None:
    blocks = page_view(explain("align.innermost"))["blocks"]
    assert [block["kind"] for block in blocks] == [
        *("text", "heading", "text", "heading"),
        *("item", "item", "item", "item", "heading", "code", "code"),
    ]
    assert ["code", "stick128"] in blocks[0]["lines"][0]
    assert ["emphasis", "pad 784 to 832"] in blocks[4]["lines"][0]
    assert ["keyword", "import"] in blocks[9]["lines"][0]
    texts = [text for block in blocks[:9] for line in block["lines"] for kind, text in line if kind != "code"]
    assert not any(mark in text for text in texts for mark in "`*#")
