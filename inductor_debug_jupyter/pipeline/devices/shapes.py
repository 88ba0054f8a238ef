"""Sizes that must be multiples of something.

A dimension that an op treats as batch carries independent rows: no hardware needs it aligned. Which one that is
depends on the tensor: parameters have none; of an activation it is the leading dimension, and, after a transpose, the
dimension that has a batch's size. So ``nn.Linear(784, 512)`` on 64-element sticks is one problem (784), whatever the
batch.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from inductor_debug_jupyter.pipeline.devices.constraint import Constraint, Problem, operands
from inductor_debug_jupyter.pipeline.devices.ops import bare_name
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord, TensorSpec

VIEWS = frozenset(
    [
        "view",
        "reshape",
        "_unsafe_view",
        "permute",
        "t",
        "transpose",
        "expand",
        "unsqueeze",
        "squeeze",
        "slice",
        "select",
        "getitem",
        "detach",
        "alias",
        "as_strided",
        "split",
        "split_with_sizes",
        "chunk",
        "clone",
        "contiguous",
        "lift_fresh_copy",
        "flatten",
        "unflatten",
        "view_as",
        "size",
        "sym_size",
        "narrow",
        "unbind",
    ]
)
"""Ops that only look at their input another way, or copy it."""

DIMS = ("feature", "innermost", "all")


class ShapeConstraint(Constraint):
    """Every size must be a multiple of ``alignment``.

    Args:
        alignment: the multiple, in elements.
        dims: ``feature`` (all dimensions but batch ones), ``innermost`` (only the last), or ``all``.
        unit: what the target calls one multiple (``stick``), for the message.
    """

    rule_id = "align.size"

    def __init__(self, alignment: int = 1, dims: str = "feature", unit: str = "") -> None:
        if not isinstance(alignment, int) or isinstance(alignment, bool) or alignment < 1:
            raise OptionError(f"alignment: {alignment!r} is not allowed; allowed: a whole number from 1 up, such as 64")
        if dims not in DIMS:
            raise OptionError(f"dims: {dims!r} is not allowed; allowed: {', '.join(DIMS)}")
        self.alignment = alignment
        self.dims = dims
        self.unit = unit
        if dims == "innermost":
            self.rule_id = "align.innermost"

    def check(self, graph: GraphRecord) -> Iterator[Problem]:
        """Each distinct size, at each computing op that reads or makes it."""
        if self.alignment == 1:
            return
        batch = _BatchSizes(graph)
        for node in graph.calls:
            if bare_name(node.target) in VIEWS:
                continue
            sizes: dict[int | str, TensorSpec] = {}
            for each in (*operands(node, graph), node):
                for spec in each.outputs:
                    for size in self._demanded(spec, each, batch):
                        sizes.setdefault(size, spec)
            for size, spec in sizes.items():
                if (problem := self._problem(node, size, spec, graph)) is not None:
                    yield problem

    def _demanded(self, spec: TensorSpec, node: NodeRecord, batch: _BatchSizes) -> Iterator[int | str]:
        rank = len(spec.shape)
        for position, size in enumerate(spec.shape):
            if self.dims == "innermost" and position != rank - 1:
                continue
            if self.dims != "all" and batch.is_batch(node, spec, position):
                continue
            yield size

    def _problem(self, node: NodeRecord, size: int | str, spec: TensorSpec, graph: GraphRecord) -> Problem | None:
        if isinstance(size, str):
            condition = f"{size} % {self.alignment} == 0"
            known = "; ".join(f"{name} in {graph.symbols[name]}" for name in graph.symbols if name in size)
            return Problem(
                node.name,
                f"fits only when {condition}",
                observed=f"{spec}, {known}" if known else str(spec),
                allowed=f"multiples of {self.alignment}",
                explanation="The size is symbolic: whether the target takes it depends on the input.",
                hints=(f"pad the input so that {size} is a multiple of {self.alignment}",),
                severity="warning",
                evidence=f"any(size % {self.alignment} for t in tensors for size in t.shape)",
            )
        if size % self.alignment == 0:
            return None
        above = math.ceil(size / self.alignment) * self.alignment
        below = above - self.alignment
        parts = f" ({size / self.alignment:g} {self.unit}s)" if self.unit else ""
        fits = f"{below} or {above}" if below else str(above)
        return Problem(
            node.name,
            f"{size} is not a multiple of {self.alignment}",
            observed=f"{size}{parts}",
            allowed=f"multiples of {self.alignment}, such as {fits}",
            explanation=f"The target lays tensors out in {self.unit or 'block'}s of {self.alignment} elements.",
            hints=(f"pad {size} to {above} (+{(above - size) / size:.0%}), or choose {fits} in the model",),
            evidence=f"any({size} in t.shape for t in tensors) and {size} % {self.alignment} != 0",
        )


class _BatchSizes:
    """Tells a batch dimension from one that carries features."""

    def __init__(self, graph: GraphRecord) -> None:
        self._weights = _weight_like(graph)
        self._sizes: set[int | str] = set()
        for node in graph.nodes:
            if node.op == "placeholder" and node.role in {"input", "tangent", "saved", ""}:
                for spec in node.outputs:
                    self._sizes.update(_leading_products(spec))

    def is_batch(self, node: NodeRecord, spec: TensorSpec, position: int) -> bool:
        """Whether this dimension of this tensor carries independent rows (or nothing: size 1)."""
        if node.name in self._weights:
            return False
        size = spec.shape[position]
        if size == 1 or (position == 0 and len(spec.shape) > 1):
            return True
        was_moved = len(spec.shape) == 1 or spec.stride is None or spec.stride[-1] != 1
        return was_moved and size in self._sizes


def _leading_products(spec: TensorSpec) -> Iterator[int | str]:
    """Sizes that a batch can show up with: the leading size, and products of it with the ones that follow."""
    if len(spec.shape) < 2:
        yield from spec.shape
        return
    product = 1
    for size in spec.shape[:-1]:
        if isinstance(size, str):
            yield size
            return
        product *= size
        yield product


def _weight_like(graph: GraphRecord) -> set[str]:
    """Parameters, buffers, and views of them."""
    weights: set[str] = set()
    for node in graph.nodes:
        is_weight = node.role in {"parameter", "buffer"} or node.op == "get_attr"
        is_view = node.is_call and bare_name(node.target) in VIEWS and bool(node.inputs)
        if is_weight or (is_view and all(name in weights for name in node.inputs)):
            weights.add(node.name)
    return weights
