"""``proofs simulator``: what is wrong is explained by the format or by the fault, and the suite can tell."""

import pytest
import torch
from torch import nn

from inductor_debug_jupyter.benchmarks.models import Built
from inductor_debug_jupyter.pipeline.adapters.stick import Fault, parse_fault
from tests.proofs import simulator
from tests.proofs.__main__ import main
from tests.proofs.faulty_child import Ending, run_child
from tests.proofs.simulator import Numbers, measure_accuracy, try_fault

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


@pytest.fixture(scope="module")
def built():
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(130, 130), nn.LayerNorm(130), nn.GELU(), nn.Linear(130, 70))
    return Built(module, (torch.randn(3, 130),))


def test_a_healthy_device_is_explained_by_its_format(built):
    found, _ = measure_accuracy(built)
    assert found.problems == []
    assert found.exact_format[0] < 1e-5 < found.own_format[0] < 1e-2
    assert found.kernels > 10
    assert found.transfers > 10


def test_a_fault_is_explained_by_itself_and_by_nothing_else(built):
    _, healthy = measure_accuracy(built)
    trial = try_fault(built, Fault("wrong-accumulation", ("addmm",)), healthy)
    assert trial.on == 2
    assert {kernel.op for kernel in trial.wrong} == {"aten.addmm.default"}
    assert trial.problems == []
    assert trial.wrong_outputs
    nothing = try_fault(built, Fault("negative-zero"), healthy)
    assert (nothing.on, nothing.wrong, nothing.wrong_outputs, nothing.problems) == (0, [], [], [])
    elsewhere = simulator.FaultTrial(Fault("negative-zero"), 0, trial.wrong, wrong_outputs=["out[0]"])
    assert "aten.addmm.default (forward addmm) is wrong too" in elsewhere.problems


def test_numbers_that_nothing_explains_are_a_problem():
    found = simulator.Accuracy(1, 1, (1e-7, 1e-6), (1e-7, float("nan")), (1e-3, 1e-3), (5e-3, 1e-3))
    assert found.problems == [
        "gradients in float32 are nan from float64 where 1.0e-06 is explained",
        "outputs in float16 are 5.0e-03 from float64 where 1.0e-03 is explained",
    ]
    exact = Numbers({"out[0]": torch.ones(2, dtype=torch.float64)})
    assert Numbers({"out[0]": torch.tensor([1.0, float("nan")])}).distance(exact, "out") != 0


def test_an_ending_that_is_not_the_faults_is_a_problem():
    crash, hang = parse_fault("crash:aten.mm"), parse_fault("hang:aten.mm")
    assert Ending(["aten.relu.default", "aten.mm.default"], signal="SIGSEGV").problems(crash) == []
    assert Ending(["aten.mm.default"], hung=True).problems(hang) == []
    assert Ending(["aten.mm.default", "aten.relu.default"], signal="SIGABRT").problems(crash) == [
        "it ended with SIGABRT, not with SIGSEGV",
        "the last kernel was aten.relu.default",
    ]
    assert Ending(["aten.mm.default"], code=0).problems(hang) == ["it did not hang: it ended with 0"]


def test_the_command_shows_a_small_model(capsys):
    pytest.importorskip("transformers")
    assert main(["simulator", "--model", "resnet", "--small", "--fault", "wrong-accumulation"]) == 0
    out = capsys.readouterr().out
    assert "resnet, gradients" in out
    assert "wrong-accumulation:mm+addmm" in out
    assert "✓ every number is explained by its format or its fault" in out


def test_a_child_that_hangs_is_ended_and_its_kernel_is_known():
    pytest.importorskip("transformers")
    fault = parse_fault("hang:aten.relu")
    ending = run_child("resnet", fault, small=True, quiet_seconds=1)
    assert ending.hung
    assert ending.launched[-1] == "aten.relu.default"
    assert ending.problems(fault) == []


def test_an_unknown_model_is_one_line(capsys):
    assert main(["simulator", "--model", "nope"]) == 2
    assert "--model: 'nope' is not allowed; allowed: bert-2l, resnet, mamba" in capsys.readouterr().err
