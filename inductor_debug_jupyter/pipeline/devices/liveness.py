"""Liveness: which storages are alive while each node of a graph runs.

AOTAutograd's graphs are another program than the one that the user wrote: writes in place have become new tensors, ops
are decomposed, gradients have other formulas, and something else is saved. What eager keeps alive is known from
:class:`~inductor_debug_jupyter.pipeline.records.EagerRun`. Its steps are laid on the graph's nodes: a step belongs to
the node of the same op from the same line of the Dynamo graph, or else to the last node from there.

Without such a run, the graph itself is followed: views share a storage, a storage is alive from the node that makes it
to the last node that reads it or a view of it, what the graph returns to its end, and what it is given throughout.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from inductor_debug_jupyter.pipeline.devices import symbolic
from inductor_debug_jupyter.pipeline.records import CompileCapture, EagerRun, GraphRecord, LiveTensor, NodeRecord


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
        kept = graph.__dict__[_KEPT] = (capture, _liveness(graph, capture))
    return kept[1]


_KEPT = "_liveness"
"""Key in the graph's ``__dict__``: the liveness is cached beside the record's fields and never saved."""


def _liveness(graph: GraphRecord, capture: CompileCapture | None) -> Liveness:
    run, dynamo = (capture.eager, capture.graph("dynamo")) if capture is not None else (None, None)
    if run is None or run.failed or dynamo is None or graph.stage not in {"forward", "backward"}:
        return _of_graph(graph)
    if graph.stage == "backward" and len(run.steps) == run.forward:
        return _of_graph(graph)
    return _of_run(graph, dynamo, run)


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
