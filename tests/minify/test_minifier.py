"""A failing graph becomes the smallest one that fails in the same way, and a script that shows it anywhere."""

import operator
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch._inductor.config as inductor_config
import torch.nn.functional as F
from stub_adapters import OffByOne
from torch import nn

from inductor_debug_jupyter.pipeline.adapters import capture_graph
from inductor_debug_jupyter.pipeline.devices import DtypeConstraint, ShapeConstraint, UnsupportedOpsConstraint, check
from inductor_debug_jupyter.pipeline.errors import ConstraintViolationError, ReproError, UsageError
from inductor_debug_jupyter.pipeline.minify import Differs, Minifier, Outcome, dynamo_graph
from inductor_debug_jupyter.pipeline.minify.fewer_nodes import smallest_of
from inductor_debug_jupyter.pipeline.records import Place, Violation
from inductor_debug_jupyter.pipeline.repro import FailureCheck, graph_script

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Mlp(nn.Module):
    """12 layers, one of them odd."""

    def __init__(self, odd=torch.tanh, width=16):
        super().__init__()
        torch.manual_seed(0)
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(12))
        self.odd = odd

    def forward(self, x):
        for number, layer in enumerate(self.layers):
            x = self.odd(layer(x)) if number == 7 else torch.relu(layer(x))
        return x


def no_tanh(gm, example_inputs):
    for node in gm.graph.nodes:
        if node.target is torch.tanh:
            raise NotImplementedError("no kernel for tanh\nmore")
    return gm.forward


def ops(gm):
    return [node.target for node in gm.graph.nodes if node.op.startswith("call_")]


def run(path):
    return subprocess.run([sys.executable, "-I", str(path)], capture_output=True, text=True, cwd="/")


def shows(minifier, tmp_path):
    """Run the script in a fresh process, away from here, with nothing of ours to import."""
    path = tmp_path / "repro.py"
    text = minifier.repro_script()
    path.write_text(text)
    assert "inductor_debug_jupyter" not in text
    assert "pickle" not in text
    assert "torch.load" not in text
    done = run(path)
    assert done.returncode == 0, done.stdout + done.stderr
    return text, done.stdout


# An exception ---------------------------------------------------------------------------------------------------------


def test_a_backend_that_raises_on_one_op_is_reduced_to_that_op(tmp_path):
    gm, inputs = dynamo_graph(Mlp(), torch.randn(4, 16))
    with pytest.raises(Exception, match="no kernel for tanh") as error:
        torch.compile(gm, backend=no_tanh)(*inputs)
    minifier = Minifier(gm, inputs, error.value, backend=no_tanh)
    minimal = minifier.minify()
    assert ops(minimal.gm) == [torch.tanh]
    assert minimal.total_ops == 24
    assert minimal.evaluations < 20
    assert minimal.nearest_passing is not None
    assert torch.tanh not in ops(minimal.nearest_passing)
    assert "1 of 24 ops" in str(minimal)
    _, told = shows(minifier, tmp_path)
    assert "NotImplementedError: no kernel for tanh" in told


def test_an_op_that_raises_when_the_graph_runs(tmp_path):
    class Broken(nn.Module):
        def forward(self, x, index):
            for _ in range(5):
                x = torch.sin(x)
            return F.embedding(index + 40, x) * 2

    gm, inputs = torch.fx.symbolic_trace(Broken()), (torch.randn(8, 4), torch.tensor([1, 2]))
    with pytest.raises(IndexError) as error:
        gm(*inputs)
    minifier = Minifier(gm, inputs, error.value)
    minimal = minifier.minify()
    assert ops(minimal.gm) == [F.embedding]
    assert minimal.evaluations == 3  # the whole, the node that raised, and smaller inputs
    text, told = shows(minifier, tmp_path)
    assert "index out of range" in told
    assert "listed([41, 42], [2], [1], torch.int64)" in text  # the values are the failure


