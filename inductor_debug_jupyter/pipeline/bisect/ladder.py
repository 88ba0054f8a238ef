"""Run a model with one stage of the compiler more each time, and name the first stage that goes wrong.

Each rung is a whole execution of the model, compared with eager by :class:`KernelDiffHarness`: same weights, inputs
and random numbers. The lowest rung compares eager with itself: if a model does not repeat itself, no other rung means
anything.

The first rung with wrong numbers is then searched by :meth:`KernelDiffHarness.localize`, which names the decomposition,
the pass, the kernel or the op, with the user's line.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from inductor_debug_jupyter.pipeline.adapters import AcceleratorAdapter
from inductor_debug_jupyter.pipeline.diff import ComparisonConfig, KernelDiffHarness, Recording
from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError, in_a_line
from inductor_debug_jupyter.pipeline.records import BisectRecord, Culprit, DiffRecord, Rung
from inductor_debug_jupyter.pipeline.torch_compat.inductor_passes import PassKeeper
from inductor_debug_jupyter.pipeline.words import count

log = logging.getLogger("inductor_debug_jupyter")


@dataclass(frozen=True, slots=True)
class LadderStep:
    """One rung to run: its name, its backend, and what it means when it is the first that is not good.

    ``is_eager``: it runs only torch's eager kernels, so it needs no process of its own. ``searched`` is the backend
    in which the op is looked for; None where no search knows this stage. ``is_beside``: it is no stage before the next,
    but another way to the same device.
    """

    name: str
    backend: Any
    meaning: str
    is_eager: bool = False
    searched: Any = None
    is_beside: bool = False


def inductor_passes(graph_module: Any, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """The backend that runs Inductor's passes and then the graph as it is, with eager kernels."""
    return PassKeeper()(graph_module, example_inputs)


STEPS: tuple[LadderStep, ...] = (
    LadderStep(
        "eager",
        "eager",
        "Plain PyTorch does not give the same answer twice. Seed it or make it deterministic first; "
        "until then no comparison means anything.",
    ),
    LadderStep(
        "dynamo",
        "dynamo",
        "Tracing alone changes the result: the captured graph is not what the Python code does. "
        "Every backend is given that graph: it is not yours. Look at the Dynamo graph, and at side effects and values "
        "that were fixed while tracing.",
        is_eager=True,
        searched="dynamo",
    ),
    LadderStep(
        "aot",
        "aot_eager",
        "The captured graph is good, and AOTAutograd changes it: look at how it made mutation, aliasing and the "
        "backward explicit. It is wrong before a backend that uses AOTAutograd sees it.",
        is_eager=True,
    ),
    LadderStep(
        "aot_decomposed",
        "aot_eager_decomp_partition",
        "The error comes in when ops are broken down into simpler ones (or when the backward is split off): look at "
        "the decompositions of the ops in the forward graph. A backend that has the op itself need not decompose it.",
        is_eager=True,
        searched="inductor",
    ),
    LadderStep(
        "inductor_passes",
        inductor_passes,
        "A pass over the graph changes what is computed, before any code is generated: one of Inductor's own, or a "
        "custom pass.",
        is_eager=True,
        searched="inductor",
    ),
    LadderStep(
        "inductor",
        "inductor",
        "The graph is right after Inductor's last pass, and its generated code is not: look at the kernels and at "
        "fusion. Only Inductor has this error: another backend does not use its kernels.",
        searched="inductor",
    ),
)
"""The ladder without a device; ``bisect_stages`` also takes that of another compiler."""

_ON_THE_DEVICE = (
    "PyTorch's own compiler is right all the way: the error comes from the device's side, its compiler, its "
    "arithmetic or the transfer of tensors."
)

