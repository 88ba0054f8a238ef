"""Kernels: the spec that each obeys, and its arithmetic once its operands are in registers.

A spec is the JSON that the device's compiler writes for one kernel. It states the op, each operand with its layout and
the range that is read, each result with the range that is written, the type of running sums, and the part of each core.
The kernel takes its ranges from its spec, so a fault of code generation can be seen in the spec.

Torch's own aten ops run on the registers. Some ops have a kernel of their own, because their arithmetic can be set or
be faulty: those that keep a running sum (its dtype is the device's accumulation type), equality, and ``as_strided``,
which may reach beyond its operand.

A running sum is taken stick by stick: the products of 64 elements are added at once, as an array of multipliers with
an adder tree does, and the sum over the sticks is rounded to the accumulation type after each.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters.stick.faults import COPIES, EQUALITIES, Fault
from inductor_debug_jupyter.pipeline.adapters.stick.memory import ACCUMULATIONS, StickLayout
from inductor_debug_jupyter.pipeline.devices.ops import bare_name
from inductor_debug_jupyter.pipeline.errors import RefusedError
from inductor_debug_jupyter.pipeline.torch_compat.trees import of_kind

UNWRITTEN = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")
"""Ops that only allocate: nothing is written, so a kernel that reads the result gets poison."""

_CHUNK = 64

Compute = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """How a device computes: the dtype of its running sums, and the faults that it has."""

    accumulate: str = "float32"
    faults: tuple[Fault, ...] = ()

    def fault(self, name: str, op: str) -> Fault | None:
        """The fault of that name, if there is one on that op."""
        return next((fault for fault in self.faults if fault.name == name and fault.is_on(op)), None)

    def accumulation(self, op: str) -> str:
        """The dtype of the running sum of an op; empty when the op keeps none."""
        if bare_name(op) not in _ACCUMULATING:
            return ""
        fault = self.fault("wrong-accumulation", op)
        return self.accumulate if fault is None else fault.argument or "float16"

    def compute(self, target: Any, op: str) -> Compute:
        """The function that runs an op on registers."""
        bare = bare_name(op)
        if bare in EQUALITIES and self.fault("negative-zero", op):
            return _bitwise_equality(target, when_signs_differ=bare == "ne")
        kind = self.accumulation(op)
        if kind and kind != "float32":
            return _accumulating(_ACCUMULATING[bare], target, ACCUMULATIONS[kind])
        return target  # type: ignore[no-any-return]


Operand = tuple[str, StickLayout]


@dataclass(frozen=True, slots=True)
class KernelPlan:
    """A spec with what the kernel reads from it.

    Args:
        operands: name and layout of each.
        results: name and layout of each.
        whole_sticks: whether the kernel reads the padding of its operands, too.
        extents: for each result, the range of its layout that is written.
        spec: the JSON.
    """

    operands: tuple[Operand, ...]
    results: tuple[Operand, ...]
    whole_sticks: bool
    extents: tuple[tuple[int, ...], ...]
    spec: dict[str, Any]


def plan_kernel(
    op: str,
    node: str,
    graph: str,
    operands: Sequence[Operand],
    results: Sequence[Operand],
    arithmetic: Arithmetic,
    cores: int,
) -> KernelPlan:
    """The spec of one kernel."""
    first_stick = arithmetic.fault("copy-first-stick", op) is not None
    whole_sticks = arithmetic.fault("read-padding", op) is not None
    most = 0 if bare_name(op) in UNWRITTEN else 1 if first_stick else None
    extents = tuple(
        (*outer, sticks if most is None else min(sticks, most), stick)
        for *outer, sticks, stick in (layout.device_size for _, layout in results)
    )
    inputs = [layout.described(name) for name, layout in operands]
    for described in inputs if whole_sticks else ():
        described["last_stick"] = described["device_layout"][-1]
    outputs = [layout.described(name, extent) for (name, layout), extent in zip(results, extents, strict=True)]
    spec: dict[str, Any] = {"op": op, "node": node, "graph": graph, "inputs": inputs, "outputs": outputs}
    if bare_name(op) in COPIES and extents:
        spec["copy_range"] = list(extents[0])
    if kind := arithmetic.accumulation(op):
        spec["accumulate"] = kind
    if results:
        spec["work_division"] = _division(results[0][1], extents[0], cores)
    return KernelPlan(tuple(operands), tuple(results), whole_sticks, extents, spec)


def _division(layout: StickLayout, extent: tuple[int, ...], cores: int) -> dict[str, Any]:
    """The parts of the cores: along the rows, or along the sticks where there are more of them."""
    dimension, size = ("rows", layout.rows) if layout.rows >= layout.sticks else ("sticks", extent[-2])
    each = -(-size // cores)
    return {"cores": -(-size // each) if each else 0, "dimension": dimension, "each": each}


def _accumulating(kernel: Callable[..., Any], target: Any, dtype: torch.dtype) -> Compute:
    def compute(*args: Any, **kwargs: Any) -> Any:
        exact = target(*args, **kwargs)  # whole numbers and empty tensors have nothing to round
        if not exact.is_floating_point() or not all(each.numel() for each in (exact, *of_kind(torch.Tensor, args))):
            return exact
        made = kernel(dtype, exact, *args, **kwargs)
        return exact if made is None else made.to(exact.dtype).reshape(exact.shape)

    return compute


def _total(dtype: torch.dtype, parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """A running sum that is rounded to ``dtype`` after each part."""
    running = parts[0].to(dtype)
    for part in parts[1:]:
        running = (running.float() + part.float()).to(dtype)
    return running


def _pieces(values: torch.Tensor, dim: int) -> list[torch.Tensor]:
    size = values.shape[dim]
    return [values.narrow(dim, start, min(_CHUNK, size - start)) for start in range(0, size, _CHUNK)]


def _mm(dtype: torch.dtype, exact: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """A matrix product, summed over the inner dimension stick by stick."""
    pieces = zip(_pieces(left.float(), -1), _pieces(right.float(), -2), strict=True)
    return _total(dtype, [torch.matmul(each, other) for each, other in pieces])


def _addmm(
    dtype: torch.dtype,
    exact: torch.Tensor,
    bias: torch.Tensor,
    left: torch.Tensor,
    right: torch.Tensor,
    *,
    beta: float = 1,
    alpha: float = 1,
) -> torch.Tensor:
    product = alpha * _mm(dtype, exact, left, right).float()
    return product if beta == 0 else product + beta * bias.float()


def _sum(
    dtype: torch.dtype, exact: torch.Tensor, values: torch.Tensor, dim: Any = None, *args: Any, **kwargs: Any
) -> torch.Tensor:
    dims = [dim] if isinstance(dim, int) else list(dim or range(values.ndim))
    kept = [each for each in range(values.ndim) if each not in {d % values.ndim for d in dims}] if values.ndim else []
    summed = [each for each in range(values.ndim) if each not in kept]
    rows = values.permute(*kept, *summed).reshape(*(values.shape[each] for each in kept), -1).float()
    return _total(dtype, [part.sum(-1) for part in _pieces(rows, -1)])


def _mean(dtype: torch.dtype, exact: torch.Tensor, values: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
    total = _sum(dtype, exact, values, *args, **kwargs)
    return total.float() * (exact.numel() / values.numel())


def _convolution(
    dtype: torch.dtype,
    exact: torch.Tensor,
    values: torch.Tensor,
    weight: torch.Tensor,
    bias: torch.Tensor | None,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> torch.Tensor | None:
    """Sums over input channels, 64 at a time; None (no rounding) for grouped and transposed convolutions."""
    if transposed or groups != 1:
        return None
    rest = (None, stride, padding, dilation, transposed, output_padding, groups)
    channels = 1 if values.ndim == weight.ndim else 0
    pieces = zip(_pieces(values.float(), channels), _pieces(weight.float(), 1), strict=True)
    total = _total(dtype, [torch.ops.aten.convolution.default(each, part, *rest) for each, part in pieces]).float()
    return total if bias is None else total + bias.float().reshape(-1, *[1] * (weight.ndim - 2))


_ACCUMULATING: dict[str, Callable[..., Any]] = {
    "mm": _mm,
    "bmm": _mm,
    "addmm": _addmm,
    "baddbmm": _addmm,
    "sum": _sum,
    "mean": _mean,
    "convolution": _convolution,
}


def _bitwise_equality(target: Any, *, when_signs_differ: bool) -> Compute:
    """Equality by comparing bits: zeros of different sign are not equal."""

    def compute(left: torch.Tensor, right: Any) -> torch.Tensor:
        other = right if isinstance(right, torch.Tensor) else torch.tensor(right, dtype=left.dtype)
        made: torch.Tensor = target(left, right)
        if not left.is_floating_point():
            return made
        differ = (left == 0) & (other == 0) & (left.signbit() != other.signbit())
        return torch.where(differ, when_signs_differ, made)

    return compute


def as_strided(
    values: torch.Tensor, offset: int, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> torch.Tensor:
    """``as_strided`` within the operand's own elements; ``offset`` is the operand's own on the host.

    Raises:
        RefusedError: it reaches an element of the storage that is not the operand's, and so not on the device.
    """
    begin = 0 if storage_offset is None else storage_offset - offset
    if 0 in size:
        return values.new_empty(size)
    own = torch.zeros(_reach(values.shape, values.stride()), dtype=torch.bool)
    own[torch.arange(len(own)).as_strided(values.shape, values.stride()).reshape(-1)] = True
    inside = begin >= 0 and begin + _reach(size, stride) <= len(own)
    if not inside or not own.as_strided(size, stride, begin).all():
        raise RefusedError("as_strided reaches elements that are not its operand's, and so not on the device")
    return values.as_strided(size, stride, values.storage_offset() + begin)


def _reach(shape: Sequence[int], stride: Sequence[int]) -> int:
    """How much of its storage a tensor spans."""
    return 0 if 0 in shape else 1 + sum((size - 1) * step for size, step in zip(shape, stride, strict=True))
