"""``stages``: what a capture holds of one training step, cold, with warm caches, and on a cache hit.

The step runs as a notebook cell would run it, so that every node should have two lines: the deepest one outside torch,
and the cell's own.
"""

from __future__ import annotations

import argparse
import linecache
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from inductor_debug_jupyter.benchmarks.command_line import named
from inductor_debug_jupyter.benchmarks.models import MODEL_NAMES, Built, benchmark_model, encoder
from inductor_debug_jupyter.benchmarks.printing import Progress, print_table
from inductor_debug_jupyter.pipeline.capture.sources import register_cell_labels
from inductor_debug_jupyter.pipeline.records import STAGES, CompileCapture
from inductor_debug_jupyter.pipeline.session import DebugSession, capture
from inductor_debug_jupyter.pipeline.torch_compat.canaries import temporary_inductor_cache
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors

_NAMES = ("encoder", *MODEL_NAMES)
_CELL = "<stages-cell>"
_SOURCE = "out = model(*inputs)\nstep(out)\n"
_RUNS = {"cold": True, "warm": True, "cache hit, fresh=False": False}
"""Column → whether torch's FX and AOT caches are bypassed, as they are by default."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--model",
        action="append",
        metavar="NAME",
        help=f"may be repeated: {', '.join(_NAMES)}; default encoder (4 layers)",
    )
    parser.add_argument("--small", action="store_true", help="tiny versions of the models, to try this out")


def run(args: argparse.Namespace) -> int:
    """Print a table a model; 1 when a stage or a line is missing where nothing was cached."""
    names = named(args.model, "--model", _NAMES, ["encoder"])
    complete = True
    with Progress(len(names) * len(_RUNS)) as progress:
        tables = {name: _sessions(name, args.small, progress) for name in names}
    for name, sessions in tables.items():
        rows = [(what, *(tell(session) for session in sessions)) for what, tell in _ROWS.items()]
        print_table((name, *_RUNS), rows)
        complete &= all(_is_complete(session) for session in sessions[:2])
    return 0 if complete else 1


def _sessions(name: str, small: bool, progress: Progress) -> list[DebugSession]:
    """One session a column, in one process with an Inductor cache of its own."""
    built = _built(name, small)
    sessions = []
    with temporary_inductor_cache() as folder:
        for column, fresh in _RUNS.items():
            progress.step(f"{name}, {column}")
            if not fresh:
                _train(built)  # fills torch's caches
            sessions.append(_captured(built, fresh, folder / "artifacts"))
    return sessions


def _built(name: str, small: bool) -> Built:
    if name == "encoder":
        return encoder(4, small=small)
    return benchmark_model(name).build(small)


def _captured(built: Built, fresh: bool, artifacts: Path) -> DebugSession:
    with capture(fresh=fresh, artifacts=str(artifacts)) as session:
        _train(built)
    return session


def _train(built: Built) -> None:
    """One step of the compiled model, written as a cell."""

    def step(out: Any) -> None:
        losses: list[torch.Tensor] = []
        map_tensors(lambda leaf: losses.append(leaf.float().sum()) if leaf.requires_grad else None, out)
        torch.stack(losses).sum().backward()  # type: ignore[no-untyped-call]

    torch.compiler.reset()
    linecache.cache[_CELL] = (len(_SOURCE), None, _SOURCE.splitlines(keepends=True), _CELL)
    register_cell_labels(_label)
    cell = compile(_SOURCE, _CELL, "exec")
    exec(cell, {"model": torch.compile(built.module), "inputs": built.inputs, "step": step})


def _label(file: str) -> str | None:
    return "In [1]" if file == _CELL else None


# What a row tells of a session -------------------------------------------------------------------------------------


def _graphs(*stages: str) -> Callable[[DebugSession], str]:
    def tell(session: DebugSession) -> str:
        sizes = [
            f"{sum(len(graph.calls) for graph in found)} ops"
            if (found := [graph for c in session.captures if (graph := c.graph(stage)) is not None])
            else ("text only" if any(stage in c.texts for c in session.captures) else "–")
            for stage in stages
        ]
        return " + ".join(sizes)

    return tell


def _texts(stage: str) -> Callable[[DebugSession], str]:
    def tell(session: DebugSession) -> str:
        sizes = [
            sum(len(c.texts[key]) for c in session.captures if key in c.texts) for key in (stage, f"{stage}:backward")
        ]
        return " + ".join(f"{size / 1000:.0f} kB" if size else "–" for size in sizes)

    return tell


def _kernels(session: DebugSession) -> str:
    kernels = [kernel for captured in session.captures for kernel in captured.kernels]
    linked = sum(bool(kernel.calls) for kernel in kernels)
    return f"{sum(bool(kernel.code) for kernel in kernels)} with source, {linked} linked to nodes"


def _seconds(session: DebugSession) -> str:
    phases = [phase for captured in session.captures for phase in captured.phases]
    return f"{len(phases)} phases, {sum(phase.seconds for phase in phases if phase.depth == 0):.1f} s"


def _caches(session: DebugSession) -> str:
    found = {f"{name} {outcome}" for captured in session.captures for name, outcome in captured.caches.items()}
    return ", ".join(sorted(found)) or "–"


def _statistics(session: DebugSession) -> str:
    graphs = [graph for c in session.captures if (graph := c.graph("forward") or c.graph("dynamo")) is not None]
    parameters = sum(graph.statistics.parameter_bytes or 0 for graph in graphs)
    made = sum(graph.statistics.activation_bytes or 0 for graph in graphs)
    return f"{parameters / 1e6:.1f} MB parameters, {made / 1e6:.1f} MB activations"


def _calls(captures: Iterable[CompileCapture]) -> list[Any]:
    return [node for captured in captures for graph in captured.graphs.values() for node in graph.calls]


def _lines(session: DebugSession) -> str:
    calls = _calls(session.captures)
    with_line = sum(node.source is not None and "/torch/" not in node.source.file for node in calls)
    with_cell = sum(node.cell is not None for node in calls)
    return f"{with_line} of {len(calls)} ops, cell's line {with_cell}"


def _missing(session: DebugSession) -> str:
    return ", ".join(sorted({stage for captured in session.captures for stage in captured.missing})) or "nothing"


_ROWS: dict[str, Callable[[DebugSession], str]] = {
    "Dynamo graph": _graphs("dynamo"),
    "joint graph": _graphs("joint"),
    "forward + backward": _graphs("forward", "backward"),
    "post-grad, forward + backward": _graphs("post_grad", "post_grad:backward"),
    "IR before fusion": _texts("ir_pre_fusion"),
    "IR after fusion": _texts("ir_post_fusion"),
    "wrapper code": _texts("code"),
    "kernels": _kernels,
    "guards": lambda session: str(len(session.guards)),
    "graph breaks, recompiles": lambda session: f"{len(session.graph_breaks)}, {len(session.recompiles)}",
    "timings": _seconds,
    "torch's caches": _caches,
    "statistics": _statistics,
    "source line": _lines,
    "missing": _missing,
}


def _is_complete(session: DebugSession) -> bool:
    calls = _calls(session.captures)
    return bool(
        session.captures
        and all(captured.stages == STAGES and not captured.missing for captured in session.captures)
        and all(node.source is not None and node.cell is not None for node in calls)
        and all(kernel.calls and kernel.code for captured in session.captures for kernel in captured.kernels)
    )
