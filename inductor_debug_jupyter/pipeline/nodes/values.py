"""A node's inputs, its output, and a callable of just that node.

Inputs are the arguments that contain values of the graph, by the op's own names for them, in its order: a tensor, a
number for a symbolic size, or a list of them for an argument that is a list (``cat``). The callable contains the
constants of the graph (a dimension, a scale).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx.node import map_aggregate

from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.harmless import Harmless
from inductor_debug_jupyter.pipeline.rerun.copies import clone_inputs
from inductor_debug_jupyter.pipeline.torch_compat.graphs import argument_names, target_name
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors


class NodeFunction(Harmless):
    """A callable of one op or kernel.

    Args:
        name: the node.
        what: the op or kernel.
        names: its inputs, in order; callers can give them by position or by name.
        apply: runs it on inputs by name.
    """

    def __init__(self, name: str, what: str, names: tuple[str, ...], apply: Callable[[dict[str, Any]], Any]) -> None:
        self.name = name
        self.what = what
        self.names = names
        self._apply = apply

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the op or kernel.

        Raises:
            UsageError: an input is missing, unknown or given twice.
        """
        given = {**dict(zip(self.names, args, strict=False)), **kwargs}
        twice = [name for name in self.names[: len(args)] if name in kwargs]
        if len(args) > len(self.names) or twice or given.keys() != set(self.names):
            received = ", ".join([f"{len(args)} by position", *kwargs])
            raise UsageError(f"{self.name} takes {len(self.names)} inputs ({', '.join(self.names)}); given: {received}")
        return self._apply(given)

    def __repr__(self) -> str:
        return f"<{self.what}({', '.join(self.names)}) of node {self.name}>"


@dataclass(frozen=True, eq=False)
class NodeValues:
    """The values of a node that ran.

    Attributes:
        inputs: by name, in order.
        output: None when ``hidden`` says why it has none.
        function: a callable of just this node.
        note: how the values were computed, if not by eager mode's own ops.
        kernel: the kernel that computed them, on a backend that has kernels.
        outputs: all visible outputs by node; for an op only its own.
        hidden: one sentence when the node has no value of its own.
    """

    inputs: dict[str, Any]
    output: Any
    function: NodeFunction | None
    note: str = ""
    kernel: str = ""
    outputs: dict[str, Any] = field(default_factory=dict)
    hidden: str = ""


@dataclass(frozen=True, slots=True)
class _Slot:
    """Stands for the value of another node among a node's arguments."""

    node: str


@dataclass(frozen=True, eq=False)
class NodeCall:
    """A node's call without its graph: the function and its arguments.

    Attributes:
        name: the node's name.
        op: torch's kind of call (``call_function``, …).
        what: the op's readable name.
        target: the function; for a method its name.
        arguments: name → value, with slots for the values of other nodes.
        positional: how many arguments are positional.
    """

    name: str
    op: str
    what: str
    target: Any
    arguments: dict[str, Any]
    positional: int

    @classmethod
    def of(cls, node: torch.fx.Node, graph_module: torch.fx.GraphModule) -> NodeCall:
        """The call of a node of this graph."""
        named = {**dict(zip(argument_names(node), node.args, strict=True)), **node.kwargs}
        arguments = {
            key: _replaced(value, torch.fx.Node, lambda each: _Slot(each.name)) for key, value in named.items()
        }
        target = graph_module.get_submodule(str(node.target)) if node.op == "call_module" else node.target
        return cls(node.name, node.op, target_name(node), target, arguments, len(node.args))

    @property
    def input_names(self) -> tuple[str, ...]:
        """The arguments that contain values of other nodes."""
        return tuple(
            name for name, value in self.arguments.items() if any(isinstance(leaf, _Slot) for leaf in _leaves(value))
        )

    def inputs(self, look_up: Callable[[str], Any]) -> dict[str, Any]:
        """The inputs by name; ``look_up`` gives the value of a node."""
        return {
            name: _replaced(self.arguments[name], _Slot, lambda slot: look_up(slot.node)) for name in self.input_names
        }

    def by_node(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """From inputs by name to values by node.

        Raises:
            UsageError: a list has another length than in the graph.
        """
        found: dict[str, Any] = {}
        for name in self.input_names:
            places, values = _leaves(self.arguments[name]), _leaves(given[name])
            if len(places) != len(values):
                raise UsageError(f"{self.name}: {name} is {len(places)} values; given: {len(values)}")
            found |= {slot.node: value for slot, value in zip(places, values, strict=True) if isinstance(slot, _Slot)}
        return found

    def apply(self, given: Mapping[str, Any]) -> Any:
        """Call the function with inputs by name."""
        filled = [given.get(name, value) for name, value in self.arguments.items()]
        args = filled[: self.positional]
        kwargs = dict(zip(list(self.arguments)[self.positional :], filled[self.positional :], strict=True))
        if self.op == "call_method":
            return getattr(args[0], self.target)(*args[1:], **kwargs)
        return self.target(*args, **kwargs)

    def function(self) -> NodeFunction:
        """The call as a callable."""
        return NodeFunction(self.name, self.what, self.input_names, self.apply)


def _replaced(value: Any, kind: type, replace: Callable[[Any], Any]) -> Any:
    """The same structure (lists, tuples, dicts, slices) with all leaves of one class replaced."""
    made = map_aggregate(value, lambda leaf: replace(leaf) if isinstance(leaf, kind) else leaf)
    return list(made) if isinstance(made, list) else made


def _leaves(value: Any) -> list[Any]:
    found: list[Any] = []
    _replaced(value, object, found.append)
    return found


def own_copies(values: Any) -> Any:
    """Detached copies with the same strides; tensors that shared memory share it in the copies."""
    return clone_inputs(map_tensors(torch.Tensor.detach, values))
