"""Everything that a candidate can get wrong beside its output's numbers: one test for each kind, by a planted fault."""

from __future__ import annotations

import functools
import itertools
from collections import OrderedDict
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from inductor_debug_jupyter import ComparisonConfig, KernelDiffHarness
from inductor_debug_jupyter.pipeline.diff import DiffReport, compare_tensors
from inductor_debug_jupyter.pipeline.diff.recording import Recording

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

Run = Callable[..., Any]


def backend(wrap: Callable[[Run], Run]) -> Callable[..., Any]:
    """A backend that runs the graph through ``wrap``; a new one for each graph."""

    def planted(graph_module: torch.fx.GraphModule, example_inputs: Any) -> Run:
        return wrap(graph_module.forward)

    return planted


def after(change: Callable[[torch.Tensor], Any]) -> Callable[..., Any]:
    """A backend whose first output is changed so."""

    def wrap(run: Run) -> Run:
        def changed(*args: Any) -> Any:
            first, *rest = run(*args)
            return (change(first), *rest)

        return changed

    return backend(wrap)


@backend
def faithful(run: Run) -> Run:
    return run


@backend
def forgets_writes(run: Run) -> Run:
    return lambda *args: run(*(arg.detach().clone() if isinstance(arg, torch.Tensor) else arg for arg in args))


def compared(model: Any, candidate: Any, *inputs: torch.Tensor, **options: Any) -> tuple[DiffReport, dict[str, str]]:
    """The report, and why each output is wrong."""
    report = KernelDiffHarness(model, inputs or (torch.randn(4, 3),), test_backend=candidate, **options).compare()
    return report, {output.path: output.reason for output in report.outputs if output.verdict == "mismatch"}


