"""BERT in the shape of BERT-base-multilingual-cased: a Transformer encoder with a large vocabulary."""

from __future__ import annotations

from inductor_debug_jupyter.benchmarks.models.model import SEED, BenchmarkModel, Built, transformers

_VOCABULARY = 119_547
_TOKENS = 128


def _build(small: bool) -> Built:
    library = transformers()
    import torch

    torch.manual_seed(SEED)
    sizes = {"vocab_size": _VOCABULARY}
    if small:
        sizes = {
            "vocab_size": 100,
            "hidden_size": 32,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 64,
        }
    config = library.BertConfig(**sizes)
    tokens = torch.randint(0, config.vocab_size, (1, 16 if small else _TOKENS))
    return Built(library.BertModel(config).eval(), (tokens, torch.ones_like(tokens)))


def _build_two_layers(small: bool) -> Built:
    library = transformers()
    import torch

    if small:
        return _build(small)
    torch.manual_seed(SEED)
    config = library.BertConfig(num_hidden_layers=2, vocab_size=1000)
    tokens = torch.randint(0, config.vocab_size, (1, 64))
    return Built(library.BertModel(config).eval(), (tokens, torch.ones_like(tokens)))


TWO_LAYERS = BenchmarkModel("bert-2l", "BERT-base's width, two layers, 1,000 words, 1 × 64 tokens", _build_two_layers)
MODEL = BenchmarkModel("bert", "BERT-base-multilingual's shape, a Transformer encoder, 1 × 128 tokens", _build)
