"""A candidate that ends its own process while it is searched: which op that was, and how the search goes on.

The part of the graph that ended the process is cut at the op that the process said it was at, or halved, until one op
alone ends it. That op is a culprit. Its value, and that of every op that is computed alike, then comes from eager
mode, so that what comes after it can still be judged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import torch

from inductor_debug_jupyter.pipeline.capture.graphs import lines_of
from inductor_debug_jupyter.pipeline.diff.localize_kernels import structure_of
from inductor_debug_jupyter.pipeline.diff.windows import Window
from inductor_debug_jupyter.pipeline.records import CrashRecord, Culprit
from inductor_debug_jupyter.pipeline.torch_compat.graphs import module_path_of, target_name
from inductor_debug_jupyter.pipeline.views.crash import crash_line

MOST: Final = 24
"""A process is started so many times again; each takes seconds. Ten find one op among a thousand without a hint."""

_NO_OP: Final = frozenset(("start", "import", "load"))
"""Phases in which no op of the graph runs yet."""


@dataclass(frozen=True, slots=True, eq=False)
class CrashedOp:
    """An op that ends the process by itself."""

    graph: str
    node: torch.fx.Node
    crash: CrashRecord

    def culprit(self) -> Culprit:
        """It is to blame: there is no value, and so no error."""
        node = self.node
        return Culprit(
            target_name(node),
            node.name,
            self.graph,
            module_path=module_path_of(node),
            source=lines_of(node)[0],
            reason=crash_line(self.crash),
        )


@dataclass
class CrashSearch:
    """What is known of the ends of a candidate's process, of all graphs of one search."""

    ops: list[CrashedOp] = field(default_factory=list)
    others: list[CrashRecord] = field(default_factory=list)
    """Crashes that no single op explains."""
    notes: list[str] = field(default_factory=list)
    ended: int = 0
    """How often the process ended."""
    _seen: list[tuple[Window, CrashRecord]] = field(default_factory=list)

    def op_like(self, node: torch.fx.Node) -> CrashedOp | None:
        """The op that ended the process and is computed as this node is."""
        if not self.ops:
            return None
        structure = structure_of((node,))
        return next((each for each in self.ops if structure_of((each.node,)) == structure), None)

    def is_fatal(self, node: torch.fx.Node) -> bool:
        """Whether it is known to end the process."""
        return self.op_like(node) is not None

    def why_not_run(self, node: torch.fx.Node) -> str:
        """Of a node that is fatal: why there will be no value of the candidate; else an empty text."""
        if (like := self.op_like(node)) is None:
            return ""
        if like.node is node:
            return crash_line(like.crash)
        return f"not run: {like.node.name}, which is computed alike, ended the candidate's process"

    def after(self, graph: str, part: Window, crash: CrashRecord) -> list[Window]:
        """A part ended the process: what to run now in its place; nothing when there is no use in going on."""
        self.ended += 1
        if crash.phase in _NO_OP or self.ended >= MOST:
            again = "" if crash.phase in _NO_OP else f"; it has ended {self.ended} times, which is enough"
            self.notes.append(f"{graph}: the search stopped: {crash_line(crash)}{again}")
            self.others.append(crash)
            self._seen.clear()  # what was not tried to the end says nothing
            return []
        self._seen.append((part, crash))
        smaller = part.smaller(crash.op.partition(" ")[0])
        if len(smaller) == 1:
            self.ops.append(CrashedOp(graph, part.op, crash))
        return smaller

    def settle(self, graph: str) -> None:
        """A graph was gone through: a part that ended the process, and no op of it alone, is told of."""
        guilty = {each.node for each in self.ops}
        unexplained = [(part, crash) for part, crash in self._seen if not guilty.intersection(part.nodes)]
        if unexplained:
            part, crash = min(unexplained, key=lambda each: len(each[0].nodes))
            what = f"{len(part.nodes)} ops together, {part.nodes[0].name} to {part.nodes[-1].name}"
            self.notes.append(f"{graph}: {crash_line(crash)}, on {what}; none of them does that alone")
            self.others.append(crash)
        self._seen.clear()

    @property
    def crashes(self) -> tuple[CrashRecord, ...]:
        """How the process ended: once for each op, and for what no op explains."""
        return (*(each.crash for each in self.ops), *self.others)
