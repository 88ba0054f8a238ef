"""Around every test: nothing of ours stays behind in torch, and nothing is written outside the test's own folder."""

from __future__ import annotations

import gc
import os
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import proofs
import pytest
import warm_python

from tests.proofs.lab import INSTALL, find_chromium


def pytest_configure(config: pytest.Config) -> None:
    """Compile torch's sources once, not in each process that the tests start.

    Where Python is told to write no bytecode (as in many containers), importing torch's compiler costs every kernel and
    script 7 seconds of CPU. Such bytecode goes to pytest's cache; workers and child processes inherit where.
    """
    cache = getattr(config, "cache", None)  # not there with -p no:cacheprovider
    if sys.dont_write_bytecode and cache is not None:
        sys.dont_write_bytecode = False
        sys.pycache_prefix = str(cache.mkdir("bytecode"))
        os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    # As many processes as cores run side by side, each with one thread and no pool of compilers.
    os.environ |= {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_COMPILE_THREADS": "1"}
    if config.getoption("long"):
        os.environ[proofs.ALL_DRAWS] = "1"
    if _holds_test_folders(MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))  # where pytest makes `tmp_path`
    warm_python.install()


MEMORY = Path("/dev/shm")
"""A file system in memory: the store waits for the disk after each file, thousands of times in a run."""


def _holds_test_folders(place: Path) -> bool:
    """Whether the tests' folders can be there: room for them, and programs and libraries in them can be run."""
    if not place.is_dir() or not os.access(place, os.W_OK):
        return False
    return shutil.disk_usage(place).free >= 4 << 30 and not os.statvfs(place).f_flag & os.ST_NOEXEC


