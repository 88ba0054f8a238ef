"""Another arithmetic: what the kept calls return on a device that computes so, or if Inductor rounded as eager does.

The device need not exist: a dispatch mode computes each op of the model as it would. ``eager`` is about Inductor: it
leaves out casts between fused ops of 16 bits and rounds some divisions otherwise, unless it is told not to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.devices import load_profile, profile_names
from inductor_debug_jupyter.pipeline.diff import KernelDiffHarness
from inductor_debug_jupyter.pipeline.errors import OptionError, ProfileError
from inductor_debug_jupyter.pipeline.formats.arithmetic import NAMED, Arithmetic, arithmetic_of_profile
from inductor_debug_jupyter.pipeline.records import OutputDiff
from inductor_debug_jupyter.pipeline.rerun.again import as_called
from inductor_debug_jupyter.pipeline.torch_compat.state import rounding_as_eager
from inductor_debug_jupyter.pipeline.what_if.outputs import Numbers

EAGER: Final = "eager"


def requested_arithmetic(name: str) -> tuple[Arithmetic, tuple[str, ...]]:
    """The arithmetic of that name, or the one that a device profile says it computes in; and notes on it.

    Raises:
        OptionError: it is neither, or the profile does not say.
    """
    if name in NAMED:
        return NAMED[name], ()
    try:
        profile = load_profile(name)
    except ProfileError as error:
        if name.endswith(".toml"):
            raise OptionError(f"numerics={name!r}: {error}") from None
        allowed = ", ".join([*NAMED, EAGER, *profile_names()])
        raise OptionError(f"numerics={name!r}; allowed: {allowed}, or a profile's .toml file") from None
    found = arithmetic_of_profile(profile)
    if found is None:
        raise OptionError(f"numerics={name!r}: the profile does not say how it computes (narrow or products)")
    notes = (f"the ops that {profile.name} has in float32 are computed as the others",) if profile.precise else ()
    return found, notes


def numbers_rounded_as_eager(calls: Sequence[ModelCall]) -> tuple[Numbers, tuple[str, ...]]:
    """Inductor's outputs against eager mode's, with every switch on that makes it round so; a note on them without."""
    found: list[OutputDiff] = []
    plain: list[OutputDiff] = []
    for call in calls:
        prefix = f"{call.name}: " if len(calls) > 1 else ""
        with as_called(call):
            plain += KernelDiffHarness(call.model, call.inputs, call.name).compare().outputs
            with rounding_as_eager():
                made = KernelDiffHarness(call.model, call.inputs, call.name).compare().outputs
        found += [replace(each, path=prefix + each.path) for each in made]
    before = Numbers(tuple(plain)).largest
    return Numbers(tuple(found)), (f"Inductor against eager mode; without its switches: up to {before:.2g} apart",)


def notes_on(numbers: Numbers) -> list[str]:
    """The figures of the worst outputs."""
    known = [each for each in numbers.outputs if each.signal_to_noise is not None]
    worst = sorted(known, key=lambda each: each.signal_to_noise or 0.0)[:3]
    return [f"{each.path}: SQNR {each.signal_to_noise:.1f} dB, PCC {each.pcc or 0.0:.7g}" for each in worst]
