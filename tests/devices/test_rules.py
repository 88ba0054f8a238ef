"""What the target refuses: where, why, and what would fit."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from inductor_debug_jupyter import (
    Constraint,
    DtypeConstraint,
    LayoutConstraint,
    MemoryConstraint,
    Problem,
    ShapeConstraint,
    UnsupportedOpsConstraint,
    capture,
)
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord, TensorSpec

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def findings(model, *args, constraints=None, lower="aot", **options):
    with capture(eager=True, lower=lower, constraints=constraints, **options) as session:
        model(*args)
    assert session.captures
    return session.findings


class Lone(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(784, 512)

    def forward(self, x):
        return self.up(x)


def test_linear_784_on_sticks_is_one_finding_on_the_users_line_and_nothing_about_the_batch():
    (finding,) = [f for f in findings(Lone(), torch.randn(30, 784), target="stick128") if f.severity == "error"]
    assert finding.rule_id == "align.innermost"
    assert finding.title == "784 is not a multiple of 64"
    assert "12.25 sticks" in finding.observed
    assert "832" in finding.allowed
    (place,) = finding.places
    assert place.source.text.strip() == "return self.up(x)"
    assert place.module_path == "up"


def test_twelve_identical_layers_are_one_finding_with_twelve_places():
    stack = nn.Sequential(*(nn.Linear(100, 100) for _ in range(12)))
    (finding,) = [f for f in findings(stack, torch.randn(3, 100), target="stick128") if f.severity == "error"]
    assert len(finding.places) == 12
    assert {place.module_path for place in finding.places} == {str(index) for index in range(12)}


def test_alignment_spares_the_batch_and_all_asks_for_all():
    model, x = nn.Linear(64, 64), torch.randn(30, 64)
    assert findings(model, x, constraints=[ShapeConstraint(alignment=64)]) == ()
    titles = {f.title for f in findings(model, x, constraints=[ShapeConstraint(alignment=64, dims="all")])}
    assert "30 is not a multiple of 64" in titles


@pytest.mark.parametrize(("size", "severity"), [(30, "error"), (128, "warning")])
def test_a_symbolic_size_is_a_condition_not_a_silent_pass(size, severity):
    x = torch.randn(4, size)
    torch._dynamo.mark_dynamic(x, 1)
    (finding,) = [
        f
        for f in findings(nn.Sequential(nn.ReLU()), x, constraints=[ShapeConstraint(alignment=64)])
        if f.rule_id == "align.size"
    ]
    assert finding.severity == severity, "the call that was captured has a size of its own"
    assert finding.title.startswith("fits only when s")
    assert finding.title.endswith("it was 30 here") == (size == 30)
    assert "% 64 == 0" in finding.title
    assert " in [" in finding.title


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_size_that_a_guard_has_fixed_is_a_number_though_all_sizes_were_open(backend):
    """With ``dynamic=True`` it stays a SymInt, whose expression is a number: that was once only a condition."""
    compiled = torch.compile(nn.Linear(30, 64), dynamic=True, backend=backend)
    with capture(target="stick128") as session:
        compiled(torch.randn(8, 30))
    titles = {each.title: each.severity for each in session.findings}
    assert titles == {"30 is not a multiple of 64": "error"}


class SaysConv2d(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return self.conv(x)


class SaysFunctional(SaysConv2d):
    def forward(self, x):
        return F.conv2d(x, self.conv.weight, self.conv.bias)


class SaysTorch(SaysConv2d):
    def forward(self, x):
        return torch.conv2d(x, self.conv.weight, self.conv.bias)


@pytest.mark.every(7)
@pytest.mark.parametrize("model", [SaysConv2d, SaysFunctional, SaysTorch])
@pytest.mark.parametrize(
    "name", ["aten.convolution", "aten.convolution.default", "aten::convolution", "conv2d", "nn.Conv2d"]
)
@pytest.mark.parametrize("lower", ["dynamo", "aot"])
def test_a_denied_convolution_is_caught_however_it_is_written(model, name, lower):
    (finding,) = findings(model(), torch.randn(1, 3, 8, 8), constraints=[UnsupportedOpsConstraint([name])], lower=lower)
    assert finding.rule_id == "op.unsupported"
    assert finding.places[0].source.file == __file__


def test_the_default_deny_list_knows_the_lu_family():
    class Solve(nn.Module):
        def forward(self, a):
            return torch.linalg.lu_factor(a)[0] + torch.linalg.inv(a)

    titles = {f.title for f in findings(Solve(), torch.eye(4), constraints=[UnsupportedOpsConstraint()])}
    assert titles == {"the target has no aten.linalg_lu_factor_ex", "the target has no aten.linalg_inv_ex"}


def test_dtypes_as_torch_dtypes_or_names():
    class Doubles(nn.Module):
        def forward(self, x):
            return x.double() * 2

    for allowed in ({torch.float32}, {"float32"}, {"torch.float32"}, {"float"}):
        (finding,) = findings(Doubles(), torch.randn(2), constraints=[DtypeConstraint(allowed_dtypes=allowed)])
        assert finding.title == "float64 is not supported"
        assert finding.places[0].source.text.strip() == "return x.double() * 2"


def test_layout_names_the_strides_and_takes_transposed_matmul_operands():
    class Swapped(nn.Module):
        def forward(self, x, w):
            return torch.exp(x.transpose(0, 1)) + x @ w.t()

    found = findings(Swapped(), torch.randn(4, 4), torch.randn(4, 4), constraints=[LayoutConstraint()])
    assert [f.title.split()[0] for f in found] == ["exp"]  # add reads what exp made of it: one cause; mm may
    assert "[1, 4]" in found[0].observed
    assert found[0].severity == "error"


def test_memory_each_tensor_and_the_peak():
    class Wide(nn.Module):
        def forward(self, x):
            a, b = x + 1, x + 2
            return a * b

    x = torch.randn(1024)
    limits = [MemoryConstraint(max_memory_bytes=4095)]
    titles = [f.title for f in findings(Wide(), x, constraints=limits)]
    assert any("a tensor of 4 KiB is over the limit of 4.0 KiB" in title for title in titles)
    (peak,) = findings(Wide(), x, constraints=[MemoryConstraint(max_memory_bytes=4 * 4096 - 1)])
    assert "needs 16 KiB at its peak" in peak.title
    assert findings(Wide(), x, constraints=[MemoryConstraint(max_memory_bytes=4 * 4096)]) == ()


def test_backward_is_checked_when_aot_partitions_not_when_it_runs():
    class Squashed(nn.Module):
        def forward(self, x):
            return torch.sigmoid(x)

    x = torch.randn(4, 4, requires_grad=True)
    (finding,) = findings(Squashed(), x, constraints=[UnsupportedOpsConstraint(["aten.mul"])], lower="inductor")
    assert finding.places[0].stage == "backward"


def test_a_rule_of_ones_own_is_a_few_lines():
    class NoReductions(Constraint):
        rule_id = "mine.no_sum"

        def check_node(self, node: NodeRecord, graph: GraphRecord):
            if node.target.startswith("aten.sum"):
                return Problem(node.name, "this chip cannot reduce", observed=node.target)
            return None

    class Sum(nn.Module):
        def forward(self, x):
            return x.sum()

    (finding,) = findings(Sum(), torch.randn(3), constraints=[NoReductions()])
    assert (finding.rule_id, finding.title) == ("mine.no_sum", "this chip cannot reduce")


def test_a_rule_that_fails_is_noted_and_the_others_go_on():
    class Broken(Constraint):
        rule_id = "mine.broken"

        def check_node(self, node, graph):
            raise KeyError("val")

    with capture(eager=True, lower="aot", constraints=[Broken(), ShapeConstraint(64)]) as session:
        nn.Linear(3, 64)(torch.randn(2, 3))
    assert [f.title for f in session.findings] == ["3 is not a multiple of 64"]
    assert "mine.broken: could not check (KeyError: 'val')" in str(session)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ShapeConstraint(alignment=0), "alignment: 0 is not allowed"),
        (lambda: ShapeConstraint(alignment="8"), "alignment: '8' is not allowed"),
        (lambda: ShapeConstraint(8, dims="row"), "dims: 'row' is not allowed; allowed: feature, innermost, rows"),
        (lambda: DtypeConstraint(["float33"]), "dtype: 'float33' is not allowed"),
        (lambda: MemoryConstraint(max_memory_bytes=-1), "max_memory_bytes: -1 is not allowed"),
    ],
)
def test_bad_constraints_say_what_is_allowed(make, message):
    with pytest.raises(OptionError, match=message):
        make()


def test_peak_memory_counts_views_once():
    from inductor_debug_jupyter.pipeline.devices import memory_of

    def spec(storage):
        return (TensorSpec((4,), "float32", (1,), itemsize=4, storage=storage, storage_bytes=16),)

    nodes = (
        NodeRecord("x", "placeholder", "x", outputs=spec(0)),
        NodeRecord("v", "call_function", "aten.view.default", ("x",), spec(0)),
        NodeRecord("y", "call_function", "aten.add.Tensor", ("v",), spec(1)),
        NodeRecord("output", "output", "output", ("y",)),
    )
    record = memory_of(GraphRecord("forward", nodes))
    assert record is not None
    assert record.peak == 32


class Many(nn.Module):
    """Embedding, attention, convolution, normalization, sorting: ops with tuples, whole numbers and strides."""

    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(10, 24)
        self.qkv = nn.Linear(24, 72)
        self.norm = nn.LayerNorm(24)
        self.conv = nn.Conv2d(3, 12, 3)

    def forward(self, tokens, image):
        h = self.norm(self.emb(tokens))
        q, k, v = self.qkv(h).chunk(3, -1)
        h = F.scaled_dot_product_attention(q, k, v)
        values, _ = torch.sort(F.gelu(self.conv(image)).flatten(1))
        return torch.exp(h.transpose(1, 2)).sum() + values.double().sum()


@pytest.mark.parametrize("target", ["default", "edge-int8", "stick128", "systolic128"])
def test_every_finding_of_every_built_in_target_shows_in_its_own_script(target, tmp_path, capsys):
    import runpy

    from inductor_debug_jupyter.pipeline.repro import violation_script

    with capture(eager=True, lower="aot", target=target) as session:
        Many()(torch.tensor([[1, 2, 3, 4, 5]]), torch.randn(2, 3, 9, 9))
    (one,) = session.captures
    assert len(session.findings) >= 4
    for finding in session.findings:
        assert finding.source is not None, finding
        assert finding.source.file == __file__
        path = tmp_path / "script.py"
        path.write_text(violation_script(one, finding, target=target, torch_version=torch.__version__))
        with pytest.raises(SystemExit) as done:
            runpy.run_path(str(path), run_name="__main__")
        assert done.value.code == 0, f"{finding}\n{capsys.readouterr().out}\n{path.read_text()}"


def test_an_op_may_take_fewer_dtypes_than_the_rest():
    class Summed(nn.Module):
        def forward(self, x):
            return x.cumsum(0) + 1

    rule = DtypeConstraint(["float16", "float32"], per_op={"torch.cumsum": ["float32"]})
    assert findings(Summed(), torch.randn(3), constraints=[rule]) == ()
    (finding,) = findings(Summed(), torch.randn(3).half(), constraints=[rule])
    assert finding.title == "float16 is not supported by cumsum"
    assert finding.allowed == "float32"


def test_control_flow_is_partitioned_as_one_op():
    from inductor_debug_jupyter import DeviceProfile
    from inductor_debug_jupyter.pipeline.capture.graphs import graph_record
    from inductor_debug_jupyter.pipeline.devices import graph_coverage
    from inductor_debug_jupyter.pipeline.torch_compat.replay import AotKeeper
    from tests.proofs.partitioned import PartitionedGraph

    def branch(x):
        return torch.cond(x.sum() > 0, lambda t: t.sin() + 1, lambda t: t.cos(), (x,)).exp()

    keeper = AotKeeper()
    x = torch.randn(4)
    with torch.no_grad():
        expected = torch.compile(branch, backend=keeper)(x)
    (kept,) = keeper.graphs
    record = graph_record("forward", kept.graph_module)
    coverage = graph_coverage(record, DeviceProfile("p", deny=("exp", "sum")))
    (got,) = PartitionedGraph(kept.graph_module, record, coverage.segments)(x)
    assert torch.equal(got, expected)
    assert len(coverage.segments) >= 3


def test_nobody_is_told_to_cast_a_complex_number_away(tmp_path):
    """A cast to a float drops the imaginary part."""

    @torch.compile(backend="aot_eager")
    def spectrum(x):
        return torch.fft.fft(x) * 2

    with capture(target="default", artifacts=str(tmp_path)) as session:
        spectrum(torch.randn(4, 8))
    (finding,) = [each for each in session.findings if each.rule_id == "dtype.unsupported"]
    assert finding.observed == "complex64"
    assert "view_as_real" in finding.hints[0]
    assert "two numbers of float32" in finding.hints[0]


@pytest.mark.parametrize(
    ("dtype", "allowed", "hint"),
    [
        ("float64", ("bool", "int8"), "quantize the model"),
        ("float64", ("bool", "float16"), "cast to float16 before this line"),
        ("uint16", ("bool", "int32"), "cast to int32 before this line"),
        ("int64", ("bool",), "leave it to the CPU: no dtype of the target holds what int64 holds"),
        ("float32", ("bool",), "leave it to the CPU"),
        ("bool", ("float32", "int8"), "cast to int8 before this line"),
    ],
)
def test_a_cast_is_advised_only_where_the_values_keep_their_meaning(dtype, allowed, hint):
    from inductor_debug_jupyter.pipeline.devices.dtypes import _instead_of

    assert _instead_of(dtype, allowed).startswith(hint)


@pytest.mark.parametrize(
    ("size", "observed"),
    [
        (10, "10 (less than one stick)"),
        (784, "784 (12.25 sticks)"),
        (300, "300 (4.69 sticks)"),
        (65, "65 (1.02 sticks)"),
    ],
)
def test_sizes_in_sticks_are_said_as_people_say_them(size, observed):
    with capture(target="stick128", lower="aot", eager=True) as session:
        torch.nn.Linear(size, 64)(torch.ones(2, size))
    assert observed in {finding.observed for finding in session.findings}