def test_the_script_exits_1_when_the_failure_does_not_show(tmp_path):
    gm = torch.fx.symbolic_trace(lambda x: torch.linalg.cholesky(x - 5) + 1)
    inputs = (torch.eye(3),)
    with pytest.raises(torch.linalg.LinAlgError) as error:
        gm(*inputs)
    path = Minifier(gm, inputs, error.value).generate_repro_script(tmp_path)
    assert run(path).returncode == 0
    path.write_text(path.read_text().replace("cholesky(", "det("))
    done = run(path)
    assert (done.returncode, done.stdout) == (1, "the failure does NOT show\n")


def test_modules_of_torch_go_into_the_script(tmp_path):
    gm = torch.fx.symbolic_trace(nn.Sequential(nn.ReLU(), nn.Linear(6, 4), nn.Softmax(-1)))
    with pytest.raises(RuntimeError) as error:
        gm(torch.randn(2, 5))
    minifier = Minifier(gm, torch.randn(2, 5), error.value)
    assert ops(minifier.minify().gm) == ["1"]
    text, _ = shows(minifier, tmp_path)
    assert "torch.nn.Linear(in_features=6, out_features=4, bias=True)" in text


def test_text_from_the_model_cannot_become_code(tmp_path):
    evil = '"""\nimport os; os._exit(9)\n"""'
    gm = torch.fx.symbolic_trace(lambda x: torch.relu(x))
    path = Minifier(gm, torch.randn(2), ValueError(evil), run=raises_evil).generate_repro_script(tmp_path)
    assert run(path).returncode == 0
    first, *_, last = gm.graph.nodes
    with gm.graph.inserting_before(last):
        gm.graph.call_method("relu(); import os", (first,))
    with pytest.raises(ReproError, match="not a name that a script can hold"):
        graph_script(gm, [torch.randn(2)], FailureCheck("", ""))


def raises_evil(gm, inputs):
    if "relu" in gm.code:
        raise ValueError('"""\nimport os; os._exit(9)\n"""')


def test_the_users_inputs_are_not_changed():
    gm, x = torch.fx.symbolic_trace(lambda x: torch.linalg.inv(x.mul_(0))), torch.ones(2, 2)
    with pytest.raises(RuntimeError) as error:
        gm(x.clone())
    minimal = Minifier(gm, [x], error.value).minify()
    assert torch.equal(x, torch.ones(2, 2))
    assert ops(minimal.gm) == [torch.linalg.inv]


def test_a_backend_that_cannot_leave_the_process_is_said():
    hidden = {"op": torch.tanh}

    def backend(gm, inputs):
        if hidden["op"] in ops(gm):
            raise NotImplementedError("no")
        return gm.forward

    gm = torch.fx.symbolic_trace(lambda x: torch.tanh(x) + 1)
    minifier = Minifier(gm, torch.randn(2), NotImplementedError("no"), backend=backend)
    assert minifier.minify().ops == 1
    with pytest.raises(ReproError, match="cannot go into a standalone script"):
        minifier.repro_script()


# A violation ----------------------------------------------------------------------------------------------------------


def violation_of(gm, inputs, rule):
    return check(capture_graph(gm, inputs), [rule])[0]


@pytest.mark.parametrize(
    ("odd", "rule", "title"),
    [
        (lambda x: x.double().float(), DtypeConstraint(["float32"]), "float64 is not supported"),
        (torch.tanh, UnsupportedOpsConstraint(["aten.tanh"]), "the target has no aten.tanh"),
        (lambda x: F.pad(F.pad(x, (0, 3)), (0, -3)), ShapeConstraint(16), "19 is not a multiple of 16"),
    ],
)
def test_a_violation_in_a_12_layer_mlp_is_reduced_to_one_op(tmp_path, odd, rule, title):
    gm, inputs = dynamo_graph(Mlp(odd), torch.randn(4, 16))
    violation = violation_of(gm, inputs, rule)
    assert violation.title == title
    minifier = Minifier(gm, inputs, ConstraintViolationError("refused", [violation]), rules=[rule])
    minimal = minifier.minify()
    assert len(ops(minimal.gm)) == 1
    assert minimal.total_ops >= 24
    assert minimal.evaluations <= 6  # the violation's own line is looked at first
    _, told = shows(minifier, tmp_path)
    assert title in told


