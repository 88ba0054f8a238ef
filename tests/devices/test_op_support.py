"""Which ops the target has is a matter of the profile, not of how far the graph was lowered."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from inductor_debug_jupyter import DeviceProfile, UnsupportedOpsConstraint, capture
from inductor_debug_jupyter.pipeline.devices import OpSupport, graph_coverage
from inductor_debug_jupyter.pipeline.devices.ops import DECOMPOSED, bare_name
from inductor_debug_jupyter.pipeline.records import NodeRecord

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def node(target, composite="", aten_ops=()):
    return NodeRecord("n", "call_function", target, composite=composite, aten_ops=aten_ops)


class Activated(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 8)

    def forward(self, x):
        return nn.functional.gelu(self.up(x))


def told(lower, rules, grad=False):
    torch._dynamo.reset()
    with capture(eager=True, lower=lower, constraints=rules) as session:
        Activated()(torch.randn(3, 8, requires_grad=grad))
    return [(f.title, f.observed, len(f.places), f.places[0].source.line) for f in session.findings]


@pytest.mark.parametrize("denied", ["aten.erf", "gelu", "nn.GELU"])
def test_the_same_is_found_however_far_the_graph_was_lowered(denied):
    by_aot, by_inductor = (told(lower, [UnsupportedOpsConstraint([denied])]) for lower in ("aot", "inductor"))
    assert by_aot == by_inductor
    assert by_aot[0][:2] == (f"the target has no {denied}", "aten.gelu.default")


def test_alignment_and_dtype_see_the_op_and_not_its_insides():
    from inductor_debug_jupyter import DtypeConstraint, ShapeConstraint

    rules = [ShapeConstraint(16), DtypeConstraint(["float32"])]
    assert told("aot", rules) == told("inductor", rules)


@pytest.mark.parametrize("lower", ["dynamo", "aot", "inductor"])
def test_an_argument_can_make_another_op_of_it(lower):
    class Tanh(nn.Module):
        def forward(self, x):
            return nn.functional.gelu(x, approximate="tanh")

    for denied, found in (("aten.erf", []), ("aten.tanh", ["the target has no aten.tanh"]), ("gelu", ["…no gelu"])):
        torch._dynamo.reset()
        with capture(eager=True, lower=lower, constraints=[UnsupportedOpsConstraint([denied])]) as session:
            Tanh()(torch.randn(3, 8))
        assert session.captures
        assert [f.title.replace("the target has no gelu", "…no gelu") for f in session.findings] == found


def test_the_four_verdicts():
    support = OpSupport(allow=["@matmul", "tanh", "mul", "add", "exp", "sum", "div", "sub", "amax"])
    assert support.verdict(node("aten.addmm.default")).status == "supported"
    assert support.verdict(node("aten.view.default")).status == "supported"
    softmax = support.verdict(node("aten._softmax.default"))
    assert (softmax.status, softmax.parts) == ("decomposable", DECOMPOSED["_softmax"])
    gelu = support.verdict(node("aten.gelu.default"))
    assert (gelu.status, gelu.lacks) == ("fallback", "aten.gelu")
    assert "erf" in gelu.reason
    assert OpSupport(allow=["mm"], fallback=False).verdict(node("aten.relu.default")).status == "refused"


def test_the_profiles_own_decomposition_rescues_a_denied_op():
    denied = OpSupport(deny=["gelu"])
    rescued = OpSupport(deny=["gelu", "erf"], decompose={"gelu": ["tanh", "mul", "add"]})
    assert denied.verdict(node("aten.gelu.default")).status == "fallback"
    assert rescued.verdict(node("aten.gelu.default")).parts == ("tanh", "mul", "add")
    # Inductor's graph has an erf in its place: still the same op, and the same answer.
    assert rescued.verdict(node("aten.erf.default", composite="aten.gelu.default")).status == "decomposable"
    assert rescued.verdict(node("aten.erf.default")).status == "fallback"
    by_users_name = OpSupport(allow=["exp", "sum", "div"], decompose={"nn.Softmax": ["exp", "sum", "div"]})
    assert by_users_name.verdict(node("aten._softmax.default")).parts == ("exp", "sum", "div")
    lacking = by_users_name.verdict(node("aten.tanh.default"))
    assert lacking.reason == "aten.tanh is not on the target's list of ops that it has"


def test_in_place_and_dynamo_names_mean_the_same_op():
    support = OpSupport(deny=["aten.add"])
    assert not support.verdict(node("aten.add_.Tensor")).runs_on_device
    assert not support.verdict(node("operator.iadd", aten_ops=("aten.add_.Tensor",))).runs_on_device
    assert support.verdict(node("operator.imul", aten_ops=("aten.mul_.Tensor",))).runs_on_device


@pytest.mark.parametrize("op", ["gelu", "_softmax", "_log_softmax", "native_layer_norm", "hardswish"])
def test_the_table_of_decompositions_says_what_torch_does(op):
    """Each part that the table names is there when torch itself decomposes the op."""
    from torch._inductor.decomposition import select_decomp_table
    from torch.fx.experimental.proxy_tensor import make_fx

    x, weight = torch.randn(4, 8), torch.randn(8)
    calls = {
        "gelu": lambda: torch.ops.aten.gelu(x),
        "_softmax": lambda: torch.ops.aten._softmax(x, 1, False),
        "_log_softmax": lambda: torch.ops.aten._log_softmax(x, 1, False),
        "native_layer_norm": lambda: torch.ops.aten.native_layer_norm(x, [8], weight, weight, 1e-5),
        "hardswish": lambda: torch.ops.aten.hardswish(x),
    }
    graph = make_fx(lambda: calls[op](), decomposition_table=select_decomp_table())().graph
    made = {bare_name(str(each.target)) for each in graph.nodes if each.op == "call_function"}
    assert set(DECOMPOSED[op]) <= {"clamp" if name in {"clamp_min", "clamp_max"} else name for name in made}


def test_every_op_is_counted_once_with_its_reason_and_lines():
    class Mixed(nn.Module):
        def forward(self, x):
            values, index = torch.sort(torch.relu(x))
            return values.double() + index

    with capture(eager=True, lower="aot", target="default") as session:
        Mixed()(torch.randn(3, 4))
    (graph,) = session.coverage.graphs
    assert sum(row.count for row in graph.rows) == graph.nodes == len(session.captures[0].graph("forward").calls)
    assert sorted(name for s in graph.segments for name in s.nodes) == sorted(
        node.name for node in session.captures[0].graph("forward").calls
    )
    by_op = {row.op: row for row in graph.rows}
    assert by_op["relu"].status == "supported"
    assert (by_op["sort"].status, by_op["sort"].places[0].source.text.strip()) == (
        "fallback",
        "values, index = torch.sort(torch.relu(x))",
    )
    assert by_op["add"].reason == "float64 is not supported"
    ledger = {entry.op: entry for entry in session.coverage.fallbacks}
    assert ledger["sort"].bytes_moved == 3 * 4 * 4
    assert "sort ×1 runs on the CPU" in str(session)


def test_no_fallback_means_refused():
    with capture(eager=True, lower="aot") as session:
        Activated()(torch.randn(3, 8))
    graph = session.captures[0].graph("forward")
    assert graph_coverage(graph, DeviceProfile("p", deny=("gelu",), fallback="none")).count("refused") == 1


def test_looking_ops_up_leaves_the_state_of_torch_alone():
    """A Dynamo graph calls functions that change modes and vmap levels: they must not be called a second time."""

    def changes_modes(x):
        with torch.no_grad():
            y = torch.vmap(torch.sin)(x)
        with torch.autocast("cpu"):
            return y @ x.t() + F.dropout(x, 0.5) @ x.t()

    x = torch.randn(4, 4)
    torch.manual_seed(0)
    expected = changes_modes(x)
    torch.manual_seed(0)
    with capture(target="default") as session:
        got = torch.compile(changes_modes, backend="eager")(x)
    assert torch.equal(got, expected)
    assert session.captures[0].graph("forward") is None
    assert not torch.is_autocast_enabled("cpu")
    assert torch.is_grad_enabled()


def test_a_backend_of_ones_own_that_stops_at_dynamo_is_checked_by_aten_ops():
    """No AOT graph was made: the Dynamo graph's nodes say what they dispatch to."""
    with capture(constraints=[UnsupportedOpsConstraint(["aten.addmm"])]) as session:
        torch.compile(Activated(), backend="eager")(torch.randn(3, 8))
    (finding,) = session.findings
    assert finding.title == "the target has no aten.addmm"
    assert finding.places[0].stage == "dynamo"


def test_a_list_of_ops_is_of_what_runs_and_not_of_what_dynamo_calls_it():
    """Dropout in evaluation mode is nothing; attention is judged by the op it becomes, once."""

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.dropout = torch.nn.Dropout(0.1)

        def forward(self, x):
            return self.dropout(torch.nn.functional.scaled_dot_product_attention(x, x, x))

    with capture(target="edge-int8", lower="aot", eager=True) as session, torch.no_grad():
        Attention().eval()(torch.ones(1, 2, 16, 16))
    lacking = [finding for finding in session.findings if finding.rule_id == "op.unsupported"]
    assert len(lacking) == 1
    assert "scaled_dot_product" in lacking[0].title
    assert {place.stage for place in lacking[0].places} == {"forward"}
