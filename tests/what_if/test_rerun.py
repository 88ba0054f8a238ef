"""What-ifs that run the model again: another batch, sequence or dtype; everything of the user's stays as it was."""

from __future__ import annotations

import random
from typing import Any

import numpy
import pytest
import torch
from torch import nn

from inductor_debug_jupyter import QuickRun, capture
from inductor_debug_jupyter.pipeline.errors import NotFoundError, OptionError, UsageError
from inductor_debug_jupyter.pipeline.session import DebugSession

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(70, 128)
        self.norm = nn.BatchNorm1d(128)
        self.down = nn.Linear(128, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(nn.functional.gelu(self.norm(self.up(x))))


class Tokens(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 64)
        self.out = nn.Linear(64, 11)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        print("a model that talks")
        return self.out(self.table(ids) * mask[..., None])


def seen(
    model: nn.Module, *inputs: Any, target: str = "stick128", backward: bool = False, **options: Any
) -> DebugSession:
    with capture(eager=True, lower="aot", target=target, keep_inputs=True, **options) as session:
        if backward:
            model(*inputs).sum().backward()
        else:
            with torch.no_grad():
                model(*inputs)
    return session


def shapes(session: DebugSession, stage: str = "forward") -> list[Any]:
    return [node.shape for node in session.captures[0].graph(stage).nodes if node.role == "input"]


@pytest.mark.parametrize("backward", [False, True])
def test_batch_1_to_64_changes_memory_and_nothing_else(backward: bool) -> None:
    trial = seen(Net().eval(), torch.randn(1, 70), backward=backward, target="default").try_out(batch=64)
    assert str(trial.changes) == "changes memory and nothing else", str(trial)


@pytest.mark.parametrize("backward", [False, True])
def test_batch_1_to_64_moves_more_for_what_is_refused(backward: bool) -> None:
    model = Net().eval()
    session = seen(model, torch.randn(1, 70), backward=backward)
    assert [finding.title for finding in session.findings] == ["70 is not a multiple of 64"]
    trial = session.try_out(batch=64)
    assert trial.title == "batch 1 → 64 (dimension 0 of x)"
    assert str(trial.changes) == "changes transfers and memory", str(trial)
    assert [finding.title for finding in trial.changes.same] == ["70 is not a multiple of 64"]
    assert (trial.changes.gone, trial.changes.new, trial.changes.reworded) == ((), (), ())
    assert trial.session.peak_memory > session.peak_memory
    for name in ("on the target", "ops", "graphs", "graph breaks"):
        assert trial.changes.figure(name).kind == "same"
    assert trial.changes.numbers.verdict in {"match", "rounding"}, "the rows are the kept ones"
    assert shapes(trial.session) == [(64, 70)]
    assert (trial.session.captures[0].graph("backward") is not None) is backward


def test_a_smaller_batch_is_the_first_rows() -> None:
    session = seen(Net().eval(), torch.randn(6, 70))
    trial = session.try_out(batch=2)
    assert shapes(trial.session) == [(2, 70)]
    assert trial.changes.figure("peak memory").kind == "better"
    assert trial.changes.numbers.outputs[0].shape == (2, 64)
    assert trial.changes.numbers.verdict in {"match", "rounding"}


def test_the_users_model_inputs_and_random_numbers_stay_as_they_were() -> None:
    model = Net().train()
    x = torch.randn(4, 70)
    session = seen(model, x, backward=True)
    state = {name: value.clone() for name, value in model.state_dict().items()}
    gradients = [parameter.grad.clone() for parameter in model.parameters()]
    generators = torch.get_rng_state(), random.getstate(), numpy.random.get_state()[1].tolist()
    kept = session._calls.needed()[0].args[0].clone()
    for changes in ({"batch": 8}, {"dtype": "float64"}, {"batch": 8, "dtype": torch.bfloat16}):
        session.try_out(**changes)
    assert torch.equal(generators[0], torch.get_rng_state())
    assert generators[1:] == (random.getstate(), numpy.random.get_state()[1].tolist())
    for name, value in model.state_dict().items():
        assert torch.equal(value, state[name]), name
        assert value.dtype == state[name].dtype
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        assert torch.equal(parameter.grad, gradient)
    assert torch.equal(session._calls.needed()[0].args[0], kept)
    assert model.training


def test_another_dtype_and_what_its_numbers_are_worth() -> None:
    torch.manual_seed(0)
    session = seen(Net().eval(), torch.randn(4, 70), target="default")
    trial = session.try_out(dtype="float16")
    assert trial.title == "dtype float32 → float16"
    dtypes = {node.dtype for node in trial.session.captures[0].graph("forward").calls if node.dtype}
    assert dtypes == {"float16"}
    assert "memory" in trial.changes.what
    assert "numbers" in trial.changes.what
    peaks = session.peak_memory, trial.session.peak_memory
    assert peaks[1] == pytest.approx(peaks[0] / 2, rel=0.02)
    (output,) = trial.changes.numbers.outputs
    assert 0 < output.max_absolute_error < 1e-2
    assert (output.dtype, output.candidate_dtype) == ("float32", "float16")
    with pytest.raises(NotFoundError, match="the copy of the model in float16 that this what-if ran is gone"):
        trial.session.try_out(batch=2)
    assert trial.session.try_out(target="stick128").changes.new, "but it can be judged again"


def test_sequence_and_batch_of_tokens_stay_valid_indices() -> None:
    ids, mask = torch.randint(11, (2, 5)), torch.ones(2, 5)
    session = seen(Tokens(), ids, mask)
    longer = session.try_out(sequence=12)
    assert longer.title == "sequence 5 → 12 (dimension 1 of ids and mask)"
    assert shapes(longer.session) == [(2, 12), (2, 12)]
    assert longer.changes.figure("numbers").after == "not compared: another sequence is another input"
    both = session.try_out(batch=4, sequence=3)
    assert shapes(both.session) == [(4, 3), (4, 3)]
    kept = both.session._calls.needed()[0].args[0]
    assert torch.equal(kept, ids[[0, 1, 0, 1]][:, :3])
    again = both.session.try_out(batch=2)
    assert again.title == "batch 4 → 2 (dimension 0 of ids and mask)"


def test_a_model_that_prints_and_steps_for_somebody_who_waits(capsys: pytest.CaptureFixture[str]) -> None:
    session = seen(Tokens(), torch.randint(11, (2, 5)), torch.ones(2, 5))
    capsys.readouterr()
    steps: list[str] = []
    session.try_out(batch=3, on_step=lambda step: steps.append(str(step)))
    assert capsys.readouterr().out == ""
    assert any("tracing Python" in step for step in steps)


def test_what_does_not_run_is_one_line_that_says_what_was_tried() -> None:
    class Fixed(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.view(2, 70) * 2

    session = seen(Fixed(), torch.randn(2, 70))
    with pytest.raises(UsageError, match=r"^batch 2 → 3 \(dimension 0 of x\): Fixed does not run so: \w+") as raised:
        session.try_out(batch=3)
    assert "\n" not in str(raised.value)
    assert session.trials == ()


def test_without_a_kept_call_it_says_how_to_keep_one() -> None:
    with capture(eager=True, lower="aot") as session:
        Net().eval()(torch.randn(4, 70))
    with pytest.raises(NotFoundError, match="no model call was kept to run again"):
        session.try_out(batch=2)
    assert session.tryable()["why_not"].startswith("no model call was kept")


def test_only_the_first_call_of_a_model_counts_on_both_sides() -> None:
    model = Net().eval()
    with capture(eager=True, lower="aot", target="stick128", keep_inputs=True) as session, torch.no_grad():
        model(torch.randn(2, 70))
        model(torch.randn(5, 70))
    assert len(session.captures) == 2
    trial = session.try_out(batch=4)
    assert [len(each.captures) for each in (trial.before, trial.after)] == [1, 1]
    assert trial.notes == ("only the first call of each model is kept: 1 graph of later calls left out on both sides",)
    assert str(trial.changes) == "changes transfers and memory"


def test_a_compiled_function_and_sizes_that_were_symbolic() -> None:
    @torch.compile(backend="aot_eager", dynamic=True)
    def scale(x: torch.Tensor, by: float = 2.0) -> torch.Tensor:
        return (x * by).relu()

    with capture(target="stick128", keep_inputs=True) as session:
        scale(torch.randn(3, 70))
    trial = session.try_out(batch=6)
    assert "both sides ran with fixed ones" in trial.notes[0]
    assert str(trial.changes) == "changes memory and nothing else", str(trial)
    assert trial.changes.figure("peak memory").change == "+100 %"
    assert trial.session.captures[0].stages == ("dynamo", "forward"), "lowered as far as the user's own compile"
    cast = session.try_out(dtype="bfloat16")
    assert cast.changes.numbers.outputs[0].candidate_dtype == "bfloat16"


def test_random_numbers_make_a_comparison_a_matter_of_chance() -> None:
    session = seen(nn.Sequential(nn.Linear(70, 64), nn.Dropout(0.5)), torch.randn(2, 70), backward=True)
    trial = session.try_out(batch=4)
    assert trial.changes.figure("numbers").after == "not compared: the model draws random numbers"
    # Attention may draw some, and without dropout does not.
    layer = nn.TransformerEncoderLayer(64, 2, 64, dropout=0.0, batch_first=True)
    trial = seen(layer, torch.randn(2, 4, 64), backward=True).try_out(batch=4)
    assert trial.changes.numbers.verdict in {"match", "rounding"}, str(trial)


def test_target_and_batch_together_and_a_node_that_cannot_be() -> None:
    session = seen(Net().eval(), torch.randn(2, 70))
    trial = session.try_out(target="default", batch=4)
    assert trial.title == "target stick128 → default, batch 2 → 4 (dimension 0 of x)"
    assert {"findings", "memory"} <= set(trial.changes.what)
    with pytest.raises(OptionError, match="another run has graphs of its own; name its op instead"):
        session.try_out(node="addmm", fallback=True, batch=4)


def test_a_quick_run_is_tried_too() -> None:
    session = QuickRun(model="attention", batch=2, backend="aot_eager").run()
    form = session.tryable()
    assert (form["batch"]["size"], form["sequence"]["size"], form["dtype"]) == (2, 16, "float32")
    trial = session.try_out(batch=3, sequence=8)
    assert shapes(trial.session) == [(3, 8, 96)]
