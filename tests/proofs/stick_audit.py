"""Find the wrong kernels of a run: each kernel is launched again on a device without faults, on the same operands.

Operands are those of the faulty run, so a kernel that only passes a wrong value on does not count as wrong. The buffers
of the two devices are compared bit for bit, padding included.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters.stick.memory import DeviceTensor
from inductor_debug_jupyter.pipeline.adapters.stick.program import DeviceProgram, Launch
from inductor_debug_jupyter.pipeline.torch_compat.trees import of_kind


@dataclass(frozen=True, slots=True)
class WrongKernel:
    """One launch whose result differs from that of a device without faults."""

    graph: str
    node: str
    op: str
    elements: int
    """How many elements differ, padding not counted."""


@dataclass
class Audit:
    """A ``watch`` for ``StickAdapter`` that counts ``launches`` and collects the ``wrong`` ones."""

    launches: int = 0
    wrong: list[WrongKernel] = field(default_factory=list)
    ops: dict[str, int] = field(default_factory=dict)
    _healthy: dict[int, DeviceProgram] = field(default_factory=dict)

    def __call__(self, program: DeviceProgram, launch: Launch) -> None:
        """Launch the kernel again without faults, and compare."""
        self.launches += 1
        self.ops[launch.op] = self.ops.get(launch.op, 0) + 1
        again = self._launched_again(program, launch)
        pairs = zip(of_kind(DeviceTensor, launch.result), of_kind(DeviceTensor, again), strict=True)
        if any(not _same_bits(ours.buffer, theirs.buffer) for ours, theirs in pairs):
            pairs = zip(of_kind(DeviceTensor, launch.result), of_kind(DeviceTensor, again), strict=True)
            elements = sum(_different(ours, theirs) for ours, theirs in pairs)
            self.wrong.append(WrongKernel(program.graph, launch.node.name, launch.op, elements))

    def _launched_again(self, program: DeviceProgram, launch: Launch) -> Any:
        healthy = self._healthy.get(id(program))
        if healthy is None:
            device = program.device
            device = replace(device, arithmetic=replace(device.arithmetic, faults=()), watch=None)
            healthy = DeviceProgram(program.graph_module, device, program.graph, program.compile_id)
            self._healthy[id(program)] = healthy
        with torch.random.fork_rng(devices=()):
            torch.set_rng_state(launch.random_state)
            return healthy.launch(launch.node, launch.args, launch.kwargs)


def _same_bits(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    return torch.equal(ours.view(torch.uint8), theirs.view(torch.uint8))


def _different(ours: DeviceTensor, theirs: DeviceTensor) -> int:
    left, right = ours.load(), theirs.load()
    both_nan = left.isnan() & right.isnan() if left.is_floating_point() else torch.zeros_like(left, dtype=torch.bool)
    return int(((left != right) & ~both_nan).sum())
