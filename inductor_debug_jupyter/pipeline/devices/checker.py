"""Run constraints over captures and fold what they find.

Rules look at the AOT forward and backward graphs, where every op is an aten op with a shape; where a compile stopped
before AOT, at the Dynamo graph. Deny lists look at both, since users name ops in either language.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from inductor_debug_jupyter.pipeline.devices.constraint import Constraint, Problem
from inductor_debug_jupyter.pipeline.devices.memory import MemoryConstraint
from inductor_debug_jupyter.pipeline.devices.ops import UnsupportedOpsConstraint
from inductor_debug_jupyter.pipeline.devices.profile import DeviceProfile
from inductor_debug_jupyter.pipeline.devices.rules import DtypeConstraint, KnownTypesConstraint, LayoutConstraint
from inductor_debug_jupyter.pipeline.devices.shapes import ShapeConstraint
from inductor_debug_jupyter.pipeline.records import CompileCapture, GraphRecord, NodeRecord, Place, Severity, Violation

_RANK: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}


def rules_for(profile: DeviceProfile) -> list[Constraint]:
    """The constraints that a profile stands for."""
    rules: list[Constraint] = [KnownTypesConstraint()]
    if profile.dtypes is not None:
        rules.append(DtypeConstraint(profile.dtypes))
    if profile.deny:
        rules.append(UnsupportedOpsConstraint(profile.deny))
    if profile.alignment > 1:
        rules.append(ShapeConstraint(profile.alignment, profile.alignment_dims, profile.alignment_unit))
    if profile.layout is not None:
        rules.append(LayoutConstraint(profile.layout))
    if profile.memory_limit is not None:
        rules.append(MemoryConstraint(profile.memory_limit))
    return rules


def check(captures: Sequence[CompileCapture], rules: Iterable[Constraint]) -> tuple[Violation, ...]:
    """Everything the rules refuse, folded by cause, worst first."""
    folded: dict[tuple[str, str, str, str], tuple[Constraint, Problem, dict[object, Place]]] = {}
    for rule in rules:
        for capture in captures:
            for graph, problem in _problems(rule, capture):
                key = (rule.rule_id, problem.title, problem.observed, problem.allowed)
                places = folded.setdefault(key, (rule, problem, {}))[2]
                place = _place(capture, graph, problem.node)
                places.setdefault(_same_place(place), place)
    violations = [_violation(rule, problem, tuple(places.values())) for rule, problem, places in folded.values()]
    return tuple(sorted(violations, key=lambda violation: _RANK[violation.severity]))


def _problems(rule: Constraint, capture: CompileCapture) -> Iterator[tuple[GraphRecord, Problem]]:
    lowered = [graph for stage in ("forward", "backward") if (graph := capture.graph(stage)) is not None]
    dynamo = capture.graph("dynamo")
    for graph in lowered or ([dynamo] if dynamo else []):
        for problem in rule.check(graph):
            yield graph, problem
    if lowered and dynamo and isinstance(rule, UnsupportedOpsConstraint):
        targets = [node.target for graph in lowered for node in graph.calls]
        for problem in rule.check(dynamo):
            if not rule.equivalent(problem.observed, targets):
                yield dynamo, problem


def _place(capture: CompileCapture, graph: GraphRecord, name: str) -> Place:
    node = graph.node(name)
    if node is not None and not node.is_call:
        node = _first_reader(graph, node) or node
    if node is None:
        return Place(capture.compile_id, graph.stage, name)
    return Place(capture.compile_id, graph.stage, node.name, node.target, node.module_path, node.source, node.cell)


def _first_reader(graph: GraphRecord, node: NodeRecord) -> NodeRecord | None:
    """An input has no line of its own: the first op that reads it has."""
    return next((call for call in graph.calls if node.name in call.inputs), None)


def _same_place(place: Place) -> object:
    """Nodes of one module on one line are one place for the user; a node with neither stands for itself."""
    if place.source is None:
        return (place.compile_id, place.stage, place.node)
    return (place.compile_id, place.module_path, place.source.file, place.source.line)


def _violation(rule: Constraint, problem: Problem, places: tuple[Place, ...]) -> Violation:
    return Violation(
        rule_id=rule.rule_id,
        severity=problem.severity or rule.severity,
        title=problem.title,
        places=places,
        observed=problem.observed,
        allowed=problem.allowed,
        explanation=problem.explanation,
        hints=problem.hints,
        evidence=problem.evidence,
    )
