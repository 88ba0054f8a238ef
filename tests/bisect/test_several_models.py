"""Of several models, the one that is wrong is searched; and what was not looked at is said."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn
from torch._inductor import config as inductor_config

from inductor_debug_jupyter import capture


def test_the_model_that_a_comparison_found_wrong_is_the_one_that_is_searched(tmp_path: Path) -> None:
    right, wrong = nn.Tanh(), nn.ReLU()
    with capture(eager=True, lower="dynamo", keep_inputs=True, artifacts=str(tmp_path)) as session:
        right(torch.randn(8))
        wrong(torch.randn(8))
    with inductor_config.patch({"cpp.inject_relu_bug_TESTING_ONLY": "accuracy"}):
        assert session.diff().verdict == "mismatch"
        found = session.bisect()
        script = session.reproduce()
    assert (found.model, found.first_bad) == ("ReLU", "inductor")
    assert "Not looked at: Tanh 1." in str(found)
    assert "relu" in script.read_text(encoding="utf-8")


def test_a_model_that_was_not_searched_is_named(tmp_path: Path) -> None:
    models = nn.Tanh(), nn.ReLU()
    with capture(eager=True, lower="dynamo", keep_inputs=True, artifacts=str(tmp_path)) as session:
        for model in models:
            model(torch.randn(8))
    found = session.localize("aot_eager")
    assert found.model == "Tanh"
    assert "Not looked at: ReLU 2." in str(found)
