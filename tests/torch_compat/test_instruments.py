"""What we run for ourselves is seen by none of the user's instruments, and the process is afterwards as it was."""

from __future__ import annotations

import cProfile
import logging
import math
import multiprocessing
import os
import pstats
import sys
import threading
import warnings
from typing import Any

import pytest
import torch
from torch._dynamo import eval_frame
from torch._dynamo.utils import compilation_time_metrics, counters
from torch.nn.modules import module as modules
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from inductor_debug_jupyter import KernelDiffHarness, capture
from inductor_debug_jupyter.pipeline.torch_compat.instruments import active_instrument, python_tracers, unseen
from inductor_debug_jupyter.pipeline.torch_compat.process_state import process_state_kept
from inductor_debug_jupyter.pipeline.torch_compat.silence import unheard


class _Functions(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


class _Ops(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func)
        return func(*args, **(kwargs or {}))


def _ours() -> torch.Tensor:
    return torch.nn.Linear(2, 2)(torch.ones(2, 2))


def test_cprofile_goes_on_behind_what_it_does_not_see():
    """``sys.setprofile`` broke it: each later call raised that a Profile is not callable, or it saw no more."""
    model, x = torch.nn.Linear(3, 4), torch.ones(2, 3)
    with cProfile.Profile() as profiler:
        with capture(lower="dynamo", eager=True):
            model(x)
        with unseen():
            _ours()
        math.sqrt(4)
    names = [name for _, _, name in pstats.Stats(profiler).stats]
    assert sum("math.sqrt" in name for name in names) == 1
    assert "_ours" not in names


@pytest.mark.parametrize("mode", [_Functions, _Ops])
def test_modes_see_nothing_of_ours_and_go_on(mode):
    with mode() as watching:
        reason = active_instrument()
        with unseen():
            assert active_instrument() is None
            _ours()
        assert watching.seen == []
        torch.ones(2) + 1
    assert watching.seen
    assert mode.__name__ in reason.reason
    assert active_instrument() is None


def test_a_default_device_is_no_instrument_and_stays_on():
    with torch.device("meta"):
        assert active_instrument() is None
        with _Functions(), unseen():
            assert torch.ones(2).device.type == "meta"
        assert torch.ones(2).device.type == "meta"


def test_profilers_and_saved_tensor_hooks_and_anomaly_mode_see_nothing():
    seen = []
    with (
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile,
        torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(t) or t, lambda t: t),
        torch.autograd.set_detect_anomaly(True),
    ):
        with unseen():
            assert not torch.is_anomaly_enabled()
            with unseen():
                _ours()
            _ours()
        assert torch.is_anomaly_enabled()
        assert seen == []
        _ours()
    assert [each.count for each in profile.key_averages() if each.key == "aten::addmm"] == [1]
    assert len(seen) > 0


def test_tracing_and_transforms_are_taken_off():
    seen = []

    def traced(x: torch.Tensor) -> torch.Tensor:
        seen.append(active_instrument().reason)
        with unseen():
            assert active_instrument() is None
            _ours()
        return x * 2

    graph = torch.jit.trace(traced, torch.ones(2), check_trace=False).graph
    assert "aten::linear" not in str(graph)
    assert torch.equal(torch.vmap(traced)(torch.ones(2, 2)), torch.full((2, 2), 2.0))
    assert set(seen) == {"torch.jit traces it", "torch.func transforms it"}


def test_global_hooks_and_python_tracers_are_taken_off():
    seen, names = [], []
    handle = modules.register_module_forward_hook(lambda *_: seen.append(1))
    before = sys.gettrace()
    try:
        sys.settrace(lambda frame, *_: names.append(frame.f_code.co_name))
        assert "settrace" in active_instrument(tracers=(before, None)).reason
        assert active_instrument(tracers=python_tracers()) is None
        with unseen():
            _ours()
    finally:
        sys.settrace(before)
        counted = len(seen)
        _ours()
        handle.remove()
    assert (counted, len(seen)) == (0, 1)
    assert "forward" not in names


