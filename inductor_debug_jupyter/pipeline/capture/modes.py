"""What was switched on around a call: a model that is run again under other casts is another model."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch

_DEVICES = ("cpu", "cuda", "xpu", "mps")


@dataclass(frozen=True)
class CallModes:
    """``autocast`` has the dtype for each kind of device on which ``torch.autocast`` was on."""

    autocast: tuple[tuple[str, torch.dtype], ...] = ()

    @classmethod
    def now(cls) -> CallModes:
        """What is on at this moment."""
        on = (device for device in _DEVICES if torch.is_autocast_enabled(device))
        return cls(tuple((device, torch.get_autocast_dtype(device)) for device in on))

    @contextmanager
    def again(self) -> Iterator[None]:
        """The same once more, whatever is on around it."""
        with ExitStack() as stack:
            before = CallModes.now()
            for device in {device for device, _ in before.autocast} - {device for device, _ in self.autocast}:
                stack.enter_context(torch.autocast(device, enabled=False))
            for device, dtype in self.autocast:
                stack.enter_context(torch.autocast(device, dtype=dtype))
            yield
