"""What inspecting guards costs over the compile it watches, and what their table costs: the figures of ``guards``.

The same model is compiled with the same backend, once plainly and once under :class:`GuardInspector`, in turn, in one
process; each time Dynamo starts with empty caches. FX and AOT caches are off for both, so that there is a compile to
watch; compiled ``.so`` files are there from a run that is not counted. CPU time of this process and its children.
"""

from __future__ import annotations

import gc
import statistics
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.benchmarks.meter import Meter
from inductor_debug_jupyter.benchmarks.models.encoder import encoder
from inductor_debug_jupyter.pipeline.guards import GuardInspector
from inductor_debug_jupyter.pipeline.records import CompileCapture, Guard, SessionRecord, SourceLine
from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed, compiling_here
from inductor_debug_jupyter.pipeline.views.guards import guards_text, guards_view


@dataclass(frozen=True)
class InspectionCost:
    """CPU seconds of plain compiles and of inspected ones, pair by pair."""

    backend: str
    guards: int
    plain: tuple[float, ...]
    inspected: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """Median over median."""
        return statistics.median(self.inspected) / statistics.median(self.plain)

    @property
    def spread(self) -> tuple[float, float]:
        """The least and the greatest ratio of a pair."""
        ratios = [own / base for own, base in zip(self.inspected, self.plain, strict=True)]
        return min(ratios), max(ratios)


def inspection_cost(backend: str, *, layers: int, repeats: int, small: bool = False) -> InspectionCost:
    """Compile and inspect in turn."""
    built = encoder(layers, small=small)
    times: dict[str, list[float]] = {"plain": [], "inspected": []}
    found = 0

    def plain() -> None:
        compiled: Callable[..., Any] = torch.compile(built.module, backend=backend)
        compiled(*built.inputs)

    def inspected() -> None:
        nonlocal found
        found = len(GuardInspector(torch.compile(built.module, backend=backend)).inspect(*built.inputs).guards)

    ways: dict[str, Callable[[], None]] = {"plain": plain, "inspected": inspected}
    with caches_bypassed(), compiling_here():
        for way in ways.values():  # not counted: imports, and the C++ compiler
            _seconds(way)
        for repeat in range(repeats):
            order = list(ways) if repeat % 2 == 0 else list(reversed(ways))
            for name in order:
                times[name].append(_seconds(ways[name]))
    torch.compiler.reset()
    return InspectionCost(backend, found, tuple(times["plain"]), tuple(times["inspected"]))


def _seconds(way: Callable[[], None]) -> float:
    torch.compiler.reset()
    gc.collect()
    meter = Meter()
    way()
    return meter.lap().cpu


def synthetic_guards(count: int) -> SessionRecord:
    """A session with that many guards, all different, of the kinds that models have."""
    line = SourceLine("cell", 3, "y = x * n", "f", "In [1]")
    tensor = "Tensor, DispatchKeySet(CPU), torch.float32, device=None, requires_grad=True, size=[8, 8], stride=[8, 1])"
    made = []
    for at in range(count):
        name = f"L['self']._modules['block{at}']"
        kind, expression, check = (
            ("EQUALS_MATCH", f"{name}.p", f"{name}.p == {at}"),
            ("TENSOR_MATCH", f"{name}._parameters['weight']", f"check_tensor({name}._parameters['weight'], {tensor}"),
            ("TYPE_MATCH", name, f"___check_type_id({name}, {1_000_000 + at}), type=<class 'a.Block{at}'>"),
            ("EQUALS_MATCH", f"L['n{at}']", f"L['n{at}'] == {at}"),
        )[at % 4]
        made.append(Guard("0/0", kind, expression, (check,), line))
    return SessionRecord(
        id="", created="", name="f", target="", strict=False, torch_version="", tool_version="",
        captures=(CompileCapture("0/0", "f", line),), guards=tuple(made),
    )  # fmt: skip


def table_seconds(count: int) -> dict[str, float]:
    """CPU seconds of the view of that many guards, and of their text; the median of five."""
    record = synthetic_guards(count)
    ways: dict[str, Callable[[], Any]] = {
        "view": lambda: guards_view(record),
        "text": lambda: guards_text(record, limit=None),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(5):
        for name, way in ways.items():
            meter = Meter()
            way()
            times[name].append(meter.lap().cpu)
    return {name: statistics.median(each) for name, each in times.items()}
