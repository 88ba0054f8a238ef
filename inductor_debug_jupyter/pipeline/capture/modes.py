"""The circumstances of a call: a model that runs again under other modes, or other random numbers, is another model."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy
import torch

from inductor_debug_jupyter.pipeline.interrupts import uncut

_DEVICES = ("cpu", "cuda", "xpu", "mps")


@dataclass(frozen=True)
class CallModes:
    """Autocast and grad mode.

    Attributes:
        autocast: the dtype for each kind of device on which ``torch.autocast`` was on.
        grad: whether grad mode was on; off in inference mode. Layers of torch take other paths without it
            (``nn.TransformerEncoderLayer`` is then a single op).
    """

    autocast: tuple[tuple[str, torch.dtype], ...] = ()
    grad: bool = True

    @classmethod
    def now(cls) -> CallModes:
        """What is on at this moment."""
        on = (device for device in _DEVICES if torch.is_autocast_enabled(device))
        return cls(tuple((device, torch.get_autocast_dtype(device)) for device in on), torch.is_grad_enabled())

    @uncut
    def again(self) -> Iterator[None]:
        """The same once more, whatever is on around it."""
        with ExitStack() as stack:
            stack.enter_context(torch.set_grad_enabled(self.grad))
            before = CallModes.now()
            for device in {device for device, _ in before.autocast} - {device for device, _ in self.autocast}:
                stack.enter_context(torch.autocast(device, enabled=False))
            for device, dtype in self.autocast:
                stack.enter_context(torch.autocast(device, dtype=dtype))
            yield


@dataclass(frozen=True, eq=False)
class RandomState:
    """The states of Python's, numpy's and torch's CPU generator."""

    python: Any
    arrays: Any
    tensors: torch.Tensor

    @classmethod
    def now(cls) -> RandomState:
        """The states at this moment."""
        return cls(random.getstate(), numpy.random.get_state(), torch.get_rng_state())

    def restore(self) -> None:
        """Let the generators go on from here."""
        random.setstate(self.python)
        numpy.random.set_state(self.arrays)
        torch.set_rng_state(self.tensors)
