"""Run constraints over captures and fold what they find.

Rules look at the AOT forward and backward graphs, where every op is an aten op with a shape; where a compile stopped
before AOT, at the Dynamo graph, whose nodes know which aten ops they stand for. Deny lists look at both, since users
name ops in either language.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.devices.constraint import Constraint, Problem
from inductor_debug_jupyter.pipeline.devices.cpu_side import CpuChoice
from inductor_debug_jupyter.pipeline.devices.dtypes import DtypeConstraint, KnownTypesConstraint, NarrowedConstraint
from inductor_debug_jupyter.pipeline.devices.known_ops import check_ops
from inductor_debug_jupyter.pipeline.devices.layouts import LayoutConstraint
from inductor_debug_jupyter.pipeline.devices.memory import MemoryConstraint, ScratchpadConstraint
from inductor_debug_jupyter.pipeline.devices.ops import bare_name
from inductor_debug_jupyter.pipeline.devices.profile import DeviceProfile
from inductor_debug_jupyter.pipeline.devices.shapes import AlignmentConstraint
from inductor_debug_jupyter.pipeline.devices.support import OpSupport, UnsupportedOpsConstraint
from inductor_debug_jupyter.pipeline.records import CompileCapture, GraphRecord, Place, Severity, Violation

_RANK: dict[Severity, int] = {"error": 0, "warning": 1, "info": 2}


def op_support(profile: DeviceProfile) -> OpSupport:
    """Which ops a profile's target has."""
    return OpSupport(profile.allow, profile.deny, profile.decompose, fallback=profile.fallback == "cpu")


def dtype_rule(profile: DeviceProfile) -> DtypeConstraint | None:
    """The rule about dtypes; what the target narrows, it takes."""
    if profile.dtypes is None:
        return None
    return DtypeConstraint({*profile.dtypes, *profile.narrow}, profile.op_dtypes)


def rules_for(profile: DeviceProfile) -> list[Constraint]:
    """The constraints that a profile stands for.

    Raises:
        OptionError: the profile names an op that torch does not have.
    """
    _check_op_names(profile)
    rules: list[Constraint] = [KnownTypesConstraint()]
    if (dtypes := dtype_rule(profile)) is not None:
        rules.append(dtypes)
    if any("int" in name for name in profile.narrow):
        rules.append(NarrowedConstraint(profile.narrow))
    if profile.deny or profile.allow is not None:
        rules.append(UnsupportedOpsConstraint(profile.deny, support=op_support(profile)))
    rules += [AlignmentConstraint(rule, profile.narrow) for rule in profile.alignments]
    rules += [LayoutConstraint(rule=rule) for rule in profile.layouts]
    if profile.memory_limit or profile.tensor_limit or profile.peak_limit:
        rules.append(MemoryConstraint(profile.memory_limit, tensor=profile.tensor_limit, peak=profile.peak_limit))
    if profile.scratchpad is not None:
        rules.append(ScratchpadConstraint(profile.scratchpad))
    return rules


def _check_op_names(profile: DeviceProfile) -> None:
    """A profile that was written in Python is checked here; one in a file, as it is read, with file and line."""
    parts = [part for parts in profile.decompose.values() for part in parts]
    for key, names in (
        ("deny", profile.deny),
        ("allow", profile.allow or ()),
        ("decompose", (*profile.decompose, *parts)),
        ("op_dtypes", tuple(profile.op_dtypes)),
        ("alignments", tuple(op for rule in profile.alignments for op in (*rule.ops, *rule.not_ops))),
        ("layouts", tuple(op for rule in profile.layouts for op in rule.ops)),
    ):
        check_ops(names, f"{profile.name}, {key}")


def checked_graphs(capture: CompileCapture) -> list[GraphRecord]:
    """The graphs of a capture that rules look at: forward and backward, or the Dynamo graph where there is neither."""
    lowered = [graph for stage in ("forward", "backward") if (graph := capture.graph(stage)) is not None]
    dynamo = capture.graph("dynamo")
    return lowered or ([dynamo] if dynamo else [])