def pytest_xdist_auto_num_workers() -> int:
    """``-n auto``: two for each core, because many tests wait (for a browser, a kernel, a hang, a time limit)."""
    return 2 * (len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--long``: also the proofs that take minutes, of which the suite has a sample. CI runs them."""
    parser.addoption("--long", action="store_true", help="also the long proofs (-m long: only those)")


@pytest.hookimpl(tryfirst=True)  # before ``-m`` looks at the marks
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the long proofs unless asked for. Without Chromium no browser test runs; the summary says so."""
    _mark_all_but_a_sample(items)
    items.sort(key=lambda item: item.path.name != "test_quality.py")  # its checks take longest: nobody waits for them
    long = [item for item in items if item.get_closest_marker("long")]
    if long and not config.getoption("long"):
        config.hook.pytest_deselected(items=long)
        items[:] = [item for item in items if item not in long]
    if find_chromium() is None:
        for item in items:
            if item.get_closest_marker("browser"):
                item.add_marker(pytest.mark.skip(reason=f"there is no Chromium: {INSTALL}"))


def _mark_all_but_a_sample(items: list[pytest.Item]) -> None:
    """Of the cases of a test with the mark ``every(3)`` the suite has each third; the others are long."""
    seen: Counter[str] = Counter()
    for item in items:
        if (mark := item.get_closest_marker("every")) is not None:
            name = item.nodeid.partition("[")[0]
            if seen[name] % mark.args[0]:
                item.add_marker(pytest.mark.long)
            seen[name] += 1


def pytest_collectstart() -> None:
    """No garbage collector until everything is imported, and frozen by :func:`pytest_collection_finish`."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep the collector from going through torch's own million objects over and over, and from running so often.

    A compile makes hundreds of thousands of objects that live to its end: with Python's own threshold of 700 the
    collector takes a tenth of the tests' time. Tests of what is let go of call it themselves; kernels keep the 700.
    """
    if session.items and "torch" in sys.modules:
        gc.collect()
        gc.freeze()
    gc.set_threshold(20_000, 10, 10)
    gc.enable()


def pytest_sessionfinish(session: pytest.Session) -> None:
    """What was skipped was not tested: the command does not succeed, as when a test fails."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and reporter.stats.get("skipped") and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Where the time went, by file, and which tests were not run."""
    seconds: Counter[str] = Counter()
    for report in [report for reports in terminalreporter.stats.values() for report in reports]:
        if isinstance(report, pytest.TestReport):
            seconds[report.nodeid.split("::")[0]] += report.duration
    if seconds:
        terminalreporter.section(f"slowest files, of {sum(seconds.values()):.0f} s in {len(seconds)} files")
    for name, spent in seconds.most_common(20):
        terminalreporter.line(f"{spent:7.1f} s  {name}")
    if skipped := terminalreporter.stats.get("skipped"):
        reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
        terminalreporter.section("NOT RUN", red=True, bold=True)
        for reason, count in reasons.most_common():
            terminalreporter.line(
                f"NOT RUN: {count} {'test' if count == 1 else 'tests'}: {reason}", red=True, bold=True
            )


def _torch_state() -> dict[str, Any]:
    """Everything a capture touches, by identity: equal before and after a test."""
    if "torch._dynamo" not in sys.modules:
        return {}
    import torch
    import torch._dynamo.config as dynamo_config
    import torch._functorch.config as functorch_config
    import torch._inductor.config as inductor_config
    from torch._dynamo import convert_frame, eval_frame
    from torch._dynamo.guards import CheckFunctionManager
    from torch._dynamo.output_graph import OutputGraph
    from torch._dynamo.variables import nn_module
    from torch._functorch._aot_autograd import graph_compile
    from torch._inductor import compile_fx, debug
    from torch._inductor.graph import GraphLowering
    from torch._logging import _internal

    return {
        "Module.__call__": torch.nn.Module.__call__,
        "unpatched_nn_module_call": nn_module.unpatched_nn_module_call,
        "call_user_compiler": OutputGraph.call_user_compiler,
        "partition": graph_compile._partition_joint_graph_into_fw_bw,
        "inference": graph_compile._aot_stage2b_inference_compile,
        "post_grad": compile_fx._recursive_post_grad_passes,
        "inner": compile_fx._compile_fx_inner,
        "ir": (debug.log_ir_pre_fusion, debug.log_ir_post_fusion),
        "code": GraphLowering._compile_to_module_lines,
        "guards": CheckFunctionManager.__init__,
        "recompiles": convert_frame.get_and_maybe_log_recompilation_reasons,
        "stance": eval_frame._callback_from_stance,
        "trace handlers": [h for h in _internal.trace_log.handlers if type(h).__module__.startswith("inductor_debug")],
        "caches": (inductor_config.fx_graph_cache, functorch_config.enable_autograd_cache),
        "suppress_errors": dynamo_config.suppress_errors,
        "eval frame": torch._C._dynamo.eval_frame.get_eval_frame_callback(),
        "grad mode": torch.is_grad_enabled(),
    }


@pytest.fixture(autouse=True)
def _nothing_left_behind() -> Iterator[None]:
    before = _torch_state()
    yield
    after = _torch_state()
    changed = {name for name in before if before[name] != after[name]}
    assert not changed, f"left behind in torch: {sorted(changed)}"
    if "inductor_debug_jupyter.pipeline.torch_compat.patches" in sys.modules:
        from inductor_debug_jupyter.pipeline.torch_compat import hooks, patches

        assert patches.installed() == ()
        assert hooks._listeners == []
    if "inductor_debug_jupyter.pipeline.adapters.device_log" in sys.modules:
        from inductor_debug_jupyter.pipeline.adapters import device_log

        assert device_log._listeners == []


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run in a folder of their own, with none of the user's settings."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith(("MOCK_", "INDUCTOR_DEBUG_"))]:
        monkeypatch.delenv(name)


@pytest.fixture(autouse=True)
def _untimed_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Dynamo flushes the CPU's caches to time the guards of each graph; no test looks at that number."""
    if (guards := sys.modules.get("torch._dynamo.guards")) is not None:
        monkeypatch.setattr(guards, "profile_guard_manager", lambda *_: 0.0)


@pytest.fixture
def cold_python() -> Iterator[None]:
    """Pythons that the test starts have imported nothing before, not even torch."""
    with warm_python.cold_interpreters():
        yield


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    """Dynamo with empty caches, before and after."""
    import torch

    torch._dynamo.reset()
    yield
    torch._dynamo.reset()
