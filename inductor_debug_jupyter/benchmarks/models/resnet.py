"""ResNet-18: a convolutional network of basic blocks with a classifier on top."""

from __future__ import annotations

from inductor_debug_jupyter.benchmarks.models.model import SEED, BenchmarkModel, Built, transformers


def _build(small: bool) -> Built:
    library = transformers()
    import torch

    torch.manual_seed(SEED)
    widths = [16, 32] if small else [64, 128, 256, 512]
    config = library.ResNetConfig(
        embedding_size=widths[0],
        hidden_sizes=widths,
        depths=[1, 1] if small else [2, 2, 2, 2],
        layer_type="basic",
        num_labels=10 if small else 1000,
    )
    pixels = 32 if small else 224
    return Built(library.ResNetForImageClassification(config).eval(), (torch.randn(1, 3, pixels, pixels),))


MODEL = BenchmarkModel("resnet", "ResNet-18, a convolutional network, 1 × 3 × 224 × 224 pixels", _build)