@dataclass(frozen=True, slots=True)
class Found:
    """One problem of one rule, at one node of a capture's graph."""

    rule: Constraint
    capture: CompileCapture
    graph: GraphRecord
    problem: Problem

    @property
    def severity(self) -> Severity:
        """How bad it is."""
        return self.problem.severity or self.rule.severity

    @property
    def place(self) -> Place:
        """Where it is."""
        return place_of(self.capture.compile_id, self.graph, self.problem.node)


def found_by(
    rules: Iterable[Constraint], captures: Sequence[CompileCapture], cpu: CpuChoice | None = None
) -> Iterator[Found]:
    """Everything that rules say about every node. What is meant for the CPU is not the target's business."""
    for rule in rules:
        for capture in captures:
            yield from _found_in(rule, capture, cpu or CpuChoice())


def check(
    captures: Sequence[CompileCapture], rules: Iterable[Constraint], cpu: CpuChoice | None = None
) -> tuple[Violation, ...]:
    """Everything the rules refuse, folded by cause, worst first; what is meant for the CPU is not the target's."""
    return folded(found_by(rules, captures, cpu))


def folded(found: Iterable[Found]) -> tuple[Violation, ...]:
    """One violation for each cause, worst first, with a place for each of the user's lines and modules."""
    causes: dict[tuple[str, ...], tuple[Found, dict[object, Place]]] = {}
    for each in found:
        problem = each.problem
        cause = (problem.cause,) if problem.cause else (problem.title, problem.observed, problem.allowed)
        place = each.place
        causes.setdefault((each.rule.rule_id, *cause), (each, {}))[1].setdefault(same_place(place), place)
    violations = [_violation(first, tuple(places.values())) for first, places in causes.values()]
    return tuple(sorted(violations, key=lambda violation: _RANK[violation.severity]))


def _found_in(rule: Constraint, capture: CompileCapture, cpu: CpuChoice) -> Iterator[Found]:
    graphs = checked_graphs(capture)
    if isinstance(rule, MemoryConstraint):
        cpu = CpuChoice()  # what the CPU makes is read on the target: it takes memory there all the same
    for graph in graphs:
        meant = cpu.names(graph, capture.compile_id)
        problems = rule.check(graph, capture) if isinstance(rule, MemoryConstraint) else rule.check(graph)
        for problem in problems:
            if problem.node not in meant:
                yield Found(rule, capture, graph, problem)
    dynamo = capture.graph("dynamo")
    if dynamo is not None and dynamo is not graphs[0] and isinstance(rule, UnsupportedOpsConstraint):
        calls = [node for graph in graphs for node in graph.calls]
        aot_names = {bare_name(name) for node in calls for name in (node.target, node.composite)}
        meant = cpu.names(dynamo, capture.compile_id)
        for problem in rule.check_names(dynamo, aot_names):
            if problem.node not in meant:
                yield Found(rule, capture, dynamo, problem)


def place_of(compile_id: str, graph: GraphRecord, name: str) -> Place:
    """Where a node is; an input has no line of its own, but the first op that reads it has."""
    node = graph.node(name)
    if node is not None and not node.is_call:
        node = next((reader for reader in graph.readers.get(name, ()) if reader.is_call), node)
    if node is None:
        return Place(compile_id, graph.stage, name)
    return Place(compile_id, graph.stage, node.name, node.target, node.module_path, node.source, node.cell)


def same_place(place: Place) -> object:
    """Nodes of one module on one line are one place for the user; a node with neither stands for itself."""
    if place.source is None:
        return (place.compile_id, place.stage, place.node)
    return (place.compile_id, place.module_path, place.source.file, place.source.line)


def _violation(found: Found, places: tuple[Place, ...]) -> Violation:
    problem = found.problem
    return Violation(
        rule_id=found.rule.rule_id,
        severity=found.severity,
        title=problem.title,
        places=places,
        observed=problem.observed,
        allowed=problem.allowed,
        explanation=problem.explanation,
        hints=problem.hints,
        evidence=problem.evidence,
    )
