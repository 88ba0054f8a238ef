"""The page in a real browser: no message on the console, no request, nothing wider than the window."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inductor_debug_jupyter.pipeline.comparing import compare_runs
from inductor_debug_jupyter.pipeline.comparing.graph_pairs import stage_pair
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    GraphRecord,
    KernelRecord,
    NodeRecord,
    Place,
    SessionRecord,
    SourceLine,
    Violation,
    load_session,
)
from inductor_debug_jupyter.pipeline.reports import HTMLReportGenerator, html_report
from inductor_debug_jupyter.pipeline.reports.collect import of_session
from inductor_debug_jupyter.pipeline.reports.comparison_page import comparison_page, stages_page
from inductor_debug_jupyter.pipeline.reports.generator import report_text
from inductor_debug_jupyter.pipeline.store import ArtifactStore
from tests.proofs.lab import find_chromium

from .conftest import EVIL_CLOSER, hostile_session

CHROMIUM = find_chromium()
RECORDED = Path(__file__).parents[1] / "records" / "recorded"


@pytest.mark.browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_hostile_report_is_quiet(full_store: ArtifactStore, tmp_path: Path, scheme: str) -> None:
    from playwright.sync_api import sync_playwright

    path = HTMLReportGenerator(full_store).generate(tmp_path / "report.html")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1000, "height": 800}, color_scheme=scheme)
        heard: list[str] = []
        asked: list[str] = []
        page.on("console", lambda message: heard.append(message.text))
        page.on("pageerror", lambda error: heard.append(str(error)))
        page.on("dialog", lambda dialog: (heard.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(part => part.open = true)")
        page.wait_for_timeout(200)
        assert heard == []
        assert [url for url in asked if not url.startswith("data:")] == [path.as_uri()]
        assert page.evaluate("document.documentElement.scrollWidth") <= 1000
        images = page.evaluate("[...document.images].map(image => image.naturalWidth)")
        assert images
        assert all(images)
        background = page.evaluate("getComputedStyle(document.body).backgroundColor")
        assert (background == "rgb(255, 255, 255)") == (scheme == "light")
        browser.close()


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Callable[[str], tuple[Any, list[str]]]]:
    """Open a page from disk; answers the page, and what went wrong or was asked for on the network."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])

        def show(html: str) -> tuple[Any, list[str]]:
            path = tmp_path / "page.html"
            path.write_text(html, encoding="utf-8", errors="backslashreplace")
            page = browser.new_page(viewport={"width": 1300, "height": 900})
            heard: list[str] = []
            page.on("console", lambda message: heard.append(message.text))
            page.on("pageerror", lambda error: heard.append(str(error)))
            own = path.as_uri()
            page.on("request", lambda request: heard.append(request.url) if request.url != own else None)
            page.goto(own)
            page.wait_for_selector(".idj-frame")
            return page, [each for each in heard if not each.startswith(("data:", "blob:"))]

        yield show
        browser.close()


def recorded_session() -> SessionRecord:
    return load_session(gzip.decompress((RECORDED / "session_v1.json.gz").read_bytes()))


@pytest.mark.browser
def test_the_panel_in_a_report_works_without_python(store: ArtifactStore, shown: Any) -> None:
    store.save_session(recorded_session())
    page, heard = shown(html_report(store))
    tabs = page.eval_on_selector_all("[data-idj=tab]", "tabs => tabs.map(tab => tab.dataset.tab)")
    assert {"overview", "findings", "graph", "code", "guards"} <= set(tabs)
    for tab in tabs:
        page.click(f'[data-idj="tab"][data-tab="{tab}"]')
        page.wait_for_selector(f'[role="tabpanel"][aria-labelledby$="-{tab}"]')
        assert page.locator("[data-idj=error]:visible").count() == 0
    page.click('[data-idj="tab"][data-tab="graph"]')
    page.fill('[data-idj="search"]', "addmm")
    page.wait_for_selector('[data-idj="tally"]:has-text("found")')
    page.press('[data-idj="search"]', "Enter")
    page.wait_for_selector('[data-idj="node"].idj-lit')
    stages = page.eval_on_selector_all('[data-idj="stage"] option', "options => options.length")
    for stage in range(stages):
        page.select_option('[data-idj="stage"]', str(stage))
        page.wait_for_selector("[data-idj=graph]:not(.idj-waiting) svg")
    last = page.evaluate("Math.max(0, document.querySelectorAll('[data-idj=finding]').length - 1)")
    page.evaluate(f"location.hash = 'finding-{last}'")
    page.wait_for_selector('[data-idj="finding"][aria-selected="true"]')
    assert page.locator('[data-idj="tab"].idj-chosen').get_attribute("data-tab") == "findings"
    page.click('[data-idj="tab"][data-tab="code"]')
    page.wait_for_selector('[data-idj="code-line"]')
    page.click('[data-idj="code-node"] >> nth=0')
    page.wait_for_selector('[data-idj="code-node"].idj-lit')
    assert heard == []


