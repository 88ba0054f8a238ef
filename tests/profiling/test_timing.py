"""``session.profile()``: kernels timed in place, with their ops and lines; nothing of the user's changes."""

from __future__ import annotations

import ast
import itertools
from typing import Any

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import DebugSession, capture
from inductor_debug_jupyter.pipeline.errors import NotFoundError, UsageError
from inductor_debug_jupyter.pipeline.records import KernelTime, ModuleTime, TimingRecord, dump_session, load_session
from inductor_debug_jupyter.pipeline.torch_compat import kernel_times, patches
from inductor_debug_jupyter.pipeline.views.timing import slower_modules

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.norm, self.down = nn.Linear(64, 256), nn.LayerNorm(256), nn.Linear(256, 8)
        self.calls = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.norm(torch.relu(self.up(x))))


def seen(model: nn.Module, *args: Any, backward: bool = False) -> DebugSession:
    with capture(eager=True, keep_inputs=True) as session:
        outputs = model(*args)
        if backward:
            outputs.sum().backward()
    return session


def test_every_kernel_has_its_time_its_ops_and_its_line() -> None:
    session = seen(Net().eval(), torch.randn(32, 64))
    found = session.profile()
    assert session.record.kernel_times is found
    captured = session.captures[0]
    assert sorted(kernel.kernel for kernel in found.kernels) == sorted(
        kernel.name for kernel in captured.kernels if kernel.stage == "forward" for _ in kernel.calls
    )
    graph = captured.graph("post_grad")
    assert graph is not None
    for kernel in found.kernels:
        assert 0 < kernel.low <= kernel.seconds <= kernel.high
        assert kernel.compile_id == captured.compile_id
        assert all(graph.node(name) for name in kernel.nodes)
        assert kernel.nbytes
        assert kernel.source is not None
        assert "test_timing.py" in kernel.source.file
    starts = [kernel.start for kernel in found.kernels]
    assert starts == sorted(starts)
    assert all(start + kernel.seconds < 2 * found.seconds for start, kernel in zip(starts, found.kernels, strict=True))
    products = [kernel for kernel in found.kernels if "addmm" in kernel.kernel]
    assert {kernel.flops for kernel in products} >= {2 * 32 * 64 * 256}
    assert {kernel.module_path for kernel in products} == {"up", "down"}
    assert {each.path for each in found.modules} == {"", "up", "norm", "down"}
    assert 0 < found.in_kernels <= found.seconds * 1.5
    assert found.eager > 0
    assert "one call takes" in str(found)
    assert load_session(dump_session(session.record)).kernel_times == found


def test_a_training_step_has_forward_and_backward() -> None:
    session = seen(Net(), torch.randn(32, 64), backward=True)
    found = session.profile()
    assert found.backward
    assert {kernel.stage for kernel in found.kernels} == {"forward", "backward"}
    assert all(kernel.compile_id for kernel in found.kernels), "the backward's kernels are known, too"
    last = max(kernel.start for kernel in found.kernels if kernel.stage == "forward")
    assert all(kernel.start > last for kernel in found.kernels if kernel.stage == "backward")
    assert not seen(Net(), torch.randn(4, 64)).profile(backward=False).backward


