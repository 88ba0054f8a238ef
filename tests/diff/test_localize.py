"""Where an error comes in: the op, the kernel, the line; and nothing else is blamed."""

from __future__ import annotations

import inspect
import math
import time
from pathlib import Path

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import KernelDiffHarness, StickAdapter, capture
from inductor_debug_jupyter.pipeline.diff.floors import Spread
from inductor_debug_jupyter.pipeline.diff.judging import judge
from inductor_debug_jupyter.pipeline.diff.localize_ops import OpSearch
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.store import ArtifactStore
from inductor_debug_jupyter.pipeline.torch_compat import patches
from inductor_debug_jupyter.pipeline.views.localization import (
    error_curve,
    localization_text,
    node_errors,
)
from tests.proofs.kernel_faults import KernelFault

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(32, 32)
        self.norm = nn.LayerNorm(32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        hidden = torch.erf(hidden) * 2 + hidden
        hidden = torch.relu(self.norm(hidden))
        return torch.tanh(hidden @ self.first.weight).exp()


def line_of(text: str) -> int:
    lines, start = inspect.getsourcelines(Net.forward)
    return next(start + at for at, line in enumerate(lines) if text in line)


X = torch.linspace(-2, 2, 256).reshape(8, 32)


def test_a_healthy_model_has_no_culprit_forward_and_backward() -> None:
    found = KernelDiffHarness(Net(), (X,), backward=True).localize()
    assert found.culprits == ()
    assert {node.status for node in found.nodes} == {"rounding"}
    assert {node.graph for node in found.nodes} == {"forward", "backward"}
    assert found.compared == len(found.nodes) > 8
    assert "rounding explains every value" in localization_text(found)
    assert patches.installed() == ()


def test_a_wrong_op_in_a_fused_kernel_is_named_with_its_line_and_what_it_made_worse() -> None:
    with KernelFault("erf", "erf", 0.01).seeded():
        found = KernelDiffHarness(Net(), (X,)).localize()
    (culprit,) = found.culprits
    assert (culprit.op, culprit.graph, culprit.module_path) == ("aten.erf.default", "forward", "")
    assert culprit.source is not None
    assert culprit.source.line == line_of("torch.erf")
    assert culprit.kernel.startswith("cpp_fused_")
    assert not culprit.only_fused
    assert {node.status for node in found.nodes} == {"introduced", "amplified", "rounding"}
    assert max(node_errors(found).values()) > 100
    text = localization_text(found)
    assert "aten.erf.default · forward node erf" in text
    assert f"line {culprit.source.line}" in text
    points = error_curve(found)
    assert [point["at"] for point in points] == list(range(len(found.nodes)))


def test_faults_that_only_fused_code_has_are_found_and_said_to_be_such() -> None:
    def model(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (torch.erf(x) * 3 + torch.erf(y * 2)) / 2

    with KernelFault("erf", "erf", 0.01, only_fused=True).seeded():
        found = KernelDiffHarness(model, (X, X.flip(0) + 0.1)).localize()
    assert [(culprit.op, culprit.node) for culprit in found.culprits] == [
        ("aten.erf.default", "erf"),
        ("aten.erf.default", "erf_1"),
    ]
    assert all(culprit.only_fused and "written to memory" in culprit.reason for culprit in found.culprits)


def test_a_fault_in_the_backward_is_found_there() -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.gelu(x * 2).sum(0)

    with KernelFault("exp", "exp", 0.01).seeded():
        found = KernelDiffHarness(model, (X.clone().requires_grad_(),), backward=True).localize()
    assert {(culprit.op, culprit.graph) for culprit in found.culprits} == {("aten.exp.default", "backward")}
    assert all(culprit.source is not None and "gelu" in culprit.source.text for culprit in found.culprits)


def test_a_clone_that_copies_one_stick_names_element_64_and_shows_the_kernel() -> None:
    x = torch.arange(65, dtype=torch.float16)
    device = StickAdapter(faults=["copy-first-stick"], check=False)
    found = KernelDiffHarness(torch.clone, (x,), test_backend=device).localize()
    (culprit,) = found.culprits
    assert (culprit.op, culprit.index, culprit.expected, culprit.found) == ("aten.clone.default", (64,), 64.0, None)
    assert culprit.spec["op"] == "aten.clone.default"
    assert culprit.spec["copy_range"][-2] == 1
    text = localization_text(found)
    assert "worst at [64]: 64 expected, not finite found" in text
    assert "copy_range" in text


def _long_sums(x: torch.Tensor) -> torch.Tensor:
    return torch.ones(1, 4096) @ (x.abs()[0, :4].expand(4096, 4) + 1)


def test_sums_that_a_device_says_it_keeps_in_float32_and_does_not() -> None:
    wrong = StickAdapter(faults=["wrong-accumulation"], check=False)
    assert [each.op for each in KernelDiffHarness(_long_sums, (X,), test_backend=wrong).localize().culprits] == [
        "aten.mm.default"
    ]
    for healthy in (StickAdapter(check=False, faults=()), StickAdapter(check=False, faults=(), accumulate="float16")):
        assert KernelDiffHarness(_long_sums, (X,), test_backend=healthy).localize().culprits == ()


def test_on_the_simulator_only_what_has_the_fault_is_blamed() -> None:
    healthy = KernelDiffHarness(Net(), (X,), test_backend=StickAdapter(check=False, faults=())).localize()
    assert healthy.culprits == ()
    device = StickAdapter(faults=["read-padding"], check=False)
    found = KernelDiffHarness(lambda x: (x[:, :30].sum(1) * 2).tanh(), (X,), test_backend=device).localize()
    assert [culprit.op for culprit in found.culprits] == ["aten.sum.dim_IntList"]


def test_a_backend_of_ones_own_is_searched_too_and_in_parts() -> None:
    def wrong_tanh(graph_module: torch.fx.GraphModule, inputs: list[torch.Tensor]):
        class Run(torch.fx.Interpreter):
            def call_function(self, target, args, kwargs):
                result = super().call_function(target, args, kwargs)
                return result * 1.01 if "tanh" in str(target) else result

        return Run(graph_module).run

    found = KernelDiffHarness(Net(), (X,), test_backend=wrong_tanh).localize()
    assert [culprit.op for culprit in found.culprits] == ["aten.tanh.default"]
    assert found.nodes[-1].status == "amplified"


def test_memory_is_that_of_a_part_whatever_the_graph() -> None:
    from inductor_debug_jupyter.pipeline.torch_compat.replay import AotKeeper

    class Deep(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(30):
                x = torch.sin(x) + 0.1
            return x

    keeper = AotKeeper()
    torch.compile(Deep(), backend=keeper)(torch.zeros(1000, 10))
    search = OpSearch(lambda graph_module, _: graph_module, budget=100_000, free_running=False)
    search.search(keeper.graphs[0])
    assert len(search.findings) == 60
    assert search.compiles > 10
    assert search.memory.peak < 6 * 40_000


def test_a_candidate_that_hangs_is_given_up_on() -> None:
    def hangs(graph_module: torch.fx.GraphModule, inputs: list[torch.Tensor]):
        time.sleep(60)

    found = KernelDiffHarness(Net(), (X,), test_backend=hangs, timeout=0.3).localize()
    assert found.culprits == ()
    assert "TimeoutError: no answer within 0.3 s" in found.notes[0]
    assert "NOTHING WAS COMPARED" in localization_text(found)
    assert {node.reason for node in found.nodes} == {"the search stopped before it"}


def test_a_sessions_pictures_lie_in_its_own_folder(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    with capture(lower="dynamo", eager=True, keep_inputs=True, artifacts=str(folder)) as session:
        Net()(X)
    (image,) = session.localize("aot_eager", generate_visualizations=True).images
    assert Path(image).parent == folder / "visualizations"
    report = session.diff(candidate="aot_eager", generate_visualizations=True)
    listed = {str(folder / each.path) for each in ArtifactStore(folder).artifacts(session.id, "visualizations")}
    assert listed >= {image, *report.record.images}
    assert list((folder / "reports").glob("kernel_diff*.json"))


def test_eager_mode_cannot_be_searched() -> None:
    with pytest.raises(UsageError, match="needs a candidate that compiles"):
        KernelDiffHarness(Net(), (X,), test_backend="eager").localize()


def test_the_policy_knows_noise_from_faults() -> None:
    torch.manual_seed(0)
    own = torch.randn(1000)
    spread = Spread(own)
    for sign in (1, -1):
        spread.add(own * (1 + sign * 1e-7))
    assert not judge(own, spread).wrong
    assert not judge(own * (1 + 2e-7), spread).wrong
    assert judge(own * (1 + 1e-5), spread).wrong
    one = own.clone()
    one[7] += 1e-4
    found = judge(one, spread)
    assert (found.wrong, found.index) == (True, (7,))
    one[7] = math.nan
    assert judge(one, spread).error == math.inf


@pytest.mark.long
def test_many_wrong_kernels_that_differ_are_each_looked_into() -> None:
    class Stack(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(18))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for layer in self.layers:
                x = torch.erf(layer(x)) * 2
            return torch.erf(x).mean(0)

    with KernelFault("erf", "erf", 0.01).seeded():
        found = KernelDiffHarness(Stack(), (torch.randn(4, 16),)).localize(free_running=False)
    assert {culprit.op for culprit in found.culprits} == {"aten.erf.default"}
    assert len(found.culprits) == 19


class Words(nn.Module):
    """Its backward adds up the gradient of the embedding in place, in the kernel that computes it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.words = nn.Embedding(40, 32)
        self.norm = nn.BatchNorm1d(32)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return torch.sin(self.words(tokens)) + self.norm(torch.ones(8, 32) * tokens.reshape(8, 1))


def test_what_is_added_up_in_place_is_judged_after_the_last_time() -> None:
    tokens = torch.tensor([1, 3, 3, 7, 1, 9, 2, 0])
    healthy = KernelDiffHarness(Words(), (tokens,), backward=True).localize()
    assert {node.status for node in healthy.nodes} == {"rounding"}
    assert any("index_put" in node.op for node in healthy.nodes if node.graph == "backward"), "the embedding's gradient"
    means = [node for node in healthy.nodes if node.graph == "forward" and node.op == "aten.add.Tensor"]
    assert len(means) >= 3, "running mean, running variance and the number of batches, written into the model"
    with KernelFault("cos", "cos", 0.01).seeded() as changed:
        found = KernelDiffHarness(Words(), (tokens,), backward=True).localize()
    assert len(changed) == 1
    assert [(culprit.op, culprit.graph) for culprit in found.culprits] == [("aten.cos.default", "backward")]
    assert "torch.sin(self.words(tokens))" in found.culprits[0].source.text


def test_what_is_only_wrong_in_one_piece_is_found_on_any_backend() -> None:
    def drops_inner_relu(graph_module: torch.fx.GraphModule, inputs: list[torch.Tensor]):
        graph = graph_module.graph
        for node in list(graph.nodes):
            if "relu" in str(node.target) and all(user.op != "output" for user in node.users):
                node.replace_all_uses_with(node.args[0])
        graph_module.recompile()
        return graph_module.forward

    found = KernelDiffHarness(Net(), (X,), test_backend=drops_inner_relu).localize()
    (culprit,) = found.culprits
    assert (culprit.op, culprit.only_fused) == ("aten.relu.default", True)
    assert culprit.source is not None
    assert culprit.source.line == line_of("torch.relu")
    assert found.verdict == "mismatch"


class Counted(nn.Module):
    """Statistics, a count, and a choice that rounding decides."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.norm = nn.BatchNorm1d(16)
        self.calls = nn.Buffer(torch.zeros(3, dtype=torch.int64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        self.calls += 1
        h = self.norm(x)
        ties = torch.stack((h.sum(1), h.flip(1).sum(1)), 1)
        return h, ties.argmax(1)


def test_whole_numbers_that_are_lost_beside_a_wrong_result_are_named_too() -> None:
    def loses_writes(graph: torch.fx.GraphModule, _: object) -> object:
        return lambda *args: [
            1 - each if each.dtype == torch.int64 else each * 1.5 for each in graph(*(arg.clone() for arg in args))
        ]

    with torch.no_grad():
        found = KernelDiffHarness(Counted().train(), (torch.randn(32, 16),), test_backend=loses_writes).localize()
    assert found.verdict == "mismatch"
    (note,) = [note for note in found.notes if note.startswith("outputs that differ")]
    kept = {f"buffer:{name}" for name, _ in Counted().named_buffers()}
    assert set(note.removeprefix("outputs that differ: ").split(", ")) == {"[0]", *kept}  # and not [1], which is a tie
