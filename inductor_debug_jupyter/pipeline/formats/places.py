"""What an op of a model is called wherever the model is traced: ``encoder.layer.3.attention:bmm``, module path and op.

Where a module has several ops of a kind, a number says which of them: ``:add#2`` is the second sum outside of any
module. Names of nodes would not do: they differ between a model's graphs. All products are ``matmul``, since a
``linear`` is one in one graph and ``addmm`` in another. For numbers in the path ``*`` stands for any.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Final

import torch

from inductor_debug_jupyter.pipeline.devices.ops import MATMULS
from inductor_debug_jupyter.pipeline.torch_compat.graphs import is_aten, module_path_of
from inductor_debug_jupyter.pipeline.torch_compat.stochastic import bare_op, rounds_nothing

_SEVERAL: Final = "(#[0-9]+)?"
"""What may stand behind a name without a number."""


def places_of(graph: torch.fx.Graph) -> dict[torch.fx.Node, str]:
    """Every op that rounds → what it is called."""
    numbered: dict[str, list[torch.fx.Node]] = {}
    for node in graph.nodes:
        if node.op == "call_function" and is_aten(node.target) and not rounds_nothing(node.target, node.args):
            numbered.setdefault(f"{module_path_of(node)}:{_kind(bare_op(node.target))}", []).append(node)
    return {
        node: place if len(nodes) == 1 else f"{place}#{number}"
        for place, nodes in numbered.items()
        for number, node in enumerate(nodes, 1)
    }


def nodes_at(graph: torch.fx.Graph, places: Collection[str]) -> set[torch.fx.Node]:
    """The nodes that these names mean; one without a number means all ops of its kind in the module."""
    texts = [re.escape(place).replace(r"\*", "[0-9]+") + ("" if "#" in place else _SEVERAL) for place in places]
    patterns = [re.compile(text) for text in texts]
    return {node for node, place in places_of(graph).items() if any(each.fullmatch(place) for each in patterns)}


def _kind(name: str) -> str:
    """The op as all graphs have it: ``_native_batch_norm_legit_no_training`` is ``batch_norm``."""
    if name in MATMULS:
        return "matmul"
    if name.lstrip("_").startswith("conv"):
        return "convolution"
    if "scaled_dot_product" in name:
        return "attention"
    return re.sub(r"^_?(native_)?", "", name).partition("_legit")[0]
