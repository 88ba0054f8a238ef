"""A candidate that raises, or ends its own process, while it is searched: which op that was, and how to go on.

The part of the graph that failed is cut at the op that the process said it was at, or halved, until one op alone fails.
That op is a culprit. Its value, and that of every op that is computed alike, then comes from eager mode, so that what
comes after it can still be judged.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import torch

from inductor_debug_jupyter.pipeline.diff.localize_kernels import culprit_of, structure_of
from inductor_debug_jupyter.pipeline.diff.windows import Window
from inductor_debug_jupyter.pipeline.errors import BackendCrashError
from inductor_debug_jupyter.pipeline.records import CrashRecord, Culprit

MOST_CRASHES: Final = 24
"""A process is started so many times again; each takes seconds. Ten find one op among a thousand without a hint."""
MOST_ERRORS: Final = 240
"""A candidate may raise so often: that takes next to no time."""

_NO_OP: Final = frozenset(("start", "import", "load"))
"""Phases in which no op of the graph runs yet."""


@dataclass(frozen=True, slots=True)
class Failure:
    """How a part failed, in one sentence; ``crash`` when it ended its process. ``no_use``: smaller parts will too."""

    sentence: str
    crash: CrashRecord | None = None
    no_use: bool = False

    @classmethod
    def of(cls, error: Exception) -> Failure:
        """What a backend raised."""
        if isinstance(error, BackendCrashError):
            return cls(error.crash.sentence, error.crash, error.crash.phase in _NO_OP)
        first = (str(error).splitlines() or [""])[0]
        return cls(f"the candidate raised {type(error).__name__}: {first}", no_use=isinstance(error, TimeoutError))

    @property
    def op(self) -> str:
        """The op that it was at, if the process said so."""
        return self.crash.op.partition(" ")[0] if self.crash is not None else ""

    @property
    def verb(self) -> str:
        """What a node that is computed alike did."""
        return "raised" if self.crash is None else "ended the candidate's process"


@dataclass(frozen=True, slots=True, eq=False)
class FailedOp:
    """An op that fails by itself."""

    graph: str
    node: torch.fx.Node
    failure: Failure

    def culprit(self) -> Culprit:
        """It is to blame: there is no value, and so no error."""
        return culprit_of(self.node, self.graph, None, self.failure.sentence)


@dataclass
class FailureSearch:
    """What is known of a candidate's failures, of all graphs of one search."""

    ops: list[FailedOp] = field(default_factory=list)
    others: list[Failure] = field(default_factory=list)
    """Failures that no single op explains."""
    notes: list[str] = field(default_factory=list)
    ended: int = 0
    """How often the process ended."""
    raised: int = 0
    """How often it raised."""
    _seen: list[tuple[Window, Failure]] = field(default_factory=list)

    def op_like(self, node: torch.fx.Node) -> FailedOp | None:
        """The op that failed and is computed as this node is."""
        if not self.ops:
            return None
        structure = structure_of((node,))
        return next((each for each in self.ops if structure_of((each.node,)) == structure), None)

    def is_fatal(self, node: torch.fx.Node) -> bool:
        """Whether it is known to fail."""
        return self.op_like(node) is not None

    def why_not_run(self, node: torch.fx.Node) -> str:
        """Of a node that is fatal: why there will be no value of the candidate; else an empty text."""
        if (like := self.op_like(node)) is None:
            return ""
        if like.node is node:
            return like.failure.sentence
        return f"not run: {like.node.name}, which is computed alike, {like.failure.verb}"

    def after(self, graph: str, part: Window, failure: Failure) -> list[Window]:
        """A part failed: what to run now in its place; nothing when there is no use in going on."""
        if enough := self._enough(failure):
            again = "" if failure.no_use else f"; {enough}, which is enough"
            self.notes.append(f"{graph}: the search stopped: {failure.sentence}{again}")
            self.others.append(failure)
            self._seen.clear()  # what was not tried to the end says nothing
            return []
        self._seen.append((part, failure))
        smaller = part.smaller(failure.op)
        if len(smaller) == 1:
            self.ops.append(FailedOp(graph, part.op, failure))
        return smaller

    def _enough(self, failure: Failure) -> str:
        """Why no more is tried; empty while more is."""
        if failure.crash is not None:
            self.ended += 1
            why, over = f"it has ended {self.ended} times", self.ended >= MOST_CRASHES
        else:
            self.raised += 1
            why, over = f"it has raised {self.raised} times", self.raised >= MOST_ERRORS
        return why if over or failure.no_use else ""

    def settle(self, graph: str) -> None:
        """A graph was gone through: a part that failed, and no op of it alone, is told of."""
        guilty = {each.node for each in self.ops}
        unexplained = [(part, failure) for part, failure in self._seen if not guilty.intersection(part.nodes)]
        if unexplained:
            part, failure = min(unexplained, key=lambda each: len(each[0].nodes))
            what = f"{len(part.nodes)} ops together, {part.nodes[0].name} to {part.nodes[-1].name}"
            self.notes.append(f"{graph}: {failure.sentence}, on {what}; none of them does that alone")
            self.others.append(failure)
        self._seen.clear()

    @property
    def crashes(self) -> tuple[CrashRecord, ...]:
        """How the process ended: once for each op, and for what no op explains."""
        failures = (*(each.failure for each in self.ops), *self.others)
        return tuple(each.crash for each in failures if each.crash is not None)
