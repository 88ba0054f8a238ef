"""The suite ``screenshots``: a picture of each tab, and what a program sees wrong in one."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from tests.proofs.__main__ import main
from tests.proofs.lab import find_chromium
from tests.proofs.panel_page import chromium

PAGE = """<style>
.idj-frame { width: 400px; height: 200px; position: relative; overflow: hidden; font: 13px sans-serif; }
.cut { width: 60px; overflow: hidden; white-space: nowrap; }
.under { position: absolute; left: 5px; top: 60px; } .over { position: absolute; left: 8px; top: 62px; }
.away { position: absolute; left: 390px; top: 90px; }
</style><div class="idj-frame">
<div class="cut">a text that is longer than its box</div>
<div class="cut" title="told">another text that is longer</div>
<span class="under">one text</span><span class="over">another</span>
<input placeholder="a long placeholder, longer than the field" style="width: 50px">
<button class="away">outside</button><div class="idj-pane" style="height: 20px"></div>
</div>"""


def test_bad_arguments_get_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["screenshots", "--subjects", "vit,resnet"]) == 2
    assert (
        "--subjects: 'resnet' is not allowed; allowed: vit, gpt2, faulty, breaks, compared" in capsys.readouterr().err
    )
    assert main(["screenshots", "--widths", "wide"]) == 2
    assert "--widths" in capsys.readouterr().err


@pytest.mark.browser
def test_what_is_wrong_in_a_page_is_seen() -> None:
    executable = find_chromium()
    assert executable is not None
    look = (files("tests.proofs") / "screenshots_page.js").read_text(encoding="utf-8").partition("\n")[2]
    with chromium(executable) as browser:
        page = browser.new_page()
        page.set_content(PAGE)
        wrong = page.locator(".idj-frame").evaluate(look)
    kinds = {"cut", "cut, without a tooltip", "empty", "one over the other", "outside of the panel"}
    assert {line.partition(":")[0] for line in wrong} == kinds
    assert any("a text that is longer" in line for line in wrong)
    assert not any("another text that is longer" in line for line in wrong), "it has a tooltip"


@pytest.mark.browser
@pytest.mark.long
@pytest.mark.timeout(300)
def test_every_tab_gets_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--subjects", "breaks", "--widths", "1000", "--themes", "dark", "--output", str(tmp_path)]
    assert main(["screenshots", *few]) == 0, capsys.readouterr().out
    names = {path.name for path in tmp_path.iterdir()}
    assert {f"breaks-1000-dark-{tab}.png" for tab in ("overview", "graph", "code", "guards", "what_if")} <= names
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in tmp_path.iterdir())
    assert ["breaks", str(len(names))] in [line.split() for line in capsys.readouterr().out.splitlines()]
