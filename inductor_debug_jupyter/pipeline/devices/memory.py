"""Peak memory: the bytes alive at once while the program of a captured graph runs, and the two rules that limit them.

The figure is for the program as Dynamo captured it, run eagerly op by op, each tensor freed after its last use; for a
training step it is the larger of forward and backward (see
:mod:`~inductor_debug_jupyter.pipeline.devices.liveness`). A symbolic size is taken as it was at capture (one that
depends on values, as its upper bound), and ``MemoryRecord.assumed`` lists these sizes. Not counted is what Python's
own variables hold longer than needed, and what an op allocates inside.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from inductor_debug_jupyter.pipeline.devices import symbolic
from inductor_debug_jupyter.pipeline.devices.alignment import innermost
from inductor_debug_jupyter.pipeline.devices.constraint import Constraint, Problem
from inductor_debug_jupyter.pipeline.devices.liveness import liveness_of
from inductor_debug_jupyter.pipeline.devices.ops import REDUCTIONS, bare_name
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    GraphRecord,
    LiveTensor,
    MemoryRecord,
    NodeRecord,
    Note,
    Severity,
)

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


def alive_at(graph: GraphRecord, position: int, capture: CompileCapture | None = None) -> tuple[LiveTensor, ...]:
    """The tensors alive while the node at that position runs, largest first."""
    return liveness_of(graph, capture).alive_at(position)


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
            yield _not_known(graph, unknown)
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


def _not_known(graph: GraphRecord, unknown: NodeRecord) -> Problem:
    """The problem of a size that depends on values: the peak is unknown, which must not look like a pass."""
    return Problem(
        unknown.name,
        f"the peak of the {graph.stage} graph is not known",
        observed=str(unknown.tensor or unknown.name),
        allowed="sizes that do not depend on values",
        explanation="A size is known only when the graph runs, so the peak was not checked.",
        hints=("bound the size with torch._check, or move this part out of the compiled function",),
        severity="warning",
    )


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
