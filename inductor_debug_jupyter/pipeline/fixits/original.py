"""Inputs and results of the original graph, to which every call of the rewritten one is held.

A rewritten graph is made for the sizes, strides and dtypes that it was traced with: :func:`signature` tells them apart,
and a call with another signature is never answered by it. Results get the original's strides and aliases (a view of an
input is a view of that input, not of its padded copy), and their shapes and dtypes are compared with the original's at
every call: a padding that was cut to another size is an error, never a result.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.errors import RewriteError
from inductor_debug_jupyter.pipeline.torch_compat.graphs import node_value, storage_of

Signature = tuple[Any, ...]


def signature(args: Sequence[Any]) -> Signature:
    """What a rewritten graph depends on: layout, dtype, device and ``requires_grad`` of tensors, any other value."""
    return tuple(
        (
            each.shape,
            each.stride() if each.layout is torch.strided else each.layout,
            each.dtype,
            each.device,
            each.requires_grad,
        )
        if isinstance(each, torch.Tensor)
        else (type(each), each)
        for each in args
    )


@dataclass(frozen=True)
class Layout:
    """How a result lies in memory: in the storage of an input, or in one that it may share with other results.

    Attributes:
        sizes: its shape.
        strides: its strides.
        offset: where it begins; in an input's storage, counted from where that input begins.
        dtype: its dtype.
        storage: which storage; results of the same number share one.
        elements: how many elements that storage has room for.
        source: number of the input that it is a view of; None when its memory is no input's.
    """

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    dtype: torch.dtype
    storage: int
    elements: int
    source: int | None = None

    def view_of(self, base: torch.Tensor, begin: int = 0) -> torch.Tensor:
        """The result as a view of its storage."""
        return base.as_strided(self.sizes, self.strides, begin + self.offset)

    def is_that_of(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor has this shape, dtype and these strides; the stride of a dimension of 1 does not matter."""
        if tensor.layout is not torch.strided or tuple(tensor.shape) != self.sizes or tensor.dtype != self.dtype:
            return False
        pairs = zip(self.sizes, self.strides, tensor.stride(), strict=True)
        return all(one == other for size, one, other in pairs if size != 1)

    @property
    def once(self) -> tuple[slice, ...]:
        """The slices that select every element of memory once, where strides of 0 repeat it."""
        return tuple(
            slice(0, 1) if stride == 0 and size > 1 else slice(None)
            for size, stride in zip(self.sizes, self.strides, strict=True)
        )

    @property
    def is_whole(self) -> bool:
        """Whether it begins its storage and is laid out as torch does by default."""
        expected = 1
        for size, stride in zip(reversed(self.sizes), reversed(self.strides), strict=True):
            if size != 1 and stride != expected:
                return False
            expected *= max(size, 1)
        return self.offset == 0


def fake_results(graph_module: torch.fx.GraphModule) -> list[Any]:
    """The results of a traced graph, as fake values."""
    (made,) = graph_module.graph.output_node().args
    nodes = made if isinstance(made, tuple | list) else (made,)
    return [node_value(node) if isinstance(node, torch.fx.Node) else node for node in nodes]


class Original:
    """The layouts of a graph's results, read from its fake values."""

    def __init__(self, plain: torch.fx.GraphModule) -> None:
        inputs: dict[int, tuple[int, torch.Tensor]] = {}
        for number, node in enumerate(plain.graph.find_nodes(op="placeholder")):
            value = node_value(node)
            if isinstance(value, torch.Tensor) and storage_of(value)[0] != -1:
                inputs.setdefault(storage_of(value)[0], (number, value))

        def layout(value: Any) -> Layout | None:
            if not isinstance(value, torch.Tensor):
                return None
            storage, size = storage_of(value)
            source, offset = None, int(value.storage_offset())
            if storage in inputs and inputs[storage][1].dtype == value.dtype:
                source, given = inputs[storage]
                offset -= int(given.storage_offset())
            elements = (size or 0) // max(value.element_size(), 1)
            return Layout(tuple(value.shape), tuple(value.stride()), offset, value.dtype, storage, elements, source)

        self.results = tuple(map(layout, fake_results(plain)))

    def moved(self, fakes: Sequence[Any]) -> tuple[bool, ...]:
        """For each result, whether the rewriting changed how it lies in memory, or what shares that memory.

        ``fakes`` are the rewritten graph's results without padding and in the original's dtypes, as fake tensors: fake
        is compared with fake, since a few real kernels choose other strides than their fakes.
        """
        together: set[int] = set()
        shared: dict[int, int] = {}
        for layout, fake in zip(self.results, fakes, strict=True):
            if layout is not None and isinstance(fake, torch.Tensor):
                theirs = storage_of(fake)[0]
                if not layout.is_that_of(fake) or shared.setdefault(layout.storage, theirs) != theirs:
                    together.add(layout.storage)
        return tuple(layout is not None and layout.storage in together for layout in self.results)

    def laid_out(
        self, results: Sequence[Any], args: Sequence[Any], copied: Collection[int], moved: Sequence[bool]
    ) -> list[Any]:
        """Results with the strides and aliases of the original.

        Args:
            results: what the rewritten graph gave, without padding and in the original's dtypes.
            args: the user's inputs.
            copied: numbers of the inputs that the host copied on their way into the graph.
            moved: the answer of :meth:`moved`.
        """
        made = list(results)
        together: dict[tuple[int, torch.dtype], list[int]] = {}
        for number, layout in enumerate(self.results):
            if layout is None or not isinstance(made[number], torch.Tensor):
                continue
            if layout.source is not None and layout.source in copied:
                given = args[layout.source]
                view = layout.view_of(given, given.storage_offset())
                made[number] = view if made[number].requires_grad else view.detach()
            elif layout.source is None and moved[number]:
                together.setdefault((layout.storage, layout.dtype), []).append(number)
        for numbers in together.values():
            for number, result in zip(numbers, self._in_one_storage(numbers, made), strict=True):
                made[number] = result
        return made

    def _in_one_storage(self, numbers: Sequence[int], made: Sequence[Any]) -> list[torch.Tensor]:
        """The results copied into one new storage that they share, as the original's do; differentiable."""
        layouts = [layout for number in numbers if (layout := self.results[number]) is not None]
        first = layouts[0]
        if len(layouts) == 1 and first.is_whole:
            return [made[numbers[0]].contiguous()]
        base = made[numbers[0]].new_empty(first.elements)
        for number, layout in zip(numbers, layouts, strict=True):
            layout.view_of(base)[layout.once].copy_(made[number][layout.once])
        return [layout.view_of(base) for layout in layouts]

    def check(self, results: Sequence[Any]) -> None:
        """Compare shapes and dtypes with the original's.

        Raises:
            RewriteError: a number of results, a shape or a dtype differs.
        """
        if len(results) != len(self.results):
            raise RewriteError(f"the rewritten graph gives {len(results)} results, the original {len(self.results)}")
        for number, (result, layout) in enumerate(zip(results, self.results, strict=True)):
            if layout is None:
                continue
            if not isinstance(result, torch.Tensor):
                raise RewriteError(f"result {number} of the rewritten graph is {result!r}, the original's is a tensor")
            if tuple(result.shape) != layout.sizes or result.dtype != layout.dtype:
                raise RewriteError(
                    f"result {number} of the rewritten graph is {list(result.shape)} {result.dtype}, "
                    f"the original's is {list(layout.sizes)} {layout.dtype}: it was not returned"
                )
