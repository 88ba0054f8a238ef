"""Findings, coverage, placement, what-if and texts judge an op alike, for models, targets and rules drawn at random.

An op with a finding that is an error does not run on the target, and its coverage gives the finding's own words; an op
without one is not kept from the target by anything that no finding says.
"""

import random

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import DebugSession, DeviceProfile, UnsupportedOpsConstraint, capture
from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.devices import JudgingContext, rules_for
from inductor_debug_jupyter.pipeline.devices.alignment import AlignmentRule
from inductor_debug_jupyter.pipeline.devices.checker import checked_graphs, problems_of
from inductor_debug_jupyter.pipeline.devices.judge import judge_again
from inductor_debug_jupyter.pipeline.devices.layouts import LayoutRule
from inductor_debug_jupyter.pipeline.devices.ops import VIEWS, bare_name
from inductor_debug_jupyter.pipeline.settings import resolve
from inductor_debug_jupyter.pipeline.views.overview import overview_view
from inductor_debug_jupyter.pipeline.views.placement import placement_views
from inductor_debug_jupyter.pipeline.what_if.form import form_view

from ..support.drawn_programs import Attention, Image

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

MODELS = {
    "mlp": lambda: (nn.Sequential(nn.Linear(30, 50), nn.GELU(), nn.Linear(50, 7), nn.Softmax(-1)), torch.randn(4, 30)),
    "double": lambda: (nn.Sequential(nn.Linear(8, 8), nn.Sigmoid()).double(), torch.randn(4, 8, dtype=torch.float64)),
    "attention": lambda: (Attention(True, False), torch.randn(2, 8, 32)),
    "written out": lambda: (Attention(False, True), torch.randn(2, 8, 32)),
    "image": lambda: (Image(True), torch.randn(2, 8, 32)),
    "conv": lambda: (nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Flatten()), torch.randn(2, 3, 9, 9)),
    "norm": lambda: (nn.Sequential(nn.LayerNorm(48), nn.SiLU()), torch.randn(3, 48)),
}
OPS = ("gelu", "conv2d", "aten.convolution", "addmm", "linear", "aten._softmax", "softmax", "sigmoid", "erf", "relu",
       "layer_norm", "bmm", "scaled_dot_product_attention", "mul", "nn.Conv2d", "exp", "silu")  # fmt: skip


def drawn_profile(draw):
    """A target that demands one or several things."""
    values = {"name": "drawn", "fallback": draw.choice(["cpu", "none"])}
    for demand in draw.sample(["dtypes", "alignment", "layout", "deny", "allow", "tensor", "peak"], draw.randint(1, 3)):
        severity = draw.choice(["error", "error", "warning"])
        if demand == "dtypes":
            values["dtypes"] = draw.choice([("float32", "int64", "bool"), ("float16",), ("float64",)])
            if draw.random() < 0.5:
                values["op_dtypes"] = {draw.choice(["addmm", "sigmoid", "gelu"]): ("float16",)}
        elif demand == "alignment":
            rule = AlignmentRule(multiple=draw.choice([4, 8, 64]), dims=draw.choice(["feature", "innermost", "all"]),
                                 ops=draw.choice([(), ("@matmul",), ("@convolution",)]), severity=severity)  # fmt: skip
            values["alignments"] = (rule,)
        elif demand == "layout":
            form = draw.choice(["contiguous", "channels_last"])
            values["layouts"] = (LayoutRule(format=form, severity=severity),)
        elif demand == "deny":
            values["deny"] = tuple(draw.sample(OPS, 2))
        elif demand == "allow":
            values["allow"] = ("@matmul", "@convolution", *draw.sample(OPS, 5))
        else:
            values[f"{demand}_limit"] = draw.choice([100, 1000, 3000])
    return DeviceProfile(**values)


@pytest.fixture(scope="module")
def captured():
    records = {}
    for name, make in MODELS.items():
        for lower in ("dynamo", "aot", "inductor") if name in ("mlp", "conv", "written out") else ("aot",):
            torch._dynamo.reset()
            torch.manual_seed(0)
            model, x = make()
            with capture(eager=True, lower=lower, constraints=[]) as session:
                model(x).sum().backward()
            records[name, lower] = session.record
    torch._dynamo.reset()
    return records


def statuses(record):
    """Compile id, stage and name of every op's node → its status and reason, from rows and segments."""
    told = {}
    for graph in record.coverage.graphs:
        side = {name: segment.side for segment in graph.segments for name in segment.nodes}
        capture = next(each for each in record.captures if each.compile_id == graph.compile_id)
        nodes = {node.name: node for node in capture.graph(graph.stage).calls}
        assert side.keys() == nodes.keys()
        told[graph.compile_id, graph.stage] = (graph, side, nodes)
    return told


