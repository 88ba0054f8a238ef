"""The first bad rung is named, with a reason; what could not be compared is never good."""

import itertools

import pytest
import torch
import torch._inductor.config as inductor_config
from functorch.compile import make_boxed_func
from stub_adapters import OffByOne, SilentAdapter
from torch import nn
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.output_graph import OutputGraph
from torch._inductor import decomposition

from inductor_debug_jupyter.pipeline.adapters import MockAcceleratorAdapter
from inductor_debug_jupyter.pipeline.bisect import STEPS, bisect_stages, is_rung
from inductor_debug_jupyter.pipeline.diff import KernelDiffHarness
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.records import BisectRecord, Rung
from inductor_debug_jupyter.pipeline.views.bisect import bisect_text

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

CHEAP = STEPS[:3]
"""Inductor is not the point of most of these."""


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.proj = nn.Linear(8, 8)

    def forward(self, x):
        return torch.relu(self.proj(x)) * 2


class Broken(SilentAdapter):
    name = "broken"

    def compile(self, gm, inputs):
        raise RuntimeError("no kernel for relu")


def outcomes(record):
    return {rung.name: rung.outcome for rung in record.rungs}


def test_inductors_relu_fault_is_inductors():
    with inductor_config.patch({"cpp.inject_relu_bug_TESTING_ONLY": "accuracy"}):
        record = bisect_stages(Small(), torch.randn(4, 8), adapter=MockAcceleratorAdapter())
    assert record.first_bad == "inductor"
    assert "generated code" in record.explanation
    assert [(each.op, each.source.text.strip()) for each in record.culprits if each.source] == [
        ("aten.relu.default", "return torch.relu(self.proj(x)) * 2")
    ]
    assert f"in {record.culprits[0].kernel} at test_bisect.py" in record.explanation
    assert outcomes(record) == {
        "eager": "good",
        "dynamo": "good",
        "aot": "good",
        "aot_decomposed": "good",
        "inductor_passes": "good",
        "inductor": "bad",
        "mock": "not_run",
    }
    bad = record.rungs[5]
    assert bad.diff is not None
    assert bad.diff.outputs[0].max_absolute_error == pytest.approx(2, rel=0.01)  # relu + 1, times 2
    text = bisect_text(record)
    assert "Small: the first rung that is not good is inductor" in text
    assert "→ inductor" in text


def without_relu(graph):
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.relu.default):
        node.replace_all_uses_with(node.args[0])
        graph.erase_node(node)


def test_a_pass_is_named_with_its_author_and_the_line():
    with inductor_config.patch(post_grad_custom_pre_pass=without_relu):
        record = bisect_stages(Small(), torch.randn(4, 8))
    assert record.first_bad == "inductor_passes"
    assert [each.op for each in record.culprits] == ["aten.relu.default"]
    assert "the pass post_grad_custom_pre_pass (without_relu, test_bisect.py line " in record.explanation
    assert "generated code" not in record.explanation


def test_a_decomposition_is_named(monkeypatch):
    def wrong(x):
        return x * torch.sigmoid(x) * 1.1

    monkeypatch.setitem(decomposition.decompositions, torch.ops.aten.silu.default, wrong)
    record = bisect_stages(nn.Sequential(nn.Linear(8, 8), nn.SiLU(), nn.ReLU()), torch.randn(4, 8))
    assert record.first_bad == "aot_decomposed"
    assert [each.op for each in record.culprits] == ["aten.silu.default"]
    assert "its decomposition" in record.explanation


def test_the_op_of_a_device_is_named():
    def device(gm, inputs):
        def compiler(graph, _):
            for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.relu.default):
                node.target = torch.ops.aten.sigmoid.default
            graph.recompile()
            return make_boxed_func(graph.forward)

        return aot_autograd(fw_compiler=compiler)(gm, inputs)

    record = bisect_stages(Small(), torch.randn(4, 8), adapter=device, steps=CHEAP)
    assert record.first_bad == "device"
    assert [each.op for each in record.culprits] == ["aten.relu.default"]
    assert "It comes in at aten.relu.default" in record.explanation