_READINGS = {
    (True, True): (
        "Both ways to the device agree with eager: if it is wrong where you saw it, the environment, the inputs or the "
        "transfer of tensors differ there."
    ),
    (True, False): (
        "{beside} is right and {device} is not: the bug is in the front end of {device} (code generation, layouts, "
        "host code), not in what both share."
    ),
    (False, True): "{device} is right and {beside} is not: the bug is in what {beside} alone does.",
    (False, False): (
        "{beside} and {device} are both not good: the bug is in what both share, the compiler or the hardware behind "
        "them: file it there."
    ),
}
"""Whether the way beside and the device agree with eager → what that means."""


def bisect_stages(
    model: Callable[..., Any],
    inputs: Any,
    *,
    adapter: AcceleratorAdapter | Callable[..., Any] | Recording | str | None = None,
    config: ComparisonConfig | None = None,
    model_name: str | None = None,
    backward: bool = False,
    run_all: bool = False,
    steps: Sequence[LadderStep] = STEPS,
    beside: AcceleratorAdapter | Callable[..., Any] | Recording | str | None = None,
    isolate: bool = False,
    timeout: float | None = None,
    memory_limit: int | None = None,
) -> BisectRecord:
    """Find the first stage of the compiler, or the device, that brings an error in.

    Args:
        model: a module or a function.
        inputs: a tensor, a tuple or list of positional arguments, or a dict of keyword arguments.
        adapter: the device, as the last rung: an adapter, a backend function, or a name (a ``torch.compile`` backend,
            a registered adapter, or ``module:attribute``); or a recording of its run elsewhere.
        config: what counts as equal.
        model_name: the model's name in the record.
        backward: also compare gradients.
        run_all: also run the rungs after the first that is not good.
        steps: the rungs below the device.
        beside: another way to the same device, such as a vendor's reference path: whether it is wrong, too, tells a
            bug of the adapter's front end from one of the compiler behind both.
        isolate: run the device, and each rung that generates code, in a process of its own, so that a crash there is
            only a failed rung.
        timeout: seconds for a rung, with ``isolate`` for each step of its backend.
        memory_limit: with ``isolate``, bytes that the backend's process may have, torch included.

    Raises:
        UsageError: an argument cannot be understood.
    """
    ladder = _ladder_of(steps, beside, adapter)

    def harness_of(step: LadderStep) -> KernelDiffHarness:
        limits: dict[str, Any] = {"isolate": isolate, "timeout": timeout, "memory_limit": memory_limit}
        limits = {} if isolate and step.is_eager else limits
        return KernelDiffHarness(model, inputs, model_name, "eager", step.backend, config, backward=backward, **limits)

    harnesses = [harness_of(step) for step in ladder]
    rungs: list[Rung] = []
    first_bad: LadderStep | None = None
    for step, harness in zip(ladder, harnesses, strict=True):
        if first_bad is not None and not run_all:
            rungs.append(Rung(step.name, "not_run", f"{first_bad.name} is not good already"))
            continue
        rung = _climb(step, harness)
        rungs.append(rung)
        log.debug("rung %s: %s %s", rung.name, rung.outcome, rung.reason)
        if rung.outcome != "good" and first_bad is None and not step.is_beside:
            first_bad = step
    culprits: tuple[Culprit, ...] = ()
    explanation = _explanation(first_bad, rungs)
    if first_bad is not None and first_bad.searched is not None and rungs[ladder.index(first_bad)].outcome == "bad":
        culprits, summary = _searched(harness_of(replace(first_bad, backend=first_bad.searched, is_eager=False)))
        explanation = f"{explanation} {summary}"
    if beside is not None and first_bad in (None, ladder[-1]):  # else it is wrong before a device sees it
        explanation = f"{explanation} {_reading(*rungs[-2:])}"
    return BisectRecord(
        model=harnesses[0].model_name,
        rungs=tuple(rungs),
        first_bad=first_bad.name if first_bad else "",
        explanation=explanation,
        culprits=culprits,
    )


