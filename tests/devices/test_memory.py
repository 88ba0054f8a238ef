"""The estimated peak, against what a dispatch mode measures while the same graph runs."""

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from inductor_debug_jupyter import MemoryConstraint, capture
from inductor_debug_jupyter.pipeline.capture.graphs import graph_record
from inductor_debug_jupyter.pipeline.devices import check, memory_of
from inductor_debug_jupyter.pipeline.records import CompileCapture, GraphRecord, NodeRecord, TensorSpec
from inductor_debug_jupyter.pipeline.torch_compat.peak import MeasuredPeak
from inductor_debug_jupyter.pipeline.torch_compat.replay import AotKeeper
from inductor_debug_jupyter.pipeline.views.memory import memory_lines, memory_view

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def measured(graph_module, args):
    with torch.no_grad(), MeasuredPeak(args) as mode:
        graph_module(*args)
    return mode.peak


def views(x):
    y = x.exp()
    a, b = y[:50], y.t()
    return a.sin().sum() + b.cos().sum()


def in_place(x):
    y = x + 1
    y.mul_(2)
    return y.sin()


def returns_its_input(x):
    return x, x.view(-1), x.exp()


def dies_early(x):
    return ((x + 1).sum() + (x + 2).sum()) + (x + 3)


def several_results(x):
    values, index = torch.sort(x)
    return values.exp() + index


def broadcast(x):
    return (x[:1].expand(200, 100) + x[:, :1]).sum()


CASES = [views, in_place, returns_its_input, dies_early, several_results, broadcast]


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_aliases_are_counted_once(function):
    x = torch.randn(200, 100)
    graph_module = make_fx(function, tracing_mode="fake")(x.clone())
    estimate = memory_of(graph_record("forward", graph_module))
    assert estimate.peak == measured(graph_module, [x])


def test_the_measuring_mode_itself_counts_what_is_alive():
    x = torch.ones(1000)
    with MeasuredPeak([x]) as mode:
        y = x + 1
        z = y + 1
        del y
        w = z.view(10, 100) + 1
    assert (mode.peak, mode.alive) == (3 * 4000, 3 * 4000)
    assert w.shape == (10, 100)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(32, 96), nn.Linear(32, 32), nn.LayerNorm(32)

    def forward(self, x):
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        return x + self.out(nn.functional.scaled_dot_product_attention(q, k, v))


def test_forward_and_backward_are_within_five_percent_of_an_aot_replay():
    keeper = AotKeeper()
    model: nn.Module = nn.Sequential(Block(), Block())
    torch.compile(model, backend=keeper)(torch.randn(2, 1, 10, 32)).sum().backward()
    for kept in keeper.graphs:
        estimate = memory_of(graph_record(kept.stage, kept.graph_module))
        assert estimate.peak == pytest.approx(measured(kept.graph_module, kept.args), rel=0.05)


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.grow = nn.Linear(16, 4096, bias=False)

    def forward(self, x):
        wide = self.grow(x)
        return torch.relu(wide).sum()


def test_the_peak_names_the_tensors_and_their_lines():
    with capture(eager=True, lower="aot", target="default") as session, torch.no_grad():
        Wide()(torch.randn(100, 16))
    (record,) = session.memory
    assert record.peak == session.peak_memory == max(record.timeline)
    assert len(record.timeline) == len(session.captures[0].graph("forward").nodes)
    assert sum(tensor.bytes for tensor in record.alive) == record.peak
    first = record.alive[0]
    assert first.source.text.strip() == "wide = self.grow(x)"
    assert "grow.weight" in {tensor.origin for tensor in record.alive if tensor.role == "parameter"}
    text = "\n".join(memory_lines(record, limit=1000))
    assert "over the limit" in text
    assert "test_memory.py, line" in text


def test_a_picture_of_many_nodes_keeps_the_peak():
    from dataclasses import replace

    with capture(eager=True, lower="aot") as session, torch.no_grad():
        Wide()(torch.randn(4, 16))
    long = replace(session.memory[0], timeline=(*range(5000), 99_999, *range(5000)), peak=99_999)
    points = memory_view(long)["points"]
    assert len(points) <= 400
    assert (5000, 99_999) in points


def test_symbolic_sizes_are_taken_as_they_were_and_that_is_said():
    x = torch.randn(100, 16)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=512)
    with (
        capture(eager=True, lower="aot", constraints=[MemoryConstraint(1000)]) as session,
        torch.no_grad(),
    ):
        nn.Sequential(nn.ReLU())(x)
    (record,) = session.memory
    assert list(record.assumed.values()) == [100]
    assert record.peak == 2 * 100 * 16 * 4
    assert all(" = 100" in finding.title for finding in session.findings)
    assert len(session.findings) == 2  # each tensor, and the peak


@torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)
def test_a_size_that_depends_on_values_counts_as_the_most_it_can_be():
    class Chosen(nn.Module):
        def forward(self, x):
            return x[x > 0] * 2

    with capture(eager=True, lower="aot", constraints=[]) as session, torch.no_grad():
        Chosen()(torch.randn(100))
    (record,) = session.memory
    assert list(record.assumed.values()) == [100]
    assert record.peak == 3 * 400  # x, what was chosen of it, and twice that


def test_a_size_that_cannot_be_known_is_a_finding_not_a_pass():
    nodes = (
        NodeRecord("u", "call_function", "aten.nonzero.default", (), (TensorSpec(("u0",), "int64", (1,), storage=0),)),
        NodeRecord("output", "output", "output", ("u",)),
    )
    graph = GraphRecord("forward", nodes, {"u0": "[0, ∞]"})
    (finding,) = check([CompileCapture("0/0", graphs={"forward": graph})], [MemoryConstraint()])
    assert (finding.severity, finding.title) == ("warning", "the peak of the forward graph is not known")
    assert memory_of(graph) is None


def test_a_reduction_over_rows_longer_than_the_scratchpad():
    from inductor_debug_jupyter.pipeline.devices.memory import ScratchpadConstraint

    with capture(eager=True, lower="aot", constraints=[ScratchpadConstraint(1024)]) as session, torch.no_grad():
        nn.Sequential(nn.Softmax(-1))(torch.randn(2, 1000))
    (finding,) = session.findings
    assert finding.title == "a row of 3.9 KiB is over the scratchpad of 1 KiB"


def test_torch_still_says_what_a_symbol_was():
    """A canary: without it, sizes that are symbolic are not known, and every peak of a dynamic graph is a finding."""
    x = torch.randn(6, 3)
    torch._dynamo.mark_dynamic(x, 0)
    with capture(eager=True, lower="aot", constraints=[]) as session, torch.no_grad():
        nn.Sequential(nn.ReLU())(x)
    assert list(session.captures[0].graph("forward").hints.values()) == [6]
