"""Adapters say what a device can do, check it, compile and run; what fails is a reason, never eager in disguise."""

import logging

import pytest
import torch
from stub_adapters import SilentAdapter
from torch import nn

from inductor_debug_jupyter.pipeline.adapters import (
    AcceleratorAdapter,
    AcceleratorCapabilities,
    CompilationResult,
    IntegratedMockAdapter,
    MockAcceleratorAdapter,
    create_mock_backend,
)
from inductor_debug_jupyter.pipeline.devices import Constraint
from inductor_debug_jupyter.pipeline.errors import (
    ConstraintViolationError,
    InductorDebugError,
    OptionError,
    ProfileError,
    UsageError,
)

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.up = nn.Linear(16, 32)
        self.down = nn.Linear(32, 16)

    def forward(self, x):
        return self.down(torch.relu(self.up(x)))


def traced():
    return torch.fx.symbolic_trace(lambda x: torch.tanh(x.double()) + 1), [torch.randn(4, 8)]


class Broken(SilentAdapter):
    name = "broken"

    def compile(self, gm, inputs):
        raise RuntimeError("no such kernel\nsecond line")


def test_an_adapter_must_answer_everything():
    with pytest.raises(TypeError, match="abstract"):
        AcceleratorAdapter()


def test_capabilities_gather_the_answers():
    mock = MockAcceleratorAdapter(dtypes={"float16", torch.bool}, ops={"mm"}, memory_limit=2**20, alignment=8)
    assert mock.capabilities() == AcceleratorCapabilities(
        "mock",
        frozenset({torch.float16, torch.bool}),
        frozenset({"mm"}),
        2**20,
        8,
        description=mock.description,
    )
    assert Broken().capabilities().ops is None  # not said is not the same as none


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtypes": {"float7"}}, "float7"),
        ({"ops": "mm"}, "ops: 'mm' is not allowed"),
        ({"memory_limit": 0}, "max_memory_bytes: 0 is not allowed"),
        ({"alignment": "8"}, "alignment: '8' is not allowed"),
    ],
)
def test_bad_values_are_told_at_once(options, message):
    with pytest.raises(OptionError, match=message):
        MockAcceleratorAdapter(**options)


def test_the_mock_really_executes_and_trains():
    model, x = Mlp(), torch.randn(3, 16)
    compiled = torch.compile(model, backend=MockAcceleratorAdapter().as_backend(strict=True))
    out = compiled(x)
    assert torch.equal(out, model(x))
    out.sum().backward()
    assert model.up.weight.grad is not None


@pytest.mark.parametrize(
    ("mock", "rule"),
    [
        (MockAcceleratorAdapter(dtypes={torch.float16}), "dtype.unsupported"),
        (MockAcceleratorAdapter(ops={"linear"}), "op.not_supported"),
        (MockAcceleratorAdapter(memory_limit=64), "memory.limit"),
        (MockAcceleratorAdapter(alignment=64), "align.size"),
    ],
)
def test_each_capability_is_a_rule(mock, rule):
    with pytest.raises(ConstraintViolationError) as error:
        torch.compile(Mlp(), backend=mock.as_backend(strict=True))(torch.randn(3, 16))
    assert {finding.rule_id for finding in error.value.findings} == {rule}


def test_names_of_ops_meet_what_they_are_lowered_to():
    model, x = Mlp(), torch.randn(3, 16)
    for ops in ({"linear", "relu"}, {"aten.addmm", "relu"}, {"nn.Linear", "torch.relu"}):
        backend = MockAcceleratorAdapter(ops=ops).as_backend(strict=True)
        with torch.no_grad():
            assert torch.equal(torch.compile(model, backend=backend)(x), model(x))


def test_warning_mode_says_it_and_runs(caplog):
    model, x = Mlp(), torch.randn(3, 16)
    with caplog.at_level(logging.WARNING, "inductor_debug_jupyter"):
        out = torch.compile(model, backend=MockAcceleratorAdapter(ops={"linear"}).as_backend())(x)
    assert torch.equal(out, model(x))
    assert "the target has no relu" in caplog.text