def _ladder_of(steps: Sequence[LadderStep], beside: Any, adapter: Any) -> list[LadderStep]:
    """All rungs: torch's stages, the way beside, the device."""
    if beside is not None and adapter is None:
        raise UsageError("beside: give the adapter that it is another way for")
    ladder = [*steps]
    if beside is not None:
        ladder.append(replace(_device_step(beside, steps), is_beside=True))
    if adapter is not None:
        ladder.append(_device_step(adapter, ladder))
    return ladder


def is_rung(backend: Any) -> bool:
    """Whether a backend is one of the ladder's own rungs, and so no device."""
    return isinstance(backend, str) and any(backend == step.backend for step in STEPS)


def _device_step(
    adapter: AcceleratorAdapter | Callable[..., Any] | Recording | str, steps: Sequence[LadderStep]
) -> LadderStep:
    if not isinstance(adapter, AcceleratorAdapter | Recording | str) and not callable(adapter):
        raise OptionError(
            f"adapter: {type(adapter).__name__} is not allowed; allowed: an AcceleratorAdapter or the name of one"
        )
    if isinstance(adapter, str):  # looking its name up would import a foreign package
        name = adapter
    elif isinstance(adapter, AcceleratorAdapter):
        name = adapter.capabilities().name
    else:
        name = str(getattr(adapter, "name", None) or getattr(adapter, "__name__", type(adapter).__name__))
    taken = {step.name for step in steps}
    searched = None if isinstance(adapter, Recording) else adapter
    return LadderStep(f"device {name}" if name in taken else name, adapter, _ON_THE_DEVICE, searched=searched)


def _climb(step: LadderStep, harness: KernelDiffHarness) -> Rung:
    started = time.perf_counter()
    record = harness.compare().record
    seconds = time.perf_counter() - started
    if record.passed:
        return Rung(step.name, "good", diff=record, seconds=seconds)
    if record.verdict == "mismatch":
        return Rung(step.name, "bad", _worst(record), record, seconds)
    uncompared = [output for output in record.outputs if output.verdict == "not_compared"]
    if step.backend == "eager" and uncompared:  # it ran twice, and gave two answers
        return Rung(step.name, "bad", uncompared[0].reason, record, seconds)
    # Nothing was compared: the backend raised, or did not compile the graph.
    return Rung(step.name, "failed", "; ".join(record.notes) or "nothing was compared", record, seconds)


def _searched(harness: KernelDiffHarness) -> tuple[tuple[Culprit, ...], str]:
    """What is to blame at the first bad rung, and that in words."""
    try:
        found = harness.localize()
    except Exception as error:  # the rung stands, whatever becomes of the search
        return (), f"Which op it is could not be found: {in_a_line(error)}"
    if not found.culprits:
        return (), "Which op it is was not found: each op by itself gives what it should."
    first, *others = found.culprits
    because = f": {first.reason}" if first.reason else " only when it is fused" if first.only_fused else ""
    more = f" (and {count(len(others), 'other')})" if others else ""
    return found.culprits, f"It comes in at {first}{because}{more}."


def _reading(beside: Rung, device: Rung) -> str:
    """What two ways to one device say together."""
    return _READINGS[beside.outcome == "good", device.outcome == "good"].format(beside=beside.name, device=device.name)


def _worst(record: DiffRecord) -> str:
    worst = next((output for output in record.outputs if output.verdict == "mismatch"), None)
    if worst is None:
        return "; ".join(record.notes)
    return f"{worst.path or 'output'}: {worst.reason}" if worst.reason else worst.path


def _explanation(first_bad: LadderStep | None, rungs: Sequence[Rung]) -> str:
    if first_bad is None:
        return "Every rung agrees with eager: these inputs show no error."
    rung = next(rung for rung in rungs if rung.name == first_bad.name)
    if rung.outcome == "bad":
        return first_bad.meaning
    if first_bad.name == "eager":
        return f"The model does not run in plain PyTorch, so there is nothing to compare with: {rung.reason}."
    return f"Nothing could be compared from {first_bad.name} on, and all before it is good: {rung.reason}."
