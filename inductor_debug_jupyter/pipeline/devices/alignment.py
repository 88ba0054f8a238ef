"""The alignment rule: sizes that must be multiples of a number of elements or bytes.

A rule says for which ops, operands and dimensions it holds. Dimensions are named by their place in memory and not by
their number, because a weight is read transposed in the forward and not in the backward:

- ``innermost``: the dimension whose elements lie next to each other (sticks run along it);
- ``rows``: the other one of the last two, which a tile also covers;
- ``channels``: the second dimension of an activation, the first two of a convolution's weight;
- ``feature``: all but batch dimensions; ``all``: all.

A batch dimension carries independent rows: no hardware needs it aligned, and only ``all`` includes it. Parameters have
none; of an activation it is the leading dimension and, after a transpose, the dimension that has a batch's size. So
``nn.Linear(784, 512)`` on 64-element sticks is one problem (784), whatever the batch, forward and backward.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.devices import symbolic
from inductor_debug_jupyter.pipeline.devices.constraint import Constraint, Problem
from inductor_debug_jupyter.pipeline.devices.dtypes import item_size
from inductor_debug_jupyter.pipeline.devices.ops import CONVOLUTIONS, MATMULS, OP_GROUPS, VIEWS, bare_name
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord, Severity, TensorSpec, Violation

DIMS = ("feature", "innermost", "rows", "channels", "all")
OPERANDS = ("input", "weight", "bias", "output")
_RULE_IDS = {"innermost": "align.innermost", "rows": "align.rows", "channels": "align.channels"}
_POSITIONS: dict[str, tuple[str, ...]] = {
    "addmm": ("bias", "input", "weight"),
    "baddbmm": ("bias", "input", "weight"),
    "addbmm": ("bias", "input", "weight"),
    "convolution_backward": ("input", "input", "weight"),
}
_USUAL_POSITIONS = ("input", "weight", "bias")


@dataclass(frozen=True)
class AlignmentRule:
    """One ``[[alignment]]`` table of a profile.

    Args:
        multiple: in elements; or None when ``bytes`` says it.
        bytes: in bytes, so that the number of elements depends on the dtype that the target keeps the tensor in.
        dims: one of :data:`DIMS`.
        ops: only these ops (bare names or ``@matmul``); empty for all.
        not_ops: but not these.
        operands: only these of :data:`OPERANDS`; empty for all.
        dtypes: only tensors of these dtypes; empty for all.
        unit: what the target calls one multiple (``stick``), for the message.
        severity: how bad it is.
    """

    multiple: int | None = None
    bytes: int | None = None
    dims: str = "feature"
    ops: tuple[str, ...] = ()
    not_ops: tuple[str, ...] = ()
    operands: tuple[str, ...] = ()
    dtypes: tuple[str, ...] = ()
    unit: str = ""
    severity: Severity = "error"

    def kept_as(self, dtype: str, narrow: Mapping[str, str]) -> str | None:
        """The dtype that the target keeps a tensor in; None when the rule does not hold for it.

        A float that the rule does not name has to become one that it names, so that one's multiple holds.
        """
        if not self.dtypes or dtype in self.dtypes:
            return narrow.get(dtype, dtype)
        floats = [name for name in self.dtypes if "float" in name]
        return narrow.get(floats[0], floats[0]) if floats and "float" in dtype else None

    def elements(self, dtype: str, narrow: Mapping[str, str]) -> int:
        """The multiple in elements for a tensor of that dtype; 1 when the rule does not hold for it."""
        kept = self.kept_as(dtype, narrow)
        if kept is None:
            return 1
        return self.multiple or 1 if self.bytes is None else max(1, self.bytes // item_size(kept))


class AlignmentConstraint(Constraint):
    """Every size for which the rule holds must be a multiple.

    Args:
        rule: the multiple, and where it holds.
        narrow: dtypes that the target keeps in another one (``float32`` as ``float16``).
    """

    rule_id = "align.size"

    def __init__(self, rule: AlignmentRule, narrow: Mapping[str, str] | None = None) -> None:
        if rule.dims in _RULE_IDS:
            self.rule_id = _RULE_IDS[rule.dims]
        if rule.severity != self.severity:
            self.severity = rule.severity
        self._rule = rule
        self._narrow = dict(narrow or {})
        self._ops = op_names(rule.ops)
        self._not_ops = op_names(rule.not_ops) or frozenset()

    @property
    def is_about_products_only(self) -> bool:
        """Whether only matmuls and convolutions must be aligned, so that tensors between them may have any size."""
        return self._ops is not None and self._ops <= MATMULS | CONVOLUTIONS

    def check(self, graph: GraphRecord) -> Iterator[Problem]:
        """Each distinct size, at each computing op that reads or makes it."""
        if "_batch_sizes" not in graph.__dict__:  # kept beside the record's fields
            graph.__dict__["_batch_sizes"] = BatchSizes(graph)
        batch: BatchSizes = graph.__dict__["_batch_sizes"]
        bad_sizes = functools.cache(lambda name: self._bad_sizes(name, graph, batch))  # several nodes read the same one
        for node in graph.calls:
            name = bare_name(node.target)
            if name in VIEWS or node.name in graph.interior or not self._holds_for(name):
                continue
            bad = [each for operand in self._covered(node, name) for each in bad_sizes(operand)]
            if name.startswith("_scaled_dot_product"):  # its other results are one number a row, saved for the backward
                bad = [each for each in bad if len(each[1].shape) == 4]
            first = dict(reversed(bad))  # size → the first tensor that has it
            yield from (
                self._problem(node, size, first[size], graph) for size in dict.fromkeys(size for size, _ in bad)
            )

    def _holds_for(self, name: str) -> bool:
        return name not in self._not_ops and (self._ops is None or name in self._ops)

    def _covered(self, node: NodeRecord, name: str) -> Iterable[str]:
        """The operands and the result of an op for which the rule holds."""
        wanted = self._rule.operands
        if not wanted:
            return (*node.inputs, node.name)
        roles = _POSITIONS.get(name, _USUAL_POSITIONS if name in MATMULS | CONVOLUTIONS else ())
        covered = [
            operand
            for position, operand in enumerate(node.inputs)
            if (roles[position] if position < len(roles) else "input") in wanted
        ]
        return [*covered, node.name] if "output" in wanted else covered

    def _bad_sizes(self, name: str, graph: GraphRecord, batch: BatchSizes) -> list[tuple[int | str, TensorSpec]]:
        """The sizes of a node that are not certain to be a multiple, each with its tensor."""
        bad: list[tuple[int | str, TensorSpec]] = []
        if name in graph.interior:
            return bad
        node, rule = graph.by_name[name], self._rule
        for spec in node.outputs:
            multiple = rule.elements(spec.dtype, self._narrow)
            for position in _positions(spec, rule.dims, node.name in batch.weights) if multiple > 1 else ():
                size = spec.shape[position]
                if symbolic.factor(size) % multiple == 0:
                    continue
                if rule.dims == "all" or not batch.is_batch(node, spec, position):
                    bad.append((size, spec))
        return bad

    def _problem(self, node: NodeRecord, size: int | str, spec: TensorSpec, graph: GraphRecord) -> Problem:
        multiple = self._rule.elements(spec.dtype, self._narrow)
        if isinstance(size, str):
            return self._condition(node, size, spec, graph, multiple)
        above = math.ceil(size / multiple) * multiple
        below = above - multiple
        fits = f"{below} or {above}" if below else str(above)
        image = len(spec.shape) == 4 and self._rule.dims == "innermost"
        return Problem(
            node.name,
            f"{size} is not a multiple of {multiple}",
            observed=f"{size}{_in_units(size, multiple, self._rule.unit)}",
            allowed=f"multiples of {multiple}, such as {fits}",
            explanation=self._why(multiple, spec.dtype),
            hints=(
                f"pad {size} to {above} (+{(above - size) / size:.0%}), or choose {fits} in the model",
                *(("of an image: make channels innermost, .to(memory_format=torch.channels_last)",) if image else ()),
            ),
            evidence=f"any({size} in t.shape for t in tensors) and {size} % {multiple} != 0",
        )

    def _why(self, multiple: int, dtype: str) -> str:
        unit = self._rule.unit or "block"
        if self._rule.bytes is None:
            return f"The target lays tensors out in {unit}s of {multiple} elements."
        kept = self._rule.kept_as(dtype, self._narrow)
        as_ = f" (as which {dtype} is kept)" if kept != dtype else ""
        return (
            f"The target lays tensors out in {unit}s of {self._rule.bytes} bytes: {multiple} elements of {kept}{as_}."
        )

    def _condition(self, node: NodeRecord, size: str, spec: TensorSpec, graph: GraphRecord, multiple: int) -> Problem:
        written = size if size.isidentifier() else f"({size})"
        known = [f"; {name} in {graph.symbols[name]}" for name in symbolic.symbols_in(size) if name in graph.symbols]
        never = symbolic.never_reaches(size, multiple, graph.symbols)
        value = symbolic.evaluate(size, graph.hints)
        was = f"; it was {value} here" if value is not None and value % multiple else ""
        return Problem(
            node.name,
            f"{'never fits: needs' if never else 'fits only when'} {written} % {multiple} == 0{''.join(known)}{was}",
            observed=size,
            allowed=f"multiples of {multiple}",
            explanation=f"The size is symbolic: whether the target takes it depends on the input. "
            f"{self._why(multiple, spec.dtype)}",
            hints=(f"pad the input so that {size} is a multiple of {multiple}",),
            severity=self._rule.severity if never or was else "warning",
            is_unknown=value is None and not never,
            evidence=f"any(size % {multiple} for t in tensors for size in t.shape)",
        )


class ShapeConstraint(AlignmentConstraint):
    """Every size must be a multiple of ``alignment``.

    Args:
        alignment: the multiple, in elements.
        dims: which dimensions that holds for, one of :data:`DIMS`.
        unit: what the target calls one multiple (``stick``), for the message.
    """

    def __init__(self, alignment: int = 1, dims: str = "feature", unit: str = "") -> None:
        if not isinstance(alignment, int) or isinstance(alignment, bool) or alignment < 1:
            raise OptionError(f"alignment: {alignment!r} is not allowed; allowed: a whole number from 1 up, such as 64")
        if dims not in DIMS:
            raise OptionError(f"dims: {dims!r} is not allowed; allowed: {', '.join(DIMS)}")
        super().__init__(AlignmentRule(multiple=alignment, dims=dims, unit=unit))
        self.alignment = alignment
        self.dims = dims
        self.unit = unit


def misaligned(violation: Violation) -> tuple[int, int] | None:
    """The misaligned size of a finding and the next multiple; None where the size is symbolic.

    Both numbers are parsed from ``observed`` and ``allowed``, as :meth:`AlignmentConstraint._problem` writes them.
    """
    size, multiple = re.match(r"(\d+)(?: |$)", violation.observed), re.match(r"multiples of (\d+)", violation.allowed)
    if size is None or multiple is None:
        return None
    at, step = int(size[1]), int(multiple[1])
    return at, math.ceil(at / step) * step


def _in_units(size: int, multiple: int, unit: str) -> str:
    """A size in the target's units as people say it: `` (less than one stick)``, `` (12.25 sticks)``."""
    if not unit:
        return ""
    if size < multiple:
        return f" (less than one {unit})"
    rounded = f"{size / multiple:.2f}".rstrip("0")
    return f" ({'about ' if rounded.endswith('.') else ''}{rounded.rstrip('.')} {unit}s)"


