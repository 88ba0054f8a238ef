"""The circumstances in which a kept call runs again: as at the user's own run, and without anybody noticing.

Everything that runs a model for us does so in one of two contexts. :func:`unnoticed` is for a model in the modes that
are on (a comparison that the user asks for); :func:`as_called` is for a kept call, in the modes of that call.

A module's own hooks stay on: they belong to what it computes (a weight norm, a cast, a transfer to another device),
and whether one only looks is not known before it was called. What they write to is put back with all else that a
model reaches (:mod:`copies`); what leaves the process (a file, a connection) happens again, and no more than prints and
log records are held back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.capture.calls import CallModes, ModelCall, RandomState
from inductor_debug_jupyter.pipeline.interrupts import uncut
from inductor_debug_jupyter.pipeline.rerun.copies import random_state_kept
from inductor_debug_jupyter.pipeline.torch_compat.instruments import unseen
from inductor_debug_jupyter.pipeline.torch_compat.regions import uncompiled
from inductor_debug_jupyter.pipeline.torch_compat.silence import unheard

_CALLS_OF_A_MODULE = {"__call__", "forward", "_wrapped_call_impl", "_call_impl"}


@uncut
def unnoticed() -> Iterator[None]:
    """The user's instruments see nothing, and the generators are put back at the end.

    Inference mode is off: what is made inside outlives it. Grad mode stays as it is.
    """
    grad = torch.is_grad_enabled()
    with unseen(), random_state_kept(), torch.inference_mode(False), torch.set_grad_enabled(grad):
        yield


@uncut
def in_modes(modes: CallModes, random_state: RandomState | None) -> Iterator[None]:
    """Autocast, grad mode and random numbers as these say, unnoticed; what a model prints or logs is not shown."""
    with unnoticed(), unheard(), modes.again():
        if random_state is not None:
            random_state.restore()
        yield


def as_called(call: ModelCall) -> AbstractContextManager[None]:
    """The modes and random numbers of a kept call, unnoticed: see :func:`in_modes`."""
    return in_modes(call.modes, call.random_state)


def plain_model(model: Callable[..., Any]) -> Callable[..., Any]:
    """The module or function behind what ``torch.compile`` made of it, and behind a module's bound method."""
    model = uncompiled(model)
    owner = getattr(model, "__self__", None)
    if isinstance(owner, torch.nn.Module) and getattr(model, "__name__", "") in _CALLS_OF_A_MODULE:
        return uncompiled(owner)
    return model
