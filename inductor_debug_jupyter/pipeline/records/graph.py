"""One graph at one stage of a compile: its nodes, their tensors, and the user's lines they came from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, get_args

from inductor_debug_jupyter.pipeline.harmless import Harmless
from inductor_debug_jupyter.pipeline.records.in_words import InWords

Stage = Literal[
    "dynamo", "joint", "forward", "backward", "post_grad", "ir_pre_fusion", "ir_post_fusion", "code", "kernel"
]
STAGES: tuple[str, ...] = get_args(Stage)
"""Every stage, in the order in which a compile passes through them."""

Dim = int | str
"""A size or stride: a number, or the expression of a symbolic one (``"s0"``)."""


@dataclass(frozen=True, slots=True)
class SourceLine(InWords):
    """One line of Python source.

    ``label`` is the file's name for a user: ``In [4]`` for a notebook cell, otherwise the file's short name.
    """

    file: str
    line: int
    text: str = ""
    function: str = ""
    label: str = ""

    def __str__(self) -> str:
        return f"{self.label or self.file}, line {self.line}"


@dataclass(frozen=True, slots=True)
class TensorSpec(Harmless):
    """Shape, dtype, stride and device of one tensor; symbolic sizes stay symbolic.

    ``storage`` numbers the tensor's memory within its graph: views of one tensor share it.
    """

    shape: tuple[Dim, ...]
    dtype: str
    stride: tuple[Dim, ...] | None = None
    device: str = "cpu"
    itemsize: int = 0
    storage: int = -1
    storage_bytes: int | None = None

    @property
    def numel(self) -> int | None:
        """The number of elements, or None when a size is symbolic."""
        sizes = [size for size in self.shape if isinstance(size, int)]
        return math.prod(sizes) if len(sizes) == len(self.shape) else None

    @property
    def nbytes(self) -> int | None:
        """Dense size in bytes, or None when a size is symbolic."""
        numel = self.numel
        return None if numel is None else numel * self.itemsize

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class NodeRecord(InWords):
    """One node of a graph.

    ``outputs`` has one entry for each tensor that the node yields (several for ops that return tuples). ``source`` is
    the deepest frame outside torch; ``cell`` is the notebook cell's own line, which differs from ``source`` when the
    cell calls into a library. ``role`` says what a placeholder stands for (``parameter``, ``buffer``, ``input``,
    ``saved`` for the backward, ``tangent``) and ``origin`` is the user's name of it (``net.0.weight``). ``aten_ops``
    are the ops that a Dynamo node dispatches to, where they were looked up. ``typed`` is False when torch kept no value
    for the node, so that its shape and dtype are unknown. ``origins`` are the nodes of the Dynamo graph that it was
    made from; a backward node has those of the forward node whose gradient it computes. ``composite`` is the op that
    this node is one part of, where a decomposition replaced it (``aten.gelu.default`` for an ``erf``); ``call`` tells
    one call of that op from another. ``mutates`` names the inputs that the node writes to, with ``<rng>`` for the
    random generator and ``<effect>`` for anything else outside the graph.
    """

    name: str
    op: str
    target: str
    inputs: tuple[str, ...] = ()
    outputs: tuple[TensorSpec, ...] = ()
    module_path: str = ""
    module_type: str = ""
    source: SourceLine | None = None
    cell: SourceLine | None = None
    arguments: str = ""
    role: str = ""
    origin: str = ""
    aten_ops: tuple[str, ...] = ()
    typed: bool = True
    origins: tuple[str, ...] = ()
    composite: str = ""
    call: str = ""
    mutates: tuple[str, ...] = ()

    @property
    def tensor(self) -> TensorSpec | None:
        """The first (for most ops the only) output."""
        return self.outputs[0] if self.outputs else None

    @property
    def shape(self) -> tuple[Dim, ...] | None:
        """Shape of the first output."""
        return self.outputs[0].shape if self.outputs else None

    @property
    def dtype(self) -> str | None:
        """Dtype of the first output."""
        return self.outputs[0].dtype if self.outputs else None

    @property
    def stride(self) -> tuple[Dim, ...] | None:
        """Stride of the first output."""
        return self.outputs[0].stride if self.outputs else None

    @property
    def is_call(self) -> bool:
        """Whether the node computes something (as opposed to inputs, attributes and the output)."""
        return self.op.startswith("call_")

    def __str__(self) -> str:
        made = f" → {', '.join(map(str, self.outputs))}" if self.outputs else ""
        return f"{self.name}: {self.target}({', '.join(self.inputs)}){made}"


@dataclass(frozen=True, slots=True)
class GraphStatistics:
    """Counts of ops and dtypes, and bytes, of one graph. Bytes are None when a size is symbolic.

    ``parameter_bytes`` counts parameters and buffers that the graph reads, ``input_bytes`` its other inputs,
    ``saved_bytes`` what a backward takes over from its forward, and ``activation_bytes`` all memory that the graph's
    ops make (views make none).
    """

    nodes: int
    calls: int
    ops: dict[str, int] = field(default_factory=dict)
    dtypes: dict[str, int] = field(default_factory=dict)
    parameter_bytes: int | None = 0
    input_bytes: int | None = 0
    saved_bytes: int | None = 0
    activation_bytes: int | None = 0


_SHOWN = 60
"""The most nodes of a graph that are shown."""


@dataclass(frozen=True)
class GraphRecord(InWords):
    """One FX graph: nodes in execution order, and the value ranges of its symbols (``{"s0": "[2, 512]"}``).

    ``hints`` has the sizes that the symbols had when the graph was captured (``{"s0": 30}``). ``modules`` has the class
    name of every module that a node is in, those around it included (``{"encoder.layer.0": "BertLayer"}``).
    """

    stage: str
    nodes: tuple[NodeRecord, ...]
    symbols: dict[str, str] = field(default_factory=dict)
    hints: dict[str, int] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)

    @cached_property
    def by_name(self) -> dict[str, NodeRecord]:
        """Node name → node."""
        return {node.name: node for node in self.nodes}

    @cached_property
    def calls(self) -> tuple[NodeRecord, ...]:
        """The nodes that compute something."""
        return tuple(node for node in self.nodes if node.is_call)

    @cached_property
    def readers(self) -> dict[str, list[NodeRecord]]:
        """Node name → the nodes that read it, in order."""
        readers: dict[str, list[NodeRecord]] = {}
        for node in self.nodes:
            for name in node.inputs:
                readers.setdefault(name, []).append(node)
        return readers

    @cached_property
    def call_targets(self) -> dict[tuple[str, str], list[str]]:
        """The parts of each call of a decomposed op: composite and call → the targets of its nodes."""
        targets: dict[tuple[str, str], list[str]] = {}
        for node in self.calls:
            if node.composite:
                targets.setdefault((node.composite, node.call), []).append(node.target)
        return targets

    @cached_property
    def interior(self) -> frozenset[str]:
        """Nodes inside a decomposed op: made and read only there.

        The target decides how an op is computed inside; rules check what the op reads and makes.
        """
        return frozenset(node.name for node in self.nodes if node.composite and self._is_read_inside(node))

    def _is_read_inside(self, node: NodeRecord) -> bool:
        """Whether all readers of a node (at least one) are parts of the same call of the same composite op."""
        readers = self.readers.get(node.name, ())
        return bool(readers) and all((each.composite, each.call) == (node.composite, node.call) for each in readers)

    @cached_property
    def statistics(self) -> GraphStatistics:
        """Counts of ops and dtypes, bytes of parameters, inputs and activations."""
        return _statistics(self)

    def node(self, name: str) -> NodeRecord | None:
        """The node of that name, or None."""
        return self.by_name.get(name)

    def __str__(self) -> str:
        lines = [f"{self.stage} graph of {len(self.nodes):,} nodes", *(f"  {node}" for node in self.nodes[:_SHOWN])]
        if len(self.nodes) > _SHOWN:
            lines.append(f"  … and {len(self.nodes) - _SHOWN:,} more")
        return "\n".join(lines)


def _statistics(graph: GraphRecord) -> GraphStatistics:
    inputs: dict[str, list[TensorSpec]] = {"parameter": [], "saved": [], "input": []}
    made: list[TensorSpec] = []
    taken: set[int] = set()
    for node in graph.nodes:
        if node.op in {"placeholder", "get_attr"}:
            inputs[_kind_of_input(node)] += node.outputs
        elif node.is_call:
            made += [spec for spec in node.outputs if spec.storage not in taken or spec.storage < 0]
        taken.update(spec.storage for spec in node.outputs)
    return GraphStatistics(
        nodes=len(graph.nodes),
        calls=len(graph.calls),
        ops=dict(Counter(node.target for node in graph.calls).most_common()),
        dtypes=dict(Counter(spec.dtype for node in graph.calls for spec in node.outputs).most_common()),
        parameter_bytes=_bytes(inputs["parameter"]),
        input_bytes=_bytes(inputs["input"]),
        saved_bytes=_bytes(inputs["saved"]),
        activation_bytes=_bytes(made),
    )


def _kind_of_input(node: NodeRecord) -> str:
    if node.op == "get_attr" or node.role in {"parameter", "buffer"}:
        return "parameter"
    return "saved" if node.role == "saved" else "input"


def _bytes(specs: Iterable[TensorSpec]) -> int | None:
    total = 0
    for spec in specs:
        size = spec.storage_bytes if spec.storage_bytes is not None else spec.nbytes
        if size is None:
            return None
        total += size
    return total
