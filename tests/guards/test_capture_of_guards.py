"""Guards, breaks and recompiles as a session captures them."""

import warnings

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.records import dump_session, load_session
from inductor_debug_jupyter.pipeline.torch_compat import hooks

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

SCALE = 3


def guards_of(session, compile_id):
    return [guard for guard in session.record.guards if guard.compile_id == compile_id]


def texts(items):
    return [item.source.text.strip() for item in items]


def test_guards_stand_on_the_graph_they_belong_to_with_the_users_line():
    def before(x, n):
        return x * n

    @torch.compile(backend="eager")
    def split(x, n, flag):
        y = before(x, n)
        torch._dynamo.graph_break()
        if flag:
            y = y + SCALE
        return y

    with capture() as session:
        split(torch.ones(2, 3), 2, True)
    first, second = (guards_of(session, graph.compile_id) for graph in session.captures)
    assert [guard.expression for guard in first if guard.kind == "TENSOR_MATCH"] == ["L['x']"]
    assert [guard.expression for guard in second if guard.kind == "TENSOR_MATCH"] == ["L['y']"]
    number = next(guard for guard in first if guard.expression == "L['n']")
    assert number.checks == ("L['n'] == 2",)
    assert number.source.text.strip() == "return x * n"
    assert (number.source.file, number.source.function) == (__file__, "before")
    flag = next(guard for guard in second if guard.expression == "L['flag']")
    assert flag.source.text.strip() == "if flag:"
    assert flag.source.function == "split"
    glob = next(guard for guard in second if guard.expression == "G['SCALE']")
    assert glob.source.text.strip() == "y = y + SCALE"
    assert not [guard for guard in first if guard.expression in ("L['flag']", "G['SCALE']")]


def test_a_tensors_guard_says_size_dtype_and_stride():
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    with capture() as session:
        compiled(torch.ones(4, 2, dtype=torch.float64).t())
    (tensor,) = [guard for guard in session.record.guards if guard.kind == "TENSOR_MATCH"]
    assert "torch.float64" in tensor.checks[0]
    assert "size=[2, 4], stride=[1, 2]" in tensor.checks[0]


def test_tensors_in_lists_and_dictionaries_say_theirs_too():
    class Layers(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))

        def forward(self, batch):
            x = batch["x"]
            for layer in self.layers:
                x = layer(x)
            return x

    compiled = torch.compile(Layers(), backend="eager")
    with capture() as session:
        compiled({"x": torch.ones(2, 3)})
    tensors = [guard for guard in session.record.guards if guard.kind == "TENSOR_MATCH"]
    assert len(tensors) == 5
    assert all(guard.checks[0].startswith(f"check_tensor({guard.expression}, ") for guard in tensors)


def test_each_relation_of_symbolic_sizes_has_its_line():
    @torch.compile(backend="eager", dynamic=True)
    def branch(x, y):
        if x.shape[0] * y.shape[0] > 40:
            return x.view(2, -1)
        return x

    with capture() as session:
        branch(torch.ones(6), torch.ones(8))
    shapes = [guard for guard in session.record.guards if guard.kind == "SHAPE_ENV"]
    lines = {guard.checks[0]: guard.source.text.strip() for guard in shapes}
    product = next(check for check in lines if "> 40" in check)
    assert lines[product] == "if x.shape[0] * y.shape[0] > 40:"
    assert lines["(L['x'].size()[0] % 2) == 0"] == "return x.view(2, -1)"
    assert {guard.expression for guard in shapes} == {"L['x']", "L['y']"}


def test_guards_survive_saving():
    compiled = torch.compile(nn.Linear(2, 2), backend="eager")
    with capture() as session:
        compiled(torch.ones(1, 2))
    assert session.record.guards
    assert load_session(dump_session(session.record)).guards == session.record.guards


