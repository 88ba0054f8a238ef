"""Source line ↔ Dynamo node ↔ AOT node ↔ kernel, in both directions, the backward included.

Everything is in the records already: a node has its source line and the Dynamo nodes that it was made from, a kernel
has the post-grad nodes that its calls compute, and post-grad nodes keep the names of the AOT nodes that they come
from. :class:`Provenance` joins these links.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from inductor_debug_jupyter.pipeline.errors import NotFoundError, UsageError
from inductor_debug_jupyter.pipeline.harmless import Harmless, plain
from inductor_debug_jupyter.pipeline.records import (
    BACKWARD,
    CompileCapture,
    KernelRecord,
    NodeRecord,
    SessionRecord,
    SourceLine,
)
from inductor_debug_jupyter.pipeline.views.labels import label_of
from inductor_debug_jupyter.pipeline.words import count

_STAGES = ("dynamo", "joint", "forward", "backward", "post_grad", f"post_grad{BACKWARD}")
_LATER = _STAGES[1:]
_SIDES = {"forward": ("joint", "forward", "post_grad"), "backward": ("joint", "backward", f"post_grad{BACKWARD}")}


@dataclass(frozen=True, slots=True)
class TracedNode:
    """A node on the way from a line to a kernel."""

    compile_id: str
    stage: str
    name: str
    target: str = ""
    module_path: str = ""


@dataclass(frozen=True, slots=True)
class TracedKernel:
    """A kernel; ``stage`` is ``forward`` or ``backward``."""

    compile_id: str
    stage: str
    name: str
    language: str = ""


@dataclass(frozen=True, slots=True)
class ProvenanceTrace(Harmless):
    """The lines, nodes and kernels that belong to one line, node or kernel, which ``request`` names."""

    request: str
    lines: tuple[SourceLine, ...]
    nodes: tuple[TracedNode, ...]
    kernels: tuple[TracedKernel, ...]

    def at(self, stage: str) -> tuple[TracedNode, ...]:
        """The nodes of one stage; ``post_grad`` includes the backward's."""
        return tuple(node for node in self.nodes if node.stage in {stage, f"{stage}{BACKWARD}"})

    def to_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        rows = [f"trace of {plain(self.request)}"]
        rows += [f"  {plain(str(line))}: {plain(line.text.strip())}" for line in self.lines]
        for stage in _STAGES:
            if names := [node.name for node in self.nodes if node.stage == stage]:
                rows.append(f"  {stage}: {plain(_some(names))}")
        for side in _SIDES:
            if names := [kernel.name for kernel in self.kernels if kernel.stage == side]:
                rows.append(f"  {side} {count(len(names), 'kernel')}: {plain(_some(names))}")
        return "\n".join(rows)