def calls_of(nodes):
    """Nodes by op: the parts of a decomposed op are one op."""
    ops = {}
    for node in nodes.values():
        ops.setdefault((node.composite, node.call) if node.composite else node.name, []).append(node)
    return ops.values()


@pytest.mark.parametrize("seed", range(40))
def test_an_op_with_an_error_does_not_run_on_the_target_and_no_other_is_kept_from_it(seed, captured):
    draw = random.Random(seed)
    profile = drawn_profile(draw)
    rules = rules_for(profile)
    if draw.random() < 0.25:
        rules = [UnsupportedOpsConstraint(draw.sample(OPS, 3))]  # rules of the user's, in the place of the target's
    word = "fallback" if profile.fallback == "cpu" else "refused"
    for key, before in captured.items():
        record = judge_again(before, JudgingContext(resolve(), profile, tuple(rules)))
        errors = [each for each in problems_of(rules, record.captures) if each.severity == "error"]
        said = {each.problem.title for each in errors} | {each.problem.explanation for each in errors}
        for (compile_id, stage), (graph, side, nodes) in statuses(record).items():
            refused = {each.place.node for each in errors if (each.capture.compile_id, each.graph.stage)
                       == (compile_id, stage)}  # fmt: skip
            by_dynamo = {each.problem.node for each in errors if each.graph.stage == "dynamo" != stage}
            off, why = 0, f"{key} {profile}"
            for parts in calls_of(nodes):
                is_refused = any(node.name in refused for node in parts) or (
                    stage == "forward"
                    and any(by_dynamo & set(node.origins) and bare_name(node.target) not in VIEWS for node in parts)
                )
                off += len(parts) if is_refused else 0
                for node in parts:
                    if bare_name(node.target) not in VIEWS and (node.outputs or not node.typed):
                        assert (side[node.name] == "cpu") == is_refused, f"{node}: {why}"
            assert graph.count(word) == off, why
            assert graph.count("supported") + graph.count("decomposable") == len(nodes) - off, why
            for row in graph.rows:
                if row.status not in ("supported", "decomposable"):
                    assert row.status == word
                    assert any(row.reason.lower().rstrip(".") == each.lower().rstrip(".") for each in said), row
            assert sum(entry.count for entry in graph.fallbacks) == off


@pytest.mark.parametrize("fallback", ["cpu", "none"])
def test_no_view_says_that_all_is_supported_where_something_is_refused(fallback, captured):
    profile = DeviceProfile("chip", alignments=(AlignmentRule(multiple=64),), fallback=fallback)
    before = captured["mlp", "aot"]
    record = judge_again(before, JudgingContext(resolve(), profile, tuple(rules_for(profile))))
    assert any(finding.severity == "error" for finding in record.findings)
    (tile,) = (each for each in overview_view(record)["tiles"] if each["title"] == "Coverage")
    assert not tile["value"].startswith("100")
    assert tile["kind"] == "error"
    assert sum(view["counts"]["supported"] for view in placement_views(record.coverage)) < len(
        [node for capture in record.captures for graph in checked_graphs(capture) for node in graph.calls]
    )
    text = str(record)
    assert "30 is not a multiple of 64" in text
    assert ("runs on the CPU: " if fallback == "cpu" else "cannot run: ") + "30 is not a multiple of 64" in text
    fields = {field["op"]: field["now"] for field in form_view(record, profile, [], "")["ops"]}
    assert fields["addmm"] == ("on the CPU" if fallback == "cpu" else "refused")


@pytest.mark.parametrize("target", ["stick128", "systolic128", "edge-int8", "default"])
def test_the_overview_placement_and_what_if_tell_the_same_share(target, captured):
    before = DebugSession.of_record(captured["mlp", "aot"])
    trial = before.try_out(target=target)
    record = trial.session.record
    (tile,) = (each for each in overview_view(record)["tiles"] if each["title"] == "Coverage")
    figure = trial.changes.figure("on the target").after
    assert figure.startswith(f"{tile['value']} of ")
    refused = any(finding.severity == "error" for finding in record.findings)
    assert tile["value"].startswith("100") == (not refused)
    assert tile["kind"] == ("error" if refused else "")


def test_a_share_is_rounded_down():
    assert [words.share(*each) for each in ((2999, 3000), (3000, 3000), (95, 98), (0, 5), (0, 0))] == [
        "99.9%", "100%", "96.9%", "0%", "100%"
    ]  # fmt: skip
