"""Whether a fault shows: measured without the tool that is under test.

The model runs eagerly in its own format and in float64; their distance is what rounding does, taken for each binade of
magnitude apart (the largest distance among values of that size, and four units in the last place). A fault shows when
the faulty backend is further than :data:`FACTOR` times that from eager mode somewhere, or is not finite where eager
mode is, or differs in a whole number, a dtype, or, for faults that are about these, in strides or shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors, of_kind
from tests.proofs.zoo.subjects import Subject

FACTOR = 30.0
"""How many times further from eager mode than rounding goes a fault must be, somewhere."""


@dataclass
class Results:
    """All that one run left: values by name (None for a gradient that is missing), strides, and what shares memory."""

    values: dict[str, torch.Tensor | None] = field(default_factory=dict)
    strides: dict[str, tuple[int, ...]] = field(default_factory=dict)
    shared: set[tuple[str, str]] = field(default_factory=set)


def results_of(subject: Subject, call: Callable[..., Any], *, backward: bool, calls: int = 1) -> Results:
    """Run a subject, which was built for this run alone; the results are those of the last call."""
    found = Results()
    with torch.set_grad_enabled(backward):
        for _ in range(calls):
            outputs = of_kind(torch.Tensor, call(*subject.inputs))
    named = {f"output {at}": each for at, each in enumerate(outputs)}
    state = {f"input {at}": each for at, each in enumerate(of_kind(torch.Tensor, subject.inputs))}
    weights = {
        f"{at}.{name}": each
        for at, module in enumerate(subject.modules)
        for name, each in (*module.named_parameters(), *module.named_buffers())
    }
    if backward:
        _differentiate([each for each in outputs if each.requires_grad])
        found.values.update(_gradients({**state, **weights}))
    found.strides = {name: each.stride() for name, each in named.items()}
    found.shared = set(_sharing({**named, **state}))
    for name, each in {**named, **state, **weights}.items():
        found.values[name] = each.detach().clone()
    return found


def _gradients(tensors: Mapping[str, torch.Tensor]) -> Iterator[tuple[str, torch.Tensor | None]]:
    for name, each in tensors.items():
        if each.is_leaf and each.requires_grad:
            yield f"gradient of {name}", None if each.grad is None else each.grad.detach().clone()


def _differentiate(outputs: list[torch.Tensor]) -> None:
    generator = torch.Generator().manual_seed(5)
    weights = [torch.randn(each.shape, generator=generator).to(each.dtype) for each in outputs]
    torch.autograd.backward(outputs, weights)


def _sharing(tensors: dict[str, torch.Tensor]) -> Iterator[tuple[str, str]]:
    names = list(tensors)
    for at, first in enumerate(names):
        for second in names[at + 1 :]:
            if tensors[first].untyped_storage().data_ptr() == tensors[second].untyped_storage().data_ptr():
                yield first, second


@contextmanager
def compiled(subject: Subject, backend: Any) -> Iterator[Callable[..., Any]]:
    """The subject under ``torch.compile``, with nothing read from caches and nothing left behind."""
    torch.compiler.reset()
    try:
        with caches_bypassed():
            yield torch.compile(subject.call, backend=backend)
    finally:
        torch.compiler.reset()


def in_float64(subject: Subject) -> Subject:
    """The same with every float in float64."""
    for module in subject.modules:
        module.double()
    wide = map_tensors(_wide, subject.inputs)
    return Subject(subject.call, wide, subject.modules)


def _wide(each: torch.Tensor) -> torch.Tensor:
    if each.dtype is not torch.float32:
        return each
    return each.detach().double().requires_grad_(each.requires_grad)


def how_it_shows(
    eager: Results,
    exact: Results,
    faulty: Results,
    *,
    structure: bool = False,
    held_as: torch.dtype | None = None,
) -> str:
    """What is wrong in the faulty run, in words; empty when rounding explains all of it.

    Rounding is what the run without the fault is from float64, and four units of the format that values are held in.
    """
    for name, expected in eager.values.items():
        made = faulty.values.get(name)
        if (expected is None) != (made is None):
            return f"{name}: only one side has it"
        if expected is None or made is None:
            continue
        if expected.dtype != made.dtype or expected.shape != made.shape:
            return f"{name}: {made.dtype} of {tuple(made.shape)}, not {expected.dtype} of {tuple(expected.shape)}"
        if why := _beyond_rounding(expected, exact.values.get(name), made, held_as):
            return f"{name}: {why}"
    if structure and eager.strides != faulty.strides:
        return "strides differ"
    if structure and eager.shared != faulty.shared:
        return "memory is shared otherwise"
    return ""


def _beyond_rounding(
    expected: torch.Tensor, exact: torch.Tensor | None, made: torch.Tensor, held_as: torch.dtype | None
) -> str:
    if not (expected.is_floating_point() or expected.is_complex()):
        wrong = int((expected != made).sum())
        return f"{wrong} of {expected.numel()} whole numbers differ" if wrong else ""
    if expected.is_complex():
        parts = (torch.view_as_real(each) if each is not None else None for each in (expected, exact, made))
        expected, exact, made = parts  # type: ignore[assignment]
    eps = float(torch.finfo(held_as or expected.dtype).eps)
    here, there = expected.double(), made.double()
    right = exact.double() if exact is not None and exact.shape == expected.shape else here
    odd = ((here.isnan() != there.isnan()) | (here.isinf() != there.isinf())) & (here.isnan() == right.isnan())
    odd &= here.isinf() == right.isinf()
    if bool(odd.any()):
        return f"{int(odd.sum())} elements are not finite on one side only"
    usable = here.isfinite() & there.isfinite() & right.isfinite()
    if not bool(usable.any()):
        return ""
    here, there, right = here[usable], there[usable], right[usable]
    binade = torch.frexp(right).exponent.to(torch.int64).clamp(min=-149)
    slot = binade - binade.min()
    rounding = torch.zeros(int(slot.max()) + 1, dtype=torch.float64)
    rounding.scatter_reduce_(0, slot, (here - right).abs(), "amax")
    floor = rounding[slot] + 4 * eps * torch.exp2(binade.double()) + 2.0**-149
    ratio = (there - here).abs() / floor
    worst = float(ratio.max())
    return f"{worst:.0f} × what rounding does" if worst > FACTOR else ""
