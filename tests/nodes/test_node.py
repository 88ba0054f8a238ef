"""A node in the user's hands: found by name, run again from the kept call, and nothing of the user's is changed."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import DebugSession, StickAdapter, capture
from inductor_debug_jupyter.pipeline.errors import InductorDebugError, NotFoundError, OptionError, UsageError
from inductor_debug_jupyter.pipeline.records import BACKWARD

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(16, 32)
        self.norm = nn.BatchNorm1d(32)
        self.drop = nn.Dropout(0.5)
        self.last = nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.norm(self.first(x))
        hidden = self.drop(nn.functional.gelu(hidden))
        return self.last(torch.cat([hidden, hidden * 2], 0))


X = torch.linspace(-2, 2, 128).reshape(8, 16)


def session_of(model: nn.Module, *inputs: torch.Tensor, lower: str = "aot", grad: bool = True) -> DebugSession:
    with torch.set_grad_enabled(grad), capture(eager=True, lower=lower, keep_inputs=True) as session:
        model(*inputs)
    return session


def node_of(session: DebugSession, op: str, stage: str = "forward", at: int = 0) -> str:
    graph = session.captures[0].graph(stage)
    assert graph is not None
    return [node.name for node in graph.calls if op in node.target][at]


def test_inputs_output_and_a_callable_of_just_the_op() -> None:
    net = Net().eval()
    session = session_of(net, X)
    name = node_of(session, "addmm", at=1)
    node = session.node(name)
    assert (node.name, node.stage, node.compile_id, node.op) == (name, "forward", session.captures[0].compile_id,
                                                                 "aten.addmm.default")  # fmt: skip
    assert node.module_path == "last"
    assert node.source is not None
    assert "self.last" in node.source.text
    assert "run the call again" in repr(node)
    assert list(node.inputs()) == ["self", "mat1", "mat2"]
    with torch.no_grad():
        hidden = nn.functional.gelu(net.norm(net.first(X)))
        assert torch.equal(node.inputs()["mat1"], torch.cat([hidden, hidden * 2], 0))
        assert torch.equal(node.inputs()["self"], net.last.bias)
        assert torch.equal(node.run(), net(X))
    function = node.as_function()
    assert torch.equal(function(*node.inputs().values()), node.run())
    assert torch.equal(function(**node.inputs()), node.run())
    assert torch.equal(function(self=torch.zeros(4), mat1=torch.ones(2, 32), mat2=torch.ones(32, 4)),
                       torch.full((2, 4), 32.0))  # fmt: skip
    with pytest.raises(UsageError, match=rf"{name} takes 3 inputs \(self, mat1, mat2\); given: 2 by position"):
        function(torch.ones(1), torch.ones(1))
    assert "mat1: float32[16, 32]" in repr(node)
    assert node.inputs() is node.inputs(), "run once"
    node.inputs()["self"].zero_()
    assert net.last.bias.abs().sum() > 0, "what a user is given is a copy"


def test_a_list_is_one_input_and_constants_are_none() -> None:
    session = session_of(Net().eval(), X)
    node = session.node(node_of(session, "aten.cat"))
    (name,) = node.inputs()
    assert name == "tensors"
    assert [tuple(each.shape) for each in node.inputs()[name]] == [(8, 32), (8, 32)]
    assert torch.equal(node.as_function()(node.inputs()[name]), node.run())
    weights = session.node(session.captures[0].graph("forward").nodes[0].name)  # type: ignore[union-attr]
    assert weights.inputs() == {}
    assert isinstance(weights.run(), torch.Tensor)
    with pytest.raises(UsageError, match="is placeholder, not an op"):
        weights.as_function()


def test_training_leaves_statistics_gradients_and_generators_as_they_are() -> None:
    net = Net().train()
    session = session_of(net, X)
    before = {name: value.clone() for name, value in net.state_dict().items()}
    state = torch.get_rng_state()
    forward = session.node(node_of(session, "addmm", at=1))
    backward = session.node(node_of(session, "aten.mm", "backward"))
    assert forward.run().shape == (16, 4)
    assert backward.stage == "backward"
    assert isinstance(backward.run(), torch.Tensor)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
    assert all(parameter.grad is None for parameter in net.parameters())
    assert torch.equal(torch.get_rng_state(), state)


def test_a_dropout_drops_what_the_users_own_call_dropped() -> None:
    net = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5), nn.Linear(16, 4)).train()
    torch.manual_seed(5)
    with capture(eager=True, lower="aot", keep_inputs=True) as session:
        made = net(X)
    torch.manual_seed(99)
    node = session.node(node_of(session, "addmm", at=1))
    assert (node.inputs()["mat1"] == 0).float().mean() > 0.2
    assert torch.equal(node.run(), made.detach())


def test_a_backward_starts_from_the_gradients_that_are_given() -> None:
    net = nn.Linear(16, 4)
    session = session_of(net, X)
    name = node_of(session, "aten.mm", "backward")
    tangent = torch.arange(32.0).reshape(8, 4)
    values = session.node(name, gradients=[tangent]).inputs().values()
    assert any(each.shape == (4, 8) and torch.equal(each.T, tangent) for each in values)
    assert not any(torch.equal(each.T, tangent) for each in session.node(name).inputs().values() if each.ndim == 2)
    with pytest.raises(InductorDebugError, match=r"gradients have the shapes \[\(3,\)\]"):
        session.node(name, gradients=[torch.ones(3)]).run()


def test_stages_lead_to_the_graph_that_is_run() -> None:
    net = Net().eval()
    session = session_of(net, X, lower="inductor")
    name = node_of(session, "addmm", at=1)
    for stage in ("", "forward", "joint"):
        assert session.node(name, stage).stage == "forward"
    dynamo = session.node(node_of(session, "gelu", "dynamo"), "dynamo")
    with torch.no_grad():
        hidden = net.norm(net.first(X))
        assert torch.equal(next(iter(dynamo.inputs().values())), hidden)
        assert torch.equal(dynamo.run(), nn.functional.gelu(hidden))
        assert torch.equal(dynamo.as_function()(hidden), dynamo.run())
    post_grad = session.captures[0].graph("post_grad")
    forward = session.captures[0].graph("forward")
    assert post_grad is not None
    assert forward is not None
    shared = next(each.name for each in post_grad.calls if forward.node(each.name) and each.name == name)
    assert session.node(shared, "post_grad").stage == "forward"
    made = [each.name for each in post_grad.calls if forward.node(each.name) is None]
    for each in made[:1]:
        with pytest.raises(NotFoundError, match="Inductor's own passes made it"):
            session.node(each, "post_grad")
    with pytest.raises(OptionError, match="stage='code'; allowed: forward, backward, dynamo, joint, post_grad"):
        session.node(name, "code")
    assert f"post_grad{BACKWARD}" in session.captures[0].graphs


def test_what_inductor_decomposed_is_eager_modes_own_where_the_op_is() -> None:
    net = nn.Sequential(nn.Linear(16, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))
    session = session_of(net, X, lower="inductor")
    addmm = session.node(node_of(session, "addmm", at=1))
    erf = session.node(node_of(session, "erf"))
    with torch.no_grad():
        hidden = net[:3](X)
        assert torch.equal(addmm.inputs()["mat1"], hidden), "to the last bit, although layer_norm was decomposed"
        assert torch.equal(addmm.run(), net(X))
        assert torch.allclose(erf.inputs()["self"], net[:2](X) / 2**0.5)
    assert addmm.note == ""
    assert "the last digits differ" in erf.note
    assert "the last digits differ" in repr(erf)


def test_a_state_of_torch_that_the_model_enters_is_left_again() -> None:
    class Narrow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            with torch.autocast("cpu", torch.bfloat16):
                h = torch.relu(self.linear(x))
                h = self.linear(x) + h
            return h * 2

    net = Narrow()
    session = session_of(net, X)
    node = session.node(node_of(session, "relu", "dynamo"), "dynamo")
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        assert torch.equal(node.run(), net.linear(X).relu())
    assert node.run().dtype == torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")
    assert torch.is_grad_enabled()


def test_a_name_that_is_not_there() -> None:
    session = session_of(Net().eval(), X)
    name = node_of(session, "addmm", at=1)
    with pytest.raises(NotFoundError, match=f"no captured graph has a node '{name}1'; near: .*{name}"):
        session.node(f"{name}1")
    with pytest.raises(NotFoundError, match=r"no captured backward graph has a node 'qqq'$"):
        session.node("qqq", "backward")
    with pytest.raises(NotFoundError, match="compile_id='9/9' was not captured; captured: "):
        session.node(name, compile_id="9/9")


def test_a_model_that_changed_is_told() -> None:
    net = Net().eval()
    session = session_of(net, X)
    name = node_of(session, "addmm", at=1)
    net.last = nn.Linear(32, 5)
    with pytest.raises(NotFoundError, match=r"Net, run again, does not give the graph .*float32\[16, 5\]"):
        session.node(name).run()


def test_a_session_without_calls_says_what_to_do(tmp_path: Any) -> None:
    net = Net().eval()
    with capture(eager=True, lower="aot") as session:
        net(X)
    name = node_of(session, "addmm")
    node = session.node(name)
    with pytest.raises(NotFoundError, match=r"no model call was kept .* capture\(keep_inputs=True\)"):
        node.inputs()
    loaded = DebugSession.load(session.save(tmp_path / "s.json"))
    with pytest.raises(NotFoundError, match="loaded from a file has none"):
        loaded.node(name).run()


def test_a_recompile_with_other_shapes_is_not_mistaken_for_the_first_call() -> None:
    net = nn.Linear(16, 4)
    with capture(eager=True, lower="aot", keep_inputs=True) as session:
        net(X)
        net(X[:4].double().float().reshape(2, 2, 16))
    first, second = session.captures[:2]
    name = node_of(session, "addmm")
    assert session.node(name, compile_id=first.compile_id).run().shape == (8, 4)
    graph = second.graph("forward")
    assert graph is not None
    other = next(node.name for node in graph.calls if "addmm" in node.target)
    with pytest.raises(NotFoundError, match="only the first call of each model can be run again"):
        session.node(other, compile_id=second.compile_id).run()


def test_after_a_graph_break_and_in_the_second_of_two_models() -> None:
    class Broken(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(16, 16)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = self.inner(x)
            torch._dynamo.graph_break()
            return torch.relu(h) * 3

    broken, other = Broken(), nn.Sequential(nn.Linear(16, 2), nn.Tanh())
    with torch.no_grad(), capture(eager=True, lower="aot", keep_inputs=True) as session:
        broken(X)
        other(X)
        assert torch.equal(session.node("relu").run(), broken.inner(X).relu())
        assert torch.equal(session.node("tanh").run(), other(X))


# Memory -----------------------------------------------------------------------------------------------------------

_made: list[weakref.ref[torch.Tensor]] = []
_most = [0]


@torch.library.custom_op("idj_tests::step", mutates_args=())
def step(x: torch.Tensor) -> torch.Tensor:
    made = x + 1
    _made.append(weakref.ref(made))
    _most[0] = max(_most[0], sum(each() is not None for each in _made))
    return made


@step.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


def _save(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.save_for_backward(output)


step.register_autograd(lambda ctx, grad: grad * ctx.saved_tensors[0], setup_context=_save)


class Chain(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x * self.scale
        for _ in range(30):
            x = step(x)
        return x


@pytest.mark.parametrize("grad", [False, True])
def test_no_more_is_alive_than_is_still_needed(grad: bool) -> None:
    """The op itself counts how many of its results are alive: every layer's is saved for the backward, 30 in all."""
    session = session_of(chain := Chain(), torch.ones(4), grad=grad)
    session.checkpoint_budget = 0
    name = node_of(session, "idj_tests.step", at=28)
    _made.clear()
    _most[0] = 0
    made = session.node(name).run()
    assert torch.equal(made, torch.full((4,), 30.0))
    assert len(_made) == 29, "nothing runs after the node"
    assert _most[0] <= 2
    del made, chain


