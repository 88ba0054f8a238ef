"""The sizes that a graph is called with, where it is open in some.

Dynamo compiles such a graph once for all values of the open sizes, and says nothing of later calls. A rule that looked
at the sizes of the first call has not seen the others. So what a backend returned is called through a function that
notes them, while the capture lasts; after that the function only passes the call on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.torch_compat.graphs import node_value
from inductor_debug_jupyter.pipeline.torch_compat.stack_levels import not_counted

_MOST = 4096


class SizesSeen:
    """The values that a graph's open sizes had, each combination once."""

    def __init__(self) -> None:
        self.is_open = True
        self.is_full = False
        """Whether there were more than are kept."""
        self._values: dict[tuple[tuple[str, int], ...], None] = {}

    @property
    def values(self) -> tuple[dict[str, int], ...]:
        """Symbol → value, for each combination."""
        return tuple(dict(each) for each in tuple(self._values))

    def add(self, sizes: tuple[tuple[str, int], ...]) -> None:
        """Keep one combination."""
        if sizes not in self._values:
            self.is_full = self.is_full or len(self._values) >= _MOST
            if not self.is_full:
                self._values[sizes] = None

    def noting(self, compiled: Callable[..., Any], places: list[tuple[str, int, int | None]]) -> Callable[..., Any]:
        """``compiled``, whose calls are noted; ``places`` is where each symbol is: input, and dimension of a tensor."""

        @not_counted
        def call(*args: Any) -> Any:
            if self.is_open:
                self.add(tuple((name, _size(args[at], dimension)) for name, at, dimension in places))
            return compiled(*args)

        return call


def _size(value: Any, dimension: int | None) -> int:
    return int(value if dimension is None else value.shape[dimension])


def open_places(graph_module: torch.fx.GraphModule) -> list[tuple[str, int, int | None]]:
    """Where an input of a Dynamo graph shows the value of each symbol: its name, the input, and the dimension."""
    places: dict[str, tuple[str, int, int | None]] = {}
    for at, node in enumerate(graph_module.graph.find_nodes(op="placeholder")):
        value = node_value(node)
        sizes = list(enumerate(value.shape)) if isinstance(value, torch.Tensor) else [(None, value)]
        for dimension, size in sizes:
            if isinstance(size, torch.SymInt) and size.node.expr.is_symbol:
                name = str(size.node.expr)
                places.setdefault(name, (name, at, dimension))
    return list(places.values())
