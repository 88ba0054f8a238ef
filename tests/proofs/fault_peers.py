"""What torch's own tools make of the same faults: ``fx_minifier``, the accuracy minifier after AOT, CompilerBisector.

Each is given what it is made for, and its best case: ``fx_minifier`` the graph that AOTAutograd makes (of several the
one that fails) and a test of wrong numbers or of the backend's refusal; the official minifier a script, with Inductor's
own fault, which is a setting that it writes down; CompilerBisector a function that says whether the numbers agree.
Inductor's caches of whole graphs are off, since their keys know nothing of a planted fault. A tool that is not done
after :data:`PATIENCE` is stopped.

:func:`ours_alone` is our reduction as a script of its own, so that its CPU is counted as the official minifier's is.
"""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func
from torch._functorch.fx_minifier import minifier
from torch._inductor.compiler_bisector import CompilerBisector

from inductor_debug_jupyter.benchmarks.models import Built
from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed
from inductor_debug_jupyter.pipeline.torch_compat.trees import of_kind
from tests.proofs.fault_cases import Case, built, cpu_seconds, faulty

PATIENCE = 1200.0
"""Seconds after which a tool is stopped."""
TOLERANCE = 1e-4
"""Beyond this, relative to the largest element, a peer's test calls numbers wrong; the faults are of 1% and more."""


class NotDone(Exception):
    """A tool took longer than :data:`PATIENCE`."""


@dataclass(frozen=True)
class PeerResult:
    """What a tool made of a case. ``ops``: how many are left; None when it made no repro."""

    tool: str
    answer: str
    cpu: float
    evaluations: int
    ops: int | None = None


class Oracle:
    """Whether a graph shows a case's fault, as a tool of torch's asks it; counts how often it did."""

    def __init__(self, case: Case, backend: str) -> None:
        self.count = 0
        self._ends = time.monotonic() + PATIENCE
        self._by_error = case.kind == "compile error"
        module, _, name = backend.partition(":")
        self._backend = getattr(importlib.import_module(module), name) if name else backend

    def __call__(self, graph: Callable[..., Any], inputs: Sequence[Any]) -> bool:
        """Compile and run it; a graph that does not run in eager mode has no fault to show.

        Raises:
            NotDone: it was asked for too long.
        """
        if time.monotonic() > self._ends:
            raise NotDone
        self.count += 1
        torch._dynamo.reset()
        with torch.no_grad(), caches_bypassed():
            try:
                expected = of_kind(torch.Tensor, [graph(*inputs)])
            except Exception:
                return False
            try:
                found = of_kind(torch.Tensor, [torch.compile(graph, backend=self._backend)(*inputs)])
            except Exception as error:
                return self._by_error and "acme" in str(error)
        return not self._by_error and any(map(_far, found, expected))


def _far(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or not other.is_floating_point() or not other.numel():
        return False
    largest = float(other.abs().max())
    return not float((one - other).abs().max()) <= TOLERANCE * max(largest, 1e-3)


def with_fx_minifier(case: Case, folder: Path) -> PeerResult:
    """Reduce the graph that fails."""
    graphs = aten_graphs(built(case))
    with faulty(case, folder) as backend, torch.no_grad():
        graph, inputs = next((each for each in graphs if Oracle(case, backend)(*each)), graphs[0])
        oracle, before = Oracle(case, backend), cpu_seconds()
        answer, ops = reduced_by_fx_minifier(graph, inputs, oracle)
        return PeerResult("fx_minifier", answer, cpu_seconds() - before, oracle.count, ops)


def aten_graphs(made: Built) -> list[tuple[torch.fx.GraphModule, list[Any]]]:
    """The model's graphs as AOTAutograd makes them, each with its inputs."""
    found: list[tuple[torch.fx.GraphModule, list[Any]]] = []

    def compiler(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            found.append((graph, [each.clone() if isinstance(each, torch.Tensor) else each for each in inputs]))
            return graph(*inputs)

        boxed: Callable[..., Any] = make_boxed_func(run)
        return boxed

    torch._dynamo.reset()
    with torch.no_grad():
        torch.compile(made.module, backend=aot_autograd(fw_compiler=compiler))(*made.inputs)  # type: ignore[no-untyped-call]
    return found


def reduced_by_fx_minifier(
    graph: torch.fx.GraphModule, inputs: Sequence[Any], oracle: Callable[..., bool]
) -> tuple[str, int | None]:
    """What ``fx_minifier`` says, and how many ops it leaves."""
    try:
        with redirect_stderr(StringIO()), redirect_stdout(StringIO()):
            reduced, _ = minifier(graph, list(inputs), oracle, dump_state=lambda *_: None)
    except NotDone:
        return f"not done after {PATIENCE / 60:.0f} minutes", None
    except Exception as error:
        return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:60]}", None
    ops = sum(node.op == "call_function" for node in reduced.graph.nodes)
    return f"{ops} ops", ops


