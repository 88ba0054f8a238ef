"""A partitioned graph gives the same bits as the whole one, also when ops write to memory that others see."""

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from inductor_debug_jupyter import DeviceProfile
from inductor_debug_jupyter.pipeline.capture.graphs import graph_record
from inductor_debug_jupyter.pipeline.devices import graph_coverage
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.torch_compat.replay import AotKeeper
from tests.proofs.partitioned import PartitionedGraph

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def copies(args):
    return [arg.clone() if isinstance(arg, torch.Tensor) else arg for arg in args]


def assert_same(graph_module, args, deny, seed=0):
    """Run both ways; answers with the coverage. Outputs, written inputs and planned transfers must agree."""
    record = graph_record("forward", graph_module)
    coverage = graph_coverage(record, DeviceProfile("p", deny=tuple(deny)))
    mine, theirs = copies(args), copies(args)
    partitioned = PartitionedGraph(graph_module, record, coverage.segments)
    torch.manual_seed(seed)
    expected = graph_module(*theirs)
    torch.manual_seed(seed)
    got = partitioned(*mine)
    expected, got = ([each] if isinstance(each, torch.Tensor) else list(each) for each in (expected, got))
    for reference, candidate in zip([*expected, *theirs], [*got, *mine], strict=True):
        if isinstance(reference, torch.Tensor):
            assert torch.equal(reference, candidate)
            assert reference.stride() == candidate.stride()
    planned = sorted((transfer.to, transfer.bytes) for transfer in coverage.transfers)
    assert sorted((moved.to, moved.bytes) for moved in partitioned.moved) == planned
    return coverage


def traced(function, *args):
    """The graph with its in-place ops as they are."""
    return make_fx(function, tracing_mode="fake")(*args)


def write_then_read(x):
    y = x * 2
    view = y[0]
    before = y.sum()
    view.add_(1)  # y.sum() must not see this
    return before + y.exp().sum(), view


def written_input(x, out):
    out.copy_(torch.relu(x) + 1)
    x.mul_(2)
    return out.exp() + x


def overlapping_views(x):
    a, b = x[:3], x[1:]
    a.add_(1)
    c = b * 1.5
    b.sub_(2)
    return a.exp(), c, x.sum()


def random_numbers(x):
    first = torch.rand_like(x)
    second = (x + first).exp() * torch.rand_like(x)
    return first, second


FUNCTIONS = [write_then_read, written_input, overlapping_views, random_numbers]
DENIED = [["add"], ["copy"], ["mul", "relu"], ["exp"], ["add", "exp", "sum"], ["sub", "rand_like"], []]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("deny", DENIED, ids=lambda names: "+".join(names) or "nothing")
def test_in_place_ops_and_copy_are_kept_in_order(function, deny):
    args = [torch.randn(4, 5) for _ in range(function.__code__.co_argcount)]
    coverage = assert_same(traced(function, *copies(args)), args, deny)
    assert sum(len(segment.nodes) for segment in coverage.segments) == coverage.nodes
    if not deny:
        assert [segment.side for segment in coverage.segments] == ["device"]


def test_what_a_mutation_unsafe_order_would_break():
    """The read before the write stays before it, although it could join a later segment of its side."""
    graph_module = traced(write_then_read, torch.randn(4, 5))
    record = graph_record("forward", graph_module)
    coverage = graph_coverage(record, DeviceProfile("p", deny=("sum",)))
    order = [name for segment in coverage.segments for name in segment.nodes]
    targets = [record.by_name[name].target for name in order]
    assert targets.index("aten.sum.default") < targets.index("aten.add_.Tensor")


class Trained(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.norm, self.drop = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.5)
        self.register_buffer("seen", torch.zeros(16))

    def forward(self, x):
        h = self.drop(self.norm(torch.relu(self.up(x))))
        self.seen.add_(h.detach().sum(0))
        return torch.softmax(h, -1)


@pytest.mark.parametrize("deny", [["relu"], ["_softmax", "mul"], ["add", "addmm", "mm", "sum"]])
def test_forward_and_backward_of_a_model_that_writes_to_buffers(deny):
    keeper = AotKeeper()
    model: nn.Module = Trained()
    torch.compile(model, backend=keeper)(torch.randn(6, 8)).pow(2).sum().backward()
    assert [kept.stage for kept in keeper.graphs] == ["forward", "backward"]
    for kept in keeper.graphs:
        coverage = assert_same(kept.graph_module, kept.args, deny)
        assert sum(row.count for row in coverage.rows) == coverage.nodes


def test_a_forgotten_transfer_would_show():
    """The executor's two memories are real: without the copy of what was written, the numbers are others."""
    args = [torch.randn(4, 5), torch.zeros(4, 5)]
    graph_module = traced(written_input, *copies(args))
    record = graph_record("forward", graph_module)
    segments = graph_coverage(record, DeviceProfile("p", deny=("exp",))).segments
    from dataclasses import replace

    blind = replace(record, nodes=tuple(replace(node, mutates=()) for node in record.nodes))
    mine = copies(args)
    PartitionedGraph(graph_module, blind, segments)(*mine)
    theirs = copies(args)
    graph_module(*theirs)
    assert not torch.equal(mine[1], theirs[1])


def test_transfers_are_priced_by_the_profile_and_views_move_together():
    def function(x):
        y = x.exp()
        return y[0].sin() + y[1].sin()

    record = graph_record("forward", traced(function, torch.randn(2, 1000)))
    coverage = graph_coverage(record, DeviceProfile("p", deny=("sin",), bandwidth=1e6, latency=0.5))
    (border,) = [each for each in coverage.transfers if each.kind == "border" and each.to == "cpu"]
    assert (border.bytes, border.seconds) == (8000, pytest.approx(0.508))


def test_a_device_compiler_takes_part():
    seen = []

    def compile_device(graph_module, inputs):
        seen.append([node.name for node in graph_module.graph.nodes if node.op == "call_function"])
        return graph_module.forward

    graph_module = traced(lambda x: (x + 1).exp() * 2, torch.randn(3))
    record = graph_record("forward", graph_module)
    coverage = graph_coverage(record, DeviceProfile("p", deny=("exp",)))
    run = PartitionedGraph(graph_module, record, coverage.segments, compile_device)
    run(torch.randn(3))
    run(torch.randn(3))
    assert seen == [["add"], ["mul"]]


def test_a_record_of_another_graph_is_told():
    one, other = traced(lambda x: x.exp(), torch.randn(3)), traced(lambda x: x.sin(), torch.randn(3))
    record = graph_record("forward", one)
    with pytest.raises(UsageError, match="the record is of another graph"):
        PartitionedGraph(other, record, graph_coverage(record, DeviceProfile("p")).segments)
