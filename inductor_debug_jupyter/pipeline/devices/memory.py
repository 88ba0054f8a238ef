"""Peak memory: the bytes alive at once while the program of a captured graph runs, and the two rules that limit them.

The figure is for the program as Dynamo captured it, run eagerly op by op, each tensor freed after its last use; for a
training step it is the larger of forward and backward. A symbolic size is taken as it was at capture (one that depends
on values, as its upper bound), and ``MemoryRecord.assumed`` lists these sizes. Not counted is what Python's own
variables hold longer than needed, and what an op allocates inside.

:class:`Liveness` is which storages are alive while each node of a graph runs. AOTAutograd's graphs are another program
than the one that the user wrote: writes in place have become new tensors, ops are decomposed, gradients have other
formulas, and something else is saved. What eager keeps alive is known from
:class:`~inductor_debug_jupyter.pipeline.records.EagerRun`. Its steps are laid on the graph's nodes: a step belongs to
the node of the same op from the same line of the Dynamo graph, or else to the last node from there.

Without such a run, the graph itself is followed: views share a storage, a storage is alive from the node that makes it
to the last node that reads it or a view of it, what the graph returns to its end, and what it is given throughout.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from inductor_debug_jupyter.pipeline.devices import symbolic
from inductor_debug_jupyter.pipeline.devices.alignment import innermost
from inductor_debug_jupyter.pipeline.devices.constraint import Constraint, Problem
from inductor_debug_jupyter.pipeline.devices.ops import REDUCTIONS, bare_name
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    EagerRun,
    GraphRecord,
    LiveTensor,
    MemoryRecord,
    NodeRecord,
    Note,
    Severity,
)


@dataclass
class Storage:
    """One storage: the first and the last step that it is alive, and whether it is the caller's."""

    tensor: LiveTensor
    first: int
    last: int
    is_given: bool = False


@dataclass
class Liveness:
    """The storages of a run, and the step of each node of the graph: that with the most alive, of those it stands for.

    ``unknown`` is a node whose size is not known; ``sizes`` are the numbers that stand for symbolic sizes.
    """

    sizes: dict[str, int]
    storages: list[Storage] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)
    unknown: NodeRecord | None = None

    def timeline(self) -> list[int]:
        """Bytes alive while each node runs."""
        line = alive_after_each(self.storages)
        return [line[step] for step in self.steps]

    def alive_at(self, position: int) -> tuple[LiveTensor, ...]:
        """What is alive while the node at that position runs, largest first."""
        step = self.steps[position]
        alive = [each for each in self.storages if each.tensor.bytes and each.first <= step <= each.last]
        return tuple(each.tensor for each in sorted(alive, key=lambda each: (-each.tensor.bytes, each.first)))


def alive_after_each(storages: list[Storage]) -> list[int]:
    """Bytes alive at each step."""
    change = [0] * (2 + max((each.last for each in storages), default=0))
    for each in storages:
        change[each.first] += each.tensor.bytes
        change[each.last + 1] -= each.tensor.bytes
    alive, line = 0, []
    for step in change:
        alive += step
        line.append(alive)
    return line


def liveness_of(graph: GraphRecord, capture: CompileCapture | None = None) -> Liveness:
    """The liveness of a graph, computed once; that of the eager program where the capture has it."""
    kept: tuple[CompileCapture | None, Liveness] | None = graph.__dict__.get(_KEPT)
    if kept is None or kept[0] is not capture:
        run, dynamo = (capture.eager, capture.graph("dynamo")) if capture is not None else (None, None)
        stages = ("forward", "backward") if run is not None and len(run.steps) > run.forward else ("forward",)
        if run is None or run.failed or dynamo is None or graph.stage not in stages:
            kept = (capture, _of_graph(graph))
        else:
            kept = (capture, _of_run(graph, dynamo, run))
        graph.__dict__[_KEPT] = kept
    return kept[1]


_KEPT = "_liveness"
"""Key in the graph's ``__dict__``: the liveness is cached beside the record's fields and never saved."""


# The eager program -------------------------------------------------------------------------------------------------


def _of_run(graph: GraphRecord, dynamo: GraphRecord, run: EagerRun) -> Liveness:
    steps = range(run.forward) if graph.stage == "forward" else range(run.forward, len(run.steps))
    places = _places(graph, run, steps)
    given = {(node.role, node.origin): node.name for node in graph.nodes if node.op == "placeholder"}
    storages = [
        Storage(
            _live(dynamo.node(each.node), each.node, each.bytes, each.spec, graph, places.get(each.first), given),
            each.first,
            each.last,
            is_given=each.first == 0,
        )
        for each in run.storages
    ]
    line = alive_after_each(storages)
    of_node: dict[int, list[int]] = {}
    for step, position in places.items():
        of_node.setdefault(position, []).append(step)
    found, latest = [], steps.start
    for position in range(len(graph.nodes)):
        mine = of_node.get(position, [latest])
        found.append(max(mine, key=line.__getitem__))
        latest = max(latest, *mine)
    return Liveness(symbolic.known_sizes(graph.hints, graph.symbols), storages, found)