def test_an_op_of_a_library_is_not_counted_in_the_kernels_that_read_its_results() -> None:
    class Attention(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            made = torch.nn.functional.scaled_dot_product_attention(x, x, x)
            return torch.relu(made.transpose(1, 2)).sum(-1)

    found = seen(Attention(), torch.randn(2, 4, 64, 32, requires_grad=True), backward=True).profile()
    having = [kernel for kernel in found.kernels if any("scaled_dot_product" in op for op in kernel.ops)]
    assert [kernel.stage for kernel in having] == ["forward", "backward"]
    assert all("scaled_dot_product" in kernel.kernel for kernel in having)


class Counts(nn.Module):
    """Whatever it is called with, it counts in a buffer and draws a random number."""

    def __init__(self) -> None:
        super().__init__()
        self.count: torch.Tensor
        self.register_buffer("count", torch.zeros(()))
        self.drop = nn.Dropout(0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return self.drop(x) * 2


def test_nothing_of_the_users_changes() -> None:
    model, x = Counts(), torch.randn(16, 16)
    fired = []
    model.register_forward_hook(lambda *_: fired.append(1))
    session = seen(model, x)
    before = (model.count.clone(), x.clone(), torch.get_rng_state(), len(fired), len(model.drop._forward_hooks))
    session.profile()
    after = (model.count, x, torch.get_rng_state(), len(fired), len(model.drop._forward_hooks))
    assert torch.equal(before[0], after[0])
    assert torch.equal(before[1], after[1])
    assert torch.equal(before[2], after[2])
    assert before[4:] == after[4:]
    assert all(parameter.grad is None for parameter in model.parameters())
    assert patches.installed() == ()
    assert not kernel_times._made


def test_several_graphs_are_told_apart() -> None:
    class Broken(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = torch.sin(x) @ x
            torch._dynamo.graph_break()
            return torch.cos(x) @ x

    session = seen(Broken(), torch.randn(64, 64))
    found = session.profile()
    assert len({kernel.compile_id for kernel in found.kernels}) == 2
    assert not found.notes


def test_what_cannot_be_timed_is_said() -> None:
    with capture(eager=True) as session:
        Net()(torch.randn(4, 64))
    with pytest.raises(NotFoundError):
        session.profile()
    meta = seen(nn.Linear(4, 4, device="meta"), torch.randn(2, 4, device="meta"))
    with pytest.raises(UsageError, match="on meta; kernels are timed on the CPU only"):
        meta.profile()


def test_kernels_of_another_compile_are_timed_and_not_linked() -> None:
    session = seen(Net().eval(), torch.randn(32, 64))
    session.captures
    other = seen(nn.Linear(3, 5), torch.randn(2, 3))
    other._record.set(session.complete())
    found = other.profile()
    assert found.kernels
    assert {kernel.compile_id for kernel in found.kernels} == {""}
    assert not found.modules, "modules of no time would look free"
    assert any("could not be told which ops" in note for note in found.notes)


def test_the_wrapper_is_the_same_but_for_the_clock() -> None:
    source = (
        "def call(args):\n    a, = args\n    args.clear()\n    buf0 = empty_strided_cpu((4, ), (1, ), torch.float32)\n"
        "    cpp_fused_add_0(a, buf0)\n    assert_tensor_metadata(buf0, 4)\n"
        "    buf1 = torch.ops.aten.sort.default(\n        buf0)\n    buf2 = buf1[0]\n"
        "    return (buf2, )"
    )
    made: list[kernel_times.TimedCode] = []
    text = kernel_times._with_readings(source, is_backward=False, made=made)
    ast.parse(text)
    kept = [line for line in text.splitlines() if "inductor_debug_" not in line]
    assert kept == source.splitlines()
    assert made[0].kernels == ("cpp_fused_add_0", "torch.ops.aten.sort.default")
    assert 0 < kernel_times.cost_of_a_reading() < 1e-3


def module(path: str, eager: float, compiled: float) -> ModuleTime:
    return ModuleTime(path, "Block", eager, compiled)


def test_of_nested_modules_the_innermost_that_is_slower_is_named() -> None:
    modules = (module("", 1, 2), module("a", 0.4, 0.9), module("a.b", 0.2, 0.6), module("c", 0.3, 0.3))
    record = TimingRecord("m", False, 9, 1.0, 1.0, 0.0, modules=modules)
    assert [each.path for each in slower_modules(record)] == ["a.b"]


def test_texts_of_a_model_are_data() -> None:
    kernels = tuple(
        KernelTime(f"cpp\x1b[31m{at}", "forward", "", (), (), 0.0, 1e-5, 1e-5, 1e-5, module_path="\x1b]0;x")
        for at in range(20)
    )
    text = str(TimingRecord("m\x1b[0m", False, 9, 1e-3, 1e-3, 0.0, kernels))
    assert "\x1b" not in text
    assert all(part in text for part in itertools.islice(("8 other calls", "one call takes 1 ms"), 2))
