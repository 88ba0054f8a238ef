"""The rule about the order in which a tensor's elements lie in memory.

- ``contiguous``: row by row, as torch makes them;
- ``channels_last``: images with their channels innermost;
- ``tile``: blocks of ``tile = [rows, columns]`` elements, a stick being a tile of one row. Strides cannot prove a
  tiled layout, but they can rule it out: the innermost dimension must be dense, and rows that are whole tiles long must
  also start on a tile's border.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.devices.alignment import op_names
from inductor_debug_jupyter.pipeline.devices.constraint import Constraint, Problem
from inductor_debug_jupyter.pipeline.devices.ops import MATMULS, VIEWS, bare_name
from inductor_debug_jupyter.pipeline.records import GraphRecord, Severity, TensorSpec

FORMATS = ("contiguous", "channels_last", "tile")


@dataclass(frozen=True)
class LayoutRule:
    """One ``[[layout]]`` table of a profile.

    Args:
        format: one of :data:`FORMATS`.
        tile: rows and columns of a tile, for ``tile``.
        ops: only these ops (bare names or ``@convolution``); empty for all, of ``channels_last`` for convolutions.
        severity: how bad it is.
    """

    format: str = "contiguous"
    tile: tuple[int, ...] = ()
    ops: tuple[str, ...] = ()
    severity: Severity = "error"


class LayoutConstraint(Constraint):
    """Computing ops must read tensors of one layout; ``contiguous`` by default.

    A matmul may read transposed operands (every matrix unit can), and dimensions of size 1 have no layout. The result
    of a computing op is not reported where the next op reads it: it has the layout of the operands, which are.
    """

    rule_id = "layout.not_contiguous"

    def __init__(self, severity: Severity = "error", *, rule: LayoutRule | None = None) -> None:
        self.severity = rule.severity if rule else severity
        self._rule = rule or LayoutRule(severity=severity)
        if self._rule.format != "contiguous":
            self.rule_id = f"layout.not_{self._rule.format}"
        ops = self._rule.ops or (("@convolution",) if self._rule.format == "channels_last" else ())
        self._ops = op_names(ops)

    def check(self, graph: GraphRecord) -> Iterator[Problem]:
        """Each computing op that reads a tensor of another layout; the first such operand is reported."""
        misplaced: dict[str, TensorSpec | None] = {}  # looked at once, however often a node is read
        for node in graph.calls:
            name = bare_name(node.target)
            if name in VIEWS or node.name in graph.interior or (self._ops is not None and name not in self._ops):
                continue
            for operand in node.inputs:
                if operand not in misplaced:
                    misplaced[operand] = self._misplaced(operand, graph)
                spec = misplaced[operand]
                if spec is not None and not (name in MATMULS and is_transposed_matrix(spec)):
                    yield self._problem(node.name, name, spec)
                    break

    def _misplaced(self, name: str, graph: GraphRecord) -> TensorSpec | None:
        """The tensor of an input or view whose layout the rule does not allow, else None."""
        made = graph.by_name.get(name)
        if made is None or (spec := made.tensor) is None or name in graph.interior:
            return None
        is_computed = made.is_call and bare_name(made.target) not in VIEWS
        return None if is_computed or self._fits(spec) else spec

    def _fits(self, spec: TensorSpec) -> bool:
        if self._rule.format == "channels_last":
            is_image = len(spec.shape) == 4  # whose second dimension has to be innermost
            return not is_image or (spec.stride is not None and is_contiguous(_reordered(spec, (0, 2, 3, 1))))
        if self._rule.format == "tile":
            return lies_on_tiles(spec, self._rule.tile)
        return is_contiguous(spec)

    def _problem(self, node: str, name: str, spec: TensorSpec) -> Problem:
        tile, columns = " × ".join(map(str, self._rule.tile)), self._rule.tile[-1:]
        is_laid_out = "t.is_contiguous()"
        if self._rule.format == "channels_last":
            title = "an image that is not channels_last"
            allowed = "channels innermost: x.to(memory_format=torch.channels_last)"
            why = "The target convolves over channels that lie next to each other; another order is copied."
            hint = "convert the model and its input once: .to(memory_format=torch.channels_last)"
            is_laid_out = "(t.dim() != 4 or t.is_contiguous(memory_format=torch.channels_last))"
        elif self._rule.format == "tile":
            title = f"rows that do not lie on tiles of {tile}"
            allowed = f"dense rows that start at multiples of {columns[0]} elements"
            why = f"The target loads tiles of {tile}; rows that start inside one need a copy first."
            hint = "call .contiguous() before this line, or slice at multiples of the tile"
        else:
            title = "a tensor that is not contiguous"
            allowed = f"strides {list(dense_strides(spec.shape) or ())}"
            why = "The target reads tensors row by row; another order needs a copy first."
            hint = "call .contiguous() before this line, or reorder the dimensions once, earlier"
        return Problem(
            node,
            f"{name} reads {title}",
            observed=f"{spec} with strides {list(spec.stride or ())}",
            cause=f"{name} {self._rule.format}",
            allowed=allowed,
            explanation=why,
            hints=(hint,),
            evidence=f"bare(op) == {name!r} and any(not {is_laid_out} for t in tensors)",
        )


def dense_strides(shape: tuple[int | str, ...]) -> tuple[int, ...] | None:
    """The strides of a contiguous tensor, or None when a size is symbolic."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        if isinstance(size, str):
            return None
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def is_contiguous(spec: TensorSpec) -> bool:
    """Whether a tensor's elements lie in row order.

    Dimensions of size 1 and broadcast ones (stride 0) have no order; symbolic sizes are judged by their last stride.
    """
    if spec.stride is None:
        return False
    if 0 in spec.shape:
        return True
    kept = _extent(spec)
    dense = dense_strides(tuple(size for size, _ in kept))
    if dense is None:
        return bool(not kept or kept[-1][1] == 1)
    return all(step == want for (_, step), want in zip(kept, dense, strict=True))


def is_transposed_matrix(spec: TensorSpec) -> bool:
    """Whether swapping the last two dimensions makes the tensor contiguous."""
    if spec.stride is None or len(spec.shape) < 2:
        return False
    return is_contiguous(_reordered(spec, (*range(len(spec.shape) - 2), len(spec.shape) - 1, len(spec.shape) - 2)))


def lies_on_tiles(spec: TensorSpec, tile: tuple[int, ...]) -> bool:
    """Whether rows are dense and, where they are whole tiles long, start on a tile's border.

    Rows of another length are reported by the alignment rule.
    """
    if spec.stride is None:
        return False
    kept = _extent(spec)
    if not kept:
        return True
    inner = next((pair for pair in reversed(kept) if pair[1] == 1), None)
    if inner is None:
        return False
    columns = tile[-1]
    if isinstance(inner[0], str) or inner[0] % columns:
        return True
    return all(not isinstance(step, int) or step % columns == 0 for size, step in kept if (size, step) != inner)


def _extent(spec: TensorSpec) -> list[tuple[int | str, int | str]]:
    """Size and stride of the dimensions that have an order in memory."""
    steps = spec.stride or ()
    return [(size, step) for size, step in zip(spec.shape, steps, strict=True) if size != 1 and step != 0]


def _reordered(spec: TensorSpec, order: tuple[int, ...]) -> TensorSpec:
    steps = spec.stride or ()
    return TensorSpec(tuple(spec.shape[i] for i in order), spec.dtype, tuple(steps[i] for i in order))
