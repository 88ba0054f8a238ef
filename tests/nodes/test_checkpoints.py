"""What is kept between two questions about nodes changes the time of an answer, never the answer."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable
from typing import Any

import proofs
import pytest
import torch
from every_node import every_node
from torch import nn
from torch._dynamo.eval_frame import _debug_get_cache_entry_list
from torch.utils._pytree import tree_leaves

from inductor_debug_jupyter import DebugSession, capture
from inductor_debug_jupyter.pipeline.capture.calls import InputBudget
from inductor_debug_jupyter.pipeline.nodes import TracedCalls, node_handle
from inductor_debug_jupyter.pipeline.nodes.matching import find_node
from inductor_debug_jupyter.pipeline.nodes.values import NodeValues
from inductor_debug_jupyter.pipeline.session.debug_session import finished
from inductor_debug_jupyter.pipeline.torch_compat import patches
from inductor_debug_jupyter.pipeline.torch_compat.replay import ReplayBackend

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

X = torch.linspace(-2, 2, 128).reshape(8, 16)
FACTOR = 1.0


class Net(nn.Module):
    """Statistics that are written to, two dropouts, views, a residual, a Python number and a global."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(16, 32)
        self.norm = nn.BatchNorm1d(32)
        self.drop = nn.Dropout(0.5)
        self.middle = nn.Linear(32, 32)
        self.last = nn.Linear(32, 4)
        self.scale = 2.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.drop(nn.functional.gelu(self.norm(self.first(x))))
        hidden = hidden + self.drop(torch.tanh(self.middle(hidden))) * self.scale * FACTOR
        left, right = hidden.chunk(2, 1)
        return self.last(torch.cat([right, left], 1).t().contiguous().t())


