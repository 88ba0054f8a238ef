"""One FX graph → one :class:`GraphRecord`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from inductor_debug_jupyter.pipeline.capture.sources import cell_label, source_line, user_frames
from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord, SourceLine, TensorSpec
from inductor_debug_jupyter.pipeline.torch_compat import graphs as torch_graphs


def tensor_spec(tensor: torch.Tensor, storages: dict[int, int]) -> TensorSpec:
    """Shape, dtype, stride, device; symbolic sizes as their expressions. ``storages`` numbers the graph's memory."""
    identity, storage_bytes = torch_graphs.storage_of(tensor)
    return TensorSpec(
        shape=tuple(map(torch_graphs.plain_size, tensor.shape)),
        dtype=str(tensor.dtype).removeprefix("torch."),
        stride=torch_graphs.strides_of(tensor),
        device=str(tensor.device),
        itemsize=tensor.element_size(),
        storage=-1 if identity == -1 else storages.setdefault(identity, len(storages)),
        storage_bytes=storage_bytes,
    )


def graph_record(
    stage: str,
    graph_module: torch.fx.GraphModule,
    *,
    callers: tuple[SourceLine | None, SourceLine | None] = (None, None),
    roles: Sequence[tuple[str, str]] = (),
    origins: Mapping[int, tuple[str, ...]] | None = None,
) -> GraphRecord:
    """Copy a graph into a record.

    Args:
        stage: of the compile.
        graph_module: only read.
        callers: the line and the cell's line that called the compiled function: for nodes without frames of their own.
        roles: role and origin of each placeholder of the Dynamo graph, in order.
        origins: sequence number of a forward op → the Dynamo nodes behind it: a backward op has its forward's number.
    """
    is_dynamo = stage == "dynamo"
    placeholders = iter(roles)
    storages: dict[int, int] = {}
    modules: dict[str, str] = {}
    nodes = []
    for node in graph_module.graph.nodes:
        role, origin = "", ""
        if node.op == "placeholder":
            role, origin = next(placeholders, ("input", "")) if is_dynamo else torch_graphs.aot_role(node, roles)
        source, cell = lines_of(node, callers)
        composite, call = torch_graphs.composite_of(node)
        around = torch_graphs.modules_of(node) if node.op != "placeholder" else []
        modules.update(around)
        path, kind = around[-1] if around else ("", "")
        nodes.append(
            NodeRecord(
                name=node.name,
                op=node.op,
                target=torch_graphs.target_name(node),
                inputs=tuple(argument.name for argument in node.all_input_nodes),
                outputs=tuple(
                    tensor_spec(tensor, storages) for tensor in torch_graphs.tensors_of(torch_graphs.node_value(node))
                ),
                module_path=path,
                module_type=kind,
                source=source,
                cell=cell,
                arguments=_arguments(node),
                role=role,
                origin=origin,
                typed=node.op == "output" or torch_graphs.has_value(node),
                composite=composite,
                call=call,
                mutates=torch_graphs.mutated_inputs(node),
                origins=() if is_dynamo else torch_graphs.origins_of(node, origins or {}),
            )
        )
    ranges, hints = torch_graphs.symbol_ranges(graph_module)
    return GraphRecord(stage, tuple(nodes), ranges, hints, modules)


def lines_of(
    node: torch.fx.Node, callers: tuple[SourceLine | None, SourceLine | None] = (None, None)
) -> tuple[SourceLine | None, SourceLine | None]:
    """The deepest frame outside torch, and the deepest one in a notebook cell."""
    if not node.op.startswith("call_"):
        return None, None
    frames = user_frames(node.meta.get("stack_trace") or "")
    if not frames:
        return callers
    in_cell = next((frame for frame in reversed(frames) if cell_label(frame[0])), None)
    return source_line(*frames[-1]), (source_line(*in_cell) if in_cell else callers[1])


def _arguments(node: torch.fx.Node) -> str:
    """The call's arguments as text, cut where a constant would make it unreadable."""
    if not node.op.startswith("call_"):
        return ""
    parts = [str(argument) for argument in node.args]
    parts += [f"{name}={value}" for name, value in node.kwargs.items()]
    text = ", ".join(parts)
    return text if len(text) <= 300 else text[:299] + "…"
