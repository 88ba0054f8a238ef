"""``simulator``: whole models on the stick simulator, healthy and with each fault.

Healthy, in both formats: how far outputs and gradients are from float64, beside what the format explains. With a
fault: which kernels are wrong, bit for bit, and whether any of them is one that the fault is not on.
"""

from __future__ import annotations

import argparse
import copy
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from inductor_debug_jupyter.benchmarks.command_line import named
from inductor_debug_jupyter.benchmarks.models import Built, benchmark_model
from inductor_debug_jupyter.benchmarks.printing import Progress, print_line, print_table
from inductor_debug_jupyter.pipeline.adapters import StickAdapter
from inductor_debug_jupyter.pipeline.adapters.device_log import DeviceLog, listening
from inductor_debug_jupyter.pipeline.adapters.stick import Fault, parse_fault
from inductor_debug_jupyter.pipeline.adapters.stick.memory import to_held
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors, of_kind
from tests.proofs.faulty_child import run_child
from tests.proofs.inside_torch.rounding import RoundedResults
from tests.proofs.stick_audit import Audit, WrongKernel

_NAMES = ("bert-2l", "resnet", "mamba")
_FAULTS = ("copy-first-stick", "negative-zero", "wrong-accumulation", "read-padding")
_ENDINGS = {"bert-2l": "aten.addmm", "resnet": "aten.relu", "mamba": "aten.mm"}
"""The op that a model crashes on, and hangs on."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "--model", action="append", metavar="NAME", help=f"may be repeated: {', '.join(_NAMES)}; default all"
    )
    parser.add_argument(
        "--fault", action="append", metavar="FAULT", help="only this fault, such as copy-first-stick; may be repeated"
    )
    parser.add_argument("--no-endings", action="store_true", help="leave out the faults that end or stop a process")
    parser.add_argument("--small", action="store_true", help="tiny versions of the models, to try this out")


def run(args: argparse.Namespace) -> int:
    """Print the tables; 1 when something is wrong that neither format nor fault explains."""
    names = named(args.model, "--model", _NAMES, _NAMES)
    faults = [parse_fault(text) for text in args.fault or _FAULTS]
    endings = () if args.no_endings or args.fault else ("crash", "hang")
    found = _Findings()
    with Progress(len(names) * (1 + len(faults) + len(endings))) as progress, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            found.try_model(name, args.small, faults, progress)
            for kind in endings:
                found.try_ending(name, args.small, parse_fault(f"{kind}:{_ENDINGS[name]}"), progress)
    found.print()
    return int(bool(found.problems))


@dataclass
class _Findings:
    """What was found, table by table."""

    accuracies: dict[str, Accuracy] = field(default_factory=dict)
    trials: list[tuple[str, FaultTrial]] = field(default_factory=list)
    ended: list[tuple[str, ...]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def try_model(self, name: str, small: bool, faults: Sequence[Fault], progress: Progress) -> None:
        """One model, healthy and with each fault."""

        progress.step(f"{name}, healthy")
        built = benchmark_model(name).build(small)
        self.accuracies[name], healthy = measure_accuracy(built)
        self.problems += [f"{name}: {each}" for each in self.accuracies[name].problems]
        for fault in faults:
            progress.step(f"{name}, {fault}")
            trial = try_fault(built, fault, healthy)
            self.trials.append((name, trial))
            self.problems += [f"{name}, {fault}: {each}" for each in trial.problems]

    def try_ending(self, name: str, small: bool, fault: Fault, progress: Progress) -> None:
        """One model with a fault that ends or stops its process."""
        progress.step(f"{name}, {fault}")
        ending = run_child(name, fault, small=small)
        told = ending.signal or ("hung, and was ended" if ending.hung else f"exit code {ending.code}")
        last = f"{ending.launched[-1]}, launch {len(ending.launched)}" if ending.launched else "none"
        self.ended.append((name, str(fault), told, last))
        self.problems += [f"{name}, {fault}: {each}" for each in ending.problems(fault)]

    def print(self) -> None:
        """The tables, and what is not explained."""
        columns = ("From float64", "Kernels", "Transfers", "Eager", "Float32", "Rounded eager", "Float16")
        rows = [row for name, accuracy in self.accuracies.items() for row in _accuracy_rows(name, accuracy)]
        print_table(columns, rows, right=columns[1:])
        print_line("(Float32 and Float16: the simulator in each format. Rounded eager: what float16 explains.)")
        columns = ("Fault", "Model", "Is on", "Wrong kernels", "Elsewhere", "Of kernels", "Numbers changed")
        print_line("")
        print_table(columns, [_fault_row(name, trial) for name, trial in self.trials])
        if self.ended:
            print_line("")
            print_table(("Model", "Fault", "How it ended", "In which kernel"), self.ended)
        for problem in self.problems:
            print_line(f"✗ {problem}")
        print_line("✗ not explained" if self.problems else "✓ every number is explained by its format or its fault")


def _accuracy_rows(name: str, found: Accuracy) -> Iterator[tuple[str, ...]]:
    figures = (found.eager, found.exact_format, found.rounded_eager, found.own_format)
    for index, what in enumerate(("outputs", "gradients")):
        told = [f"{figure[index]:.1e}" for figure in figures]
        yield (f"{name}, {what}", str(found.kernels), str(found.transfers), *told)


def _fault_row(name: str, trial: FaultTrial) -> tuple[str, ...]:
    return (
        str(trial.fault),
        name,
        str(trial.on) if trial.on else "no kernel",
        _counted(trial),
        str(len(trial.elsewhere)),
        str(trial.launches),
        f"{len(trial.wrong_outputs)} of {trial.outputs}",
    )


def _counted(trial: FaultTrial) -> str:
    """``3 (2 clone, 1 copy)``."""
    ops: dict[str, int] = {}
    for kernel in trial.wrong:
        short = kernel.op.split(".")[1] if kernel.op.startswith("aten.") else kernel.op
        ops[short] = ops.get(short, 0) + 1
    told = ", ".join(f"{number} {op}" for op, number in ops.items())
    return f"{len(trial.wrong)} ({told})" if told else "0"


# One model on the simulator -------------------------------------------------------------------------------------------


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
