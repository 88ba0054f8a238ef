"""Refuse graphs that the device cannot run when they are compiled, and not in the middle of a run."""

from __future__ import annotations

import operator
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters.stick.formats import DeviceFormat
from inductor_debug_jupyter.pipeline.adapters.stick.layout import dtype_text
from inductor_debug_jupyter.pipeline.errors import RefusedError
from inductor_debug_jupyter.pipeline.torch_compat.graphs import is_aten, node_value, target_name, writes_into_operands
from inductor_debug_jupyter.pipeline.torch_compat.trees import of_kind


def check_graph(graph_module: torch.fx.GraphModule, form: DeviceFormat) -> None:
    """Check every node of an AOT graph.

    Raises:
        RefusedError: the device cannot run a node; the message names the first one and says why.
    """
    for node in graph_module.graph.nodes:
        if node.op == "output":
            continue
        reason = _reason(node) if node.op == "call_function" else ""
        reason = reason or _cannot_hold(node, form)
        if reason:
            what = target_name(node) if node.op == "call_function" else f"{node.op} {node.name}"
            raise RefusedError(f"{what}: {reason}")


def _reason(node: torch.fx.Node) -> str:
    """Why an op cannot be a kernel; empty when it can."""
    target: Any = node.target
    has_tensors = bool(of_kind(torch.Tensor, [node_value(each) for each in node.all_input_nodes]))
    if not is_aten(target):
        if target is operator.getitem or not has_tensors:
            return ""
        return "the device runs aten ops, and has no kernel for this one"
    if writes_into_operands(target):
        return "it writes into its operands; a kernel writes into memory of its own"
    return ""


def _cannot_hold(node: torch.fx.Node, form: DeviceFormat) -> str:
    for fake in of_kind(torch.Tensor, node_value(node)):
        if fake.layout is not torch.strided:
            return f"a {str(fake.layout).removeprefix('torch.')} tensor has no stick layout"
        if fake.is_quantized:
            return "a quantized tensor has no stick layout"
        try:
            form.held_as(fake.dtype)
        except RefusedError as error:
            return str(error)
    return _reads_other_bits(node, form)


def _reads_other_bits(node: torch.fx.Node, form: DeviceFormat) -> str:
    """The refusal of a view of bits as another dtype, where the device holds other bits than the host."""
    if str(node.target) not in {"aten.view.dtype", "aten.view_copy.dtype"}:
        return ""
    for fake in of_kind(torch.Tensor, [node_value(each) for each in (node, *node.all_input_nodes)]):
        if (held := form.held_as(fake.dtype)) != fake.dtype:
            return f"it reads bits, and {dtype_text(fake.dtype)} is held as {dtype_text(held)}"
    return ""