def op_names(ops: tuple[str, ...]) -> frozenset[str] | None:
    """The bare names that a list of ops and groups stands for; None for all ops."""
    if not ops:
        return None
    names: set[str] = set()
    for op in ops:
        names |= OP_GROUPS[op[1:]] if op.startswith("@") else {bare_name(op)}
    return frozenset(names)


def _positions(spec: TensorSpec, dims: str, is_weight: bool) -> Iterable[int]:
    """The dimensions of a tensor for which a rule holds."""
    rank = len(spec.shape)
    if dims in {"feature", "all"}:
        return range(rank)
    if dims == "channels":  # of an image, or of a convolution's weight
        positions = () if rank < 3 else (0, 1) if is_weight else (1,)
        return [position for position in positions if spec.shape[position] != 1]
    inner = innermost(spec)
    if inner is None:
        return ()
    if dims == "innermost":
        return (inner,)
    if rank < 2:
        return ()
    return (rank - 1,) if inner != rank - 1 else (rank - 2,)


def innermost(spec: TensorSpec) -> int | None:
    """The dimension whose elements lie next to each other in memory.

    None for a single element, and for one number a row (a mean, a maximum), which fills no unit of memory.
    """
    return _innermost(spec.shape, spec.stride)


@functools.lru_cache(maxsize=4096)
def _innermost(shape: tuple[int | str, ...], stride: tuple[int | str, ...] | None) -> int | None:
    if len(shape) > 1 and shape[-1] == 1:
        return None
    if stride is None:
        return len(shape) - 1 if shape else None
    kept = [(at, step) for at, (size, step) in enumerate(zip(shape, stride, strict=True)) if size != 1 and step != 0]
    if not kept:
        return None
    for position, step in reversed(kept):
        if step == 1:
            return position
    known = [(step, position) for position, step in kept if isinstance(step, int)]
    return min(known)[1] if known else kept[-1][0]


