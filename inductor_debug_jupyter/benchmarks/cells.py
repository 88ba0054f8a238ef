"""The benchmark models as a user has them: the source of a cell that makes one and calls it.

A patch is one of source, so what is patched has to be source.
"""

from __future__ import annotations

_BERT = """import torch
from transformers import BertConfig, BertModel

torch.manual_seed(0)
config = BertConfig({sizes})
model = BertModel(config).eval()
tokens = torch.randint(0, config.vocab_size, (1, {tokens}))
out = model(tokens, torch.ones_like(tokens)).last_hidden_state
"""
_RESNET = """import torch
from transformers import ResNetConfig, ResNetForImageClassification

torch.manual_seed(0)
config = ResNetConfig({sizes}, layer_type="basic")
model = ResNetForImageClassification(config).eval()
images = torch.randn(1, 3, {pixels}, {pixels})
out = model(images).logits
"""
_MAMBA = """import torch
from transformers import MambaConfig, MambaModel

torch.manual_seed(0)
config = MambaConfig({sizes}, use_cache=False)
model = MambaModel(config).eval()
tokens = torch.randint(0, config.vocab_size, (1, {tokens}))
out = model(tokens).last_hidden_state
"""
_TINY_BERT = "vocab_size=100, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64"
_RESNET_18 = "embedding_size=64, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 2, 2], num_labels=1000"
_TINY_RESNET = "embedding_size=16, hidden_sizes=[16, 32], depths=[1, 1], num_labels=10"
_FOUR_LAYERS = "vocab_size=16_000, hidden_size=768, num_hidden_layers=4, state_size=16"
_TINY_MAMBA = "vocab_size=100, hidden_size=32, num_hidden_layers=1, state_size=4"


def cell(model: str, small: bool) -> str:
    """The source of ``bert``, ``resnet`` or ``mamba``, as in :mod:`~inductor_debug_jupyter.benchmarks.models`."""
    if model == "bert":
        return _BERT.format(sizes=_TINY_BERT if small else "vocab_size=119_547", tokens=16 if small else 128)
    if model == "resnet":
        return _RESNET.format(sizes=_TINY_RESNET if small else _RESNET_18, pixels=32 if small else 224)
    return _MAMBA.format(sizes=_TINY_MAMBA if small else _FOUR_LAYERS, tokens=4 if small else 16)