def test_rules_come_from_the_target_when_not_given():
    gm, inputs = dynamo_graph(Mlp(width=24), torch.randn(4, 24))
    violation = Violation("align.innermost", "error", "24 is not a multiple of 64", (Place("0/0", "forward", "addmm"),))
    assert Minifier(gm, inputs, [violation], target="stick128").minify().ops == 1
    with pytest.raises(UsageError, match=r"no rule 'align.innermost' to check against"):
        Minifier(gm, inputs, violation, rules=[DtypeConstraint(["float32"])])


# Wrong numbers --------------------------------------------------------------------------------------------------------


@pytest.mark.long  # the suite has the same with backends that compile nothing
def test_inductors_own_relu_fault_is_reduced_to_a_relu(tmp_path):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    x = torch.randn(4, 8)
    setup = 'torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"'
    with inductor_config.patch({"cpp.inject_relu_bug_TESTING_ONLY": "accuracy"}):
        minifier = Minifier.of_model(
            model, x, fails=Differs("inductor"), setup=["import torch._inductor.config", setup]
        )
        minimal = minifier.minify()
        text, told = shows(minifier, tmp_path)
    assert len(ops(minimal.gm)) == 1
    assert "relu" in str(ops(minimal.gm)[0])
    assert "floors" in told
    path = tmp_path / "healthy.py"
    path.write_text(text.replace(setup, ""))
    assert run(path).returncode == 1


def test_an_adapter_that_lies():
    gm, inputs = dynamo_graph(Mlp(), torch.randn(4, 16))
    assert ops(Minifier(gm, inputs, fails=Differs(OffByOne(torch.tanh))).minify().gm) == [torch.tanh]


def large_values(gm, inputs):
    return inputs[0].numel() > 5000 and bool((gm(*inputs)[0] > 100).any())


def test_large_inputs_are_drawn_from_a_seed_only_where_that_fails_too(tmp_path):
    gm = torch.fx.symbolic_trace(lambda x: (torch.exp(x), torch.sin(x)))
    drawn = Minifier(gm, torch.full((100, 100), 9.0), fails=lambda gm, inputs: torch.exp in ops(gm))
    assert drawn._needs_exact_values(drawn.minify()) is False
    kept = Minifier(gm, torch.full((100, 100), 9.0), fails=large_values)
    text, _ = shows(kept, tmp_path)
    assert "packed(" in text
    assert ops(kept.minify().gm) == [torch.exp]


# Reduction ------------------------------------------------------------------------------------------------------------


def path_between(gm, inputs):
    """Fails when a value that sigmoid made reaches cos."""
    reached = set()
    for node in gm.graph.nodes:
        if node.target is torch.sigmoid or reached & set(node.all_input_nodes):
            reached.add(node)
    return any(node.target is torch.cos and node in reached for node in gm.graph.nodes)


def test_two_needed_ops_with_a_path_between():
    def model(x):
        for _ in range(6):
            x = torch.relu(x) + 1
        x = torch.sigmoid(x)
        for _ in range(3):
            x = torch.tanh(x)
        y = torch.cos(x) - x
        for _ in range(6):
            y = torch.relu(y) * 2
        return y

    gm, inputs = dynamo_graph(model, torch.randn(3))
    minimal = Minifier(gm, inputs, fails=path_between).minify()
    assert ops(minimal.gm) == [torch.sigmoid, torch.tanh, torch.tanh, torch.tanh, torch.cos]
    assert not path_between(minimal.nearest_passing, ())


def test_two_needed_ops_with_no_path():
    def both(gm, inputs):
        return Outcome({torch.sin, torch.cos} <= set(ops(gm)), "both")

    def model(x):
        a, b = torch.sin(x), torch.relu(x)
        for _ in range(8):
            a, b = torch.tanh(a), torch.tanh(b)
        return a, torch.cos(b)

    gm, inputs = dynamo_graph(model, torch.randn(3))
    minimal = Minifier(gm, inputs, fails=both).minify()
    assert set(ops(minimal.gm)) == {torch.sin, torch.cos}


