"""A report about a model that was really compiled and compared."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.reports import html_report, json_report


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = torch.nn.Linear(30, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.up(x).relu()
        print("break")
        return h.double().sum()


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_captured_model_in_both_forms(tmp_path: Path) -> None:
    folder = str(tmp_path / "artifacts")
    with capture(target="stick128", artifacts=folder) as session:
        torch.compile(Net(), backend="aot_eager")(torch.randn(4, 30))
    report = json_report(folder)
    assert report["summary"]["total_graphs"] == 2
    assert report["summary"]["graph_breaks"] == 1
    assert report["summary"]["constraint_violations"] == len(session.findings) > 0
    assert report["guards"]
    html = html_report(folder)
    assert "data:image/svg+xml;base64," in html
    assert "test_real_session.py" in html
    assert "float64" in html
    assert "Graph breaks" in html