def test_a_tensor_class_of_the_users_is_an_instrument_and_a_plain_subclass_is_not():
    class Plain(torch.Tensor):
        pass

    class Logged(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return super().__torch_function__(func, types, args, kwargs or {})

    assert active_instrument([torch.ones(1).as_subclass(Plain), torch.nn.Parameter(torch.ones(1)), 3]) is None
    assert "Logged" in active_instrument([torch.ones(1).as_subclass(Logged)]).reason


def test_the_process_is_put_back(monkeypatch):
    monkeypatch.setenv("OF_THE_USER", "1")
    limit, held = sys.getrecursionlimit(), counters["stats"]
    held["unique_graphs"] += 1
    times = dict(compilation_time_metrics)
    before = {name: dict(each) for name, each in counters.items()}
    filters = list(warnings.filters)
    start_method = multiprocessing.get_start_method(allow_none=True)
    multiprocessing.set_start_method(None, force=True)
    with process_state_kept():
        assert multiprocessing.get_start_method()
        os.environ["OF_THE_COMPILER"] = "1"
        del os.environ["OF_THE_USER"]
        sys.setrecursionlimit(limit + 1000)
        counters["stats"]["unique_graphs"] += 5
        counters["made"]["up"] += 1
        compilation_time_metrics["made up"] = [1.0]
        warnings.warn("nobody sees this", stacklevel=1)
    assert (os.environ.get("OF_THE_COMPILER"), os.environ["OF_THE_USER"]) == (None, "1")
    assert sys.getrecursionlimit() == limit
    assert {name: dict(each) for name, each in counters.items()} == before
    assert counters["stats"] is held
    assert compilation_time_metrics == times
    assert warnings.filters == filters
    assert multiprocessing.get_start_method(allow_none=True) is None
    multiprocessing.set_start_method(start_method, force=True)


def test_a_model_that_runs_again_is_not_heard_and_others_are(capsys, caplog):
    own, users = logging.getLogger("inductor_debug_jupyter"), logging.getLogger("a_model")
    with unheard():
        print("printed")
        print("printed", file=sys.stderr)
        users.warning("logged")
        elsewhere = threading.Thread(target=users.warning, args=("another thread",))
        elsewhere.start()
        elsewhere.join()
        with unheard():
            own.warning("ours")
    users.warning("afterwards")
    assert caplog.messages == ["another thread", "ours", "afterwards"]
    assert capsys.readouterr() == ("", "")


class _Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = torch.nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.inner(x)
        torch._dynamo.graph_break()
        return y.relu()


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_comparison_leaves_the_cache_entries_of_a_compiled_model_as_they_are():
    net, code = _Net(), _Net.forward.__code__
    compiled = torch.compile(net, backend="eager")
    compiled(torch.ones(2, 3))
    before = eval_frame._get_total_cache_entry_count(code)
    for _ in range(2):
        assert KernelDiffHarness(compiled, (torch.ones(2, 3),), test_backend="aot_eager").compare().passed
    assert _Net.forward.__code__ is code
    assert eval_frame._get_total_cache_entry_count(code) == before
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(torch.ones(2, 3))


@pytest.mark.usefixtures("fresh_dynamo")
def test_a_call_that_an_instrument_watches_runs_as_it_is_and_that_is_said():
    net = _Net()
    with capture(eager=True, lower="dynamo", keep_inputs=True) as session, _Functions():
        net(torch.ones(2, 3))
    assert session.captures == ()
    assert [str(note) for note in session.notes] == [
        "call of _Net: it ran as it is, and was not captured: the function mode _Functions is on"
    ]
    compiled = torch.compile(net, backend="eager")
    compiled(torch.ones(2, 3))
    with capture() as session, _Ops():
        compiled(torch.ones(2, 3))
    assert session.captures == ()
    assert "was not captured: the dispatch mode _Ops is on" in str(session.notes[0])