def test_tuples_numbers_and_attention_are_cut_well():
    class Attention(nn.Module):
        def forward(self, x):
            q, k, v = torch.split(x, x.shape[-1] // 3, -1)
            y = F.scaled_dot_product_attention(q, k, v).reshape(x.shape[0], -1)
            values, index = torch.max(y, -1)
            return torch.tanh(values) + index

    gm = torch.fx.symbolic_trace(Attention())
    inputs = (torch.randn(2, 4, 12),)
    for target in (torch.split, torch.max, torch.tanh, F.scaled_dot_product_attention, "reshape"):
        minimal = Minifier(
            gm, inputs, fails=lambda gm, inputs, t=target: t in ops(gm) and gm(*inputs) is not None
        ).minify()
        assert [op for op in ops(minimal.gm) if op is not operator.getitem] == [target]
        assert all(isinstance(value, torch.Tensor) for value in minimal.inputs)


def test_a_limit_ends_the_search_with_the_smallest_so_far():
    gm, inputs = dynamo_graph(Mlp(), torch.randn(4, 16))
    minimal = Minifier(gm, inputs, fails=lambda gm, inputs: torch.tanh in ops(gm), max_evaluations=3).minify()
    assert not minimal.is_complete
    assert torch.tanh in ops(minimal.gm)
    assert "ended early" in str(minimal)


@pytest.mark.parametrize("needed", [{3}, {0, 99}, {10, 11, 12}, {5, 50, 95}])
def test_delta_debugging_finds_exactly_what_is_needed(needed):
    names = [str(number) for number in range(100)]
    tested = set()

    def fails(items):
        tested.add(frozenset(items))
        return {str(n) for n in needed} <= set(items)

    assert {int(name) for name in smallest_of(names, fails)} == needed
    assert len(tested) < 12 * len(needed) + 14


@pytest.mark.parametrize(("needed", "most"), [({3, 90}, 20), ({3, 41, 90}, 40)])
def test_of_a_path_that_need_not_be_whole_not_every_node_is_tried(needed, most):
    names = [str(number) for number in range(100)]
    tested = set()

    def fails(items):
        tested.add(frozenset(items))
        return {str(n) for n in needed} <= set(items)

    def path(first, last):
        return names[int(first) : int(last) + 1]

    assert {int(name) for name in smallest_of(names, fails, path=path)} == needed
    assert len(tested) <= most


# What cannot be ------------------------------------------------------------------------------------------------------


def test_what_cannot_be_reduced_is_said():
    gm = torch.fx.symbolic_trace(lambda x: x + 1)
    x = torch.randn(2)
    with pytest.raises(UsageError, match=r"the whole graph does not fail in this way \(it runs\)"):
        Minifier(gm, x, ValueError("no")).minify()
    with pytest.raises(UsageError, match="error: None is not allowed"):
        Minifier(gm, x)
    with pytest.raises(UsageError, match="gm: a Linear is not allowed"):
        Minifier(nn.Linear(2, 2), x, ValueError("no"))
    with pytest.raises(UsageError, match="takes 1 inputs, 2 were given"):
        Minifier(gm, (x, x), fails=lambda gm, inputs: True).minify()

    def breaks(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x * 2

    with pytest.raises(UsageError, match="no single graph of this model: Dynamo makes 2 of it"):
        dynamo_graph(breaks, x)


def test_it_is_written_among_the_artifacts_when_no_path_is_given():
    gm = torch.fx.symbolic_trace(lambda x: torch.linalg.inv(x * 0))
    with pytest.raises(RuntimeError) as error:
        gm(torch.eye(2))
    path = Minifier(gm, torch.eye(2), error.value).generate_repro_script()
    assert path.parent.name == "repros"
    assert Path("debug_artifacts").resolve() in path.parents
    assert run(path).returncode == 0
