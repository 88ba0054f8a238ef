"""A quick run: a model, made-up inputs, a target and a backend become a session; the user's model stays as it was."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import QuickRun
from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError
from inductor_debug_jupyter.pipeline.quick_run import BUILT_IN
from inductor_debug_jupyter.pipeline.session import DebugSession

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def run(**values: Any) -> DebugSession:
    return QuickRun(**{"backend": "aot_eager", **values}).run()


def rules(session: DebugSession) -> set[str]:
    return {finding.rule_id for finding in session.findings}


@pytest.mark.parametrize("model", BUILT_IN)
def test_a_built_in_model_runs_and_padding_takes_its_findings_away(model: str) -> None:
    session = run(model=model, target="stick128", batch=2)
    assert session.record.name == model
    assert "align.innermost" in rules(session)
    line = session.findings[0].places[0].source
    assert (line.label, line.line, line.text) == ("quick run", 1, "outputs = model(*args, **kwargs)")
    assert session.record.sources["quick run"] == "outputs = model(*args, **kwargs)\n"
    assert session.record.diff is not None
    assert session.record.diff.passed
    if model == "mlp":
        assert "align.innermost" not in rules(run(model=model, target="stick128", batch=2, padding=64))


@pytest.mark.parametrize(
    ("model", "shape"),
    [
        (nn.Linear(7, 3), (2, 7)),
        (nn.Sequential(nn.Linear(3, 4), nn.Linear(5, 2)), None),
        (nn.Conv2d(3, 4, 3), (2, 3, 32, 32)),
        (nn.Sequential(nn.LayerNorm(5), nn.Linear(5, 4)), (2, 5)),
        (nn.Sequential(nn.Embedding(11, 4), nn.Linear(4, 2)), (2, 16)),
    ],
)
def test_inputs_are_made_up_from_the_first_layer(model: nn.Module, shape: tuple[int, ...] | None) -> None:
    if shape is None:
        with pytest.raises(UsageError, match=r"did not take a made-up input of shape \[2, 3\]: .*; give inputs="):
            run(model=model, batch=2)
        return
    session = run(model=model, batch=2)
    placeholders = [node.shape for node in session.captures[0].graph("dynamo").nodes if node.op == "placeholder"]
    assert shape in placeholders


def test_the_users_model_and_random_numbers_are_left_alone() -> None:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(0.5))
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    session = run(model=model, dtype="float64", backward=True)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert torch.equal(torch.get_rng_state(), state)
    assert model[0].weight.grad is None
    assert {node.dtype for node in session.captures[0].graph("forward").calls} >= {"float64"}
    assert "backward" in session.captures[0].stages


def test_own_inputs_a_function_and_constraints() -> None:
    inputs = {"x": torch.ones(3), "factor": 2}
    session = run(model=torch.compile(_scaled), inputs=inputs, deny="aten.mul", dtype="float16")
    assert any("mul" in finding.title for finding in session.findings)
    assert session.record.name == "_scaled"
    assert session.captures[0].graph("forward").calls[0].dtype == "float16"


def _scaled(x: torch.Tensor, factor: int) -> torch.Tensor:
    return x * factor


def test_a_forced_failure_fails_and_says_that_it_was_forced() -> None:
    diff = run(force_failure=True, batch=2).record.diff
    assert diff is not None
    assert (diff.verdict, diff.candidate) == ("mismatch", "aot_eager with a forced failure")
    assert diff.outputs[0].max_error_indices == (0, 0)
    loose = run(force_failure=True, batch=2, atol=2.0).record.diff
    assert loose is not None
    assert loose.passed


def test_the_simulator_is_a_backend_like_any_other() -> None:
    session = run(backend="stick128", dtype="float16", atol=1e-2, rtol=1e-2)
    assert session.transfers
    assert session.record.diff is not None
    assert session.record.diff.passed


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"model": "bert"}, "model='bert'; allowed: mlp, attention, convolution, a module or a function"),
        ({"batch": 0}, "batch=0; allowed: a whole number from 1 up"),
        ({"padding": True}, "padding=True; allowed"),
        ({"dtype": "int8"}, "dtype='int8'; allowed: float32, float16, bfloat16, float64"),
        ({"backend": "aot_eagr"}, "backend='aot_eagr'; did you mean aot_eager?"),
        ({"target": "stik128"}, "unknown target 'stik128'"),
        ({"alignment": "x"}, "'x' is not allowed"),
        ({"atol": -1.0}, "atol=-1.0; allowed"),
    ],
)
def test_a_bad_value_is_one_line(values: dict[str, Any], said: str) -> None:
    with pytest.raises((OptionError, UsageError)) as error:
        run(**values)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_its_text_is_the_call_that_does_the_same() -> None:
    assert str(QuickRun(batch=4, deny=("aten.mm",))) == "QuickRun(batch=4, deny=('aten.mm',)).run()"
    assert str(QuickRun(model=nn.ReLU())) == "QuickRun(model=…).run()"