def test_a_search_that_fails_leaves_the_rung_and_says_so(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("no\nluck")

    monkeypatch.setattr(KernelDiffHarness, "localize", broken)
    record = bisect_stages(Small(), torch.randn(4, 8), adapter=OffByOne(torch.relu), steps=CHEAP)
    assert (record.first_bad, record.culprits) == ("off-by-one", ())
    assert "could not be found: RuntimeError: no" in record.explanation
    assert "\n" not in record.explanation


def test_a_device_that_lies_is_named():
    record = bisect_stages(Small(), torch.randn(4, 8), adapter=OffByOne(torch.relu), model_name="net", steps=CHEAP)
    assert (record.model, record.first_bad) == ("net", "off-by-one")
    assert "device" in record.explanation
    assert set(outcomes(record).values()) == {"good", "bad"}


def test_a_device_that_does_not_compile_has_failed_and_says_why():
    record = bisect_stages(Small(), torch.randn(4, 8), adapter=Broken(), steps=CHEAP)
    assert record.first_bad == "broken"
    assert record.rungs[-1].outcome == "failed"
    assert "no kernel for relu" in record.rungs[-1].reason
    assert "no kernel for relu" in record.explanation


def test_a_good_ladder_has_no_bad_rung():
    record = bisect_stages(
        Small(), {"x": torch.randn(4, 8)}, adapter=MockAcceleratorAdapter(), steps=CHEAP, backward=True
    )
    assert record.first_bad == ""
    assert set(outcomes(record).values()) == {"good"}
    assert any(output.path.startswith("grad") for output in record.rungs[-1].diff.outputs)
    assert "every rung agrees with eager" in bisect_text(record)


def test_tracing_that_fixes_a_value_is_dynamos():
    class Traced(nn.Module):
        def forward(self, x):
            return x + 1 if torch.compiler.is_compiling() else x

    record = bisect_stages(Traced(), torch.randn(3), steps=CHEAP)
    assert record.first_bad == "dynamo"
    assert outcomes(record)["aot"] == "not_run"
    assert record.culprits == ()  # what only the trace has is no call of the eager run
    everything = bisect_stages(Traced(), torch.randn(3), steps=CHEAP, run_all=True)
    assert everything.first_bad == "dynamo"
    assert outcomes(everything)["aot"] == "bad"


class Spelled(nn.Module):
    """The same values come up on several lines, some by methods and operators, one of them unused."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 8)

    def forward(self, x):
        hidden = self.up(x).relu()
        hidden.exp()
        hidden = hidden * 2 + hidden.tanh()
        return torch.nn.functional.layer_norm(hidden, (8,)).sigmoid()


@pytest.mark.parametrize("name", ["relu", "tanh", "layer_norm", "add"])
def test_a_call_that_dynamo_drops_is_named_with_its_line(monkeypatch, name):
    cleanup = OutputGraph.cleanup_graph

    def dropping(self):
        for node in self.graph.nodes:
            if getattr(node.target, "__name__", node.target) == name:
                node.replace_all_uses_with(node.args[0])
                self.graph.erase_node(node)
        return cleanup(self)

    monkeypatch.setattr(OutputGraph, "cleanup_graph", dropping)
    record = bisect_stages(Spelled(), torch.randn(4, 8))
    assert record.first_bad == "dynamo"
    (culprit,) = record.culprits
    assert culprit.op.split(".")[-1].strip("_") == name
    assert f"{name}(" in culprit.source.text or name == "add"
    assert "Dynamo's graphs have no such value" in record.explanation
    found = KernelDiffHarness(Spelled(), torch.randn(4, 8), test_backend="aot_eager").localize()
    assert [each.op for each in found.culprits] == [culprit.op]  # whatever runs Dynamo's graphs


class LeavesToPython(nn.Module):
    """What Dynamo does not trace: the line of a graph break, and a function that it may not look into."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(8, 8)

    def forward(self, x):
        hidden = self.aside(self.up(x))
        hidden = hidden * float(hidden.abs().mean())
        return wrong_when_compiled(hidden.relu())

    @torch.compiler.disable
    def aside(self, x):
        return x.cos() + 1


def wrong_when_compiled(x):
    return x + 1 if torch.compiler.is_compiling() else x


def test_what_dynamo_leaves_to_python_is_not_blamed():
    record = bisect_stages(LeavesToPython(), torch.randn(4, 8), steps=CHEAP)
    assert record.first_bad == "dynamo"
    assert record.culprits == ()


def test_a_model_that_does_not_run_or_repeat_itself_ends_at_eager():
    def broken(x):
        raise ValueError("not today")

    record = bisect_stages(broken, torch.randn(3), steps=CHEAP)
    assert (record.first_bad, record.rungs[0].outcome) == ("eager", "failed")
    assert "not today" in record.explanation
    calls = itertools.count(1)  # an iterator cannot be put back, as a list would be

    def counts(x):
        return x + next(calls)

    record = bisect_stages(counts, torch.randn(3), steps=CHEAP)
    assert (record.first_bad, record.rungs[0].outcome) == ("eager", "bad")
    assert "does not give the same answer twice" in record.explanation


def test_nothing_to_compare_is_not_good():
    record = bisect_stages(lambda x: None, torch.randn(3), steps=CHEAP)
    assert record.first_bad == "eager"
    assert record.rungs[0].outcome == "failed"


def test_a_backend_function_is_a_rung_of_its_own():
    def off_by_one(gm, inputs):
        return lambda *values: [out + 1 for out in gm(*values)]

    record = bisect_stages(Small(), torch.randn(4, 8), adapter=off_by_one, steps=CHEAP)
    assert record.first_bad == "off_by_one"
    assert is_rung("inductor")
    assert is_rung("aot_eager")
    assert not is_rung("stick128")
    assert not is_rung(off_by_one)


def test_a_bad_adapter_is_told():
    with pytest.raises(OptionError, match="adapter: int is not allowed"):
        bisect_stages(Small(), torch.randn(4, 8), adapter=128)
    with pytest.raises(OptionError, match="test_backend='no_such_chip'; allowed"):
        bisect_stages(Small(), torch.randn(4, 8), adapter="no_such_chip")


def test_text_from_the_model_stays_on_its_line():
    record = BisectRecord("net\n\x1b[31m", (Rung("eager", "failed", "a\nb" * 100),), "eager", "why\rnot")
    text = bisect_text(record)
    assert "\x1b" not in text
    assert "\r" not in text
    assert len(text.splitlines()) == 6
    assert "→ eager" in text
    assert "no rung was run" in bisect_text(BisectRecord("net", ()))


@pytest.mark.every(2)
@pytest.mark.parametrize(
    ("beside", "adapter", "reading"),
    [
        (SilentAdapter(), OffByOne(torch.relu), "is right and off-by-one is not: the bug is in the front end"),
        (OffByOne(torch.relu), OffByOne(torch.relu), "are both not good: the bug is in what both share"),
        (OffByOne(torch.relu), MockAcceleratorAdapter(), "the bug is in what off-by-one alone does"),
        (SilentAdapter(), MockAcceleratorAdapter(), "Both ways to the device agree with eager"),
    ],
)
def test_two_ways_to_one_device_tell_whose_bug_it_is(beside, adapter, reading):
    record = bisect_stages(Small(), torch.randn(4, 8), adapter=adapter, beside=beside, steps=CHEAP)
    assert reading in record.explanation
    assert len(record.rungs) == len(CHEAP) + 2
    assert record.first_bad in {"", record.rungs[-1].name}


def test_a_model_that_is_wrong_before_the_device_says_nothing_on_the_two_ways():
    calls = itertools.count(1)
    ways = {"adapter": OffByOne(torch.relu), "beside": SilentAdapter()}
    record = bisect_stages(lambda x: x + next(calls), torch.ones(4), steps=CHEAP, **ways)
    assert record.first_bad == "eager"
    assert "both share" not in record.explanation
