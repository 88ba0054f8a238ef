"""Run constraints over captures and fold the problems that they report into violations.

Rules look at the AOT forward and backward graphs, where every op is an aten op with a shape. Where a compile stopped
before AOT they look at the Dynamo graph, whose nodes know which aten ops they stand for. Deny lists look at both,
because users name ops as Dynamo does or as AOT does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.devices.alignment import AlignmentConstraint
from inductor_debug_jupyter.pipeline.devices.constraint import Constraint, Problem
from inductor_debug_jupyter.pipeline.devices.dtypes import DtypeConstraint, KnownTypesConstraint, NarrowedConstraint
from inductor_debug_jupyter.pipeline.devices.layouts import LayoutConstraint
from inductor_debug_jupyter.pipeline.devices.memory import MemoryConstraint, ScratchpadConstraint
from inductor_debug_jupyter.pipeline.devices.ops import bare_name, check_ops
from inductor_debug_jupyter.pipeline.devices.profile import CpuChoice, DeviceProfile, load_profile
from inductor_debug_jupyter.pipeline.devices.support import OpSupport, UnsupportedOpsConstraint
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.records import CompileCapture, GraphRecord, Place, Severity, Violation
from inductor_debug_jupyter.pipeline.settings import Settings
from inductor_debug_jupyter.pipeline.words import RANK


def rules_for(profile: DeviceProfile) -> list[Constraint]:
    """The constraints that a profile stands for.

    Raises:
        OptionError: the profile names an op that torch does not have.
    """
    _check_op_names(profile)
    rules: list[Constraint] = [KnownTypesConstraint()]
    if profile.dtypes is not None:  # the target takes the dtypes that it narrows, too
        rules.append(DtypeConstraint({*profile.dtypes, *profile.narrow}, profile.op_dtypes))
    if any("int" in name for name in profile.narrow):
        rules.append(NarrowedConstraint(profile.narrow))
    if profile.deny or profile.allow is not None:
        support = OpSupport(profile.allow, profile.deny, profile.decompose, fallback=profile.fallback == "cpu")
        rules.append(UnsupportedOpsConstraint(profile.deny, support=support))
    rules += [AlignmentConstraint(rule, profile.narrow) for rule in profile.alignments]
    rules += [LayoutConstraint(rule=rule) for rule in profile.layouts]
    if profile.memory_limit or profile.tensor_limit or profile.peak_limit:
        rules.append(MemoryConstraint(profile.memory_limit, tensor=profile.tensor_limit, peak=profile.peak_limit))
    if profile.scratchpad is not None:
        rules.append(ScratchpadConstraint(profile.scratchpad))
    return rules


def _check_op_names(profile: DeviceProfile) -> None:
    """Check a profile that was built in Python; one from a file is checked as it is read, with file and line."""
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


@dataclass(frozen=True)
class JudgingContext:
    """Settings, target and rules of a session.

    Attributes:
        settings: the options in force.
        profile: the target's profile with the settings' changes, and with a what-if's.
        rules: what is checked.
        has_own_rules: the rules are the user's (``constraints=``), not the profile's.
        is_complete: False for a session that was loaded: its file names the target, but neither settings nor rules.
    """

    settings: Settings
    profile: DeviceProfile
    rules: tuple[Constraint, ...]
    has_own_rules: bool = False
    is_complete: bool = True

    @classmethod
    def of(cls, settings: Settings, constraints: Sequence[Constraint] | None = None) -> JudgingContext:
        """The settings' target with its rules, or with ``constraints`` instead.

        Raises:
            UsageError: a bad setting or an unknown target.
        """
        profile = load_profile(settings["target"]).with_settings(settings)
        rules = rules_for(profile) if constraints is None else constraints
        return cls(settings, profile, tuple(rules), has_own_rules=constraints is not None)

    @property
    def strict(self) -> bool:
        """Whether what the target refuses is an error of the run."""
        return bool(self.settings["strict"])

    def check_other_graphs(self) -> None:
        """Check that the context also holds for graphs of another run.

        Raises:
            OptionError: a node of the captured graphs is meant for the CPU, which another run does not have.
        """
        if nodes := [name for _, _, name in self.profile.cpu.nodes]:
            raise OptionError(
                f"node {nodes[0]!r} on the CPU is one of the graphs that were captured, and another run has graphs of "
                "its own; name its op instead: fallback=[…]"
            )


def checked_graphs(capture: CompileCapture) -> list[GraphRecord]:
    """The graphs of a capture that rules look at: forward and backward, or the Dynamo graph where there is neither."""
    lowered = [graph for stage in ("forward", "backward") if (graph := capture.graph(stage)) is not None]
    dynamo = capture.graph("dynamo")
    return lowered or ([dynamo] if dynamo else [])


@dataclass(frozen=True, slots=True)
class PlacedProblem:
    """A problem with the rule that reported it and the graph whose node it is about."""

    rule: Constraint
    capture: CompileCapture
    graph: GraphRecord
    problem: Problem

    @property
    def severity(self) -> Severity:
        """The problem's own severity, else the rule's."""
        return self.problem.severity or self.rule.severity

    @property
    def place(self) -> Place:
        """The node, its module and the user's line."""
        return place_of(self.capture.compile_id, self.graph, self.problem.node)