@pytest.mark.browser
@pytest.mark.parametrize(
    "evil", [EVIL_CLOSER, "a\0b\u202egnp\x1b[31m\ud800", "x" * 1_000_000], ids=["markup", "odd", "1 MB"]
)
def test_hostile_values_in_the_panel_of_a_report_are_text(store: ArtifactStore, shown: Any, evil: str) -> None:
    whole = hostile_session()
    line = SourceLine(evil, 3, evil, evil, evil)
    node = NodeRecord(evil, "call_function", evil, (), (), evil, evil, line, line, arguments=evil)
    capture = replace(
        whole.captures[0],
        name=evil,
        graphs={"forward": GraphRecord("forward", (node,))},
        texts={"ir_pre_fusion": evil},
        kernels=(KernelRecord(evil, evil),),
    )
    finding = Violation(
        evil, "error", evil, (Place("0/0", "forward", evil, evil, evil, line, line),), evil, evil, evil, (evil,)
    )
    record = replace(whole, name=evil, target=evil, captures=(capture,), findings=(finding,), sources={evil: evil})
    html = report_text(of_session(record, store), "html")
    assert len(html) < 6_000_000
    page, heard = shown(html)
    page.on("dialog", lambda dialog: heard.append(dialog.message))
    for tab in page.eval_on_selector_all("[data-idj=tab]", "tabs => tabs.map(tab => tab.dataset.tab)"):
        page.click(f'[data-idj="tab"][data-tab="{tab}"]')
        page.wait_for_selector(f'[role="tabpanel"][aria-labelledby$="-{tab}"]')
        assert page.locator("[data-idj=error]:visible").count() == 0
    assert page.locator(".idj-frame img, .idj-frame script").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") <= 1300
    assert heard == []


@pytest.mark.browser
def test_two_graphs_side_by_side_are_lit_together(shown: Any) -> None:
    before = recorded_session()
    after = replace(before, captures=tuple(map(_without_an_op, before.captures)))
    page, heard = shown(comparison_page(compare_runs(before, after), (before, after)))
    assert page.locator(".idj-side").count() == 2
    rows = page.locator('[data-idj="pair-row"]')
    rows.first.click()
    page.wait_for_selector(".idj-side >> nth=0 >> .idj-lit")
    page.click('.idj-side >> nth=0 >> [data-idj="node"] >> nth=0')
    page.wait_for_selector('.idj-side >> nth=1 >> [data-idj="node"].idj-lit')
    assert heard == []


@pytest.mark.browser
def test_two_stages_side_by_side(shown: Any) -> None:
    record = recorded_session()
    page, heard = shown(stages_page(stage_pair(record.captures[0], "dynamo", "forward"), record))
    page.wait_for_selector('.idj-side >> nth=1 >> [data-idj="node"].idj-lit')
    assert heard == []


def _without_an_op(capture: CompileCapture) -> CompileCapture:
    """The capture with another op in place of the last that computes something, in every graph."""
    graphs = {}
    for stage, graph in capture.graphs.items():
        last = graph.calls[-1]
        nodes = tuple(replace(each, target="aten.tanh.default") if each is last else each for each in graph.nodes)
        graphs[stage] = replace(graph, nodes=nodes)
    return replace(capture, graphs=graphs)
