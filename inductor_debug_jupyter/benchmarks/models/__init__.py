"""The models that are measured: real architectures from a config, with random weights, so that no download is needed.

Weights are seeded: two runs measure the same model.
"""

from __future__ import annotations

from importlib import import_module

from inductor_debug_jupyter.benchmarks.models.model import BenchmarkModel, Built

MODEL_NAMES = ("bert", "resnet", "mamba")
"""Every model. A new one is a module of that name here with a ``MODEL``, and its name in this list."""


def benchmark_model(name: str) -> BenchmarkModel:
    """The model of that name, or ``bert-2l``; importing it is cheap, building it is not."""
    module, attribute = ("bert", "TWO_LAYERS") if name == "bert-2l" else (name, "MODEL")
    model: BenchmarkModel = getattr(import_module(f"{__name__}.{module}"), attribute)
    return model


__all__ = ["MODEL_NAMES", "BenchmarkModel", "Built", "benchmark_model"]
