"""Seeded faults and clean runs: the search has to name the culprit, the whole culprit, and nothing but the culprit.

The models have the architecture and depth of the real ones and are narrow, so that twenty seeds in three dtypes are a
matter of minutes. A clean run is compiled once; each seed then gives the same compiled model other weights and inputs.
"""

from __future__ import annotations

import copy
import resource
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from inductor_debug_jupyter.benchmarks.models import Built, transformers
from inductor_debug_jupyter.pipeline.adapters import StickAdapter
from inductor_debug_jupyter.pipeline.adapters.stick import parse_fault
from inductor_debug_jupyter.pipeline.diff import ComparisonConfig, KernelDiffHarness
from inductor_debug_jupyter.pipeline.diff.floors import Floors
from inductor_debug_jupyter.pipeline.diff.judging import judge
from inductor_debug_jupyter.pipeline.diff.localize_kernels import KernelWatch
from inductor_debug_jupyter.pipeline.records import Culprit, LocalizationRecord
from inductor_debug_jupyter.pipeline.torch_compat import regions
from inductor_debug_jupyter.pipeline.torch_compat.kernel_calls import observed
from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed
from inductor_debug_jupyter.pipeline.torch_compat.stochastic import StochasticArithmetic
from inductor_debug_jupyter.pipeline.torch_compat.trees import of_kind
from tests.proofs.kernel_faults import KernelFault
from tests.proofs.stick_audit import Audit

_WIDTH = 64


def _bert(layers: int, act: str = "gelu") -> Built:
    library = transformers()
    config = library.BertConfig(
        vocab_size=100,
        hidden_size=_WIDTH,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=2 * _WIDTH,
        hidden_act=act,
    )
    tokens = torch.randint(0, 100, (1, 32))
    return Built(library.BertModel(config).eval(), (tokens, torch.ones_like(tokens)))


def _resnet() -> Built:
    library = transformers()
    config = library.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16, 32, 64], depths=[2, 2, 2, 2], layer_type="basic", num_labels=10
    )
    return Built(library.ResNetForImageClassification(config).eval(), (torch.randn(1, 3, 32, 32),))


def _mamba() -> Built:
    library = transformers()
    config = library.MambaConfig(vocab_size=100, hidden_size=_WIDTH, num_hidden_layers=2, state_size=8, use_cache=False)
    return Built(library.MambaModel(config).eval(), (torch.randint(0, 100, (1, 8)),))


MODELS: dict[str, Callable[[], Built]] = {
    "bert-2l": lambda: _bert(2),
    "bert-12l": lambda: _bert(12),
    "resnet-18": _resnet,
    "mamba": _mamba,
}
RELU = "inject_relu_bug_TESTING_ONLY"
LOG1P = "inject_log1p_bug_TESTING_ONLY"


@dataclass(frozen=True)
class Case:
    """One fault on one model: the ops that may be blamed, and where.

    ``amplified``: it is small where it comes in, and must be seen as made worse later.
    """

    model: str
    name: str
    fault: KernelFault | str
    ops: tuple[str, ...]
    backward: bool = False
    only_in: str = ""
    build: Callable[[], Built] | None = None
    amplified: bool = False


def cases(models: Sequence[str]) -> Iterator[Case]:
    """Every fault that a model has the op for."""
    for model in models:
        yield from _inductor_cases(model)
        for fault in ("copy-first-stick", "negative-zero", "wrong-accumulation", "read-padding"):
            yield Case(model, fault, fault, (), True)


def _inductor_cases(model: str) -> Iterator[Case]:
    """Inductor's own fault, one only under fusion, one in backward, one that is small and amplified later."""
    own: tuple[str, KernelFault, Callable[[], Built] | None]
    if model.startswith("bert"):
        layers = int(model[5:-1])
        own = "Inductor's relu", KernelFault("relu", RELU), lambda: _bert(layers, "relu")
        fused, back = KernelFault("erf", "erf", 0.01, only_fused=True), KernelFault("exp", "exp", 0.01)
        early = KernelFault("rsqrt", "rsqrt", 1e-4, beside=_OF_TOKENS)
    elif model == "resnet-18":
        own = "Inductor's relu", KernelFault("relu", RELU), None
        fused, back = KernelFault("sqrt", "sqrt", 0.01, only_fused=True), KernelFault("rsqrt", "rsqrt", 0.01)
        early = KernelFault("relu", "clamp_min", 1e-4, beside=_OF_THE_STEM)
    else:
        own = "Inductor's log1p", KernelFault("log1p", LOG1P), None
        fused = KernelFault("rsqrt", "rsqrt", 0.01, only_fused=True)
        back = KernelFault("mul.Scalar", "-0.5", 0.01)  # of the derivative of rsqrt, and of nothing else
        early = KernelFault("rsqrt", "rsqrt", 1e-4, beside=_OF_TOKENS, without=_OF_LATER_LAYERS)
    yield Case(model, own[0], own[1], (own[1].blamed,), build=own[2])
    yield Case(model, "only under fusion", fused, (fused.blamed,))
    yield Case(model, "in backward", back, (back.blamed,), True, "backward")
    yield Case(model, "amplified later", early, (early.blamed,), amplified=True)


