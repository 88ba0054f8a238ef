"""The page in a real browser: no message on the console, no request, nothing wider than the window."""

from __future__ import annotations

from pathlib import Path

import pytest

from inductor_debug_jupyter.pipeline.reports import HTMLReportGenerator
from inductor_debug_jupyter.pipeline.store import ArtifactStore
from tests.proofs.lab import find_chromium

CHROMIUM = find_chromium()


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
