"""The base class of every rule, and the problem that a rule reports.

A user's own rule is a class with an id and a method; give it to ``capture(constraints=[…])`` or to a backend. Its
findings fold, show the user's lines and fail a strict session like all others::

    from inductor_debug_jupyter import Constraint, Problem


    class AtMostFiveDimensions(Constraint):
        rule_id = "mine.rank"

        def check_node(self, node, graph):
            for spec in node.outputs:
                if len(spec.shape) > 5 and node.target != "aten.view.default":
                    return Problem(
                        node.name,
                        f"{node.name} has a tensor of {len(spec.shape)} dimensions",
                        observed=str(spec),
                        allowed="at most 5 dimensions",
                        hints=("flatten dimensions that the op does not need apart",),
                    )
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord, Severity


@dataclass(frozen=True, slots=True)
class Problem:
    """One node that a constraint does not accept.

    Problems of one rule with the same ``title``, ``observed`` and ``allowed`` (or, where it is given, the same
    ``cause``) are one cause: they are folded into one :class:`Violation` with several places. ``evidence`` is a Python
    expression over ``op`` (the op's name) and ``tensors`` (its operands and results) that is true where the problem
    shows: a repro script looks for it. ``is_unknown`` says that only a run could tell whether the target takes the node: a
    strict session does not pass then.
    """

    node: str
    title: str
    observed: str = ""
    allowed: str = ""
    explanation: str = ""
    hints: tuple[str, ...] = ()
    severity: Severity | None = None
    evidence: str = ""
    cause: str = ""
    is_unknown: bool = False


class Constraint:
    """Something the target demands of every node.

    Subclass it, give it a ``rule_id``, and answer in :meth:`check_node` with a :class:`Problem`, or None when the
    node is fine. A rule that needs the whole graph overrides :meth:`check`. ``severity`` is that of its problems
    unless one says otherwise.
    """

    rule_id: str = "custom"
    severity: Severity = "error"

    def check_node(self, node: NodeRecord, graph: GraphRecord) -> Problem | None:
        """The problem of one computing node, or None."""
        return None

    def check(self, graph: GraphRecord) -> Iterator[Problem]:
        """The problems of a graph; by default those that :meth:`check_node` reports of each computing node."""
        for node in graph.calls:
            if (problem := self.check_node(node, graph)) is not None:
                yield problem

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items() if not name.startswith("_"))
        return f"{type(self).__name__}({values})"