def _places(graph: GraphRecord, run: EagerRun, steps: range) -> dict[int, int]:
    """Step → position of the node that it belongs to."""
    nodes: dict[str, list[int]] = {}
    same_op: dict[tuple[str, str], list[int]] = {}
    for position, node in enumerate(graph.nodes):
        for origin in node.origins[-1:]:
            nodes.setdefault(origin, []).append(position)
            same_op.setdefault((origin, node.composite or node.target), []).append(position)
    places: dict[int, int] = {}
    latest = next((position for position, node in enumerate(graph.nodes) if node.is_call), len(graph.nodes) - 1)
    for step in steps:
        if step:
            key = run.steps[step]
            equal = same_op.get(key, ())
            latest = equal.pop(0) if equal else nodes.get(key[0], [latest])[-1]
            places[step] = latest
    return places


def _live(
    written: NodeRecord | None,
    name: str,
    size: int,
    spec: str,
    graph: GraphRecord,
    place: int | None,
    given: dict[tuple[str, str], str],
) -> LiveTensor:
    """The tensor with the name of the graph's node that makes it, and the line of the Dynamo node."""
    if written is None:
        return LiveTensor(name, size, spec)
    name = graph.nodes[place].name if place is not None else given.get((written.role, written.origin), name)
    return LiveTensor(name, size, spec, written.role, written.origin, written.module_path, written.source, written.cell)


# The graph itself --------------------------------------------------------------------------------------------------


def _of_graph(graph: GraphRecord) -> Liveness:
    liveness = Liveness(symbolic.known_sizes(graph.hints, graph.symbols), steps=list(range(len(graph.nodes))))
    made: dict[int, Storage] = {}
    of: dict[str, list[Storage]] = {}
    for position, node in enumerate(graph.nodes):
        until = len(graph.nodes) if node.op == "output" else position
        of[node.name] = list(_storages_of(node, position, made, liveness))
        for each in (storage for name in node.inputs for storage in of.get(name, ())):
            each.last = max(each.last, until)
    liveness.storages = list(made.values())
    for each in liveness.storages:
        if each.is_given:
            each.last = len(graph.nodes)
    return liveness


def _storages_of(node: NodeRecord, position: int, made: dict[int, Storage], liveness: Liveness) -> Iterator[Storage]:
    for spec in node.outputs:
        if spec.storage < 0:
            continue
        if spec.storage not in made:
            size = symbolic.bytes_of(spec, liveness.sizes)
            if size is None:
                liveness.unknown = liveness.unknown or node
            tensor = LiveTensor(
                node.name, size or 0, str(spec), node.role, node.origin, node.module_path, node.source, node.cell
            )
            made[spec.storage] = Storage(tensor, position, position, is_given=not node.is_call)
        yield made[spec.storage]


DEFAULT_LIMIT = 16 * 1024**3


def size_text(size: int) -> str:
    """``17179869184`` → ``16 GiB``."""
    value = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024 or unit == "GiB":
            return f"{value:.0f} {unit}" if value == int(value) else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("the last unit always answers")


def memory_of(graph: GraphRecord, capture: CompileCapture | None = None) -> MemoryRecord | None:
    """Memory over time, the peak and the tensors alive there; None when a size is known only at run time.

    Args:
        graph: the graph.
        capture: the compile that it is part of, with the run of the eager program.
    """
    if not graph.nodes:
        return None
    liveness = liveness_of(graph, capture)
    if liveness.unknown is not None:
        return None
    line = liveness.timeline()
    peak = max(line)
    position = line.index(peak)
    inputs = sum(each.tensor.bytes for each in liveness.storages if each.is_given)
    return MemoryRecord(
        compile_id=capture.compile_id if capture is not None else "",
        stage=graph.stage,
        peak=peak,
        peak_node=graph.nodes[position].name,
        timeline=tuple(line),
        alive=liveness.alive_at(position),
        inputs=inputs,
        assumed=liveness.sizes or None,
    )


def memory_notes(captures: Iterable[CompileCapture]) -> Iterator[Note]:
    """Where the figures are not those of the eager program, or leave something out."""
    for capture in captures:
        run = capture.eager
        if run is None or "forward" not in capture.graphs:
            continue
        if run.failed:
            yield Note(
                MEMORY,
                f"{capture.compile_id}: the program could not be run without data ({run.failed}), so the peak is that "
                "of AOTAutograd's graphs, in which every write in place is a new tensor and ops may be decomposed",
            )
        for op in sorted(_WITH_WORKSPACE & {op for _, op in run.steps}):
            yield Note(MEMORY, f"{capture.compile_id}: the peak is without what {op} saves for its backward: {_SIZE}")


MEMORY = "memory"
"""``Note.part`` of the notes on memory."""
_SIZE = "its size is known only to the library that computes it"
_WITH_WORKSPACE = frozenset({"aten.mkldnn_rnn_layer.default"})
"""Ops for which torch's fake tensors have a workspace of no size."""


