"""The border between host and rewritten graph: inputs are padded, cast and laid out, results are cut and cast back.

None of it is in the graph that the target judges: a device's driver lays tensors out as it copies them, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.errors import RewriteError
from inductor_debug_jupyter.pipeline.fixits.mutations import Mutations
from inductor_debug_jupyter.pipeline.fixits.padded import (
    Block,
    cut,
    grown,
    grown_in_blocks,
    tensor_of,
    wrapped,
)
from inductor_debug_jupyter.pipeline.fixits.padded_ops import GROWING
from inductor_debug_jupyter.pipeline.fixits.precision import reaches
from inductor_debug_jupyter.pipeline.fixits.rewrite import Rewrite
from inductor_debug_jupyter.pipeline.formats.places import nodes_at
from inductor_debug_jupyter.pipeline.torch_compat.aten_tracing import aten_name
from inductor_debug_jupyter.pipeline.torch_compat.graphs import node_value


class Border:
    """What the host does to the inputs and results of one graph."""

    def __init__(self, rewrite: Rewrite, plain: torch.fx.GraphModule, roles: Sequence[tuple[str, str]]) -> None:
        self._rewrite = rewrite
        self._blocks: dict[int, dict[int, Block]] = {}
        self._memory: list[dict[int, int]] = []
        self._sizes: list[tuple[int, ...] | None] = []
        self.mutations = Mutations(plain.graph)
        self.written = self.mutations.written_inputs
        self._exact: set[int] = set()
        self._uncast: set[int] = set()
        """Inputs that ops in float32 read: they are not cast."""
        precise = nodes_at(plain.graph, rewrite.precise) if rewrite.precise else set()
        for node, (role, _) in zip(plain.graph.find_nodes(op="placeholder"), roles, strict=True):
            value = node_value(node)
            is_tensor = isinstance(value, torch.Tensor)
            self._sizes.append(tuple(value.shape) if is_tensor else None)
            if is_exact := is_tensor and self.mutations.is_exact(node):
                self._exact.add(len(self._memory))
            if precise and reaches(node, precise):
                self._uncast.add(len(self._memory))
            self._memory.append(_growth(node, role, rewrite) if is_tensor and not is_exact else {})

    def pad_in_blocks(self, number: int, dim: int, block: Block) -> bool:
        """Have the host pad an input in blocks; returns whether that is new."""
        blocks = self._blocks.setdefault(number, {})
        if self._sizes[number] is None or dim in blocks or number in self._exact:
            return False
        blocks[dim] = block
        self._memory[number].pop(dim, None)
        return True

    def inward(self, args: Sequence[Any]) -> list[Any]:
        """The user's inputs as the rewritten graph takes them; differentiable."""
        return [self._in(number, arg) for number, arg in enumerate(args)]

    def _in(self, number: int, arg: Any) -> Any:
        if not isinstance(arg, torch.Tensor):
            return arg
        value = arg if number in self._uncast else arg.to(self._rewrite.dtype(arg.dtype))
        value = tensor_of(grown(value, self._memory[number])) if self._memory[number] else value
        for dim, block in self._blocks.get(number, {}).items():
            value = tensor_of(grown_in_blocks(value, dim, block))
        is_image = value.dim() == 4 and value.is_floating_point() and number not in self._exact
        if self._rewrite.channels_last and is_image:
            value = value.contiguous(memory_format=torch.channels_last)
        return value

    def value(self, number: int, tensor: Any) -> Any:
        """An input inside the rewritten graph, with the sizes that it stands for."""
        if (sizes := self._sizes[number]) is None:
            return tensor
        blocks = {dim: block.inner for dim, block in self._blocks.get(number, {}).items()}
        return wrapped(tensor, sizes, True, blocks)

    def refuse_overlaps(self, args: Sequence[Any], inward: Sequence[Any]) -> None:
        """Refuse inputs that share written memory: each is copied on its own, so a write would not reach the others.

        Raises:
            RewriteError: the graph writes into an input that overlaps another, and one of them was copied.
        """
        for number in self.written:
            for other, arg in enumerate(args):
                copied = inward[number] is not args[number] or inward[other] is not arg
                if other != number and copied and isinstance(arg, torch.Tensor) and _overlap(args[number], arg):
                    raise RewriteError(
                        f"inputs {number} and {other} of the graph share memory and the graph writes into it: "
                        "such a call cannot be fixed. Clone one of them before the call"
                    )

    def write_back(self, args: Sequence[Any], inward: Sequence[Any]) -> None:
        """Copy what the graph wrote into copied inputs back to the user's; differentiable where the original is."""
        for number in self.written:
            if inward[number] is not args[number]:
                is_leaf = args[number].is_leaf and args[number].requires_grad
                with torch.set_grad_enabled(torch.is_grad_enabled() and not is_leaf):  # else torch refuses the write
                    args[number].copy_(tensor_of(cut(self.value(number, inward[number]))))

    @staticmethod
    def outward(results: Sequence[Any], described: Sequence[Result]) -> list[Any]:
        """The results without padding, in the original's dtypes."""
        return [
            tensor_of(cut(wrapped(result, about.sizes, True, about.blocks))).to(about.dtype or result.dtype)
            if isinstance(result, torch.Tensor)
            else result
            for result, about in zip(results, described, strict=True)
        ]


@dataclass(frozen=True)
class Result:
    """The sizes, dtype (None: as it is) and blocks that a result of the rewritten graph stands for."""

    sizes: tuple[int, ...]
    dtype: torch.dtype | None
    blocks: Mapping[int, int] = field(default_factory=dict)


def _overlap(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether the stretches of memory from first to last element of two tensors overlap."""
    if one.layout is not torch.strided or other.layout is not torch.strided or not one.numel() or not other.numel():
        return False

    def stretch(tensor: torch.Tensor) -> tuple[int, int]:
        last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
        return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()

    (begin, end), (start, stop) = stretch(one), stretch(other)
    return begin < stop and start < end


_WEIGHTED = ("conv", "linear", "batch_norm", "layer_norm", "embedding")
"""Ops whose second operand is a weight (of ``embedding``, the first)."""


def _growth(node: torch.fx.Node, role: str, rewrite: Rewrite) -> dict[int, int]:
    """How an input of the graph is padded: dimension → size in memory."""
    value = node_value(node)
    if not value.is_floating_point():
        return {}
    rank = value.dim()
    reads = [user for user in node.users if aten_name(user.target).startswith(_WEIGHTED)]
    is_weight = (
        role != "input"
        or rank == 1
        or any((user.args[0] is node) == (aten_name(user.target) == "embedding") for user in reads)
    )
    convolved = rank >= 4 or (rank > 1 and any(aten_name(user.target).startswith("conv") for user in reads))
    dims = range(0 if is_weight else 1, 2 if convolved else rank)
    pads = {**rewrite.around, **rewrite.pads} if _is_multiplied(node) else rewrite.pads
    return {dim: pads[value.shape[dim]] for dim in dims if value.shape[dim] in pads}


def _is_multiplied(node: torch.fx.Node) -> bool:
    """Whether only products and convolutions read an input, directly or transposed."""
    names = {user: aten_name(user.target) for user in node.users}
    turned = [user for user, name in names.items() if name in {"t", "transpose", "permute"}]
    return bool(names) and all(
        name in GROWING or (user in turned and _is_multiplied(user)) for user, name in names.items()
    )
