"""A graph ↔ JSON and tensors, to send it to another process.

Every node is written with its kind, name, target and arguments; the graph's tensors are sent beside them, and graphs
inside it are written the same way. Reading executes nothing, and nothing is pickled. A graph that holds a function of a
notebook or another object that only this process has is refused with the node's name.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.errors import CannotSendError
from inductor_debug_jupyter.pipeline.isolation.values import Packer, Unpacker
from inductor_debug_jupyter.pipeline.torch_compat.op_names import target_at, target_path


def write_graph(gm: torch.fx.GraphModule) -> dict[str, Any]:
    """The graph as plain values: nodes as JSON, tensors beside them.

    Raises:
        CannotSendError: a node cannot be sent.
    """
    gm = _without_modules(gm)
    attributes: dict[str, Any] = {}
    nodes = [_write_node(node, gm, attributes) for node in gm.graph.nodes]
    return {"nodes": nodes, "attributes": attributes}


def read_graph(written: Mapping[str, Any]) -> torch.fx.GraphModule:
    """The graph that :func:`write_graph` wrote.

    Raises:
        CannotSendError: it calls a function that this process does not have.
    """
    holder = torch.nn.Module()
    for name, value in written["attributes"].items():
        if isinstance(value, torch.nn.Parameter):
            holder.register_parameter(name, value)
        elif isinstance(value, torch.Tensor):
            holder.register_buffer(name, value)
        else:
            holder.add_module(name, read_graph(value))
    graph = torch.fx.Graph()
    made: dict[str, torch.fx.Node] = {}
    reader = Unpacker([], {}, special=lambda _, name: made[name])
    for node in written["nodes"]:
        made[node["name"]] = graph.create_node(
            node["op"],
            _target(node),
            reader.unpack(node["args"]),
            {key: reader.unpack(value) for key, value in node["kwargs"].items()},
            name=node["name"],
        )
    return torch.fx.GraphModule(holder, graph)


def _write_node(node: torch.fx.Node, gm: torch.fx.GraphModule, attributes: dict[str, Any]) -> dict[str, Any]:
    packer = Packer(
        f"node {node.name}", special=lambda value: {"node": value.name} if isinstance(value, torch.fx.Node) else None
    )
    target = node.target
    if node.op == "call_function":
        path = target_path(target)
        if path is None:
            name = getattr(target, "__qualname__", None) or getattr(target, "__name__", None) or type(target).__name__
            raise CannotSendError(
                f"node {node.name} calls {name}, which another process cannot import; define it in a module "
                "(a .py file), keep it out of the compiled part, or leave isolate out"
            )
        target = path
    elif node.op == "get_attr":
        target = f"held_{len(attributes)}"
        attributes[target] = _held(gm, str(node.target), node.name)
    written = {
        "op": node.op,
        "name": node.name,
        "target": str(target),
        "args": packer.pack(tuple(node.args)),
        "kwargs": {key: packer.pack(value) for key, value in node.kwargs.items()},
    }
    if packer.tensors:
        raise CannotSendError(f"node {node.name} has a tensor among its arguments instead of a node")
    return written


def _held(gm: torch.fx.GraphModule, target: str, name: str) -> Any:
    value = attrgetter(target)(gm)
    if isinstance(value, torch.Tensor):
        return value
    if isinstance(value, torch.fx.GraphModule):
        return write_graph(value)
    raise CannotSendError(
        f"node {name} holds a {type(value).__name__}, which cannot go to another process; allowed: tensors and graphs"
    )


def _target(node: Mapping[str, Any]) -> Any:
    if node["op"] != "call_function":
        return node["target"]
    try:
        return target_at(node["target"])
    except LookupError as error:
        raise CannotSendError(
            f"node {node['name']}: {error}; name the module that defines it: imports=['my_package.ops']"
        ) from None


class _Inlining(torch.fx.Tracer):
    """Traces into every module."""

    def is_leaf_module(self, m: torch.nn.Module, module_qualified_name: str) -> bool:
        return False


def _without_modules(gm: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """The same graph, with the ops of the modules that it calls inlined."""
    called = [node for node in gm.graph.nodes if node.op == "call_module"]
    if not called:
        return gm
    try:
        return torch.fx.GraphModule(gm, _Inlining().trace(gm))
    except Exception as error:  # a module's own code runs here
        raise CannotSendError(
            f"node {called[0].name} calls the module {called[0].target}, which cannot be written as ops "
            f"({type(error).__name__}: {error})"
        ) from error
