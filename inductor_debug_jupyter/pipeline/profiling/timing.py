"""Where the time of a kept call goes, as a record: kernels with their ops and lines, modules, the machine's roofs.

What was measured is joined to what the session captured: a wrapper belongs to the capture that calls the same kernels
the same number of times, and the nodes of a kernel's third call are those that the capture has for it. Operations and
bytes are those of the nodes in the captured graph; what a kernel reaches of the machine's own speed follows from them.
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.profiling.kernel_timing import TimedCall, TimedKernel, time_call
from inductor_debug_jupyter.pipeline.profiling.roofs import machine_roofs
from inductor_debug_jupyter.pipeline.profiling.work import Work, is_free, work_of
from inductor_debug_jupyter.pipeline.records import (
    BACKWARD,
    CompileCapture,
    GraphRecord,
    KernelTime,
    ModuleTime,
    NodeRecord,
    Roofs,
    TimingRecord,
)
from inductor_debug_jupyter.pipeline.torch_compat.kernel_times import cost_of_a_reading

_UNKNOWN = "kernels of {} could not be told which ops they compute: the cell's own compile has others"


def timing_of(call: ModelCall, captures: Sequence[CompileCapture], *, backward: bool) -> TimingRecord:
    """Run a kept call again and say where its time goes.

    Raises:
        UsageError: its tensors are not on the CPU.
    """
    timed = time_call(call, backward=backward)
    roofs = machine_roofs()
    graphs = _matched(timed, captures)
    kernels = tuple(_kernel_time(kernel, timed, graphs.get(kernel.code), roofs) for kernel in timed.kernels)
    seconds = statistics.median(timed.compiled)
    unknown = len({kernel.code for kernel in timed.kernels} - graphs.keys())
    notes = [_UNKNOWN.format(f"{unknown} graphs" if unknown > 1 else "one graph")] if unknown else []
    if not timed.kernels:
        notes.append("the compiler made no kernel of this call")
    return TimingRecord(
        call.name,
        backward,
        len(timed.compiled),
        seconds,
        statistics.median(timed.eager),
        cost_of_a_reading() * len(kernels) / seconds,
        kernels,
        () if unknown else tuple(_module_times(timed, kernels, graphs)),  # a part of them would be too little
        roofs,
        tuple(notes),
    )


@dataclass(frozen=True, eq=False)
class _Matched:
    """A graph that Inductor made code of: its compile, its half, and the nodes of each call of a kernel."""

    compile_id: str
    stage: str
    graph: GraphRecord
    calls: dict[str, tuple[tuple[str, ...], ...]]

    @property
    def counts(self) -> dict[str, int]:
        """Kernel → how often it is called."""
        return {name: len(each) for name, each in self.calls.items()}


def _matched(timed: TimedCall, captures: Sequence[CompileCapture]) -> dict[int, _Matched]:
    """Wrapper → its capture: the first that calls the same kernels, each the same number of times, and is not taken."""
    open_ones = [each for capture in captures for each in _graphs_of(capture)]
    by_code: dict[int, list[TimedKernel]] = {}
    for kernel in timed.kernels:
        by_code.setdefault(kernel.code, []).append(kernel)
    found: dict[int, _Matched] = {}
    for code, kernels in by_code.items():
        wanted = Counter(kernel.name for kernel in kernels)
        same = (each for each in open_ones if each.stage == kernels[0].stage and each.counts == wanted)
        if (first := next(same, None)) is not None:
            open_ones.remove(first)
            found[code] = first
    return found


def _graphs_of(capture: CompileCapture) -> Iterator[_Matched]:
    for stage, suffix in (("forward", ""), ("backward", BACKWARD)):
        if (graph := capture.graph(f"post_grad{suffix}")) is not None:
            yield _Matched(capture.compile_id, stage, graph, _calls_of(capture, stage))


def _calls_of(capture: CompileCapture, stage: str) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Kernel → the nodes of each of its calls.

    torch counts an op with several results among the origins of every kernel that reads one of them: an op that a
    library computes is that call's alone.
    """
    own = [kernel for kernel in capture.kernels if kernel.stage == stage and kernel.calls]
    libraries = {name for kernel in own if kernel.language == "extern" for name in kernel.nodes}
    return {
        kernel.name: tuple(_computed(call, kernel.language == "extern", libraries) for call in kernel.calls)
        for kernel in own
    }


