"""One JupyterLab for all browser tests, one Chromium for each."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from typing import Any

import pytest

from .jupyterlab import JupyterLab, LabPage, find_chromium, open_page

_REPORT = pytest.StashKey[pytest.TestReport]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Remember the result, so that a failure leaves a picture."""
    report = yield
    if report.when == "call":
        item.stash[_REPORT] = report
    return report


@pytest.fixture(scope="session")
def chromium() -> str:
    """The browser. Without one these tests are not run."""
    path = find_chromium()
    assert path is not None
    return path


@pytest.fixture(scope="session")
def jupyterlab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterLab]:
    """The server."""
    lab = JupyterLab(tmp_path_factory.mktemp("jupyterlab"))
    try:
        lab.start()
        yield lab
    finally:
        lab.stop()


@pytest.fixture
def lab(chromium: str, jupyterlab: JupyterLab, request: pytest.FixtureRequest) -> Iterator[LabPage]:
    """A page of its own; write notebooks with ``lab.lab.write_notebook``. A failing test leaves a screenshot."""
    with open_page(jupyterlab, chromium) as page:
        yield page
        report: Any = request.node.stash.get(_REPORT, None)
        if report is not None and report.failed:
            page.save_picture("failed-" + re.sub(r"\W+", "_", request.node.name))