@pytest.mark.parametrize(
    ("calls", "told"),
    [
        ([(torch.ones(2), 2), (torch.ones(2), 3)], "n == 2"),
        ([(torch.ones(2), 2), (torch.ones(5), 2)], "tensor 'x' size mismatch at index 0. expected 2, actual 5"),
        ([(torch.ones(2), 2), (torch.ones(2).double(), 2)], "tensor 'x' dtype mismatch. expected Float, actual Double"),
        ([(torch.ones(2), 2), (torch.ones(2, requires_grad=True), 2)], "tensor 'x' requires_grad mismatch"),
    ],
    ids=["int", "shape", "dtype", "requires_grad"],
)
def test_a_recompile_names_the_guard_its_compile_and_the_line(calls, told):
    @torch.compile(backend="eager")
    def scale(x, n):
        y = x * n
        return y.relu()

    with capture() as session:
        for call in calls:
            scale(*call)
    (recompile,) = session.recompiles
    first, second = session.captures
    assert recompile.compile_id == second.compile_id
    assert recompile.reasons[0].startswith(f"{first.compile_id}: {told}")
    assert recompile.source.text.strip() == "y = x * n"


def test_a_change_of_global_state_is_told_on_the_function():
    @torch.compile(backend="eager")
    def double(x):
        return x * 2

    with capture() as session:
        double(torch.ones(2))
        with torch.no_grad():
            double(torch.ones(2))
    (recompile,) = session.recompiles
    assert recompile.reasons == (f"{session.captures[0].compile_id}: GLOBAL_STATE changed: grad_mode",)
    assert recompile.source.function == "double"


def test_reasons_have_no_addresses():
    @torch.compile(backend="eager")
    def scale(x, n):
        return x * n

    with capture() as session:
        scale(torch.ones(2), torch.ones(1))
        scale(torch.ones(2), "not a tensor" and 3)
    (recompile,) = session.recompiles
    assert "n" in recompile.reasons[0]
    assert not [word for word in recompile.reasons[0].split() if word.strip("),").isdigit() and len(word) > 8]


def deepest(x):
    y = x + 1
    print("in the middle")
    return y * 2


def middle(x):
    return deepest(x) + 1


@torch.compile(backend="eager")
def outermost(x):
    return middle(x) * 3


def test_a_break_in_an_inlined_function_is_one_break_on_its_own_line(capsys):
    with capture() as session:
        outermost(torch.ones(2))
    (graph_break,) = session.graph_breaks
    assert graph_break.source.text.strip() == 'print("in the middle")'
    assert graph_break.count == 1
    assert "print" in graph_break.reason
    assert graph_break.hints
    assert capsys.readouterr().out == "in the middle\n"


def test_breaks_are_distinct_and_repeats_are_counted(caplog):
    @torch.compile(backend="eager")
    def three(x):
        x = x + x.sum().item()
        if x.sum() > 0:
            x = x + 1
        print(len(x))
        return x

    with capture() as session, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        three(torch.ones(2))
        three(torch.ones(3))
    item, branch, printed = session.graph_breaks
    assert texts((item, branch, printed)) == ["x = x + x.sum().item()", "if x.sum() > 0:", "print(len(x))"]
    assert [found.count for found in (item, branch, printed)] == [2, 2, 2]
    assert branch.reason.startswith("Data-dependent branching: ")


def test_a_failing_reader_never_reaches_the_users_compile(monkeypatch):
    def broken(*_):
        raise RuntimeError("no guards today")

    monkeypatch.setattr(hooks, "read_guards", broken)
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    with capture() as session:
        assert torch.equal(compiled(torch.ones(2)), torch.full((2,), 2.0))
    assert session.record.guards == ()
    assert any(note.part == "guards" and "no guards today" in note.message for note in session.notes)


def test_the_hook_is_gone_after_the_capture():
    from torch._dynamo.guards import CheckFunctionManager

    before = CheckFunctionManager.__init__
    with capture():
        assert CheckFunctionManager.__init__ is not before
    assert CheckFunctionManager.__init__ is before


def test_other_compiles_of_the_same_code_keep_their_own_guards():
    @torch.compile(backend="eager")
    def scale(x, n):
        return x * n

    with capture() as session:
        scale(torch.ones(2), 2.5)
        scale(torch.ones(2).double(), 2.5)
    for graph, dtype in zip(session.captures, ("float32", "float64"), strict=True):
        (tensor,) = [guard for guard in guards_of(session, graph.compile_id) if guard.kind == "TENSOR_MATCH"]
        assert f"torch.{dtype}" in tensor.checks[0]
