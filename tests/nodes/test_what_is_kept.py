"""The parts of what is kept between two questions: a budget, when to keep nothing, what is borrowed, checksums."""

from __future__ import annotations

import torch

from inductor_debug_jupyter.pipeline.nodes.checkpoints import Checkpoints, GraphRun
from inductor_debug_jupyter.pipeline.nodes.stepping import Stepper, resumable
from inductor_debug_jupyter.pipeline.nodes.traced_calls import _borrowed, contents_of

X = torch.linspace(-2, 2, 128).reshape(8, 16)


def test_what_was_not_used_for_longest_goes_first() -> None:
    checkpoints = Checkpoints()
    checkpoints.limit(100)
    run = GraphRun(checkpoints, torch.get_rng_state())
    some = [torch.zeros(10) for _ in range(4)]
    assert run.keep(1, {"a": some[0]})
    assert run.keep(2, {"b": (some[1], some[1][:5])}), "a view has no bytes of its own"
    assert checkpoints.nbytes == 80
    run.used(["a"])
    assert run.keep(3, {"c": some[2]})
    assert set(run.known()) == {"a", "c"}
    assert not run.keep(4, {"d": torch.zeros(26)}), "more than all of it"
    assert set(run.known()) == {"a", "c"}
    run.end()
    assert checkpoints.nbytes == 0


def aten_graph() -> torch.fx.GraphModule:
    """``x`` is read, then written to through a view, then read again; a weight is only read."""
    graph = torch.fx.Graph()
    x, weight = graph.placeholder("x"), graph.placeholder("weight")
    total = graph.create_node("call_function", torch.ops.aten.add.Tensor, (x, weight), name="total")
    row = graph.call_function(torch.ops.aten.select.int, (x, 0, 0))
    graph.call_function(torch.ops.aten.add_.Tensor, (row, 1))
    again = graph.create_node("call_function", torch.ops.aten.add.Tensor, (x, weight), name="again")
    written = graph.call_function(torch.ops.aten.copy_.default, (x, again))
    graph.output((total, again, written))
    return torch.fx.GraphModule({}, graph)


def test_nothing_is_kept_once_a_node_has_written() -> None:
    graph_module = aten_graph()
    assert resumable(graph_module, "total")
    assert not resumable(graph_module, "again")
    x, weight = torch.zeros(2, 2), torch.ones(2, 2)
    for _ in range(2):
        for name, expected in (("total", torch.ones(2, 2)), ("again", torch.tensor([[2.0, 2.0], [1.0, 1.0]]))):
            found = Stepper(graph_module, [x, weight], name, borrowed=True).reach()
            assert torch.equal(found.output, expected)
    assert torch.equal(x, torch.zeros(2, 2))


def test_what_a_backward_borrows_of_a_forwards_arguments() -> None:
    base = torch.arange(24.0)
    x, weight = torch.zeros(2, 2), base[4:20].reshape(4, 4)
    saved = [weight.t(), weight[1:, 2:], x, torch.ones(3), 5, weight.view(torch.int32)]
    found = _borrowed(saved, [x, weight], aten_graph())
    assert [each is not None for each in found] == [True, True, False, False, False, False], "x is written to"
    other = torch.arange(100.0, 116.0).reshape(4, 4)
    transposed, part = (each.of([x, other]) for each in found if each is not None)
    assert torch.equal(transposed, other.t())
    assert torch.equal(part, other[1:, 2:])
    assert part.untyped_storage().data_ptr() == other.untyped_storage().data_ptr(), "not a copy"


def test_contents() -> None:
    told = contents_of([X, 3])
    assert told == contents_of([X, 3])
    assert told != contents_of([X, 4])
    other = X.clone()
    assert contents_of([other]) == contents_of([X.clone()])
    other.data[0, 0] += 1
    assert contents_of([other]) != contents_of([X.clone()])
    for each in (
        torch.tensor(1.0),
        torch.empty(0, 3),
        X.bfloat16(),
        X.t(),
        torch.view_as_complex(X.reshape(-1, 2)).conj(),
    ):
        assert contents_of([each]) == contents_of([each])
    assert contents_of([X.to_sparse()]) is None
