"""One block, everything torch.compile made of it, and the user's run exactly as without us."""

import functools

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import capture

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.norm = nn.BatchNorm1d(32)
        self.drop = nn.Dropout(0.5)
        self.calls = []

    def forward(self, x):
        h = self.up(x)
        return torch.relu(self.drop(self.norm(h)))


def run(model, x):
    torch.manual_seed(7)
    out = model(x)
    out.sum().backward()
    return out, model.up.weight.grad.clone(), model.norm.running_mean.clone(), torch.rand(1)


def test_eager_call_gives_every_stage_and_the_same_bits():
    torch.manual_seed(0)
    model, x = Block(), torch.randn(4, 16)
    twin = Block()
    twin.load_state_dict(model.state_dict())
    expected = run(twin, x)
    with capture(eager=True) as session:
        seen = run(model, x)
    for ours, plain in zip(seen, expected, strict=True):
        assert torch.equal(ours, plain)
    (graph,) = session.captures
    assert graph.name.endswith("Block.forward")
    assert {"dynamo", "joint", "forward", "backward", "post_grad", "code", "kernel"} <= set(graph.stages)
    assert graph.missing == {}
    assert graph.kernels
    assert "extern" in graph.text("code") or "cpp" in graph.text("code")


def test_nodes_have_shape_dtype_stride_module_and_the_users_line():
    model, x = Block().eval(), torch.randn(4, 16)
    with capture(eager=True) as session:
        model(x)
    forward = session.captures[0].graph("forward")
    addmm = next(node for node in forward.nodes if node.target == "aten.addmm.default")
    assert (addmm.shape, addmm.dtype, addmm.stride) == ((4, 32), "float32", (32, 1))
    assert (addmm.module_path, addmm.module_type) == ("up", "Linear")
    assert addmm.source.text.strip() == "h = self.up(x)"
    assert addmm.source.file == __file__
    for stage in ("dynamo", "forward", "backward"):
        for node in session.captures[0].graph(stage).calls:
            assert node.source is not None, (stage, node.name)
            assert node.outputs, (stage, node.name)
    backward = session.captures[0].graph("backward")
    assert any(node.source.text.strip() == "h = self.up(x)" for node in backward.calls)
    weight = next(node for node in forward.nodes if node.origin == "up.weight")
    assert weight.role == "parameter"


def test_forwards_python_runs_as_often_as_without_us(capsys):
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)
            self.count = 0

        def forward(self, x):
            self.count += 1
            print("forward", self.count)
            return self.inner(x)

    model, hooked = Counting(), []
    model.register_forward_hook(lambda *_: hooked.append("outer"))
    model.inner.register_forward_hook(lambda *_: hooked.append("inner"))
    with capture(eager=True) as session:
        for _ in range(3):
            model(torch.randn(2, 4))
    assert model.count == 3
    assert hooked == ["inner", "outer"] * 3
    assert capsys.readouterr().out == "forward 1\nforward 2\nforward 3\n"
    assert [graph_break.source.text.strip() for graph_break in session.graph_breaks] == ['print("forward", self.count)']


def test_builtin_modules_alone_are_captured():
    with capture(eager=True) as session:
        nn.Sequential(nn.Linear(4, 4), nn.ReLU())(torch.randn(2, 4))
    assert [graph.name for graph in session.captures] == ["Sequential"]
    assert session.captures[0].graph("forward").calls[0].source.file == __file__


def test_what_the_user_compiled_before_is_seen_again_and_stays_compiled():
    model = Block().eval()
    compiled = torch.compile(model, backend="aot_eager")
    x = torch.randn(4, 16)
    expected = compiled(x)
    with capture() as first:
        assert torch.equal(compiled(x), expected)
    with capture() as second:
        assert torch.equal(compiled(x), expected)
    assert first.captures
    assert second.captures
    with torch.compiler.set_stance("fail_on_recompile"):
        assert torch.equal(compiled(x), expected)


def test_what_the_user_compiles_now_stays_theirs():
    compiled = torch.compile(Block().eval(), backend="aot_eager")
    x = torch.randn(4, 16)
    with capture() as session:
        compiled(x)
    assert len(session.captures) == 1
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(x)


def test_the_users_recompile_budget_is_not_spent():
    @torch.compile(backend="eager")
    def double(x):
        return x * 2

    double(torch.ones(2))
    for _ in range(torch._dynamo.config.recompile_limit + 2):
        with capture() as session:
            double(torch.ones(2))
        assert session.captures
    with torch.compiler.set_stance("fail_on_recompile"):
        double(torch.ones(2))


def test_sizes_that_a_capture_saw_do_not_make_the_users_compile_dynamic():
    class Scale(nn.Module):
        def forward(self, x):
            return x * 2

    model = Scale()
    with capture(eager=True) as session:
        model(torch.ones(3))
        model(torch.ones(4))
    assert len(session.captures) == 2
    assert any("s" in str(node.shape) for node in session.captures[1].graph("dynamo").calls)
    with capture() as own:
        torch.compile(model, backend="eager")(torch.ones(5))
    assert own.captures[0].graph("dynamo").calls[0].shape == (5,)


def test_a_frame_that_could_not_be_captured_can_still_be_compiled_later():
    class Picky(nn.Module):
        def forward(self, x):
            if x.shape[0] == 3:
                raise ValueError("not three")
            return x * 2

    model = Picky()
    with pytest.raises(ValueError, match="not three"), capture(eager=True):
        model(torch.ones(3))
    with capture() as own:
        torch.compile(model, backend="eager")(torch.ones(5))
    assert own.captures