class Provenance:
    """Traces the lines, nodes and kernels of one session."""

    def __init__(self, record: SessionRecord) -> None:
        self._captures = {capture.compile_id: capture for capture in record.captures}

    def trace(
        self,
        *,
        line: int | None = None,
        node: str | None = None,
        kernel: str | None = None,
        label: str = "",
        stage: str = "",
    ) -> ProvenanceTrace:
        """Follow a source line, a node or a kernel both ways, as ``DebugSession.trace`` says."""
        if [line, node, kernel].count(None) != 2:
            raise UsageError("trace() takes exactly one of line=, node= and kernel=")
        if line is not None:
            return self._of_line(line, label)
        if node is not None:
            return self._of_node(node, stage)
        assert kernel is not None
        return self._of_kernel(kernel)

    def _of_line(self, line: int, label: str) -> ProvenanceTrace:
        found = {
            (capture.compile_id, stage, record.name): record
            for capture, stage, record in self._calls()
            if any(
                each.line == line and label in {"", label_of(each), each.file}
                for each in (record.source, record.cell)
                if each is not None
            )
        }
        request = f"line {line}" + (f" of {label}" if label else "")
        if not found:
            raise NotFoundError(f"nothing that was captured comes from {request}")
        return self._answer(request, found, self._kernels_of(found))

    def _of_node(self, name: str, stage: str) -> ProvenanceTrace:
        """A Dynamo node with the nodes made from it; a later node with its namesakes and their Dynamo nodes."""
        named = {(capture.compile_id, at, name): record for capture, at, record in self._calls() if record.name == name}
        chosen = [key for key in named if stage in {"", key[1]}]
        if not chosen:
            where = f"{stage} graph" if stage else "graph"
            raise NotFoundError(f"no captured {where} has a computing node {name!r}")
        stages = {at for _, at, _ in chosen}
        wanted = {*stages, *_LATER} if stages != {"dynamo"} else stages
        found = {key: record for key, record in named.items() if key[1] in wanted}
        found.update(self._made_from({(compile_id, name) for compile_id, at, _ in chosen if at == "dynamo"}))
        found.update(self._origins(found))
        request = f"node {name}" + (f" of {stage}" if stage else "")
        return self._answer(request, found, self._kernels_of(found))

    def _of_kernel(self, name: str) -> ProvenanceTrace:
        kernels = [
            (capture, kernel)
            for capture in self._captures.values()
            for kernel in capture.kernels
            if name in {kernel.name, kernel.name.rpartition(".")[2]}
        ]
        if not kernels:
            raise NotFoundError(f"no captured kernel is called {name!r}")
        found = {key: record for capture, kernel in kernels for key, record in _computed_by(capture, kernel)}
        found.update(self._origins(found))
        return self._answer(f"kernel {name}", found, kernels)

    # ------------------------------------------------------------------------------------------------------------

    def _calls(self) -> Iterator[tuple[CompileCapture, str, NodeRecord]]:
        for capture in self._captures.values():
            for stage in _STAGES:
                if (graph := capture.graph(stage)) is not None:
                    for node in graph.calls:
                        yield capture, stage, node

    def _made_from(self, dynamo: set[tuple[str, str]]) -> Iterator[tuple[tuple[str, str, str], NodeRecord]]:
        """Every node of a later graph that was made from one of these Dynamo nodes."""
        for capture, stage, record in self._calls():
            if any((capture.compile_id, origin) in dynamo for origin in record.origins):
                yield (capture.compile_id, stage, record.name), record

    def _origins(self, found: dict[tuple[str, str, str], NodeRecord]) -> dict[tuple[str, str, str], NodeRecord]:
        """The Dynamo nodes behind these nodes."""
        origins: dict[tuple[str, str, str], NodeRecord] = {}
        for (compile_id, _, _), record in found.items():
            if (graph := self._captures[compile_id].graph("dynamo")) is not None:
                known = {(compile_id, "dynamo", name): graph.node(name) for name in record.origins}
                origins |= {key: origin for key, origin in known.items() if origin is not None}
        return origins

    def _kernels_of(self, found: Iterable[tuple[str, str, str]]) -> list[tuple[CompileCapture, KernelRecord]]:
        """The kernels that compute one of these post-grad nodes (by name also one of these AOT nodes)."""
        wanted: dict[tuple[str, str], set[str]] = {}
        for compile_id, stage, name in found:
            for side, stages in _SIDES.items():
                if stage in stages[1:]:
                    wanted.setdefault((compile_id, side), set()).add(name)
        return [
            (capture, kernel)
            for capture in self._captures.values()
            for kernel in capture.kernels
            if not wanted.get((capture.compile_id, kernel.stage), set()).isdisjoint(kernel.nodes)
        ]

    @staticmethod
    def _answer(
        request: str,
        found: dict[tuple[str, str, str], NodeRecord],
        kernels: Iterable[tuple[CompileCapture, KernelRecord]],
    ) -> ProvenanceTrace:
        order = {stage: position for position, stage in enumerate(_STAGES)}
        keys = sorted(found, key=lambda key: (key[0], order[key[1]]))
        lines = {
            (line.file, line.line): line
            for key in keys
            for line in (found[key].source, found[key].cell)
            if line is not None
        }
        return ProvenanceTrace(
            request,
            tuple(lines[key] for key in sorted(lines)),
            tuple(TracedNode(*key, found[key].target, found[key].module_path) for key in keys),
            tuple(
                TracedKernel(capture.compile_id, kernel.stage, kernel.name, kernel.language)
                for capture, kernel in kernels
            ),
        )


def _computed_by(capture: CompileCapture, kernel: KernelRecord) -> Iterator[tuple[tuple[str, str, str], NodeRecord]]:
    """The nodes that a kernel computes, in each graph of its side that has them."""
    for stage in _SIDES.get(kernel.stage, ()):
        graph = capture.graph(stage)
        for name in kernel.nodes if graph is not None else ():
            record = graph.node(name) if graph is not None else None
            if record is not None and record.is_call:
                yield (capture.compile_id, stage, name), record


def _some(names: list[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
