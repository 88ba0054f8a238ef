"""How many bytes a search holds on to, and the most that it ever did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass
class LiveBytes:
    """Counts tensors that are kept and let go of; views of a model's own memory are not counted."""

    now: int = 0
    peak: int = 0

    def there(self, value: Any) -> None:
        """A tensor is kept from now on."""
        if isinstance(value, torch.Tensor):
            self.now += value.numel() * value.element_size()
            self.peak = max(self.peak, self.now)

    def gone(self, value: Any) -> None:
        """It was let go of."""
        if isinstance(value, torch.Tensor):
            self.now = max(0, self.now - value.numel() * value.element_size())
