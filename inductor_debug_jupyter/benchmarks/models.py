"""The models that are measured: real architectures from a config, with random weights, so that no download is needed.

Weights are seeded: two runs measure the same model. Without its CUDA kernels the Mamba's scan over the sequence is a
Python loop, which torch.compile unrolls, so that the graph grows with layers × tokens: it is wide rather than deep, and
its sequence short.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inductor_debug_jupyter.pipeline.errors import UsageError

SEED = 0


@dataclass(frozen=True)
class Built:
    """A model, ready to be called with ``inputs`` (positional)."""

    module: Any
    inputs: tuple[Any, ...]

    @property
    def parameters(self) -> int:
        """How many numbers the model has learnt."""
        return sum(parameter.numel() for parameter in self.module.parameters())


@dataclass(frozen=True)
class BenchmarkModel:
    """One entry of the list.

    Args:
        name: what ``--model`` calls it.
        description: one line for the list and the report.
        build: makes it; ``build(small=True)`` makes one of the same architecture that compiles in seconds.
    """

    name: str
    description: str
    build: Callable[[bool], Built]


def transformers() -> Any:
    """The transformers library.

    Raises:
        UsageError: it is not installed.
    """
    try:
        import transformers as library  # the [benchmarks] extra
    except ImportError as error:
        raise UsageError(
            f"the benchmark models need the transformers library ({error}); "
            "install it with: pip install 'inductor-debug-jupyter[benchmarks]'"
        ) from None
    library.logging.set_verbosity_error()  # it is said at length that optional CUDA kernels are missing
    return library


def _seeded() -> tuple[Any, Any]:
    """The transformers library, and torch with its generator as at the beginning."""
    library = transformers()
    import torch

    torch.manual_seed(SEED)
    return library, torch


def _bert(small: bool, *, tokens: int = 128, **sizes: int) -> Built:
    library, torch = _seeded()
    if small:
        tokens, sizes = 16, {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 1}
        sizes |= {"num_attention_heads": 2, "intermediate_size": 64}
    config = library.BertConfig(**sizes)
    words = torch.randint(0, config.vocab_size, (1, tokens))
    return Built(library.BertModel(config).eval(), (words, torch.ones_like(words)))


def _resnet(small: bool) -> Built:
    library, torch = _seeded()
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


def _mamba(small: bool) -> Built:
    library, torch = _seeded()
    config = library.MambaConfig(
        vocab_size=100 if small else 16_000,
        hidden_size=32 if small else 768,
        num_hidden_layers=1 if small else 4,
        state_size=4 if small else 16,
        use_cache=False,
    )
    tokens = torch.randint(0, config.vocab_size, (1, 4 if small else 16))
    return Built(library.MambaModel(config).eval(), (tokens,))


_MODELS = {
    model.name: model
    for model in (
        BenchmarkModel(
            "bert",
            "BERT-base-multilingual's shape, a Transformer encoder, 1 × 128 tokens",
            lambda small: _bert(small, vocab_size=119_547),
        ),
        BenchmarkModel("resnet", "ResNet-18, a convolutional network, 1 × 3 × 224 × 224 pixels", _resnet),
        BenchmarkModel("mamba", "a Mamba-style state space model, 1 × 16 tokens", _mamba),
        BenchmarkModel(
            "bert-2l",
            "BERT-base's width, two layers, 1,000 words, 1 × 64 tokens",
            lambda small: _bert(small, tokens=64, num_hidden_layers=2, vocab_size=1000),
        ),
    )
}
MODEL_NAMES = ("bert", "resnet", "mamba")
"""The models of the ``models`` suite."""


def benchmark_model(name: str) -> BenchmarkModel:
    """The model of that name, or ``bert-2l``; building it imports torch and transformers."""
    return _MODELS[name]


def encoder(layers: int, *, small: bool = False) -> Built:
    """Torch's own transformer encoder in training mode, of which the ``capture`` suite asks what a compile costs.

    ``small`` is one tiny layer with a single C++ kernel: the C++ compiler is most of the time of a small compile.
    """
    import torch

    torch.manual_seed(SEED)
    if small:
        tiny = torch.nn.Sequential(torch.nn.Tanh(), torch.nn.Linear(8, 8, bias=False))
        return Built(tiny, (torch.randn(2, 8),))
    layer = torch.nn.TransformerEncoderLayer(64, 4, dim_feedforward=128, dropout=0.0, batch_first=True)
    module = torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
    return Built(module.train(), (torch.randn(2, 16, 64),))
