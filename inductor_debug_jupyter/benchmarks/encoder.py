"""The model of the ``capture`` suite: torch's own transformer encoder, trained for one step.

It is not in the list of the ``models`` suite: what is asked of it is what a compile costs, not how fast it runs.
"""

from __future__ import annotations

from typing import Any

import torch

from inductor_debug_jupyter.benchmarks.models import SEED, Built


class _Tiny(torch.nn.Module):
    """Every stage, and one C++ kernel in all: the C++ compiler is most of the time of a small compile."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8, bias=False)

    def forward(self, x: torch.Tensor) -> Any:
        """The sine is the kernel; the products are calls of torch."""
        return self.linear(x.sin())


def encoder(layers: int, *, small: bool = False) -> Built:
    """An encoder of that many layers in training mode; ``small`` is one tiny layer instead."""
    torch.manual_seed(SEED)
    if small:
        return Built(_Tiny(), (torch.randn(2, 8),))
    layer = torch.nn.TransformerEncoderLayer(64, 4, dim_feedforward=128, dropout=0.0, batch_first=True)
    module = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    return Built(module.train(), (torch.randn(2, 16, 64),))
