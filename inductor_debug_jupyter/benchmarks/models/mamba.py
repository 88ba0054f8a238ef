"""A Mamba-style state space model.

Without its CUDA kernels the scan over the sequence is a Python loop, which torch.compile unrolls: the graph grows with
layers × tokens. So the model is wide rather than deep and the sequence short.
"""

from __future__ import annotations

from inductor_debug_jupyter.benchmarks.models.model import SEED, BenchmarkModel, Built, transformers

_TOKENS = 16


def _build(small: bool) -> Built:
    library = transformers()
    import torch

    torch.manual_seed(SEED)
    config = library.MambaConfig(
        vocab_size=100 if small else 16_000,
        hidden_size=32 if small else 768,
        num_hidden_layers=1 if small else 4,
        state_size=4 if small else 16,
        use_cache=False,
    )
    tokens = torch.randint(0, config.vocab_size, (1, 4 if small else _TOKENS))
    return Built(library.MambaModel(config).eval(), (tokens,))


MODEL = BenchmarkModel("mamba", "a Mamba-style state space model, 1 × 16 tokens", _build)