class BatchSizes:
    """Tells batch dimensions from feature dimensions."""

    def __init__(self, graph: GraphRecord) -> None:
        self.weights = _weight_like(graph)
        self._sizes: set[int | str] = set()
        self._symbols: set[str] = set()
        for node in graph.nodes:
            if node.op == "placeholder" and node.role in {"input", "tangent", "saved", ""}:
                for spec in node.outputs:
                    self._sizes.update(_leading_products(spec))
        for size in self._sizes:
            self._symbols.update(symbolic.symbols_in(size))

    def is_batch(self, node: NodeRecord, spec: TensorSpec, position: int) -> bool:
        """Whether this dimension of this tensor carries independent rows (or nothing: size 1)."""
        if node.name in self.weights:
            return False
        size = spec.shape[position]
        if size == 1 or (position == 0 and len(spec.shape) > 1):
            return True
        was_moved = len(spec.shape) == 1 or spec.stride is None or spec.stride[-1] != 1
        symbols = symbolic.symbols_in(size)
        return was_moved and (size in self._sizes or (bool(symbols) and self._symbols.issuperset(symbols)))


def _leading_products(spec: TensorSpec) -> Iterator[int | str]:
    """The sizes that a batch can have after a reshape: the leading size, and its products with those that follow."""
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
        if node.op in {"placeholder", "get_attr"}:
            if node.op == "get_attr" or node.role in {"parameter", "buffer"}:
                weights.add(node.name)
        elif node.inputs and node.inputs[0] in weights and bare_name(node.target) in VIEWS:
            weights.add(node.name)
    return weights
