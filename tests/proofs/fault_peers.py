"""What torch's own tools make of the same faults: ``fx_minifier``, the accuracy minifier after AOT, CompilerBisector.

Each is given what it is made for, and its best case: ``fx_minifier`` the graph that AOTAutograd makes and a test of
wrong numbers; the official minifier a script, with Inductor's own fault, which is a setting that it writes down;
CompilerBisector a function that says whether the numbers agree.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch._functorch.fx_minifier import minifier
from torch._inductor.compiler_bisector import CompilerBisector
from torch.fx.experimental.proxy_tensor import make_fx

from inductor_debug_jupyter.benchmarks.models import Built
from inductor_debug_jupyter.pipeline.torch_compat.trees import of_kind
from tests.proofs.fault_cases import Case, built, cpu_seconds, faulty

TOLERANCE = 1e-4
"""Beyond this, relative to the largest element, a peer's test calls numbers wrong; the faults are of 1% and more."""


@dataclass(frozen=True)
class PeerResult:
    """What a tool of torch's made of a case."""

    tool: str
    answer: str
    cpu: float
    evaluations: int


def differs(graph: Callable[..., Any], inputs: Sequence[Any], backend: Any) -> bool:
    """Whether a backend's numbers are wrong; a graph that does not run is not."""
    torch._dynamo.reset()
    try:
        with torch.no_grad():
            expected = of_kind(torch.Tensor, [graph(*inputs)])
            found = of_kind(torch.Tensor, [torch.compile(graph, backend=backend)(*inputs)])
    except Exception:
        return False
    return any(_far(one, other) for one, other in zip(found, expected, strict=False))


def _far(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or not other.is_floating_point() or not other.numel():
        return False
    largest = float(other.abs().max())
    return not float((one - other).abs().max()) <= TOLERANCE * max(largest, 1e-3)


def with_fx_minifier(case: Case, folder: Path) -> PeerResult:
    """Reduce the model's ATen graph."""
    made = built(case)
    count = 0
    smallest: list[torch.fx.GraphModule] = []
    with faulty(case, folder) as backend, torch.no_grad():
        graph = make_fx(_flat(made), tracing_mode="real")(*made.inputs)

        def fails(candidate: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
            nonlocal count
            count += 1
            return differs(candidate, inputs, backend)

        before = cpu_seconds()
        try:
            reduced, _ = minifier(graph, list(made.inputs), fails, dump_state=lambda *_: None)
            smallest.append(reduced)
            answer = f"{sum(node.op == 'call_function' for node in reduced.graph.nodes)} ops"
        except Exception as error:
            answer = f"{type(error).__name__}: {str(error).splitlines()[0][:60] if str(error) else ''}"
        return PeerResult("fx_minifier", answer, cpu_seconds() - before, count)


def _flat(made: Built) -> Callable[..., Any]:
    return lambda *inputs: tuple(of_kind(torch.Tensor, [made.module(*inputs)]))


def with_bisector(case: Case, folder: Path) -> PeerResult:
    """Ask torch's bisector which of its subsystems and which of their steps brings it in."""
    made = built(case)
    count = 0
    with faulty(case, folder) as backend:

        def agrees() -> bool:
            nonlocal count
            count += 1
            return not differs(_flat(made), made.inputs, backend)

        before = cpu_seconds()
        with tempfile.TemporaryDirectory() as cache, _environment(TORCHINDUCTOR_CACHE_DIR=cache):
            found = CompilerBisector.do_bisect(agrees)
        spent = cpu_seconds() - before
    if found is None:
        return PeerResult("CompilerBisector", "nothing", spent, count)
    where = " ".join(str(each) for each in (found.subsystem, f"#{found.bisect_number}", found.debug_info) if each)
    return PeerResult("CompilerBisector", where, spent, count)


class _environment:
    """Environment variables for the length of a block."""

    def __init__(self, **variables: str) -> None:
        self._variables = variables
        self._before: dict[str, str | None] = {}

    def __enter__(self) -> None:
        self._before = {name: os.environ.get(name) for name in self._variables}
        os.environ.update(self._variables)

    def __exit__(self, *_: object) -> None:
        for name, was in self._before.items():
            if was is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = was


_OFFICIAL = """
import torch
import torch._inductor.config
from tests.proofs.fault_cases import CASES, built
case = next(each for each in CASES if each.name == {name!r})
torch._inductor.config.patch({{"cpp." + case.flag: "accuracy"}}).__enter__()
made = built(case)
with torch.no_grad():
    torch.compile(made.module)(*made.inputs)
"""


def with_official_minifier(case: Case, folder: Path) -> PeerResult:
    """Run the accuracy minifier after AOT as its documentation says: a run that writes a launcher, and the launcher."""
    settings = {
        "TORCHDYNAMO_REPRO_AFTER": "aot",
        "TORCHDYNAMO_REPRO_LEVEL": "4",
        "TORCH_COMPILE_DEBUG_DIR": str(folder),
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    before = cpu_seconds()
    script = folder / "official.py"
    script.write_text(_OFFICIAL.format(name=case.name))
    environment = os.environ | settings
    subprocess.run([sys.executable, script], capture_output=True, text=True, cwd=folder, env=environment)
    launchers = sorted(folder.rglob("minifier_launcher.py"))
    if not launchers:
        return PeerResult("accuracy minifier", "wrote no launcher", cpu_seconds() - before, 0)
    done = subprocess.run(
        [sys.executable, launchers[0]], capture_output=True, text=True, cwd=launchers[0].parent, env=environment
    )
    said = done.stdout + done.stderr
    queries = re.findall(r"Made (\d+) queries", said)
    scripts = sorted(folder.rglob("repro.py"), key=lambda path: path.stat().st_mtime)
    ops = len(re.findall(r"= torch\.ops\.", scripts[-1].read_text())) if scripts else 0
    answer = f"{ops} ops" if ops else f"no repro (exit code {done.returncode})"
    return PeerResult("accuracy minifier", answer, cpu_seconds() - before, int(queries[-1]) if queries else 0)
