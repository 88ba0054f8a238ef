"""The pages that are shipped: every rule has one, its example was run, and a wrong name is told with near ones."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

import inductor_debug_jupyter
from inductor_debug_jupyter.pipeline.devices.alignment import DIMS, AlignmentConstraint, AlignmentRule
from inductor_debug_jupyter.pipeline.devices.layouts import FORMATS, LayoutConstraint, LayoutRule
from inductor_debug_jupyter.pipeline.documentation import documentation, explain, pages, rule_ids
from inductor_debug_jupyter.pipeline.errors import NotFoundError

PACKAGE = Path(inductor_debug_jupyter.__file__).parent


def every_rule_id() -> set[str]:
    """Those that classes of the package are written with, and those that alignment and layout rules get."""
    written = {
        rule_id
        for file in PACKAGE.rglob("*.py")
        for rule_id in re.findall(r'^    rule_id(?:: str)? = "([\w.]+)"$', file.read_text(), flags=re.MULTILINE)
    }
    aligned = {AlignmentConstraint(AlignmentRule(multiple=2, dims=dims)).rule_id for dims in DIMS}
    laid_out = {LayoutConstraint(rule=LayoutRule(format=form, tile=(8, 8))).rule_id for form in FORMATS}
    return written | aligned | laid_out


def test_every_rule_has_a_page_and_every_page_a_rule():
    assert {"align.innermost", "memory.scratchpad", "op.not_supported", "layout.not_tile", "custom"} < every_rule_id()
    assert set(rule_ids()) == every_rule_id()


@pytest.mark.usefixtures("fresh_dynamo")  # torch remembers for the whole process which sizes vary
@pytest.mark.parametrize("rule", rule_ids())
def test_the_example_of_a_rule_shows_its_finding(rule, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = explain(rule).text
    code, printed = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, flags=re.DOTALL).groups()
    names: dict[str, object] = {"__name__": "page"}
    with contextlib.redirect_stdout(io.StringIO()) as output:
        exec(compile(code, f"{rule}.md", "exec"), names)
    assert output.getvalue() == printed
    assert rule in {finding.rule_id for finding in names["session"].findings}


@pytest.mark.parametrize("rule", rule_ids())
def test_a_page_says_what_it_means_why_and_what_to_do(rule):
    page = explain(rule)
    assert page.title.startswith(f"{rule}: ")
    assert [line for line in page.text.splitlines() if line.startswith("#")] == [
        f"# {page.title}",
        "## Why hardware has it",
        "## Ways out",
        "## Example",
    ]
    assert max(map(len, page.text.splitlines())) <= 130
    assert 30 <= len(page.text.splitlines()) <= 50


def test_topics_name_only_options_and_rules_that_there_are():
    from inductor_debug_jupyter.pipeline.options import OPTIONS

    flags = {option.flag for option in OPTIONS.values()} | {
        "--last",
        "--help",
        "--explain",
        "--format",
        "--to",
        "--type",
        "--compare",
        "--fail-on",
        "--stages",
    }
    for page in pages("topics").values():
        assert set(re.findall(r"--[a-z][a-z-]*", page.text)) <= flags, page.name
        assert set(re.findall(r"explain ([a-z]+\.[a-z_]+)", page.text)) <= set(rule_ids())


def test_a_typo_is_told_with_the_nearest_names():
    with pytest.raises(NotFoundError, match=r"no rule is called 'align\.inermost'; did you mean align\.innermost"):
        explain("align.inermost")
    with pytest.raises(NotFoundError, match="no page is called 'guard'; did you mean guards"):
        documentation("guard")
    with pytest.raises(NotFoundError, match=r"there are align\.channels"):
        explain("?")
    assert documentation("memory.limit") is explain("memory.limit")
