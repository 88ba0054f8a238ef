"""The model of the ``capture`` suite: torch's own transformer encoder, trained for one step.

It is not in the list of the ``models`` suite: what is asked of it is what a compile costs, not how fast it runs.
"""

from __future__ import annotations

import torch

from inductor_debug_jupyter.benchmarks.models.model import SEED, Built


def encoder(layers: int, *, small: bool = False) -> Built:
    """An encoder of that many layers in training mode; ``small`` is one linear layer that compiles in seconds."""
    torch.manual_seed(SEED)
    if small:
        return Built(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU()), (torch.randn(2, 8),))
    layer = torch.nn.TransformerEncoderLayer(64, 4, dim_feedforward=128, dropout=0.0, batch_first=True)
    module = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    return Built(module.train(), (torch.randn(2, 16, 64),))
