"""How a reduction searches: what it finds, what it says when there is nothing to find, and after an interrupt."""

from __future__ import annotations

import random

import pytest
import torch
from torch import nn

from inductor_debug_jupyter.pipeline.errors import CannotSendError, FlakyFailureError, NothingFailsError, UsageError
from inductor_debug_jupyter.pipeline.minify import Differs, Minifier, Trial, dynamo_graph, graphs_of, minifier_of
from inductor_debug_jupyter.pipeline.minify.cutting import GraphCutter

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Block(nn.Module):
    """A transformer's layer in small, with the two sums that go around it."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.queries, self.out = nn.Linear(width, width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        heads = self.queries(x).view(*x.shape[:2], 2, -1).transpose(1, 2)
        mixed = torch.nn.functional.scaled_dot_product_attention(heads, heads, heads)
        x = self.first(x + self.out(mixed.transpose(1, 2).reshape(x.shape)))
        return self.second(x + self.narrow(torch.nn.functional.gelu(self.wide(x))))


@pytest.fixture(scope="module")
def layers():
    torch.manual_seed(0)
    return dynamo_graph(nn.Sequential(*[Block() for _ in range(12)]).eval(), torch.randn(2, 4, 16))


def named(gm, text):
    return [node.name for node in gm.graph.nodes if text in str(node.target)]


def both(first, last):
    return lambda gm, inputs: {first, last} <= {node.name for node in gm.graph.nodes}


def joined(first, last):
    def fails(gm, inputs):
        reached = set()
        for node in gm.graph.nodes:
            if node.name == first or reached & set(node.all_input_nodes):
                reached.add(node)
        return any(node.name == last and node in reached for node in gm.graph.nodes)

    return fails


@torch.compiler.allow_in_graph
def of_this_module(x):
    return x + 1


def test_a_graph_that_cannot_go_to_the_backends_process_is_no_failure_of_the_backend(monkeypatch):
    monkeypatch.delitem(globals(), "of_this_module")  # as in a notebook: no module has it
    with pytest.raises(CannotSendError, match="another process cannot import"):
        minifier_of(CALLS_ITS_OWN, torch.ones(3), Trial("aot_eager", isolate=True))


CALLS_ITS_OWN = (lambda function: lambda x: function(x).sin())(of_this_module)


def test_one_op_of_a_large_graph(layers):
    gm, inputs = layers
    gelu = named(gm, "gelu")[7]
    minimal = Minifier(gm, inputs, fails=lambda gm, inputs: gelu in {node.name for node in gm.graph.nodes}).minify()
    assert minimal.kept == (gelu,)
    assert minimal.evaluations <= 15
    assert minimal.total_ops > 150


def test_two_ops_that_fail_only_together(layers):
    gm, inputs = layers
    pair = named(gm, "gelu")[2], named(gm, "scaled_dot")[8]
    minimal = Minifier(gm, inputs, fails=both(*pair)).minify()
    assert set(minimal.kept) == set(pair)
    assert minimal.evaluations <= 30


def test_two_ops_on_one_path_keep_the_shortest_way_between_them(layers):
    gm, inputs = layers
    first, last = named(gm, "gelu")[2], named(gm, "gelu")[4]
    minimal = Minifier(gm, inputs, fails=joined(first, last)).minify()
    # gelu → linear → add → norm, then past the attention and the MLP of each layer, → linear → gelu
    assert minimal.ops == 12
    assert minimal.evaluations <= 60


def test_a_failure_of_every_graph_and_one_of_none(layers):
    gm, inputs = layers
    with pytest.raises(UsageError, match="every graph fails, also one that only returns its inputs"):
        Minifier(gm, inputs, fails=lambda gm, inputs: True).minify()
    with pytest.raises(UsageError, match="the whole graph does not fail"):
        Minifier(gm, inputs, fails=lambda gm, inputs: False).minify()


def test_a_failure_that_comes_and_goes_is_said_and_no_graph_is_handed_over(layers):
    gm, inputs = layers
    answers = []
    for seed in range(20):
        chance = random.Random(seed)
        with pytest.raises((UsageError, FlakyFailureError)) as told:
            Minifier(gm, inputs, fails=lambda gm, inputs, chance=chance: chance.random() < 1 / 3).minify()
        answers.append(str(told.value))
    flaky = [answer for answer in answers if "the failure comes and goes" in answer]
    assert len(flaky) > 8
    assert all("the whole graph does not fail" in answer for answer in answers if answer not in flaky)


def test_after_an_interrupt_it_goes_on_where_it_was(layers, tmp_path):
    gm, inputs = layers
    gelu, journal, tested = named(gm, "gelu")[7], tmp_path / "journal.jsonl", []

    def fails(gm, inputs):
        tested.append(len(gm.graph.nodes))
        if len(tested) == 6:
            raise KeyboardInterrupt
        return gelu in {node.name for node in gm.graph.nodes}

    first = Minifier(gm, inputs, fails=fails, journal=journal)
    with pytest.raises(KeyboardInterrupt):
        first.minify()
    assert first.smallest is not None
    assert first.smallest.ops < len(gm.graph.nodes) // 2
    before = tested[1:5]  # what was tested, but for the whole graph and the one that was interrupted
    del tested[:]
    tested += [0] * 6
    minimal = Minifier(gm, inputs, fails=fails, journal=journal).minify()  # as another process would
    assert minimal.kept == (gelu,)
    assert not set(before) & set(tested[7:])
    assert not journal.exists()


def test_a_budget_of_seconds_ends_it_with_the_smallest_so_far(layers, monkeypatch):
    gm, inputs = layers
    now = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    gelu, told = named(gm, "gelu")[7], []

    def fails(gm, inputs):
        now[0] += 1
        return gelu in {node.name for node in gm.graph.nodes}

    minimal = Minifier(gm, inputs, fails=fails, seconds=4, on_progress=told.append).minify()
    assert not minimal.is_complete
    assert minimal.ops < minimal.total_ops
    assert "ended early" in str(minimal)
    assert [each.evaluations for each in told] == sorted(each.evaluations for each in told)
    assert told[-1].ops == minimal.ops


@pytest.mark.parametrize("budget", [{"seconds": 4}, {"max_evaluations": 4}])
def test_past_its_budget_a_search_makes_no_graphs(layers, monkeypatch, budget):
    """Cutting a graph takes time too: of a large one each of the search's hundreds of steps."""
    gm, inputs = layers
    now, made, gelu = [0.0], [], named(gm, "gelu")[7]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    cut = GraphCutter.cut
    monkeypatch.setattr(GraphCutter, "cut", lambda self, kept: made.append(now[0]) or cut(self, kept))

    def fails(gm, inputs):
        now[0] += 1
        return gelu in {node.name for node in gm.graph.nodes}

    assert not Minifier(gm, inputs, fails=fails, **budget).minify().is_complete
    assert len(made) <= 4 + 2, "one for each test; the smallest and the nearest that passed are made again"