def test_recompiles_are_told_with_the_reason():
    @torch.compile(backend="eager")
    def scale(x, n):
        return x * n

    with capture() as session:
        scale(torch.ones(2), 2)
        scale(torch.ones(2), 3)
    (recompile,) = session.recompiles
    assert "n == 2" in str(recompile)


def test_symbolic_sizes_stay_symbolic_with_their_range():
    compiled = torch.compile(nn.Linear(8, 8), backend="aot_eager")
    with capture() as session:
        x = torch.randn(4, 8)
        torch._dynamo.mark_dynamic(x, 0)
        compiled(x)
    forward = session.captures[0].graph("forward")
    addmm = next(node for node in forward.nodes if node.target == "aten.addmm.default")
    symbol = addmm.shape[0]
    assert isinstance(symbol, str)
    assert forward.symbols[symbol].startswith("[")


def test_an_error_of_the_model_is_the_users_and_leaves_nothing_behind():
    class Failing(Block):
        def forward(self, x):
            super().forward(x)
            raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$"), capture(eager=True) as session:
        Failing()(torch.randn(4, 16))
    assert session.captures


def test_a_wrong_shape_raises_torchs_own_error(capfd):
    with (
        pytest.raises(RuntimeError, match="mat1 and mat2 shapes cannot be multiplied"),
        capture(eager=True),
    ):
        Block()(torch.randn(4, 5))
    assert capfd.readouterr() == ("", "")


def test_keyboard_interrupt_in_the_middle_of_a_compile_leaves_nothing_behind():
    def interrupted(graph_module, example_inputs):
        raise KeyboardInterrupt

    compiled = torch.compile(Block(), backend=interrupted)
    with pytest.raises(KeyboardInterrupt), capture(eager=True) as session:
        compiled(torch.randn(4, 16))
    assert session.captures[0].stages == ("dynamo",)


def test_captures_can_be_nested():
    with capture(eager=True) as outer:
        with capture(eager=True) as inner:
            Block()(torch.randn(4, 16))
        nn.Linear(3, 3)(torch.randn(2, 3))
    assert len(inner.captures) == 1
    assert len(outer.captures) == 2


def test_nothing_captured_never_looks_like_a_pass():
    with capture(eager=True) as session:
        torch.ones(2) + 1
    assert session.captures == ()
    assert "nothing was checked" in str(session).lower()


def test_a_lowering_that_fails_is_a_reason_and_the_run_goes_on(monkeypatch):
    from inductor_debug_jupyter.pipeline.torch_compat import lowering

    def broken(*_):
        raise RuntimeError("no lowering today\nsecond line")

    monkeypatch.setattr(lowering, "lower_with_inductor", broken)
    with capture(eager=True, lower="inductor") as session:
        out = nn.Linear(4, 4)(torch.randn(2, 4))
    assert out.shape == (2, 4)
    assert "no lowering today" in session.captures[0].missing["code"]
    assert "no lowering today" in str(session)


def test_a_library_that_wraps_forward_does_not_hide_the_models_name():
    def wrapped(forward):
        @functools.wraps(forward)
        def wrapper(self, *args):
            return forward(self, *args)

        return wrapper

    class Wrapped(nn.Module):
        forward = wrapped(lambda self, x: x * 2)

    with capture(eager=True, lower="dynamo") as session:
        Wrapped()(torch.ones(2))
    assert session.captures[0].name == "Wrapped.forward"
    assert session.record.name == "Wrapped"


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("train", [False, True], ids=["inference", "training"])
def test_every_graph_has_its_text(backend, train):
    compiled, x = torch.compile(Block().train(train), backend=backend), torch.randn(4, 16)
    with capture() as session, torch.set_grad_enabled(train):
        out = compiled(x)
        if train:
            out.sum().backward()
    (graph,) = session.captures
    assert "self.up" in graph.text("dynamo") or "linear" in graph.text("dynamo")
    for stage in graph.graphs:
        assert graph.text(stage), stage
    if backend == "aot_eager":
        assert "torch.ops.aten.addmm.default" in graph.text("forward")


def test_a_session_goes_by_the_model_that_was_called_whatever_dynamo_sees_first():
    class Whole(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Conv1d(4, 4, 3)

        def forward(self, x):
            for _ in range(2):  # a break in a loop: Dynamo gives the whole frame up
                torch._dynamo.graph_break()
            return self.inner(x)

    whole = Whole()
    with capture(eager=True, lower="dynamo") as session:
        whole(torch.randn(1, 4, 8))
        nn.ReLU()(torch.randn(2))
    assert [each.name for each in session.captures] == ["Conv1d", "ReLU"]
    assert session.record.name == "Whole"


def test_an_exported_module_is_captured_as_the_user_calls_it():
    model, x = Block().eval(), torch.randn(4, 16)
    exported = torch.export.export(model, (x,)).module()
    expected = exported(x)
    with capture(eager=True, lower="aot") as session:
        made = exported(x)
    assert torch.equal(made, expected)
    assert session.record.name == "GraphModule"
    assert session.captures[0].graph("forward").calls
    with capture(eager=True, lower="aot") as session:
        torch.export.export(model, (x,))
    assert session.captures == (), "exporting is no call"