def with_bisector(case: Case, folder: Path) -> PeerResult:
    """Ask torch's bisector which of its subsystems and which of their steps brings it in."""
    made = built(case)
    with faulty(case, folder) as backend:
        oracle, before = Oracle(case, backend), cpu_seconds()
        try:
            with redirect_stdout(StringIO()):
                found = CompilerBisector.do_bisect(lambda: not oracle(made.module, made.inputs))
        except NotDone:
            answer = f"not done after {PATIENCE / 60:.0f} minutes"
        else:
            answer = "nothing" if found is None else _place(found)
        return PeerResult("CompilerBisector", answer, cpu_seconds() - before, oracle.count)


def _place(found: Any) -> str:
    number = f"#{found.bisect_number}" if found.bisect_number else ""
    parts = (found.backend, found.subsystem, number, str(found.debug_info or "")[:60])
    return " ".join(each for each in parts if each)


_CASE = """
import warnings
import torch
import torch._inductor.config
from tests.proofs.fault_cases import CASES, built
warnings.simplefilter("ignore")
case = next(each for each in CASES if each.name == {name!r})
torch._inductor.config.patch({{"cpp." + case.flag: "accuracy"}}).__enter__()
made = built(case)
"""
_OFFICIAL = """
with torch.no_grad():
    torch.compile(made.module)(*made.inputs)
"""
_OURS = """
from inductor_debug_jupyter import capture
with torch.no_grad(), capture(lower="aot", eager=True, keep_inputs=True, artifacts="kept") as session:
    made.module(*made.inputs)
found = session.minify(candidate="inductor")
print(f"ops={found.ops} evaluations={found.evaluations}")
"""


def with_official_minifier(case: Case, folder: Path) -> PeerResult:
    """Run the accuracy minifier after AOT as its documentation says: a run that writes a launcher, and the launcher."""
    settings = {
        "TORCHDYNAMO_REPRO_AFTER": "aot",
        "TORCHDYNAMO_REPRO_LEVEL": "4",
        "TORCH_COMPILE_DEBUG_DIR": str(folder),
    }
    before = cpu_seconds()
    _ran(case, _OFFICIAL, folder, settings)
    launchers = sorted(folder.rglob("minifier_launcher.py"))
    if not launchers:
        return PeerResult("accuracy minifier", "wrote no launcher", cpu_seconds() - before, 0)
    said = _said([sys.executable, str(launchers[0])], launchers[0].parent, _environment(folder, settings))
    queries = re.findall(r"Made (\d+) queries", said)
    scripts = sorted(folder.rglob("repro.py"), key=lambda path: path.stat().st_mtime)
    ops = len(re.findall(r"= torch\.ops\.", scripts[-1].read_text())) if scripts and queries else None
    answer = f"{ops} ops" if ops else f"no repro: {said.strip().splitlines()[-1][:60] if said.strip() else ''}"
    return PeerResult("accuracy minifier", answer, cpu_seconds() - before, int(queries[-1]) if queries else 0, ops)


def ours_alone(case: Case, folder: Path) -> PeerResult:
    """Capture and reduce in a fresh interpreter, without any bisection before, as the official minifier does."""
    before = cpu_seconds()
    said = _ran(case, _OURS, folder, {})
    found = re.search(r"ops=(\d+) evaluations=(\d+)", said)
    if found is None:
        return PeerResult("ours, alone", said.strip()[-200:], cpu_seconds() - before, 0)
    ops, evaluations = map(int, found.groups())
    return PeerResult("ours, alone", f"{ops} ops", cpu_seconds() - before, evaluations, ops)


def _ran(case: Case, text: str, folder: Path, settings: dict[str, str]) -> str:
    """Run a script about a case in a fresh interpreter; what it said."""
    script = folder / "script.py"
    script.write_text(_CASE.format(name=case.name) + text)
    return _said([sys.executable, str(script)], folder, _environment(folder, settings))


def _environment(folder: Path, settings: dict[str, str]) -> dict[str, str]:
    """Inductor's caches of this folder's own, so that either side compiles as for the first time."""
    own = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
    return os.environ | own | settings


def _said(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=folder, env=environment, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return f"not done after {PATIENCE / 60:.0f} minutes"
    return done.stdout + done.stderr
