"""JupyterLab itself, without us: the tests' own machinery works."""

from __future__ import annotations

import sys

import pytest

from .jupyterlab import LabPage

pytestmark = pytest.mark.browser


def test_a_notebook_runs_in_this_interpreter_and_what_must_not_happen_is_noticed(lab: LabPage) -> None:
    cells = ["import sys\nanswer = 6 * 7\nprint('hello')\nanswer", "sys.executable", "print('x')\n" * 40]
    lab.open(lab.lab.write_notebook("smoke/ok.ipynb", cells))
    assert lab.run_all()
    assert lab.output_text(0) == "hello\n42"
    assert lab.python("[answer, sys.executable]") == [42, sys.executable]
    assert lab.python("answer", run="answer += 1") == 43
    assert "hello" in (lab.cell(0).text_content() or "")
    assert lab.save_picture("smoke").stat().st_size > 10_000
    lab.assert_clean()
    lab.page.route("http://192.0.2.1/**", lambda route: route.abort())  # it must be noticed, not sent
    lab.page.evaluate("() => { console.error('bad news'); new Image().src = 'http://192.0.2.1/pixel.png'; }")
    lab.page.wait_for_timeout(200)
    assert any("bad news" in error for error in lab.console_errors)
    assert lab.foreign_requests == ["http://192.0.2.1/pixel.png"]