_OF_TOKENS = "const int64_t*"
"""In the source of the kernel that reads token ids: the first of a language model."""
_OF_LATER_LAYERS = "in_ptr3"
"""Mamba reads the tokens again in later layers, in kernels with more inputs."""
_OF_THE_STEM = "<static_cast<int64_t>(256L)"
"""A loop over 16 × 16 places: behind its first convolution ResNet-18 has no more that many."""

SWEPT = {
    "bert-2l": KernelFault("erf", "erf"),
    "bert-12l": KernelFault("erf", "erf"),
    "resnet-18": KernelFault("sqrt", "sqrt"),
    "mamba": KernelFault("exp", "exp"),
}
"""Model → the op that is made wrong by smaller and smaller factors."""


@dataclass
class Trial:
    """What became of a case."""

    case: Case
    found: tuple[Culprit, ...]
    seconds: float
    compiles: int
    peak_bytes: int
    amplified: int
    compared: int
    wrong_kernels: int | None = None
    """On the simulator: kernels that are wrong bit for bit."""
    problems: list[str] = field(default_factory=list)


def try_case(case: Case) -> Trial:
    """Seed the fault, search, and compare what was found with what was seeded."""
    torch.manual_seed(0)
    built = (case.build or MODELS[case.model])()
    if isinstance(case.fault, str):
        return _try_simulator(case, built, case.fault)
    with case.fault.seeded() as changed:
        record = KernelDiffHarness(built.module, built.inputs, backward=case.backward).localize()
    trial = _trial(case, record)
    named = {(culprit.graph, culprit.kernel) for culprit in record.culprits}
    if len(named) < len(changed):
        trial.problems.append(f"only {len(named)} of {len(changed)} kernels that have it are named")
    if not record.culprits:
        trial.problems.append("not found")
    if case.amplified and not trial.amplified:
        trial.problems.append("nothing is said to be made worse by it")
    for culprit in record.culprits:
        if culprit.op not in case.ops or case.only_in not in {"", culprit.graph}:
            trial.problems.append(f"{culprit.op} ({culprit.graph} {culprit.node}) is blamed too")
        if culprit.source is None:
            trial.problems.append(f"{culprit.node} has no source line")
        if case.fault.only_fused != culprit.only_fused:
            trial.problems.append(f"{culprit.node}: only_fused is {culprit.only_fused}")
    return trial


def _trial(case: Case, record: LocalizationRecord) -> Trial:
    amplified = sum(node.status == "amplified" for node in record.nodes)
    peak = record.peak_bytes
    return Trial(case, record.culprits, record.seconds, record.compiles, peak, amplified, record.compared)


