"""The form of a quick run, without a browser: what it offers, what it says, what it shows."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from panel_requests import ask
from torch import nn

from inductor_debug_jupyter import InductorDebugError, capture, quick_run
from inductor_debug_jupyter.jupyter.panel import DebugPanel
from inductor_debug_jupyter.jupyter.quick_run import MADE_UP, QuickRunForm

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def namespace() -> dict[str, Any]:
    return {"net": nn.Linear(70, 64), "x": torch.randn(3, 70), "pair": (torch.ones(2), 1), "n": 3, "_x": torch.ones(1)}


def filled(form: QuickRunForm, **values: Any) -> QuickRunForm:
    for name, value in values.items():
        form.fields[name].value = value
    return form


def test_it_offers_what_the_notebook_has_and_the_built_in_models() -> None:
    names = namespace()
    form = QuickRunForm(names)
    assert form.fields["model"].options == ("net", "mlp", "attention", "convolution")
    assert form.fields["inputs"].options == (MADE_UP, "x", "pair")
    form.fields["model"].value = "mlp"
    names["later"] = nn.Linear(2, 2)
    form.look()
    assert "later" in form.fields["model"].options
    assert form.fields["model"].value == "mlp"


def test_a_run_shows_its_panel_and_says_how_a_script_does_it() -> None:
    form = filled(QuickRunForm(namespace()), model="net", inputs="x", backend="aot_eager", target="stick128")
    form.run()
    assert form.session is not None, form.status.value
    assert form.session.findings[0].rule_id == "align.innermost"
    assert form.session.record.diff is not None
    assert form.session.record.diff.passed
    assert (
        "QuickRun(model=net, inputs=x, target=&#x27;stick128&#x27;, backend=&#x27;aot_eager&#x27;).run()"
        in form.status.value
    )
    (panel,) = form.children[1].children
    assert isinstance(panel, DebugPanel)
    form.session.select(finding=0)
    assert panel.selection["finding"] == 0
    assert not form.run_button.disabled


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"target": "stik128"}, "unknown target"),
        ({"backend": "inductr"}, "did you mean inductor?"),
        ({"alignment": "many"}, "alignment=&#x27;many&#x27;; allowed: a whole number, or nothing"),
        ({"atol": "-1"}, "atol=-1.0; allowed: a number that is not negative"),
        ({"max_memory": "lots"}, "is not allowed; allowed: bytes from 1 up"),
        ({"model": "net", "inputs": "pair"}, "✗ TypeError"),
    ],
)
def test_what_is_wrong_is_one_line_beside_the_button(values: dict[str, Any], said: str) -> None:
    form = filled(QuickRunForm(namespace()), **values)
    form.run()
    assert said in form.status.value
    assert 'role="alert"' in form.status.value
    assert form.session is None
    assert not form.run_button.disabled


def test_names_from_the_model_are_never_markup() -> None:
    class Evil(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            raise ValueError("<img src=x onerror=alert(1)>")

    form = filled(QuickRunForm({"net": Evil(), "x": torch.ones(2)}), model="net", inputs="x", backend="aot_eager")
    form.run()
    assert "<img" not in form.status.value
    assert "&lt;img" in form.status.value


def test_the_panels_button_opens_the_form_and_its_run_refreshes_the_panel() -> None:
    with capture(lower="dynamo", eager=True) as first:
        nn.Linear(64, 64)(torch.randn(2, 64))
    panel = DebugPanel.of(first)
    assert ask(panel, "toggle_quick_run") == ""
    form = panel.widgets["quick_run"]
    assert isinstance(form, QuickRunForm)
    filled(form, model="mlp", backend="aot_eager", target="stick128", force_failure=True).run()
    assert panel.record.name == "mlp", form.status.value
    assert panel.widgets["quick_run"] is form
    assert panel.header["title"].startswith("mlp")
    assert panel.fixes["offers"] == []
    assert [tab["id"] for tab in panel.header["tabs"]][-2:] == ["diff", "what_if"]
    first.choose({"finding": None, "compile_id": "", "stage": "", "node": "nobody", "label": "", "line": 0})
    assert panel.selection["node"] != "nobody", "the session that is gone has nothing to say here any more"
    assert ask(panel, "toggle_quick_run") == ""
    assert "quick_run" not in panel.widgets
    assert panel.trouble == ""


def test_without_a_notebook_it_says_what_to_do() -> None:
    with pytest.raises(InductorDebugError, match=r"QuickRun\(model=…, batch=8\)\.run\(\) does the same"):
        quick_run()
