"""Kernel specs: the JSON that the device's compiler writes for one kernel, and that the kernel obeys.

A spec states the op, each operand with its layout and the range that is read, each result with the range that is
written, the type of running sums, and the part of each core. The kernel takes its ranges from its spec, so a fault of
code generation can be seen in the spec.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from inductor_debug_jupyter.pipeline.adapters.stick.faults import COPIES
from inductor_debug_jupyter.pipeline.adapters.stick.kernels import UNWRITTEN, Arithmetic
from inductor_debug_jupyter.pipeline.adapters.stick.layout import StickLayout, divided, divides
from inductor_debug_jupyter.pipeline.devices.ops import bare_name

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
    extents = tuple(_first_sticks(layout, most) for _, layout in results)
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


def _first_sticks(layout: StickLayout, most: int | None) -> tuple[int, ...]:
    *outer, sticks, stick = layout.device_size
    return (*outer, sticks if most is None else min(sticks, most), stick)


def _division(layout: StickLayout, extent: tuple[int, ...], cores: int) -> dict[str, Any]:
    parts = divided(layout, cores, extent)
    each = parts[0][1] - parts[0][0] if parts else 0
    return {"cores": len(parts), "dimension": divides(layout), "each": each}
