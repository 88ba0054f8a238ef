"""An adapter or backend in a process of its own computes what it computes here, and survives what it cannot here."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import nn

from inductor_debug_jupyter.pipeline.adapters import AcceleratorAdapter, BackendAdapter, IsolatedAdapter
from inductor_debug_jupyter.pipeline.adapters.graph_json import read_graph, write_graph
from inductor_debug_jupyter.pipeline.errors import (
    AdapterError,
    BackendCrashError,
    CannotSendError,
    OptionError,
    UsageError,
)

pytestmark = pytest.mark.usefixtures("fresh_dynamo", "vendor")


@pytest.fixture(scope="module")
def aot() -> Iterator[IsolatedAdapter]:
    adapter = IsolatedAdapter("aot_eager", timeout=120)
    yield adapter
    adapter.close()


def compiled(model: Any, adapter: AcceleratorAdapter, **options: Any) -> Any:
    return torch.compile(model, backend=adapter.as_backend(fallback=False), **options)


def test_training_is_the_same_to_the_last_bit(aot: IsolatedAdapter) -> None:
    torch.manual_seed(0)
    here = nn.Sequential(nn.Linear(6, 6), nn.BatchNorm1d(6), nn.Dropout(0.5), nn.GELU())
    there = copy.deepcopy(here)
    x = torch.randn(8, 6)
    results = []
    for model, function in ((here, here), (there, compiled(there, aot))):
        given = x.clone().requires_grad_()
        torch.manual_seed(1)
        out = function(given)
        out.pow(2).sum().backward()
        results.append([out, given.grad, *(p.grad for p in model.parameters()), *model.buffers(), torch.rand(1)])
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)
    assert not aot.crashes


def test_views_writes_and_sizes(aot: IsolatedAdapter) -> None:
    def function(x: torch.Tensor) -> Any:
        x.mul_(2)
        return x.t(), x, x[1:].sin(), x.shape[0] + 1, None

    run = compiled(function, aot, dynamic=True)
    for rows in (3, 4, 5):
        x, y = torch.ones(rows, 2), torch.ones(rows, 2)
        view, same, fresh, size, nothing = run(x)
        assert torch.equal(fresh, function(y)[2])
        assert torch.equal(x, y), "the write arrived"
        assert same is x
        assert view.data_ptr() == x.data_ptr()
        assert (size, nothing) == (rows + 1, None)


def test_modes_go_along(aot: IsolatedAdapter) -> None:
    x = torch.randn(4, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert compiled(lambda x: x @ x, aot)(x).dtype == torch.bfloat16
    with torch.inference_mode():
        assert torch.equal(compiled(lambda x: x + 1, aot)(x), x + 1)
    with torch.no_grad():
        assert not compiled(lambda x: x * 3, aot)(x.requires_grad_()).requires_grad


def test_a_second_backward_is_refused_in_one_line(aot: IsolatedAdapter) -> None:
    x = torch.ones(3, requires_grad=True)
    loss = compiled(lambda x: (x * x).sum(), aot)(x)
    loss.backward(retain_graph=True)
    with pytest.raises(AdapterError, match="ran already"):
        loss.backward()


@pytest.mark.parametrize(
    ("when", "how"),
    [
        ("run", "segfault"),
        ("run", "abort"),
        ("run", "exit"),
        ("run", "hang"),
        ("compile", "segfault"),
        ("compile", "hang"),
    ],
)
def test_a_crash_is_an_error_that_tells(when: str, how: str) -> None:
    import vendor

    adapter = IsolatedAdapter(vendor.Faulty(vendor.Fault("relu", how), when=when), timeout=2 if how == "hang" else 60)
    with pytest.raises(BackendCrashError) as raised:
        compiled(lambda x: torch.relu(x.sin()), adapter)(torch.ones(3))
    crash = raised.value.crash
    assert adapter.crashes == [crash]
    assert (crash.backend, crash.phase, crash.graph) == ("faulty", when, "a graph of 2 ops")
    assert crash.kind == {"exit": "exit", "hang": "timeout"}.get(how, "signal")
    if when == "run":
        assert "relu" in crash.op
    assert str(raised.value).startswith("faulty ")
    adapter.close()


def test_life_goes_on_after_a_crash() -> None:
    import vendor

    adapter = IsolatedAdapter(vendor.Faulty(vendor.Fault("relu")), timeout=60)
    good = compiled(lambda x: x.sin(), adapter)
    x = torch.ones(3)
    assert torch.equal(good(x), x.sin())
    with pytest.raises(BackendCrashError):
        compiled(torch.relu, adapter)(x)
    assert torch.equal(good(x), x.sin()), "the good graph is sent again to the next process"
    adapter.close()


def test_without_strictness_it_falls_back_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    import vendor

    backend = vendor.Faulty(vendor.Fault("", "abort"), when="compile").as_backend(isolate=True, timeout=60)
    x = torch.ones(3)
    assert torch.equal(torch.compile(lambda x: x.cos(), backend=backend)(x), x.cos())
    assert "not compiled, runs eagerly: faulty died of SIGABRT" in caplog.text


def test_an_exception_over_there_names_the_op() -> None:
    import vendor

    adapter = IsolatedAdapter(vendor.Faulty(vendor.Fault("relu", "raise")), timeout=60)
    with pytest.raises(AdapterError, match=r"faulty raised while it ran at torch\S*relu.*: RuntimeError: no kernel"):
        compiled(lambda x: torch.relu(x.sin()), adapter)(torch.ones(3))
    assert not adapter.crashes
    adapter.close()


def test_arguments_and_specs_go_over() -> None:
    import vendor

    adapter = IsolatedAdapter(vendor.Faulty(vendor.Fault("none", level=vendor.Level.HIGH), offset=1.0))
    gm = torch.fx.symbolic_trace(lambda x: (torch.relu(x),))
    result = adapter.build(gm, [torch.ones(2)])
    assert result.run is not None, result.reason
    assert [spec["level"] for spec in result.kernel_specs] == ["HIGH"]
    assert torch.equal(result.run(torch.ones(2))[0], torch.full((2,), 2.0)), "the offset went over"
    adapter.close()


def test_the_simulator_crashes_and_tells_over_there_as_here() -> None:
    from inductor_debug_jupyter.pipeline.adapters import StickAdapter
    from inductor_debug_jupyter.pipeline.adapters.device_log import DeviceLog, listening

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x.clone())

    x = torch.arange(65, dtype=torch.float16) - 3
    told = []
    adapter = IsolatedAdapter(StickAdapter(check=False), timeout=60)
    for each in (StickAdapter(check=False), adapter):
        log = DeviceLog()
        with listening(log):
            out = compiled(function, each)(x)
        assert torch.equal(out, function(x))
        told.append((tuple(log.transfers), [kernel.spec for kernel in log.kernels.values()]))
        torch._dynamo.reset()
    assert told[0][0]
    assert [(each.direction, each.device_layout) for each in told[0][0]] == [
        (each.direction, each.device_layout) for each in told[1][0]
    ]
    assert told[0][1] == told[1][1]
    adapter.close()
    crashing = IsolatedAdapter(StickAdapter(faults=["crash:relu"], check=False), timeout=60)
    with pytest.raises(BackendCrashError, match=r"stick128 died of SIGSEGV .* while it ran a graph of 2 ops"):
        compiled(function, crashing)(x)
    crashing.close()


def test_by_name_nothing_foreign_is_imported_here() -> None:
    import subprocess
    import sys

    script = (
        "import sys, torch\n"
        "from inductor_debug_jupyter import IsolatedAdapter\n"
        "adapter = IsolatedAdapter('vendor:Says')\n"
        "print(adapter.capabilities(), adapter.capabilities().unknown)\n"
        "x = torch.ones(3)\n"
        "assert torch.equal(torch.compile(torch.sin, backend=adapter.as_backend(fallback=False))(x), x.sin())\n"
        "assert 'vendor' not in sys.modules\n"
    )
    run = f"import sys; sys.path[:] = {sys.path!r}\n{script}"
    result = subprocess.run([sys.executable, "-c", run], capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stderr
    assert result.stdout.startswith("Says: dtypes unknown; ops unknown; memory unknown")


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: BackendAdapter(lambda gm, inputs: gm.forward), "a lambda cannot go to another process; put it into"),
        (lambda: _local_class()("aot_eager"), "is defined inside a function"),
        (lambda: _notebook_class()("aot_eager"), "is defined in this notebook or script"),
        (lambda: _faulty(object()), "an argument of Faulty: a builtins.object cannot go"),
        (lambda: _faulty(torch.ones(2)), "an argument of Faulty is a tensor"),
    ],
)
def test_what_cannot_be_sent_is_refused_with_what_to_do(make: Any, named: str) -> None:
    with pytest.raises(CannotSendError, match=named):
        make().as_backend(isolate=True)


def _local_class() -> Any:
    class Local(BackendAdapter):
        pass

    return Local


def _notebook_class() -> Any:
    return type("MyAdapter", (BackendAdapter,), {"__module__": "__main__"})


def _faulty(fault: Any) -> Any:
    import vendor

    return vendor.Faulty(fault)


def test_a_backend_of_a_notebook_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.backends import registry

    def mine(gm: Any, inputs: Any) -> Any:
        return gm.forward

    mine.__module__ = "__main__"
    monkeypatch.setitem(registry._COMPILER_FNS, "mine", mine)
    monkeypatch.setitem(registry._BACKENDS, "mine", None)
    with pytest.raises(CannotSendError, match="'mine' was registered in this notebook or script"):
        IsolatedAdapter("mine")


def test_a_graph_that_calls_what_only_we_have_is_refused() -> None:
    def ours(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    graph = torch.fx.Graph()
    graph.output(graph.call_function(ours, (graph.placeholder("x"),)))
    gm = torch.fx.GraphModule(nn.Module(), graph)
    with pytest.raises(CannotSendError, match=r"node ours calls .*ours, which another process cannot import; define"):
        write_graph(gm)
    graph = torch.fx.Graph()
    added = graph.call_function(torch.add, (graph.placeholder("x"), 1))
    graph.output(added)
    gm = torch.fx.GraphModule(nn.Module(), graph)
    next(node for node in gm.graph.nodes if node.name == "add").args = (next(iter(gm.graph.nodes)), object())
    with pytest.raises(CannotSendError, match=r"node add: a builtins\.object"):
        write_graph(gm)


def test_an_op_that_a_fresh_interpreter_lacks_is_named() -> None:
    library = torch.library.Library("only_here", "DEF")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
    graph = torch.fx.Graph()
    graph.output(graph.call_function(torch.ops.only_here.twice.default, (graph.placeholder("x"),)))
    adapter = IsolatedAdapter("aot_eager", timeout=60)
    result = adapter.build(torch.fx.GraphModule(nn.Module(), graph), [torch.ones(2)])
    assert result.run is None
    assert (
        "there is no only_here.twice.default in a fresh interpreter; name the module that defines it" in result.reason
    )
    adapter.close()


def test_a_graph_is_the_same_after_writing_and_reading() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.register_buffer("scale", torch.tensor([1.0, 2.0, 3.0]))

        def forward(self, x: torch.Tensor) -> Any:
            return {"a": self.layer(x)[:, 1:] * self.scale[1:], "b": torch.cat([x, x], dim=-1).to(torch.float64)}

    model = Model()
    gm = torch.fx.symbolic_trace(model)
    again = read_graph(write_graph(gm))
    x = torch.randn(2, 3)
    expected, actual = model(x), again(x)
    assert expected.keys() == actual.keys()
    assert all(torch.equal(expected[key], actual[key]) for key in expected)


@pytest.mark.parametrize(
    ("arguments", "error", "named"),
    [
        ({"isolate": True, "timeout": -1}, OptionError, "timeout=-1; allowed"),
        ({"timeout": 3}, UsageError, "give isolate=True as well"),
        ({"isolate": True, "memory": 5}, OptionError, "memory=5"),
    ],
)
def test_bad_limits_are_named(arguments: dict[str, Any], error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        BackendAdapter("aot_eager").as_backend(**arguments)
