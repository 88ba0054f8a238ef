"""One model on the stick simulator: how far its numbers are from float64, and which kernels a fault makes wrong.

What the format explains is measured without the simulator: the model runs eagerly, and what each op writes is rounded
to the format. The simulator may be twice as far from float64 as that, as another order of the same sums may be.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from inductor_debug_jupyter.benchmarks.models import Built
from inductor_debug_jupyter.pipeline.adapters import StickAdapter
from inductor_debug_jupyter.pipeline.adapters.device_log import DeviceLog, listening
from inductor_debug_jupyter.pipeline.adapters.stick import Audit, Fault, WrongKernel
from inductor_debug_jupyter.pipeline.adapters.stick.formats import to_held
from inductor_debug_jupyter.pipeline.torch_compat.rounding import RoundedResults
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors, of_kind

MARGIN = 2.0
"""How many times further from float64 than rounded eager mode the simulator may be."""


@dataclass(frozen=True)
class Numbers:
    """Outputs and gradients of one execution, by name."""

    values: dict[str, torch.Tensor]

    def distance(self, exact: Numbers, prefix: str) -> float:
        """The largest error of those whose name begins so, relative to the largest number among them."""
        names = [name for name in exact.values if name.startswith(prefix) and exact.values[name].numel()]
        largest = max((float(exact.values[name].abs().max()) for name in names), default=1.0)
        errors = [float((self.values[name].double() - exact.values[name]).abs().max()) for name in names]
        return float(torch.tensor(errors).max()) / largest if errors else 0.0  # NaN stays NaN

    def differs(self, other: Numbers) -> list[str]:
        """The names of those that are not bit for bit the same."""
        return [name for name, value in self.values.items() if not _same(value, other.values[name])]


@dataclass
class Accuracy:
    """How far from float64 a model's numbers are; outputs first, then gradients."""

    kernels: int
    transfers: int
    eager: tuple[float, float]
    exact_format: tuple[float, float]
    rounded_eager: tuple[float, float]
    own_format: tuple[float, float]

    @property
    def problems(self) -> list[str]:
        """What neither the format nor float32 explains; nothing when all is well."""
        found = []
        for what, ours, explained in (
            ("float32", self.exact_format, self.eager),
            ("float16", self.own_format, self.rounded_eager),
        ):
            for kind, here, there in zip(("outputs", "gradients"), ours, explained, strict=True):
                if not here <= MARGIN * there:  # NaN is a problem too
                    found.append(f"{kind} in {what} are {here:.1e} from float64 where {there:.1e} is explained")
        return found


@dataclass
class FaultTrial:
    """What one fault did to one model."""

    fault: Fault
    on: int
    """How many kernels the fault is on."""
    wrong: list[WrongKernel] = field(default_factory=list)
    launches: int = 0
    wrong_outputs: list[str] = field(default_factory=list)
    outputs: int = 0

    @property
    def elsewhere(self) -> list[WrongKernel]:
        """Wrong kernels that the fault is not on: there must be none."""
        return [kernel for kernel in self.wrong if not self.fault.is_on(kernel.op)]

    @property
    def problems(self) -> list[str]:
        """What the fault does not explain."""
        found = [f"{kernel.op} ({kernel.graph} {kernel.node}) is wrong too" for kernel in self.elsewhere]
        if self.wrong_outputs and not self.wrong:
            found.append(f"no kernel is wrong, but {', '.join(self.wrong_outputs[:3])} differ")
        return found


def measure_accuracy(built: Built) -> tuple[Accuracy, Numbers]:
    """Run forward and backward: eagerly in float32 and float64, rounded to float16, and on the simulator in both.

    The numbers are those of the simulator in its own format.
    """
    exact = _run(built, _double)
    eager = _run(built)
    with RoundedResults(_to_float16):
        rounded = _run(built, _rounded)
    log = DeviceLog()
    with listening(log):
        own = simulated(built, StickAdapter(faults=(), check=False))
    loss_free = simulated(built, StickAdapter("float32", faults=(), check=False))

    def both(numbers: Numbers) -> tuple[float, float]:
        return numbers.distance(exact, "out"), numbers.distance(exact, "grad")

    found = Accuracy(len(log.kernels), len(log.transfers), both(eager), both(loss_free), both(rounded), both(own))
    return found, own


def try_fault(built: Built, fault: Fault, healthy: Numbers) -> FaultTrial:
    """Run with a fault; each kernel is checked against a healthy device, the numbers against those of a healthy run."""
    audit = Audit()
    faulty = simulated(built, StickAdapter(faults=[fault], check=False, watch=audit))
    return FaultTrial(
        fault,
        sum(number for op, number in audit.ops.items() if fault.is_on(op)),
        audit.wrong,
        audit.launches,
        faulty.differs(healthy),
        len(faulty.values),
    )


def simulated(built: Built, adapter: StickAdapter) -> Numbers:
    """Outputs and gradients of a model that is compiled for the simulator."""
    torch.compiler.reset()
    try:
        return _run(built, compile_with=adapter.as_backend(fallback=False))
    finally:
        torch.compiler.reset()


def _run(
    built: Built,
    prepare: Callable[[torch.nn.Module, Any], tuple[torch.nn.Module, Any]] | None = None,
    compile_with: Callable[..., Any] | None = None,
) -> Numbers:
    """One step on a copy of the model; gradients are those of a weighted sum of the outputs."""
    module, inputs = copy.deepcopy(built.module), built.inputs
    if prepare is not None:
        module, inputs = prepare(module, inputs)
    call = module if compile_with is None else torch.compile(module, backend=compile_with)
    outputs = [each for each in of_kind(torch.Tensor, call(*inputs)) if each.is_floating_point()]
    values = {f"out[{index}]": output.detach() for index, output in enumerate(outputs)}
    differentiable = [output for output in outputs if output.requires_grad]
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(each.shape, generator=generator).to(each.dtype) for each in differentiable]
    torch.autograd.backward(differentiable, weights)
    gradients = {f"grad:{name}": each.grad for name, each in module.named_parameters() if each.grad is not None}
    return Numbers(values | gradients)


def _double(module: torch.nn.Module, inputs: Sequence[Any]) -> tuple[torch.nn.Module, Any]:
    return module.double(), map_tensors(lambda each: each.double() if each.is_floating_point() else each, inputs)


def _rounded(module: torch.nn.Module, inputs: Sequence[Any]) -> tuple[torch.nn.Module, Any]:
    with torch.no_grad():
        for parameter in (*module.parameters(), *module.buffers()):
            if parameter.is_floating_point():
                parameter.copy_(_to_float16(parameter))
    return module, map_tensors(lambda each: _to_float16(each) if each.is_floating_point() else each, inputs)


def _to_float16(values: torch.Tensor) -> torch.Tensor:
    return to_held(values.detach(), torch.float16).to(values.dtype)


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:
    return torch.equal(left.contiguous().view(torch.uint8), right.contiguous().view(torch.uint8))