class MemoryConstraint(Constraint):
    """No tensor, and not the peak of a graph, may need more than ``max_memory_bytes``.

    Args:
        max_memory_bytes: for each tensor and for the peak; None when only the others are limited.
        tensor: for each tensor alone.
        peak: for the peak alone.
    """

    rule_id = "memory.limit"

    def __init__(
        self, max_memory_bytes: int | None = DEFAULT_LIMIT, *, tensor: int | None = None, peak: int | None = None
    ) -> None:
        for name, value in (("max_memory_bytes", max_memory_bytes), ("tensor", tensor), ("peak", peak)):
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise OptionError(f"{name}: {value!r} is not allowed; allowed: a whole number of bytes from 1 up")
        self.max_memory_bytes = max_memory_bytes
        self._tensor = tensor or max_memory_bytes
        self._peak = peak or max_memory_bytes

    def check(self, graph: GraphRecord, capture: CompileCapture | None = None) -> Iterator[Problem]:
        """Each tensor over the limit, and the peak; an unknown peak is a warning. ``capture``: see ``memory_of``."""
        if self._tensor is not None:
            yield from self._tensors(graph, self._tensor)
        if self._peak is None:
            return
        if (unknown := liveness_of(graph, capture).unknown) is not None:
            yield Problem(  # not known must not look like a pass
                unknown.name,
                f"the peak of the {graph.stage} graph is not known",
                observed=str(unknown.tensor or unknown.name),
                allowed="sizes that do not depend on values",
                explanation="A size is known only when the graph runs, so the peak was not checked.",
                hints=("bound the size with torch._check, or move this part out of the compiled function",),
                severity="warning",
                is_unknown=True,
            )
        elif (record := memory_of(graph, capture)) is not None and record.peak > self._peak:
            limit = size_text(self._peak)
            largest = ", ".join(f"{each.origin or each.node} {size_text(each.bytes)}" for each in record.alive[:3])
            yield Problem(
                record.peak_node,
                f"the {graph.stage} graph needs {size_text(record.peak)} at its peak, over the limit of {limit}"
                f"{_assuming(graph)}",
                observed=size_text(record.peak),
                allowed=f"at most {limit} at once",
                explanation="Parameters, inputs and all that is alive at this node do not fit at once; "
                f"the largest are {largest}.",
                hints=("use a smaller batch, checkpoint activations, or free tensors earlier",),
                evidence=f"alive() > {self._peak}",
            )

    def _tensors(self, graph: GraphRecord, most: int) -> Iterator[Problem]:
        limit, known = size_text(most), symbolic.known_sizes(graph.hints, graph.symbols)
        for node in graph.nodes:
            for spec in node.outputs:
                size = symbolic.dense_bytes(spec, known)
                if size is not None and size > most:
                    yield Problem(
                        node.name,
                        f"a tensor of {size_text(size)} is over the limit of {limit}"
                        f"{_assuming(graph) if spec.nbytes is None else ''}",
                        observed=f"{spec}: {size_text(size)}",
                        allowed=f"at most {limit} a tensor",
                        explanation="One tensor alone does not fit into the target's memory.",
                        hints=("use a smaller batch or sequence, a narrower dtype, or split the tensor",),
                        evidence=f"any(t.nbytes > {most} for t in tensors)",
                    )


def _assuming(graph: GraphRecord) -> str:
    sizes = symbolic.known_sizes(graph.hints, graph.symbols)
    return f" when {', '.join(f'{name} = {value}' for name, value in sizes.items())}" if sizes else ""


class ScratchpadConstraint(Constraint):
    """One row of a reduction's operand must fit into the target's scratchpad, because a tile holds whole rows."""

    rule_id = "memory.scratchpad"

    severity: Severity = "warning"

    def __init__(self, scratchpad: int) -> None:
        self.scratchpad = scratchpad

    def check_node(self, node: NodeRecord, graph: GraphRecord) -> Problem | None:
        """The problem of a reduction whose rows do not fit."""
        if bare_name(node.composite or node.target) not in REDUCTIONS:
            return None
        for name in node.inputs:
            made = graph.by_name.get(name)
            spec = made.tensor if made else None
            if spec is None or (inner := innermost(spec)) is None:
                continue
            length = symbolic.evaluate(spec.shape[inner], graph.hints)
            if length is not None and length * spec.itemsize > self.scratchpad:
                size = length * spec.itemsize
                return Problem(
                    node.name,
                    f"a row of {size_text(size)} is over the scratchpad of {size_text(self.scratchpad)}",
                    observed=f"{spec}: {size_text(size)} a row",
                    allowed=f"rows of at most {size_text(self.scratchpad)}",
                    explanation="The target reduces a row in its scratchpad; a longer one takes several passes.",
                    hints=("split the dimension, reduce the parts, then reduce their results",),
                    evidence=f"any(t.dim() and t.shape[-1] * t.element_size() > {self.scratchpad} for t in tensors)",
                )
        return None
