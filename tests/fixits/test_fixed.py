"""``fixed(model, …)``: computes what the model does, is trained with it, and is captured like any other."""

from __future__ import annotations

import copy
import gc
import pickle
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import capture, fixed
from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError

pytestmark = pytest.mark.usefixtures("fresh_dynamo")
PADS = {100: 128, 10: 64}


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 100), nn.GELU(), nn.Linear(100, 10))


def test_it_computes_the_same_and_shares_the_weights() -> None:
    net, x = model(), torch.randn(4, 64)
    other = fixed(net, pad=PADS)
    torch.testing.assert_close(other(x), net(x))
    other(x).sum().backward()
    assert net[0].weight.grad is not None
    assert [each.data_ptr() for each in other.parameters()] == [each.data_ptr() for each in net.parameters()]
    with torch.no_grad():
        net[2].bias.fill_(3.0)
    torch.testing.assert_close(other(x), net(x))
    torch.testing.assert_close(other(torch.randn(9, 64)).shape, torch.Size([9, 10]))


def test_any_backend_compiles_the_rewritten_graph() -> None:
    given: list[torch.fx.GraphModule] = []

    def chip(graph_module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        given.append(graph_module)
        return graph_module.forward

    net, x = model(), torch.randn(4, 64)
    torch.testing.assert_close(fixed(net, pad=PADS, backend=chip)(x), net(x))
    shapes = {tuple(node.meta["val"].shape) for node in given[0].graph.nodes if "val" in node.meta}
    assert (128, 64) in shapes
    assert not any(100 in shape or 10 in shape for shape in shapes)
    torch.testing.assert_close(fixed(net, pad=PADS, backend="inductor")(x), net(x))


def test_a_session_sees_the_rewritten_graph(tmp_path: Path) -> None:
    net, x = model(), torch.randn(4, 64)
    other = fixed(net, pad=PADS)
    for _ in range(2):  # compiled in the session, and before it
        with capture(target="stick128", eager=True, lower="aot", artifacts=str(tmp_path)) as session:
            other(x)
        assert session.findings == ()
        shapes = {spec.shape for node in session.record.captures[0].graphs["dynamo"].nodes for spec in node.outputs}
        assert (128, 64) in shapes
    with capture(target="stick128", eager=True, lower="aot", artifacts=str(tmp_path)) as session:
        net(x)
    assert len(session.findings) == 2, "the model itself is as it was"


def test_fixed_twice_is_fixed_in_both_ways() -> None:
    net = model()
    once = fixed(net, pad={100: 128})
    assert fixed(once, pad={100: 128}) is once, "in a loop, nothing is compiled again"
    both = fixed(once, pad={10: 64})
    assert both._orig_mod is net
    given: list[torch.fx.GraphModule] = []
    fixed(once, pad={10: 64}, backend=lambda graph, _: given.append(graph) or graph.forward)(torch.randn(4, 64))
    shapes = {size for node in given[0].graph.nodes if "val" in node.meta for size in node.meta["val"].shape}
    assert {128, 64} <= shapes
    assert not {100, 10} & shapes


def test_a_function_too() -> None:
    weight = torch.randn(100, 64)

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x @ weight.T)

    x = torch.randn(4, 64)
    torch.testing.assert_close(fixed(function, pad={100: 128})(x), function(x))


def test_a_model_that_nobody_needs_goes() -> None:
    net = model()
    fixed(net, pad=PADS)(torch.randn(4, 64))
    seen = weakref.ref(net)
    torch._dynamo.reset()
    del net
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"pad": {784: 784}}, "pad={784: 784}; allowed: a size above 0 and a larger one"),
        ({"pad_products": {"3": 64}}, "pad_products={'3': 64}; allowed: a size above 0 and a larger one"),
        ({"cast": {"float99": "float32"}}, "cast: 'float99' is no dtype; allowed: "),
        ({"decompose": [3]}, "decompose: 3 is not allowed; allowed: names of ops"),
    ],
)
def test_bad_input_gets_one_line(options: Any, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        fixed(model(), **options)
    assert str(caught.value).startswith(said)
    assert "\n" not in str(caught.value)


def test_an_unknown_backend_is_named() -> None:
    with pytest.raises(UsageError, match=r"backend='npu': torch\.compile knows no such backend"):
        fixed(model(), backend="npu")


def test_a_step_that_fixes_its_model_each_time_compiles_once() -> None:
    net, given = model(), []

    def chip(graph_module: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        given.append(graph_module)
        return graph_module.forward

    for _ in range(3):
        fixed(net, pad=PADS, backend=chip)(torch.randn(4, 64))
    assert len(given) == 1
    assert fixed(net, pad=PADS) is not fixed(net, pad={100: 128})
    twin = copy.deepcopy(net)
    assert fixed(twin, pad=PADS)._orig_mod is twin, "a copy is fixed for itself"
    assert list(pickle.loads(pickle.dumps(net)).state_dict()) == list(net.state_dict())
