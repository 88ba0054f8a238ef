"""What a reader without a kernel sees: one rich snapshot a cell, small, without scripts and styles."""

from __future__ import annotations

import re
from base64 import b64decode
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import DebugSession, capture
from inductor_debug_jupyter.pipeline.records import Place, SourceLine, Violation
from inductor_debug_jupyter.pipeline.reports.snapshot import MAX_BYTES, Snapshot, snapshot_html, snapshot_markdown
from inductor_debug_jupyter.pipeline.settings import resolve
from inductor_debug_jupyter.pipeline.views.short_text import short_text
from tests.proofs.lab import find_chromium


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(70, 30)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.up(x))


def wrong(gm: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> object:
    return lambda *values: [each * 3 + 1 for each in gm.forward(*values)]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> DebugSession:
    folder = str(tmp_path_factory.mktemp("artifacts"))
    settings = resolve({"target": "stick128", "lower": "aot", "artifacts": folder})
    made, block = DebugSession(settings, eager=True, keep_inputs=True), Block()
    made.open()
    for size in (2, 1, 3):
        block(torch.ones(size, 70))
    made.close()
    made.diff(candidate=wrong)
    return made


def test_it_has_every_part_folded(session: DebugSession) -> None:
    html = snapshot_html(session.record)
    titles = re.findall(r"<summary>(.*?)</summary>", html)
    assert titles[0].startswith("Static snapshot · Block on stick128 · ")
    assert [title.split(" ")[0].rstrip(":") for title in titles[1:]] == ["Findings", "Graph", "KernelDiff", "Guards"]
    assert html.count("<details") == html.count("</details>") == 5
    assert len(html.encode()) < 20_000


def test_it_tells_where_in_the_model_before_the_cell_and_what_to_do(session: DebugSession) -> None:
    rows = re.findall(r"<tr>(.*?)</tr>", snapshot_html(session.record))
    (row,) = [each for each in rows if "30 is not a multiple of 64" in each]
    assert "align.innermost" in row
    assert re.search(r"test_snapshot\.py:\d+ · up", row)
    assert "return torch.relu(self.up(x))" in row
    assert "pad 30 to 64" in row


def test_a_librarys_line_comes_before_the_cells(session: DebugSession) -> None:
    library = SourceLine("/lib/modeling_vit.py", 547, "logits = self.classifier(x)", "forward", "modeling_vit.py")
    cell = SourceLine("cell", 2, "model(x)", "<module>", "In [2]")
    place = Place("0/0", "forward", "addmm", "aten.addmm.default", "classifier", library, cell)
    finding = Violation("align.innermost", "error", "1000 is not a multiple of 64", (place,))
    record = session.record.__class__(**{**_fields(session.record), "findings": (finding,)})
    html = snapshot_html(record)
    assert html.index("modeling_vit.py:547 · classifier") < html.index("In [2], line 2")
    assert "✗ 1000 is not a multiple of 64 · modeling_vit.py:547 · classifier [align.innermost]" in short_text(record)
    text = str(DebugSession.of_record(record))
    assert text.index("modeling_vit.py:547 · classifier") < text.index("called from In [2], line 2: model(x)")


def _fields(record: object) -> dict[str, object]:
    return {name: getattr(record, name) for name in record.__dataclass_fields__}  # type: ignore[attr-defined]


def test_pictures_are_images_with_a_white_sheet(session: DebugSession) -> None:
    html = snapshot_html(session.record)
    graph = re.search(r'src="data:image/svg\+xml;base64,([^"]+)"', html)
    heatmap = re.search(r'src="data:image/png;base64,([^"]+)"', html)
    assert graph is not None
    assert heatmap is not None
    drawn = b64decode(graph[1]).decode()
    ElementTree.fromstring(drawn)
    assert 'fill="white"' in drawn
    assert b64decode(heatmap[1]).startswith(b"\x89PNG")
    assert "Absolute error of" in html


def test_nothing_in_it_needs_a_style_sheet_or_a_script(session: DebugSession) -> None:
    html = snapshot_html(session.record)
    assert not re.search(r"<style|<script|<svg|class=|href=|http", html)


def test_a_comparison_keeps_its_lines(session: DebugSession) -> None:
    text = re.search(r"<pre>(.*?)</pre>", snapshot_html(session.record), flags=re.DOTALL)
    assert text is not None
    assert text[1].count("\n") > 3
    assert "\N{REPLACEMENT CHARACTER}" not in text[1]


def test_there_is_one_copy_and_text_is_short(session: DebugSession) -> None:
    bundle = Snapshot(session.record)._repr_mimebundle_()
    assert bundle["text/plain"] == ""
    assert set(bundle) == {"text/html", "text/markdown", "text/plain"}
    assert sum(len(text.encode()) for text in bundle.values()) <= MAX_BYTES
    lines = short_text(session.record).splitlines()
    assert lines[0].startswith("Block on stick128 · ")
    assert len(lines) <= 5


def test_markdown_is_a_table_in_which_nothing_else_is_markdown(session: DebugSession) -> None:
    table = snapshot_markdown(session.record)
    assert "| ✗ | align.innermost |" in table
    assert "test\\_snapshot.py" in table


def test_a_large_session_stays_under_the_limit(tmp_path: Path) -> None:
    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(10 + size, 11 + size) for size in range(80))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = torch.tanh(layer(x))
            return x

    with capture(target="stick128", lower="aot", eager=True, artifacts=str(tmp_path)) as session, torch.no_grad():
        Deep()(torch.ones(2, 10))
    bundle = Snapshot(session.record)._repr_mimebundle_()
    assert sum(len(text.encode()) for text in bundle.values()) <= MAX_BYTES
    assert "more; print(session)" in bundle["text/html"]


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_exported_notebook_shows_it_without_a_network(session: DebugSession, tmp_path: Path, theme: str) -> None:
    """nbconvert's HTML of a saved notebook: the widget is gone, one snapshot is there, with its pictures."""
    import nbformat
    from nbconvert import HTMLExporter
    from playwright.sync_api import sync_playwright

    widget = {"application/vnd.jupyter.widget-view+json": {"model_id": "0"}, "text/plain": short_text(session.record)}
    outputs = [
        nbformat.v4.new_output("display_data", data=data)
        for data in (widget, Snapshot(session.record)._repr_mimebundle_())
    ]
    cell = nbformat.v4.new_code_cell("%%inductor_debug\nmodel(x)", outputs=outputs)
    html, _ = HTMLExporter(theme=theme).from_notebook_node(nbformat.v4.new_notebook(cells=[cell]))
    page_file = tmp_path / "notebook.html"
    page_file.write_text(html, encoding="utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        page = browser.new_context(viewport={"width": 1000, "height": 800}, offline=True).new_page()
        page.goto(page_file.as_uri())
        assert page.locator("summary", has_text="Static snapshot").count() == 1
        page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        assert page.locator("td", has_text="30 is not a multiple of 64").is_visible()
        assert page.evaluate("[...document.images].map(image => image.naturalWidth > 100)") == [True, True]
        overflow = "[...document.querySelectorAll('table')].map(table => table.getBoundingClientRect().right)"
        assert max(page.evaluate(overflow)) <= 1000
        (first, ink) = page.evaluate(
            "(cell => [getComputedStyle(cell).textAlign, getComputedStyle(cell).color])(document.querySelector('td'))"
        )
        assert first == "left"
        assert (sum(map(int, re.findall(r"\d+", ink)[:3])) > 380) == (theme == "dark"), "ink is the theme's own"
        browser.close()