def test_a_later_question_goes_on_from_a_checkpoint() -> None:
    session = session_of(chain := Chain(), torch.ones(4))
    names = [node_of(session, "idj_tests.step", at=at) for at in range(30)]
    session.node(names[20]).run()
    few = 6  # places lie √(nodes) apart
    for at in (21, 20, 12, 3, 26, 29):
        _made.clear()
        assert torch.equal(session.node(names[at]).run(), torch.full((4,), at + 2.0))
        assert 1 <= len(_made) <= few, at
    with torch.no_grad():
        chain.scale.mul_(2)
    _made.clear()
    assert torch.equal(session.node(names[29]).run(), torch.full((4,), 32.0))
    assert len(_made) == 30, "from the beginning: the model is another"


# On a candidate ---------------------------------------------------------------------------------------------------


def test_a_node_as_another_backend_computes_it() -> None:
    net = nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Linear(16, 4))
    session = session_of(net, X)
    name = node_of(session, "addmm", at=1)
    reference = session.node(name)
    same = session.node(name, candidate="aot_eager")
    assert torch.equal(same.run(), reference.run())
    assert torch.equal(same.as_function()(*same.inputs().values()), reference.run())
    assert "computed by aot_eager" in same.note
    device = session.node(name, candidate=StickAdapter())
    assert device.inputs()["mat1"].shape == reference.inputs()["mat1"].shape
    assert not torch.equal(device.run(), reference.run()), "it holds everything in a narrower format"
    assert torch.allclose(device.run(), reference.run(), atol=0.05)
    backward = node_of(session, "aten.mm", "backward")
    assert "what the forward saved is eager mode's" in session.node(backward, candidate="aot_eager").note
    with pytest.raises(UsageError, match="candidate"):
        session.node(name, candidate="no such backend")


def test_a_question_asked_outside_of_the_autocast_that_the_call_was_in() -> None:
    net = nn.Linear(16, 4)
    with torch.autocast("cpu", torch.bfloat16):
        session = session_of(net, X)
        expected = net(X)
    node = session.node(node_of(session, "addmm"))
    assert torch.equal(node.run(), expected)
    assert node.run().dtype == torch.bfloat16
    assert not torch.is_autocast_enabled("cpu")
