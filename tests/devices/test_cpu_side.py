"""What is meant for the CPU: not the target's to judge, and in the ledger."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import MemoryConstraint, ShapeConstraint, capture
from inductor_debug_jupyter.pipeline.devices import OpSupport, check, coverage_of, load_profile
from inductor_debug_jupyter.pipeline.devices.profile import MEANT, CpuChoice
from inductor_debug_jupyter.pipeline.records import NodeRecord

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Net(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.gelu(x) + nn.functional.gelu(x * 2)


@pytest.mark.parametrize("lower", ["aot", "inductor"])
def test_an_op_goes_with_all_its_parts_and_a_node_with_those_of_its_call(lower: str) -> None:
    with capture(eager=True, lower=lower) as session, torch.no_grad():
        Net()(torch.randn(3, 7))
    (captured,) = session.captures
    graph = captured.graph("forward")
    parts = [node for node in graph.calls if "gelu" in (node.composite or node.target)]
    every = CpuChoice(ops=frozenset({"gelu"}))
    assert every.names(graph, captured.compile_id) == {node.name for node in parts}
    first = CpuChoice(nodes=frozenset({(captured.compile_id, "forward", parts[0].name)}))
    whole = {node.name for node in parts if (node.composite, node.call) == (parts[0].composite, parts[0].call)}
    expected = whole if parts[0].composite else {parts[0].name}
    assert first.names(graph, captured.compile_id) == expected
    assert first.names(graph, "9/9") == frozenset()
    profile = replace(load_profile("default"), cpu=every)
    coverage = coverage_of(session.captures, profile)
    assert coverage.count("fallback") == len(parts)
    assert {entry.reason for entry in coverage.fallbacks} == {MEANT}


def test_rules_skip_it_but_memory_is_taken_all_the_same() -> None:
    with capture(eager=True, lower="aot") as session, torch.no_grad():
        Net()(torch.randn(3, 7))
    rules = [ShapeConstraint(alignment=64), MemoryConstraint(50)]
    found = {finding.rule_id for finding in check(session.captures, rules)}
    assert found == {"align.size", "memory.limit"}
    everything = CpuChoice(ops=frozenset({"gelu", "add", "mul"}))
    assert {finding.rule_id for finding in check(session.captures, rules, everything)} == {"memory.limit"}


def test_an_op_that_is_made_of_nothing_runs_whole_or_not_at_all() -> None:
    gelu = NodeRecord("gelu", "call_function", "aten.gelu.default")
    allowed = ["erf", "mul", "add"]
    assert OpSupport(allow=allowed).verdict(gelu).status == "decomposable"
    assert OpSupport(allow=allowed, decompose={"gelu": ()}).verdict(gelu).status == "fallback"
    assert OpSupport(allow=["gelu"], decompose={"gelu": ()}).verdict(gelu).status == "supported"
    part = NodeRecord("erf", "call_function", "aten.erf.default", composite="aten.gelu.default", call="1")
    assert OpSupport(deny=["erf"]).verdict(part).status == "fallback"
    assert OpSupport(deny=["erf"], decompose={"gelu": ()}).verdict(part).status == "supported"