def _computed(names: tuple[str, ...], is_library: bool, libraries: set[str]) -> tuple[str, ...]:
    return names if is_library else tuple(name for name in names if name not in libraries)


def _kernel_time(kernel: TimedKernel, timed: TimedCall, matched: _Matched | None, roofs: Roofs) -> KernelTime:
    lengths = [seconds for _, seconds in kernel.spans]
    low, middle, high = statistics.quantiles(lengths, n=4) if len(lengths) > 1 else (lengths * 3)
    run = min(timed.median_run, len(kernel.spans) - 1)
    start = kernel.spans[run][0]
    if matched is None:
        return KernelTime(kernel.name, kernel.stage, "", (), (), start, middle, low, high)
    nodes = matched.calls[kernel.name][kernel.number]
    graph = matched.graph
    computing = [node for name in nodes if (node := graph.node(name)) is not None and not is_free(node, graph)]
    work = work_of(nodes, graph)
    roof, bound = _reached(work, computing, middle, roofs)
    last = computing[-1] if computing else None
    return KernelTime(
        kernel.name,
        kernel.stage,
        matched.compile_id,
        nodes,
        tuple(dict.fromkeys(node.target for node in computing)),
        start,
        middle,
        low,
        high,
        None if work is None else work.flops,
        None if work is None else work.nbytes,
        roof,
        bound,
        module_path=last.module_path if last else "",
        source=(last.source or last.cell) if last else None,
    )


def _reached(work: Work | None, nodes: Sequence[NodeRecord], seconds: float, roofs: Roofs) -> tuple[float | None, str]:
    """The share of this machine's speed that a kernel reaches, and what limits it: products count as computing."""
    if work is None or not seconds or not roofs.memory:
        return None, ""
    moving = work.nbytes / roofs.memory
    dtype = next((spec.dtype for node in nodes for spec in node.outputs[:1]), "")
    rate = roofs.matmul.get(dtype.removeprefix("torch."), 0.0)
    computing = work.flops / rate if work.is_product and rate else 0.0
    return max(moving, computing) / seconds, "compute" if computing > moving else "memory"


def _module_times(timed: TimedCall, kernels: Sequence[KernelTime], graphs: dict[int, _Matched]) -> Iterator[ModuleTime]:
    """The modules that ran in eager mode, with their part of the forward's kernels."""
    compiled: dict[str, float] = {}
    for kernel, measured in zip(kernels, timed.kernels, strict=True):
        if kernel.stage != "forward" or (matched := graphs.get(measured.code)) is None:
            continue
        for path, share in _shares(kernel.nodes, matched.graph):
            for around in _around(path):
                compiled[around] = compiled.get(around, 0.0) + kernel.seconds * share
    for path, seconds in timed.modules.items():
        yield ModuleTime(path, timed.kinds[path], statistics.median(seconds), compiled.get(path, 0.0))


def _shares(names: Sequence[str], graph: GraphRecord) -> list[tuple[str, float]]:
    """The modules of a kernel's nodes, each with its share of the kernel's time: by the work of the nodes."""
    weights: dict[str, float] = {}
    for name in names:
        node = graph.node(name)
        if node is None or is_free(node, graph):
            continue
        work = work_of((name,), graph)
        weights[node.module_path] = weights.get(node.module_path, 0.0) + (1.0 if work is None else work.flops + 1.0)
    total = sum(weights.values())
    return [(path, weight / total) for path, weight in weights.items()]


def _around(path: str) -> list[str]:
    """A module's path and those of all modules around it, the model itself included."""
    parts = path.split(".") if path else []
    return ["", *(".".join(parts[: end + 1]) for end in range(len(parts)))]