def test_check_and_compile_work_on_any_graph_outside_a_compile():
    gm, inputs = traced()
    mock = MockAcceleratorAdapter()
    for _ in range(10):  # torch allows 8 compiles of the same code
        assert [finding.title for finding in mock.check(gm, inputs)] == ["float64 is not supported"]
    result = mock.compile(gm, inputs)
    assert (result.success, result.run, result.reason) == (False, None, "refused: float64 is not supported")
    relaxed = MockAcceleratorAdapter(strict=False).compile(gm, inputs)
    assert relaxed.success
    assert relaxed.findings
    assert [spec["op"] for spec in relaxed.kernel_specs] == ["double", "torch.tanh", "operator.add"]
    assert torch.equal(relaxed.run(*inputs), gm(*inputs))


def test_a_failed_compile_falls_back_with_a_warning(caplog):
    model, x = Mlp(), torch.randn(3, 16)
    with caplog.at_level(logging.WARNING, "inductor_debug_jupyter"):
        out = torch.compile(model, backend=Broken().as_backend())(x)
    assert torch.equal(out, model(x))
    assert "broken: not compiled, runs eagerly: RuntimeError: no such kernel" in caplog.text


@pytest.mark.parametrize("options", [{"strict": True}, {"fallback": False}])
def test_a_failed_compile_raises_when_it_must(options):
    with (
        torch._dynamo.config.patch(suppress_errors=True),
        pytest.raises(InductorDebugError, match="broken did not compile this graph: RuntimeError: no such kernel"),
    ):
        torch.compile(Mlp(), backend=Broken().as_backend(**options))(torch.randn(3, 16))


def test_what_cannot_be_called_is_not_a_result():
    class Odd(Broken):
        def compile(self, gm, inputs):
            return 42

    assert Odd().build(*traced()).reason == "compile() gave a int, which cannot be called"
    with pytest.raises(OptionError, match="success=True with run=None"):
        CompilationResult(success=True)


def test_the_integrated_mock_is_the_profile_with_the_environment(monkeypatch):
    adapter = IntegratedMockAdapter("stick128")
    assert adapter.capabilities().alignment == 64
    assert torch.float64 not in adapter.get_supported_dtypes()
    monkeypatch.setenv("MOCK_ALIGNMENT", "16")
    monkeypatch.setenv("MOCK_MAX_MEMORY", "1MiB")
    assert adapter.capabilities().alignment == 16
    assert adapter.get_memory_limit() == 2**20
    gm, inputs = traced()
    assert not adapter.compile(gm, inputs).success
    monkeypatch.setenv("MOCK_STRICT", "0")
    assert adapter.compile(gm, inputs).success
    with pytest.raises(ProfileError, match=r"unknown target 'stik128'.*did you mean stick128"):
        IntegratedMockAdapter("stik128")


def test_create_mock_backend(monkeypatch):
    x = torch.randn(2, 12)
    model = nn.Linear(12, 12)
    with pytest.raises(ConstraintViolationError, match="12 is not a multiple of 8"):
        torch.compile(model, backend=create_mock_backend(alignment=8))(x)
    with pytest.raises(ConstraintViolationError, match="12 is not a multiple of 64"):
        torch.compile(model, backend=create_mock_backend(target="stick128"))(x)
    assert torch.equal(torch.compile(model, backend=create_mock_backend())(x), model(x))
    assert torch.equal(torch.compile(model, backend=create_mock_backend(alignment=8, strict=False))(x), model(x))
    monkeypatch.setenv("MOCK_STRICT", "0")
    assert torch.equal(torch.compile(model, backend=create_mock_backend(alignment=8))(x), model(x))


def test_create_mock_backend_refuses_what_does_not_go_together():
    with pytest.raises(UsageError, match="an adapter or options, not both"):
        create_mock_backend(MockAcceleratorAdapter(), alignment=8)
    with pytest.raises(UsageError, match="allowed: target alone"):
        create_mock_backend(target="default", alignment=8)


def test_a_rule_that_fails_is_a_warning_or_a_refusal(caplog):
    class Confused(MockAcceleratorAdapter):
        def rules(self):
            return [ConfusedRule()]

    gm, inputs = traced()
    with caplog.at_level(logging.WARNING, "inductor_debug_jupyter"):
        assert Confused().build(gm, inputs).success
    assert "could not be checked: ZeroDivisionError" in caplog.text
    assert Confused().build(gm, inputs, strict=True).reason.startswith("could not be checked: ZeroDivisionError")


class ConfusedRule(Constraint):
    def check_node(self, node, graph):
        return 1 / 0