class InPlace(nn.Module):
    """Writes into its input, into views of what it made, and into a buffer."""

    count: torch.Tensor

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.linear = nn.Linear(16, 16)
        self.register_buffer("count", torch.zeros(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        self.count.add_(x.sum(0).detach())
        hidden = self.linear(x * 1)  # its backward needs what it was given
        view = hidden[:, :8]
        hidden = hidden * 2
        hidden[:, 8:].mul_(3)
        x.mul_(0.5)
        return hidden[:, :8] + view.relu_() + x[:, :8] + self.count[:8]


def session_of(model: Any, *inputs: Any, lower: str = "aot", grad: bool = True) -> DebugSession:
    with torch.set_grad_enabled(grad), capture(eager=True, lower=lower, keep_inputs=True) as session:
        model(*inputs)
    return session


def names_of(session: DebugSession, stage: str) -> list[str]:
    graph = session.captures[0].graph(stage)
    assert graph is not None
    return [node.name for node in graph.nodes if node.op != "output"]


def cold(session: DebugSession, stage: str, gradients: Any = None) -> dict[str, NodeValues]:
    """Every node of a graph, from one run that was traced for it."""
    return every_node(session, find_node(session.captures, names_of(session, stage)[-1], stage), gradients)


def bits(values: Any) -> list[Any]:
    return [
        (leaf.dtype, tuple(leaf.shape), leaf.stride(), leaf.contiguous().flatten().view(torch.uint8).tolist())
        if isinstance(leaf, torch.Tensor)
        else leaf
        for leaf in tree_leaves(values)
    ]


def same(warm: Any, fresh: NodeValues) -> bool:
    return list(warm.inputs()) == list(fresh.inputs) and bits([warm.inputs(), warm.run()]) == bits(
        [fresh.inputs, fresh.output]
    )


def has_a_value(session: DebugSession, stage: str, name: str) -> bool:
    """Whether a node makes or is given neither memory that nobody has written to nor a state of torch."""
    graph = session.captures[0].graphs[stage]
    return not any("empty" in each or "autocast" in each for each in (name, *graph.by_name[name].inputs))


def check_in_random_order(
    session: DebugSession,
    stages: tuple[str, ...],
    most: int = proofs.draws(400, 60),
    each: Callable[[], None] = lambda: None,
) -> None:
    """Every node, and some of them again; no more than ``most``."""
    expected = {stage: cold(session, stage) for stage in stages}
    asked = [(stage, name) for stage in stages for name in expected[stage] if has_a_value(session, stage, name)]
    chooser = random.Random(0)
    chooser.shuffle(asked)
    for stage, name in [*asked, *chooser.sample(asked, len(asked) // 3)][:most]:
        agrees = same(session.node(name, stage), expected[stage][name])
        assert agrees, f"{stage} {name}"
        each()


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Each time that a call is traced."""
    times: list[str] = []
    original = ReplayBackend.__call__

    def counted(self: ReplayBackend, *args: Any) -> Any:
        times.append(self.way)
        return original(self, *args)

    monkeypatch.setattr(ReplayBackend, "__call__", counted)
    return times


# The same answers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("budget", [None, pytest.param(0, marks=pytest.mark.long), 3_000])
def test_a_warm_answer_is_the_cold_one_to_the_last_bit(budget: int | None, traced: list[str]) -> None:
    net = Net().train()
    session = session_of(net, X)
    if budget is not None:
        session.checkpoint_budget = budget
    before = {name: value.clone() for name, value in net.state_dict().items()}
    state = torch.get_rng_state()

    def bounded() -> None:
        assert session.checkpoint_bytes <= session.checkpoint_budget

    check_in_random_order(
        session, ("forward", "backward", "dynamo"), proofs.draws(400, 60) if budget is None else 30, bounded
    )
    assert traced.count("aot") == 2 + 1, "once for each cold answer, then once"
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())
    assert torch.equal(torch.get_rng_state(), state)
    assert (session.checkpoint_bytes > 0) == (budget != 0)


class Noise(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> torch.Tensor:
        return grad * torch.rand_like(grad)


class Branches(nn.Module):
    """Draws that do not depend on each other, in the backward too."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(16, 4), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one = Noise.apply(nn.functional.dropout(self.first(x)))
        other = Noise.apply(nn.functional.dropout(self.second(x)))
        return one + other + torch.rand(4)


def test_draws_happen_in_their_order_whatever_is_asked_first() -> None:
    session = session_of(net := Branches(), X)
    for stage, least in (("forward", 3), ("backward", 2)):
        draws = [name for name in names_of(session, stage) if name.startswith(("bernoulli", "rand", "native_dropout"))]
        assert len(draws) >= least
        fresh = cold(session, stage)
        for order in (list(reversed(draws)), draws[1:2]):
            session._traces = None
            for name in order:
                assert same(session.node(name, stage), fresh[name]), f"{stage} {name}"
    session._traces = None
    check_in_random_order(session, ("forward", "backward"))
    del net


@pytest.mark.parametrize("grad", [False, True])
def test_graphs_that_write_in_place(grad: bool) -> None:
    net = InPlace()
    x = X.clone()
    session = session_of(net, x, grad=grad)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    given = x.clone()
    check_in_random_order(session, ("dynamo", "forward", "backward") if grad else ("dynamo", "forward"))
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert torch.equal(x, given)


def test_what_inductor_was_given() -> None:
    net = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))
    session = session_of(net, X, lower="inductor")
    for stage in ("forward", "backward"):
        names = [name for name in names_of(session, stage) if has_a_value(session, stage, name)]
        for name in random.Random(0).sample(names, proofs.draws(5, 1)):
            anew = node_handle(session.captures, session._calls.needed, name, stage)
            assert same(session.node(name, stage), anew.values), f"{stage} {name}"


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.narrow, self.wide = nn.Linear(16, 16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.narrow(x).float()
        with torch.autocast("cpu", enabled=False):
            return self.wide(hidden)


def test_under_autocast() -> None:
    with torch.autocast("cpu", torch.bfloat16):
        session = session_of(net := Mixed(), X)
        check_in_random_order(session, ("forward", "dynamo"))
        dtypes = [session.node(each).run().dtype for each in names_of(session, "forward") if each.startswith("addmm")]
    assert dtypes == [torch.bfloat16, torch.float32], "the graph says what is narrow, not what is around a question"
    del net


def test_a_function_that_reads_a_model_around_it(traced: list[str]) -> None:
    net = Net().eval()

    @torch.compile(backend="aot_eager")
    def step(x: torch.Tensor) -> torch.Tensor:
        return net(x).square().mean()

    with capture(keep_inputs=True) as session:
        step(X)
    check_in_random_order(session, ("forward", "backward"))
    assert len(traced) == 3


# Another model ----------------------------------------------------------------------------------------------------


def _trained(net: Net) -> None:
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    net(X).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


def _written_behind_torchs_back(net: Net) -> None:
    net.first.weight.data.mul_(2)
    net.last.bias.detach().numpy()[0] = 7


def _given_another_tensor(net: Net) -> None:
    net.middle.weight = nn.Parameter(torch.ones(32, 32))


def _other_statistics(net: Net) -> None:
    assert net.norm.running_mean is not None
    net.norm.running_mean += 1


def _another_number(net: Net) -> None:
    net.scale = 5.0


def _another_global(net: Net) -> None:
    global FACTOR
    FACTOR = 3.0


@pytest.mark.parametrize(
    ("changes", "stages"),
    [
        (
            [_trained, _written_behind_torchs_back, _other_statistics],
            proofs.draws(("backward", "forward"), ("backward",)),
        ),
        ([_given_another_tensor, _another_number, _another_global], ("forward",)),
    ],
    ids=["contents", "what Dynamo guards"],
)
def test_a_model_that_changed_gives_other_values(
    changes: list[Callable[[Net], None]], stages: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(globals(), "FACTOR", 1.0)
    net = Net().eval()
    session = session_of(net, X)
    chooser = random.Random(1)
    for stage in stages:
        names = names_of(session, stage)
        old = {name: session.node(name, stage).run() for name in names}
        for change in changes:
            change(net)
            fresh = cold(session, stage)
            different = [name for name in names if bits(fresh[name].output) != bits(old[name])]
            assert different, "it makes a difference"
            for name in chooser.sample(names, 12):
                assert same(session.node(name, stage), fresh[name]), f"{change.__name__}: {stage} {name}"
            old = {name: fresh[name].output for name in names}


def test_other_gradients_are_another_backward() -> None:
    session = session_of(kept := Net().eval(), X)
    name = next(name for name in names_of(session, "backward") if name.startswith("mm"))
    tangent = torch.arange(32.0).reshape(8, 4)
    for gradients in (None, [tangent], None, [tangent * 2]):
        assert same(session.node(name, "backward", gradients=gradients), cold(session, "backward", gradients)[name])
    mine = [tangent.clone()]
    first = session.node(name, "backward", gradients=mine).run()
    mine[0].mul_(3)
    assert not torch.equal(session.node(name, "backward", gradients=mine).run(), first)
    del kept


def test_an_op_that_writes_without_saying_so_reaches_copies_only() -> None:
    @torch.library.custom_op("idj_tests::liar", mutates_args=())
    def liar(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        return x + 1

    liar.register_fake(torch.empty_like)
    net = nn.Linear(4, 4)

    def step(x: torch.Tensor) -> torch.Tensor:
        return liar(net.weight) @ x

    with torch.no_grad(), capture(keep_inputs=True) as session:
        torch.compile(step, backend="aot_eager")(torch.ones(4))
        before = net.weight.clone()
        name = next(name for name in names_of(session, "forward") if name.startswith("liar"))
        first = session.node(name).run()
        assert torch.equal(session.node(name).run(), first)
    assert torch.equal(first, before * 2 + 1)
    assert torch.equal(net.weight, before)


# What is kept -----------------------------------------------------------------------------------------------------


def test_nothing_before_a_question_and_nothing_after_the_session() -> None:
    net = Net().train()
    session = session_of(net, X)
    session.node(names_of(session, "forward")[-1])
    assert session.checkpoint_bytes == 0
    assert session._traces is not None
    session.node(names_of(session, "forward")[-1]).run()
    session.node(names_of(session, "backward")[-1], "backward").run()
    (((_, trace),),) = (session._traces._traced.values(),)
    assert trace is not None
    graphs = [weakref.ref(graph) for graph in trace.live.graphs.values()]
    kept = [
        weakref.ref(leaf)
        for run in (trace._runs["forward"], trace._saved[2])  # type: ignore[index]
        for leaf in tree_leaves(list(run.places.values()))
    ]
    assert len(graphs) == 2
    assert len(kept) > 3
    del trace, session
    finished.clear()  # the session that was finished last is kept there
    gc.collect()
    assert [each() for each in graphs] == [None, None]
    assert not [each for each in kept if each() is not None]


def test_nothing_is_left_on_the_users_code() -> None:
    net = Net().train()
    session = session_of(net, X)
    names = set(globals())
    for stage in ("forward", "backward", "dynamo"):
        session.node(names_of(session, stage)[-1], stage).run()
    assert _debug_get_cache_entry_list(Net.forward.__code__) == []
    assert set(globals()) == names
    assert patches.installed() == ()


def test_a_model_is_not_held() -> None:
    with capture(eager=True, lower="aot") as session:
        net = Net()
        net(X)
    session._calls.log.budget = InputBudget(1 << 20)  # as the magic has it: models are not kept alive
    session._calls.log.add(net, (X,), {})
    for stage in ("forward", "backward", "dynamo"):
        for name in names_of(session, stage)[::2]:
            session.node(name, stage).run()
    weights = {each.untyped_storage().data_ptr() for each in net.parameters()}
    kept = [leaf for run, _ in session._traces.checkpoints.sizes for leaf in tree_leaves(list(run.places.values()))]  # type: ignore[union-attr]
    assert len(kept) > 3
    assert not [each for each in kept if each.untyped_storage().data_ptr() in weights]
    weight = weakref.ref(net.first.weight)
    del net
    gc.collect()
    assert weight() is None


def test_a_budget_that_is_made_smaller() -> None:
    session = session_of(kept := Net().train(), X)
    session.node(names_of(session, "backward")[-1], "backward").run()
    assert session.checkpoint_bytes > 1000
    session.checkpoint_budget = 1000
    session.node(names_of(session, "forward")[0])
    assert session.checkpoint_bytes <= 1000
    del kept


def test_only_so_many_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inductor_debug_jupyter.pipeline.nodes.traced_calls.MOST_TRACES", 1)
    session = session_of(kept := Net().eval(), X)
    for stage in ("forward", "dynamo", "forward"):
        name = names_of(session, stage)[-1]
        assert same(session.node(name, stage), cold(session, stage)[name])
        assert isinstance(session._traces, TracedCalls)
        assert len(session._traces._traced) == 1
    del kept