# Inputs ---------------------------------------------------------------------------------------------------------------


def test_sizes_are_halved_and_values_simplified_while_it_fails():
    def fails(gm, inputs):
        computes = any(node.op == "call_function" for node in gm.graph.nodes)
        return computes and any(value.shape[-1] >= 8 and bool((value < 0).any()) for value in inputs)

    gm, inputs = dynamo_graph(lambda x, y: torch.sin(x @ y), torch.randn(64, 64), torch.randn(64, 64))
    minimal = Minifier(gm, inputs, fails=fails).minify()
    assert {value.shape[-1] for value in minimal.inputs} == {8}
    assert set(torch.cat([value.flatten() for value in minimal.inputs]).tolist()) <= {-1.0, -0.5, 0.0, 0.5, 1.0, 1.5}


def test_a_dtype_becomes_the_usual_one():
    gm, inputs = dynamo_graph(lambda x: torch.sin(x) + 1, torch.randn(4, dtype=torch.bfloat16))
    minimal = Minifier(gm, inputs, fails=lambda gm, inputs: torch.sin in {node.target for node in gm.graph.nodes})
    assert minimal.minify().inputs[0].dtype is torch.float32


# Which graph ----------------------------------------------------------------------------------------------------------


def broken_model(x):
    x = torch.tanh(x)
    torch._dynamo.graph_break()
    return torch.sigmoid(x) * 2


def wrong_sigmoid(gm, inputs):
    class Wrong(torch.fx.Interpreter):
        def run_node(self, n):
            return super().run_node(n) * 1.5 if n.target is torch.sigmoid else super().run_node(n)

    return Wrong(gm).run


def raises_on_sigmoid(gm, inputs):
    if any(node.target is torch.sigmoid for node in gm.graph.nodes):
        raise NotImplementedError("no kernel for sigmoid")
    return gm.forward


@pytest.mark.parametrize("backend", [wrong_sigmoid, raises_on_sigmoid])
def test_behind_a_graph_break_the_graph_that_fails_is_found(backend):
    minimal = minifier_of(broken_model, torch.randn(4), Trial(backend)).minify()
    assert minimal.where == "graph 2 of 2"
    assert named(minimal.gm, "sigmoid")
    assert minimal.ops == 1


def test_a_model_that_is_right_has_nothing_to_reduce():
    with pytest.raises(NothingFailsError, match="agrees with eager on every output"):
        minifier_of(broken_model, torch.randn(4), Trial("dynamo"))


def wrong_where_sizes_are_symbolic(gm, inputs):
    symbolic = any(isinstance(value, torch.SymInt) for value in inputs)
    return (lambda *values: [out + 1 for out in gm(*values)]) if symbolic else gm.forward


def test_symbolic_sizes_stay_where_the_failure_needs_them():
    def model(x):
        return torch.tanh(torch.relu(x.reshape(-1, x.shape[0])) * x.shape[0])

    with pytest.raises(NothingFailsError):
        minifier_of(model, torch.randn(6, 4), Trial(wrong_where_sizes_are_symbolic))
    trial = Trial(wrong_where_sizes_are_symbolic, open_sizes=True)
    minifier = minifier_of(model, torch.randn(6, 4), trial)
    assert minifier.minify().ops == 1
    assert "dynamic=True" in minifier.repro_script()


class Counter(nn.Module):
    """What it saw is summed up in a buffer; its output does not show it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        self.total.add_(torch.sigmoid(x).detach())
        return torch.relu(x)


def test_a_fault_that_only_a_buffer_shows():
    model = Counter()
    minimal = minifier_of(model, torch.randn(4), Trial(wrong_sigmoid)).minify()
    assert named(minimal.gm, "sigmoid")
    assert minimal.ops <= 2
    assert torch.equal(model.total, torch.zeros(4))  # the user's own stays as it was


def test_the_graphs_behind_a_break_have_the_inputs_that_they_got():
    x = torch.randn(4)
    first, second = graphs_of(broken_model, (x,))
    assert torch.equal(first.inputs[0], x)
    assert torch.equal(second.inputs[0], torch.tanh(x))
    assert not Differs("dynamo")(second.gm, second.inputs).fails
