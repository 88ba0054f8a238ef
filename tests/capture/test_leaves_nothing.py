"""A capture leaves nothing on the user's code, in their modules, their budget, their config or their random numbers."""

import sys
import threading
import types
from typing import Any

import pytest
import torch
from torch import nn
from torch._C._dynamo.eval_frame import get_eval_frame_isolate_recompiles_id, set_eval_frame_isolate_recompiles_id
from torch._dynamo import eval_frame

from inductor_debug_jupyter import capture, last_session
from inductor_debug_jupyter.pipeline.torch_compat import lowering

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Broken(nn.Module):
    """Has a graph break, so that Dynamo needs a function to resume at."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 4)

    def forward(self, x):
        h = self.inner(x)
        torch._dynamo.graph_break()
        return torch.relu(h)


def dynamo_names(module: types.ModuleType) -> set[str]:
    return {name for name in vars(module) if name.startswith(("__compiled_fn", "__resume_at", "__builtins_dict"))}


def entries(function) -> int:
    return len(eval_frame._debug_get_cache_entry_list(function.__code__))


def test_cache_entries_and_names_of_a_plain_module_are_gone():
    here = sys.modules[__name__]
    before = dynamo_names(here)
    with capture(eager=True, lower="aot") as session:
        Broken()(torch.ones(2, 4))
        assert dynamo_names(here) - before
    assert len(session.captures) == 2
    assert dynamo_names(here) == before
    assert entries(Broken.forward) == 0


def double(x):
    return x * 2


def test_what_the_user_compiled_keeps_its_own_entry_only():
    compiled = torch.compile(double, backend="aot_eager")
    compiled(torch.ones(3))
    names = dynamo_names(sys.modules[__name__])
    with capture() as session:
        compiled(torch.ones(3))
    assert session.captures
    assert dynamo_names(sys.modules[__name__]) == names
    live = [e for e in eval_frame._debug_get_cache_entry_list(double.__code__) if e.code is not None]
    assert len(live) == 1
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(torch.ones(3))


@pytest.mark.parametrize("region", [-1, 1 << 20])
def test_entries_are_gone_whatever_region_torch_put_them_in(monkeypatch, region):
    """torch has one current region for all threads: another thread's call may change it in the middle of a compile."""
    lower = lowering.lower_with_aot

    def lower_while_another_thread_calls(*args):
        lower(*args)
        set_eval_frame_isolate_recompiles_id(region)

    monkeypatch.setattr(lowering, "lower_with_aot", lower_while_another_thread_calls)
    compiled = torch.compile(double, backend="aot_eager")
    compiled(torch.ones(3))
    before = get_eval_frame_isolate_recompiles_id()  # threads that overlapped may have left one of theirs
    with capture(eager=True, lower="aot") as session:
        Broken()(torch.ones(2, 4))
        compiled(torch.ones(3))
    assert len(session.captures) == 3
    assert entries(Broken.forward) == 0
    assert sum(each.code is not None for each in eval_frame._debug_get_cache_entry_list(double.__code__)) == 1
    assert get_eval_frame_isolate_recompiles_id() == before
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(torch.ones(3))


def test_a_backward_that_runs_after_the_capture_still_runs():
    model = torch.compile(Broken(), backend="aot_eager")
    model(torch.ones(2, 4))
    with capture():
        loss = model(torch.ones(2, 4)).sum()
    loss.backward()
    assert model.inner.weight.grad is not None


@torch._dynamo.config.patch(accumulated_recompile_limit=8)
def test_a_function_captured_too_often_runs_as_compiled_and_that_is_said():
    compiled = torch.compile(double, backend="eager")
    compiled(torch.ones(3))
    seen = []
    for _ in range(6):
        with capture() as session:
            assert torch.equal(compiled(torch.ones(3)), torch.full((3,), 2.0))
        seen.append(bool(session.captures))
    assert seen == [True, True, True, False, False, False]
    assert "captured so often" in str(session.notes[0])
    compiled(torch.ones(3, dtype=torch.float64))  # their own recompiles are still theirs
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(torch.ones(3, dtype=torch.float64))


def test_as_a_decorator_each_call_is_a_session_of_its_own():
    @capture(eager=True, lower="aot")
    def step(size):
        return nn.Linear(size, 4)(torch.ones(2, size))

    assert step(3).shape == (2, 4)
    first = last_session()
    assert step(5).shape == (2, 4)
    second = last_session()
    assert first is not second
    assert [len(session.captures) for session in (first, second)] == [1, 1]


@pytest.mark.parametrize("attempt", range(4))  # the first may load modules, which keeps the threads apart
def test_two_threads_capture_their_own_at_the_same_time(attempt):
    sessions, ready = {}, threading.Barrier(2)

    def work(size):
        model = nn.Linear(size, size)
        with capture(eager=True, lower="aot") as session:
            ready.wait(timeout=60)
            model(torch.ones(2, size))
            ready.wait(timeout=60)
        sessions[size] = session

    threads = [threading.Thread(target=work, args=(size,)) for size in (3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for size in (3, 5):
        (captured,) = sessions[size].captures
        assert captured.graph("forward").calls[-1].shape == (2, size)


def test_random_numbers_and_settings_are_as_before():
    before = torch._dynamo.config.get_config_copy(), torch._inductor.config.get_config_copy()
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    with capture(eager=True):
        Broken()
        torch.manual_seed(0)
        Broken().inner.weight.sum()
        torch.manual_seed(0)
        nn.Dropout(0.5).eval()(torch.ones(4))
    assert torch.equal(torch.rand(3), expected)
    assert (torch._dynamo.config.get_config_copy(), torch._inductor.config.get_config_copy()) == before


def test_an_interrupt_while_inductor_works_leaves_nothing(monkeypatch):
    from torch._inductor.graph import GraphLowering

    def interrupted(self, *args, **kwargs):
        raise KeyboardInterrupt

    compiled = torch.compile(nn.Linear(4, 4))
    monkeypatch.setattr(GraphLowering, "run", interrupted)
    with pytest.raises(KeyboardInterrupt), capture() as session:
        compiled(torch.ones(2, 4))
    assert {"dynamo", "forward"} <= set(session.captures[0].stages)
    monkeypatch.undo()
    assert torch._inductor.config.fx_graph_cache is True


def test_a_module_that_calls_its_supers_call_does_not_recompile_afterwards() -> None:
    """Dynamo reaches our wrapper of ``nn.Module.__call__`` then: no guard on it may stay."""

    class Layer(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return super().__call__(*args, **kwargs)

        def forward(self, x: torch.Tensor) -> Any:
            return self.linear(x)

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = Layer()

        def forward(self, x: torch.Tensor) -> Any:
            return self.layer(x) * 2

    compiled = torch.compile(Net(), backend="eager")
    with capture(eager=True, lower="dynamo"):
        compiled(torch.ones(2, 3))
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(torch.ones(2, 3))