class Scaled(nn.Module):
    """Writes to a parameter in its forward."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.scale.mul_(2)
        return x * 1.5


class Cached(nn.Module):
    """Keeps tensors in places that no state_dict knows."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = torch.zeros(3)
        self.history = [torch.zeros(3)]
        self.named = {"last": torch.zeros(3)}
        self.box = SimpleNamespace(pair=(torch.zeros(3), 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cache.add_(x[0])
        self.history[0].add_(x[1])
        self.named["last"].add_(x[2])
        self.box.pair[0].add_(x[3])
        return x * 1.5


COUNT = torch.zeros(3)
TABLE = {"seen": torch.zeros(3)}
LAYER = nn.Linear(3, 3)


def counts(x: torch.Tensor) -> torch.Tensor:
    COUNT.add_(x[0])
    TABLE["seen"].add_(x[1])
    return x * 1.5


def counts_anew(x: torch.Tensor) -> torch.Tensor:
    global COUNT
    COUNT = COUNT + x[0]
    return x * 1.5


def test_a_lost_write_to_a_parameter() -> None:
    assert compared(Scaled(), faithful)[0].verdict == "match"
    report, wrong = compared(Scaled(), forgets_writes)
    assert report.verdict == "mismatch"
    assert set(wrong) == {"parameter:scale"}


def test_lost_writes_to_attributes_lists_and_dicts() -> None:
    model = Cached()
    assert compared(model, faithful)[0].verdict == "match"
    _, wrong = compared(model, forgets_writes)
    assert set(wrong) == {
        "attribute:cache",
        "attribute:history[0]",
        "attribute:named['last']",
        "attribute:box.pair[0]",
    }
    assert not any(value.any() for value in (model.cache, model.history[0], model.named["last"], model.box.pair[0]))


def test_lost_writes_to_globals() -> None:
    assert compared(counts, faithful)[0].verdict == "match"
    assert set(compared(counts, forgets_writes)[1]) == {"global:COUNT", "global:TABLE['seen']"}
    assert not COUNT.any()
    assert not TABLE["seen"].any()


def test_a_tensor_that_is_replaced_is_compared() -> None:
    @backend
    def wrong_state(run: Run) -> Run:
        return lambda *args: tuple(value + 1 if value.shape == (3,) else value for value in run(*args))

    before = COUNT
    assert compared(counts_anew, faithful)[0].verdict == "match"
    assert set(compared(counts_anew, wrong_state)[1]) == {"global:COUNT"}
    assert COUNT is before

    class Remembers(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.last = x[0] * 2
            return x * 1.5

    model = Remembers()
    assert set(compared(model, wrong_state)[1]) == {"attribute:last"}
    assert not hasattr(model, "last")


@pytest.mark.parametrize("gradients", [False, True])
def test_wrong_strides(gradients: bool) -> None:
    transposed = after(lambda out: out.mT.contiguous().mT)
    report, wrong = compared(lambda x: x * 2, transposed, torch.ones(4, 3, requires_grad=True), backward=gradients)
    assert report.verdict == "mismatch"
    assert wrong == {"output": "the strides differ: [3, 1] against [1, 4]"}
    single = after(lambda out: out.as_strided((1, 3), (77, 1)))
    assert compared(lambda x: x[:1] * 2, single)[0].verdict == "match", "a stride nobody can see"


def test_strides_that_torchs_own_tracing_changes_are_a_note() -> None:
    def scattered(x: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(x).scatter_(1, torch.zeros(4, 3, dtype=torch.long), x)

    report, _ = compared(scattered, "aot_eager", torch.randn(3, 4).T)
    assert report.verdict == "match", str(report)
    assert any("output: the strides differ, [1, 4] against [3, 1]" in note for note in report.record.notes)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("model", "fault", "reason"),
    [
        (lambda x: x.view(-1), lambda out: out.clone(), "the reference's shares memory with input:x"),
        (lambda x: (x * 2)[0], None, ""),
        (lambda x: (lambda y: (y, y[0]))(x * 2), lambda out: out.clone(), "shares memory with [1], the candidate's"),
        (lambda x: x.clone(), None, ""),
    ],
)
def test_memory_that_is_shared_no_more(model: Any, fault: Any, reason: str) -> None:
    assert compared(model, faithful)[0].verdict == "match"
    if fault is not None:
        report, wrong = compared(model, after(fault))
        assert report.verdict == "mismatch"
        assert any(reason in each for each in wrong.values()), wrong


def test_memory_that_is_shared_and_should_not_be() -> None:
    @backend
    def gives_the_input(run: Run) -> Run:
        return lambda *args: (args[0],)

    report, wrong = compared(lambda x: x.clone(), gives_the_input)
    assert report.verdict == "mismatch"
    assert "the candidate's shares memory with input:x" in wrong["output"]


@backend
def wrong_from_call_2(run: Run) -> Run:
    calls = iter(range(100))
    return lambda *args: tuple(value + 1 if next(calls) else value for value in run(*args))


def test_a_fault_that_only_later_calls_have() -> None:
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    assert compared(model, wrong_from_call_2)[0].verdict == "match", "one call was asked for"
    for repeats in (2, 3):
        report, wrong = compared(model, wrong_from_call_2, repeats=repeats)
        assert report.verdict == "mismatch"
        assert set(wrong) == {"call 2: output"}, "the call is named; the third is no worse"
    report, wrong = compared(model, faithful, repeats=3, backward=True)
    assert report.verdict == "match"
    assert not any(output.path.startswith("call") for output in report.outputs)


def test_values_that_were_baked_in_at_the_first_call() -> None:
    @backend
    def bakes_in(run: Run) -> Run:
        first: list[torch.Tensor] = []

        def baked(*args: Any) -> Any:
            mean = next(arg for arg in args if arg.shape == (3,))
            first.append(mean.clone())
            return (run(*args)[0] + first[0] - first[-1],)

        return baked

    class Running(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.mean.lerp_(x.mean(0), 0.5)
            return x - self.mean

    model = Running()
    assert compared(model, faithful, repeats=3)[0].verdict == "match"
    assert compared(model, bakes_in)[0].verdict == "match"
    assert set(compared(model, bakes_in, repeats=2)[1]) == {"call 2: output"}
    assert not model.mean.any()


def closing_over(*modules: nn.Module) -> Callable[..., Any]:
    lin, bn = modules

    def function(x: torch.Tensor) -> Any:
        return bn(lin(x))

    return function


class Runner:
    """A plain object whose method calls modules."""

    def __init__(self, lin: nn.Module, bn: nn.Module) -> None:
        self.lin, self.bn = lin, bn

    def __call__(self, x: torch.Tensor) -> Any:
        return self.bn(self.lin(x))

    def step(self, x: torch.Tensor) -> Any:
        return self(x)


def with_default(lin: nn.Module, bn: nn.Module) -> Callable[..., Any]:
    def function(x: torch.Tensor, lin: nn.Module = lin, bn: nn.Module = bn) -> Any:
        return bn(lin(x))

    return function


def applied(x: torch.Tensor, *, lin: nn.Module, bn: nn.Module) -> Any:
    return bn(lin(x))


CALLABLES: dict[str, Callable[[nn.Module, nn.Module], Callable[..., Any]]] = {
    "closure": closing_over,
    "nested": lambda lin, bn: lambda x: closing_over(lin, bn)(x),
    "partial": lambda lin, bn: functools.partial(applied, lin=lin, bn=bn),
    "bound method": lambda lin, bn: Runner(lin, bn).step,
    "object": Runner,
    "wrapped": lambda lin, bn: torch.no_grad()(torch.enable_grad()(closing_over(lin, bn))),
    "default": with_default,
}


@pytest.mark.every(2)
@pytest.mark.parametrize("form", CALLABLES)
def test_modules_that_a_function_reaches(form: str) -> None:
    lin, bn = nn.Linear(3, 3), nn.BatchNorm1d(3)
    function = CALLABLES[form](lin, bn)
    function(torch.randn(4, 3)).sum().backward()
    pending = function(torch.randn(4, 3)).sum()
    kept = {name: value.clone() for module in (lin, bn) for name, value in module.state_dict().items()}
    gradients = [(parameter.grad, parameter.grad.clone()) for parameter in (*lin.parameters(), *bn.parameters())]  # type: ignore[union-attr]

    report, _ = compared(function, faithful, backward=True)
    assert report.verdict == "match", str(report)
    paths = {output.path for output in report.outputs}
    assert {"grad:lin.weight", "grad:lin.bias", "grad:bn.weight", "buffer:bn.running_mean"} <= paths

    @backend
    def loses_gradients(run: Run) -> Run:
        return lambda *args: run(*(arg.detach().requires_grad_(arg.requires_grad) for arg in args))

    report, wrong = compared(function, loses_gradients, backward=True)
    assert report.verdict == "mismatch"
    assert {"grad:lin.weight", "grad:lin.bias", "grad:bn.weight", "grad:bn.bias"} <= set(wrong)
    assert "the candidate has no gradient" in wrong["grad:lin.weight"]
    assert "buffer:bn.running_mean" in compared(function, forgets_writes)[1]

    now = {name: value for module in (lin, bn) for name, value in module.state_dict().items()}
    assert all(torch.equal(now[name], value) for name, value in kept.items())
    for parameter, (gradient, value) in zip((*lin.parameters(), *bn.parameters()), gradients, strict=True):
        assert parameter.grad is gradient
        assert torch.equal(gradient, value)  # type: ignore[arg-type]
    pending.backward()  # the user's own graph is whole


def test_gradients_of_globals_and_plain_tensors() -> None:
    weight = torch.randn(3, 3, requires_grad=True)
    computed = torch.randn(3, requires_grad=True) * 2

    def function(x: torch.Tensor) -> torch.Tensor:
        return LAYER(x) @ weight + computed

    report, _ = compared(function, faithful, backward=True)
    assert report.verdict == "match", str(report)
    assert {"grad:weight", "grad:computed", "grad:LAYER.weight"} <= {output.path for output in report.outputs}
    assert weight.grad is None
    assert LAYER.weight.grad is None
    computed.sum().backward()


def test_a_training_step_with_its_optimizer() -> None:
    lin = nn.Linear(3, 3)
    optimizer = torch.optim.SGD(lin.parameters(), lr=0.1, momentum=0.9)
    kept = lin.weight.detach().clone()

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        with torch.enable_grad():
            loss = lin(x).square().mean()
            loss.backward()
        optimizer.step()
        return loss.detach()

    report, _ = compared(step, faithful, repeats=2)
    assert report.verdict in {"match", "not_compared"}, str(report)
    assert any(output.path == "parameter:lin.weight" for output in report.outputs), str(report)
    assert torch.equal(lin.weight, kept)
    assert not optimizer.state
    assert lin.weight.grad is None


def test_random_numbers_of_the_models_own() -> None:
    generator = torch.Generator().manual_seed(3)
    state = generator.get_state()
    report, _ = compared(lambda x: x * torch.rand(3, generator=generator), "eager", repeats=2)
    assert report.verdict == "match", str(report)
    assert torch.equal(generator.get_state(), state)


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda out: out.detach(), "the candidate cannot: there it is detached"),
        (lambda out: None, "the candidate has no such output; the reference has a tensor float32 [4, 3]"),
        (lambda out: out.detach().numpy(), "a tensor float32 [4, 3] against a numpy array float32 [4, 3]"),
        (lambda out: 1.5, "a tensor float32 [4, 3] against 1.5"),
        (lambda out: [out], "has no such output"),
        (lambda out: out.double(), "the dtypes differ: float32 against float64"),
        (lambda out: out[:1], "the shapes differ: [4, 3] against [1, 3]"),
    ],
    ids=["detached", "None", "numpy", "number", "list", "dtype", "shape"],
)
def test_an_output_that_is_another_thing(change: Any, reason: str) -> None:
    def function(x: torch.Tensor) -> Any:
        hidden = LAYER(x)
        return hidden, hidden.sum()

    report, wrong = compared(function, after(change), backward=True)
    assert report.verdict == "mismatch", str(report)
    assert any(reason in each for path, each in wrong.items() if path.startswith("[0]")), wrong
    assert LAYER.weight.grad is None


def test_an_output_on_another_device() -> None:
    _, wrong = compared(lambda x: x + 1, after(lambda out: out.to("meta")))
    assert wrong == {"output": "the devices differ: cpu against meta"}


@pytest.mark.parametrize(
    ("outputs", "told"),
    [
        (lambda made: made[:1], "a graph of 2 outputs gave 1"),
        (lambda made: [*made, made[0]], "a graph of 2 outputs gave 3"),
        (lambda made: made[0], "a graph of 2 outputs gave no tuple or list, but Tensor"),
    ],
    ids=["fewer", "more", "bare"],
)
def test_another_number_of_outputs(outputs: Any, told: str) -> None:
    planted = backend(lambda run: lambda *args: outputs(run(*args)))
    report, wrong = compared(lambda x: (x + 1, x * 2), planted)
    assert report.verdict == "mismatch"
    assert wrong["graph"] == told
    as_list = backend(lambda run: lambda *args: list(run(*args)))
    assert compared(lambda x: (x + 1, x * 2), as_list)[0].verdict == "match"


def test_nan_in_the_same_places_is_equal_between_executions() -> None:
    x = torch.tensor([-1.0, 0.0, 1.0])
    assert compared(torch.log, faithful, x)[0].verdict == "match"
    assert compared(torch.log, after(lambda out: out.nan_to_num(0.0)), x)[0].verdict == "mismatch"
    strict = ComparisonConfig(equal_nan=False)
    assert compared(torch.log, faithful, x, comparison_config=strict)[0].verdict == "mismatch"
    nan = torch.tensor([float("nan")])
    assert not compare_tensors(nan, nan).passed, "as torch.testing"
    assert compare_tensors(nan, nan, ComparisonConfig(equal_nan=True)).passed


@pytest.mark.parametrize("kind", [torch.int64, torch.bool])
def test_whole_numbers_are_equal_or_wrong(kind: torch.dtype) -> None:
    def one_off(out: torch.Tensor) -> torch.Tensor:
        out = out.clone()
        out[0, 0] = ~out[0, 0]
        return out

    x = torch.arange(4096.0).reshape(64, 64) - 7
    loose = ComparisonConfig(atol=10.0)
    report, _ = compared(lambda x: x.to(kind), after(one_off), x, comparison_config=loose)
    assert report.verdict == "mismatch"


def test_a_recording_says_what_it_cannot_tell(tmp_path: Any) -> None:
    x = torch.randn(4, 3)
    harness = KernelDiffHarness(Scaled(), (x,), test_backend="aot_eager")
    whole = harness.record(tmp_path / "whole.safetensors")
    report, _ = compared(Scaled(), whole, x)
    assert report.verdict == "match", str(report)
    assert any(output.path == "parameter:scale" for output in report.outputs)
    outputs = Recording({"output": whole.values["output"]})
    report, _ = compared(Scaled(), outputs, x, repeats=2)
    assert report.verdict == "match"
    told = " ".join(report.record.notes)
    assert "not in the recording: parameter:scale" in told
    assert "strides and shared memory were not compared" in told
    assert "only one call was compared" in told
    array = Recording({"output": np.arange(3.0)}).save(tmp_path / "array.safetensors")
    assert isinstance(Recording.load(array).values["output"], np.ndarray)


def test_a_write_past_the_copy_is_told() -> None:
    counter = torch.zeros(3)
    within_reach, out_of_sight = {counter}, itertools.repeat(counter)

    def function(x: torch.Tensor) -> torch.Tensor:
        next(iter(within_reach)).add_(1)
        return x + counter

    assert compared(function, "eager", torch.randn(3))[0].verdict == "match"
    assert not counter.any()

    def function(x: torch.Tensor) -> torch.Tensor:
        next(out_of_sight).add_(1)
        return x + counter

    report = KernelDiffHarness(function, (torch.randn(3),), test_backend="eager").compare()
    assert report.verdict == "not_compared"
    assert "the user's own closure:counter" in " ".join(report.record.notes)


class Instantiating(OrderedDict):  # type: ignore[type-arg]
    """As the table of activations in transformers: an item is made when it is read."""

    def __getitem__(self, key: str) -> Any:
        return super().__getitem__(key)()


ACTIVATIONS = Instantiating(relu=nn.ReLU, tanh=nn.Tanh)


def test_a_table_that_makes_its_items_stays_as_it_is() -> None:
    lin = nn.Linear(3, 3)

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(lin(x)) * len(ACTIVATIONS)

    assert KernelDiffHarness(function, (torch.randn(4, 3),), test_backend="aot_eager").compare().verdict == "match"
    assert isinstance(ACTIVATIONS["relu"], nn.ReLU)
    assert dict.__getitem__(ACTIVATIONS, "tanh") is nn.Tanh


def test_tensors_in_a_container_with_code_of_its_own_are_said_not_to_be_compared() -> None:
    kept = Instantiating(state=torch.zeros(3))

    def function(x: torch.Tensor) -> torch.Tensor:
        return x * len(kept)

    record = KernelDiffHarness(function, (torch.randn(3),), test_backend="aot_eager").compare().record
    assert any("tensors in a Instantiating were not compared" in note for note in record.notes)