def problems_of(
    rules: Iterable[Constraint], captures: Sequence[CompileCapture], cpu: CpuChoice | None = None
) -> Iterator[PlacedProblem]:
    """Every problem that the rules report. Nodes that the user chose for the CPU are left out."""
    for rule in rules:
        for capture in captures:
            for graph, problems in _problems_in(rule, capture):
                on_cpu = (cpu or CpuChoice()).names(graph, capture.compile_id)
                if isinstance(rule, MemoryConstraint):  # the target also stores what the CPU computes
                    on_cpu = frozenset()
                yield from (PlacedProblem(rule, capture, graph, each) for each in problems if each.node not in on_cpu)


def _problems_in(rule: Constraint, capture: CompileCapture) -> Iterator[tuple[GraphRecord, Iterable[Problem]]]:
    graphs = checked_graphs(capture)
    for graph in graphs:
        yield graph, rule.check(graph, capture) if isinstance(rule, MemoryConstraint) else rule.check(graph)
    dynamo = capture.graph("dynamo")
    if isinstance(rule, UnsupportedOpsConstraint) and dynamo is not None and dynamo is not graphs[0]:
        calls = [node for graph in graphs for node in graph.calls]
        aot_names = {bare_name(name) for node in calls for name in (node.target, node.composite)}
        yield dynamo, rule.check_names(dynamo, aot_names)


def check(
    captures: Sequence[CompileCapture], rules: Iterable[Constraint], cpu: CpuChoice | None = None
) -> tuple[Violation, ...]:
    """The violations of captures, one for each cause, worst first. Nodes chosen for the CPU are left out."""
    return folded(problems_of(rules, captures, cpu))


def folded(problems: Iterable[PlacedProblem]) -> tuple[Violation, ...]:
    """One violation for each cause, worst first, with a place for each of the user's lines and modules."""
    causes: dict[tuple[str, ...], tuple[PlacedProblem, dict[object, Place]]] = {}
    for each in problems:
        problem = each.problem
        cause = (problem.cause,) if problem.cause else (problem.title, problem.observed, problem.allowed)
        place, line = each.place, each.place.source
        here = (place.stage, place.node) if line is None else (place.module_path, line.file, line.line)
        places = causes.setdefault((each.rule.rule_id, *cause), (each, {}))[1]
        places.setdefault((place.compile_id, *here), place)
    violations = [
        Violation(
            rule_id=first.rule.rule_id,
            severity=first.severity,
            title=first.problem.title,
            places=tuple(places.values()),
            observed=first.problem.observed,
            allowed=first.problem.allowed,
            explanation=first.problem.explanation,
            hints=first.problem.hints,
            evidence=first.problem.evidence,
        )
        for first, places in causes.values()
    ]
    return tuple(sorted(violations, key=lambda violation: RANK[violation.severity]))


def place_of(compile_id: str, graph: GraphRecord, name: str) -> Place:
    """The place of a node. A graph input has no line of its own, so it gets that of the first op that reads it."""
    node = graph.node(name)
    if node is not None and not node.is_call:
        node = next((reader for reader in graph.readers.get(name, ()) if reader.is_call), node)
    if node is None:
        return Place(compile_id, graph.stage, name)
    return Place(compile_id, graph.stage, node.name, node.target, node.module_path, node.source, node.cell)
