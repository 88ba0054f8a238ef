"""What went wrong above the kernels: the pass or the decomposition is named, with the op and the line."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
import torch._inductor.config as inductor_config
import torch._inductor.decomposition as inductor_decomposition
import torch.nn.functional as F
from torch import nn

from inductor_debug_jupyter import KernelDiffHarness
from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.harness import _with_verdict
from inductor_debug_jupyter.pipeline.diff.localize_passes import search_above
from inductor_debug_jupyter.pipeline.records import Culprit, DiffRecord, LocalizationRecord
from inductor_debug_jupyter.pipeline.torch_compat import patches
from inductor_debug_jupyter.pipeline.views.localization import localization_text

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

PASSES = (
    "pre_grad_custom_pass",
    "joint_custom_pre_pass",
    "joint_custom_post_pass",
    "post_grad_custom_pre_pass",
    "post_grad_custom_post_pass",
)


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.first(x))
        return torch.sub(self.second(hidden), 0.25)


class Pooled(nn.Module):
    """What follows the op at fault gives a tuple, of which the graph reads a part."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.max_pool2d(torch.relu(x), 2) + 1


@pytest.mark.parametrize("where", ["joint_custom_pre_pass", "post_grad_custom_pre_pass"])
def test_behind_an_op_that_is_dropped_a_tuple_is_innocent(where: str) -> None:
    with inductor_config.patch({where: drop_relu}):
        found = KernelDiffHarness(Pooled(), -torch.rand(1, 2, 4, 4), test_backend="inductor").localize()
    assert [culprit.op for culprit in found.culprits] == ["aten.relu.default"]


def line_of(text: str) -> int:
    lines, start = inspect.getsourcelines(Net.forward)
    return next(start + at for at, line in enumerate(lines) if text in line)


def drop_relu(graph: torch.fx.Graph) -> None:
    for node in list(graph.nodes):
        if node.op == "call_function" and "relu" in str(node.target):
            node.replace_all_uses_with(node.args[0])
            graph.erase_node(node)


def swap_operands(graph: torch.fx.Graph) -> None:
    for node in graph.nodes:
        if node.op == "call_function" and ".sub." in f".{node.target}." and len(node.args) == 2:
            node.args = (node.args[1], node.args[0])


@pytest.mark.every(2)
@pytest.mark.parametrize("place", PASSES)
def test_a_node_that_a_pass_drops_is_named_with_the_pass_and_the_line(place: str) -> None:
    harness = KernelDiffHarness(Net(), (torch.randn(4, 8),))
    with inductor_config.patch({place: drop_relu}):
        above = search_above(harness._call, ComparisonConfig())
    (culprit,) = above.culprits
    assert "relu" in culprit.op
    assert culprit.source is not None
    assert culprit.source.line == line_of("torch.relu")
    assert f"the pass {place} (drop_relu, test_localize_passes.py line" in culprit.reason
    assert patches.installed() == ()


def test_what_a_pass_changes_in_training_is_found_in_the_joint_graph() -> None:
    harness = KernelDiffHarness(Net(), (torch.randn(4, 8),), backward=True)
    with inductor_config.patch(joint_custom_post_pass=swap_operands):
        above = search_above(harness._call, ComparisonConfig())
    assert [(culprit.op, culprit.graph) for culprit in above.culprits] == [("aten.sub.Tensor", "joint")]


def test_localize_on_inductor_goes_up_and_never_ticks_beside_a_mismatch() -> None:
    with inductor_config.patch(post_grad_custom_post_pass=drop_relu):
        found = KernelDiffHarness(Net(), (torch.randn(4, 8),)).localize()
    assert found.verdict == "mismatch"
    assert [culprit.op for culprit in found.culprits] == ["aten.relu.default"]
    assert "✓" not in localization_text(found)


@contextmanager
def decomposed(op: Any, function: Callable[..., Any]) -> Iterator[None]:
    table = inductor_decomposition.decompositions
    before = table[op]
    table[op] = function
    inductor_decomposition.fast_random_decomps.cache_clear()
    try:
        yield
    finally:
        table[op] = before
        inductor_decomposition.fast_random_decomps.cache_clear()


class Gated(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate = F.silu(x * 2)
        return gate + x


def test_a_wrong_decomposition_is_named_with_its_op_and_line() -> None:
    harness = KernelDiffHarness(Gated(), (torch.randn(64),))
    with decomposed(torch.ops.aten.silu.default, lambda x: x * torch.sigmoid(x) * 1.01):
        above = search_above(harness._call, ComparisonConfig())
    (culprit,) = above.culprits
    assert culprit.op == "aten.silu.default"
    assert culprit.source is not None
    assert "F.silu" in culprit.source.text
    assert "its decomposition" in culprit.reason


def test_nothing_is_blamed_where_nothing_is_wrong() -> None:
    norm = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.SiLU(), nn.Flatten(), nn.Linear(144, 4), nn.Softmax(-1)
    )
    harness = KernelDiffHarness(norm.train(), (torch.randn(2, 3, 8, 8),), backward=True)
    assert search_above(harness._call, ComparisonConfig()).culprits == ()


def scale_relu(graph: torch.fx.Graph) -> None:
    for node in list(graph.nodes):
        if node.op == "call_function" and node.target is torch.relu:
            with graph.inserting_after(node):
                scaled = graph.call_function(torch.mul, (node, 1.001))
            node.replace_all_uses_with(scaled, delete_user_cb=lambda user, new=scaled: user is not new)


class WritesToBuffers(nn.Module):
    """BatchNorm in training: Dynamo's graph writes to buffers, so that its values cannot be looked at in step."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm, self.last = nn.BatchNorm1d(8), nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(torch.relu(self.norm(x)))


def test_a_pass_is_found_on_a_graph_that_writes_to_its_inputs() -> None:
    harness = KernelDiffHarness(WritesToBuffers().train(), (torch.randn(4, 8),))
    with inductor_config.patch(pre_grad_custom_pass=scale_relu):
        above = search_above(harness._call, ComparisonConfig())
    assert [("relu" in culprit.op, "pre_grad_custom_pass" in culprit.reason) for culprit in above.culprits] == [
        (True, True)
    ]


def test_what_is_wrong_only_while_fused_is_no_culprit_when_the_outputs_pass() -> None:
    culprits = (
        Culprit("aten.mm.default", "mm", "forward", only_fused=True),
        Culprit("aten.mul.Tensor", "mul", "forward"),
    )
    found = LocalizationRecord("net", "chip", culprits)
    for verdict, named in (("rounding", ["mul"]), ("mismatch", ["mm", "mul"])):
        told = _with_verdict(found, DiffRecord("net", "eager", "chip", verdict))
        assert (told.verdict, [each.node for each in told.culprits]) == (verdict, named)
        assert any("1 values are further off" in note for note in told.notes) == (verdict == "rounding")
