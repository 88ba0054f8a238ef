"""What changed between two runs, as records."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Final, Literal

import msgspec

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.records import SessionRecord, SourceLine
from inductor_debug_jupyter.pipeline.records.in_words import InWords

SCHEMA_VERSION: Final = 1
"""Of :meth:`RunComparison.to_dict`."""

Direction = Literal["worse", "better", "other"]
KINDS: Final[dict[str, Direction]] = {
    "new-break": "worse",
    "break-gone": "better",
    "new-recompile": "worse",
    "recompile-gone": "better",
    "new-fallback": "worse",
    "fallback-gone": "better",
    "new-finding": "worse",
    "finding-gone": "better",
    "finding-changed": "other",
    "error-grew": "worse",
    "error-shrank": "better",
    "new-culprit": "worse",
    "kernel-split": "worse",
    "kernels-merged": "better",
    "kernels-regrouped": "other",
    "new-graph": "other",
    "graph-gone": "other",
    "nodes-changed": "other",
    "moved": "other",
    "new-guard": "other",
    "guard-gone": "other",
    "memory-grew": "worse",
    "memory-shrank": "better",
}
"""Kind of a change → whether it is for the worse."""

NodeStatus = Literal["changed", "new", "gone", "moved"]


@dataclass(frozen=True, slots=True)
class NodeChange:
    """One node that is not the same: its names before and after (empty where it is not), and what differs."""

    status: NodeStatus
    before: str
    after: str
    op: str
    what: str = ""
    module_path: str = ""
    source: SourceLine | None = None


@dataclass(frozen=True, slots=True)
class GraphComparison(InWords):
    """One stage of one function, node by node: how many nodes are the same, and those that are not."""

    function: str
    stage: str
    before: tuple[str, ...]
    """Compile ids; several when a graph break divides the function."""
    after: tuple[str, ...]
    same: int
    nodes: tuple[NodeChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Change(InWords):
    """One thing that changed.

    ``kind`` is one of :data:`KINDS`; ``consequences`` are changes that follow from this one: the guards of a graph that
    a new break begins, the nodes around a new op.
    """

    kind: str
    title: str
    source: SourceLine | None = None
    consequences: tuple[Change, ...] = ()

    @property
    def direction(self) -> Direction:
        """Whether it is for the worse."""
        return KINDS[self.kind]

    def __str__(self) -> str:
        where = f" at {self.source}" if self.source else ""
        return f"{self.kind}{where}: {self.title}"


@dataclass(frozen=True, slots=True)
class Quantity:
    """One figure in both runs; None when it is not known.

    ``unit`` is empty, ``bytes``, ``seconds``, ``%`` or ``error``. ``repeats`` says whether the same program has it each
    time: seconds do not.
    """

    name: str
    before: float | None
    after: float | None
    unit: str = ""
    repeats: bool = True

    @property
    def changed(self) -> bool:
        """Whether the figure differs, of one that would not differ by itself."""
        return self.repeats and self.before != self.after

    def text(self, value: float | None) -> str:
        """One of the two values, in words."""
        if value is None:
            return "not known"
        if self.unit == "bytes":
            return words.size(int(value))
        if self.unit == "seconds":
            return words.duration(value)
        return f"{value:.3g}" if self.unit == "error" else f"{value:,.4g}{self.unit}"


@dataclass(frozen=True)
class RunComparison(InWords):
    """What changed between two runs.

    Attributes:
        before: id and name of the first run.
        after: id and name of the second.
        changes: what changed, causes only; what follows from one is in its ``consequences``.
        quantities: every figure, before and after.
        graphs: every stage of every function, node by node.
        environment: what differs between the machines, torch builds and settings: name, before, after.
        unknown: what could not be compared, and why.
        runs: the two runs themselves, from which a notebook draws both graphs; not part of :meth:`to_dict`.
        labels: what the user calls them, such as the names of variables; empty where that is not known.
    """

    before: tuple[str, str]
    after: tuple[str, str]
    changes: tuple[Change, ...] = ()
    quantities: tuple[Quantity, ...] = ()
    graphs: tuple[GraphComparison, ...] = ()
    environment: tuple[tuple[str, str, str], ...] = ()
    unknown: tuple[str, ...] = ()
    runs: tuple[SessionRecord, SessionRecord] | None = field(default=None, repr=False, compare=False)
    labels: tuple[str, str] = field(default=("", ""), repr=False, compare=False)

    def all_changes(self) -> Iterator[Change]:
        """The changes, each followed by what follows from it."""
        for change in self.changes:
            yield change
            yield from change.consequences

    def of_kind(self, kind: str) -> tuple[Change, ...]:
        """The changes of one kind, consequences included."""
        return tuple(change for change in self.all_changes() if change.kind == kind)

    def quantity(self, name: str) -> Quantity:
        """The figure of that name."""
        return next(each for each in self.quantities if each.name == name)

    def to_dict(self) -> dict[str, Any]:
        """Everything as plain JSON values, with ``schema_version``."""
        plain: dict[str, Any] = msgspec.to_builtins(replace(self, runs=None))
        del plain["runs"], plain["labels"]
        return {"schema_version": SCHEMA_VERSION, **plain}