class Probed(torch.nn.Module):
    """A model, and behind it what the simulator's faults are about: not every model has a copy or a long sum."""

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *args: Any) -> tuple[torch.Tensor, ...]:
        """The model's first output in a row, and what becomes of it."""
        flat = next(iter(self.model(*args).values())).reshape(-1)
        row = flat.repeat(1 + 200 // flat.numel())[:130]
        copied = torch.clone(row[:65])  # more than one stick of float16
        zeros = torch.eq(row * 0.0, 0.0)  # minus zero for what is negative
        padded = row[:100].sum()  # the last stick is not full
        long = torch.ones(1, 4096, dtype=flat.dtype) @ (
            row.abs()[:4].expand(4096, 4) + 1
        )  # float16 cannot count so far
        return flat, copied, zeros, padded, long


def _try_simulator(case: Case, built: Built, name: str) -> Trial:
    fault = parse_fault(name)
    built = Built(Probed(built.module), built.inputs)
    audit = Audit()
    audited = StickAdapter(faults=[fault], check=False, watch=audit)
    KernelDiffHarness(built.module, built.inputs, test_backend=audited, backward=True).compare()
    device = StickAdapter(faults=[fault], check=False)
    record = KernelDiffHarness(built.module, built.inputs, test_backend=device, backward=True).localize()
    trial = _trial(case, record)
    trial.wrong_kernels = len(audit.wrong)
    for culprit in record.culprits:
        if not fault.is_on(culprit.op):
            trial.problems.append(f"{culprit.op} ({culprit.graph} {culprit.node}) is blamed, and has no fault")
        if culprit.source is None:
            trial.problems.append(f"{culprit.node} has no source line")
    if not audit.wrong and record.culprits:
        trial.problems.append("no kernel is wrong, but something is blamed")
    if audit.wrong and not record.culprits:
        trial.problems.append("not found")
    return trial


def smallest_found(model: str, factors: Sequence[float]) -> Iterator[tuple[float, bool, str]]:
    """For each factor: whether the op that is wrong by it was found, and nothing else; and what was found."""
    fault = SWEPT[model]
    for factor in factors:
        torch.manual_seed(0)
        built = MODELS[model]()
        with replace(fault, factor=factor).seeded():
            record = KernelDiffHarness(built.module, built.inputs).localize(free_running=False)
        ops = {culprit.op for culprit in record.culprits}
        yield factor, ops == {fault.blamed}, ", ".join(sorted(ops)) or "nothing"


@dataclass
class CleanRun:
    """Twenty seeds, or as many as were asked for, of one model in one dtype, without any fault."""

    model: str
    dtype: str
    seeds: int = 0
    values: int = 0
    alarms: list[str] = field(default_factory=list)
    outputs_outside: int = 0
    """Outputs that the tolerances of torch.testing would have called wrong."""
    seconds: float = 0.0
    compiles: int = 0
    largest: float = 0.0
    """The largest error as a share of what is allowed."""


def run_clean(model: str, dtype: torch.dtype, seeds: int) -> CleanRun:
    """Compile once, and run with other weights and inputs again and again."""
    started = time.perf_counter()
    torch.manual_seed(0)
    built = MODELS[model]()
    module = copy.deepcopy(built.module).to(dtype)
    watch = KernelWatch(free_running=False)
    found = CleanRun(model, str(dtype).removeprefix("torch."))
    with observed(watch), regions.undisturbed(), caches_bypassed():
        compiled = regions.compile_alone(module, regions.registered_backend("inductor"))
        for seed in range(seeds):
            inputs = _reseeded(module, built.inputs, seed, dtype)
            module.zero_grad(set_to_none=True)
            outputs = of_kind(torch.Tensor, compiled(*inputs))
            _backward(outputs)
            _check_outputs(found, module, inputs, outputs, seed)
            for finding in watch.findings:
                found.values += finding.judgement is not None
                if finding.judgement is not None and finding.judgement.allowed:
                    found.largest = max(found.largest, finding.judgement.error / finding.judgement.allowed)
                if finding.judgement is not None and finding.judgement.wrong:
                    found.alarms.append(f"seed {seed}: {finding.graph} {finding.node.name} ({finding.kernel})")
            watch.findings.clear()
            watch.suspects.clear()
            found.seeds += 1
    found.compiles = watch.compiles
    found.seconds = time.perf_counter() - started
    return found


def _reseeded(module: torch.nn.Module, inputs: Sequence[Any], seed: int, dtype: torch.dtype) -> list[Any]:
    """Other weights, of each weight's own mean and spread, and other inputs of the same kind."""
    generator = torch.Generator().manual_seed(1000 + seed)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator)
            spread = max(float(parameter.float().std(correction=0)), 0.02)
            parameter.copy_(float(parameter.float().mean()) + spread * noise)
    return [_other(value, generator, dtype) if isinstance(value, torch.Tensor) else value for value in inputs]


def _other(value: torch.Tensor, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    if value.is_floating_point():
        return torch.randn(value.shape, generator=generator).to(dtype)
    if int(value.max()) <= 1:  # a mask
        return value.clone()
    return torch.randint(0, int(value.max()), value.shape, generator=generator)


def _backward(outputs: Sequence[torch.Tensor]) -> None:
    generator = torch.Generator().manual_seed(7)
    chosen = [output for output in outputs if output.requires_grad]
    torch.autograd.backward(chosen, [torch.randn(each.shape, generator=generator).to(each) for each in chosen])


def _check_outputs(
    found: CleanRun, module: torch.nn.Module, inputs: Sequence[Any], outputs: Sequence[torch.Tensor], seed: int
) -> None:
    """The outputs as a whole: eager mode runs them too, as it is and under stochastic arithmetic."""

    def eager() -> dict[str, torch.Tensor]:
        with torch.no_grad():
            return {str(index): each for index, each in enumerate(of_kind(torch.Tensor, module(*inputs)))}

    def again(noise_seed: int) -> dict[str, torch.Tensor]:
        with StochasticArithmetic(noise_seed):
            return eager()

    floors = Floors.of(eager(), again)
    for index, ours in enumerate(outputs):
        spread = floors.spreads[str(index)]
        atol, rtol = ComparisonConfig().tolerances(ours.dtype)
        found.outputs_outside += not torch.allclose(ours, spread.base, atol=atol, rtol=rtol)
        if judge(ours.detach(), spread).wrong:
            found.alarms.append(f"seed {seed}: output {index}")


def resident_bytes() -> int:
    """The most memory that this process ever had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
