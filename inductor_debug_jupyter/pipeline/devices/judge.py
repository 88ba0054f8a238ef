"""Recorder + profile + rules → :class:`SessionRecord`: findings, coverage and memory of everything captured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from inductor_debug_jupyter.pipeline.capture import Recorder
from inductor_debug_jupyter.pipeline.capture.sources import texts_of
from inductor_debug_jupyter.pipeline.devices.checker import (
    JudgingContext,
    PlacedProblem,
    checked_graphs,
    folded,
    problems_of,
)
from inductor_debug_jupyter.pipeline.devices.constraint import Constraint
from inductor_debug_jupyter.pipeline.devices.coverage import coverage_of
from inductor_debug_jupyter.pipeline.devices.memory import memory_notes, memory_of
from inductor_debug_jupyter.pipeline.devices.other_sizes import with_other_sizes
from inductor_debug_jupyter.pipeline.devices.profile import CpuChoice
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    Note,
    SessionRecord,
    SourceLine,
)
from inductor_debug_jupyter.pipeline.torch_compat.environment import environment
from inductor_debug_jupyter.pipeline.torch_compat.versions import torch_version
from inductor_debug_jupyter.version import __version__


def judge(
    recorder: Recorder,
    context: JudgingContext,
    *,
    session_id: str,
    created: str,
    name: str,
    seconds: float = 0.0,
) -> SessionRecord:
    """The record of all that was captured, checked as in :func:`judge_again`."""
    captures = recorder.captures
    records = (
        memory_of(graph, capture)
        for capture in captures
        for stage in ("forward", "backward")
        if (graph := capture.graph(stage)) is not None
    )
    memory = tuple(record for record in records if record is not None)
    record = SessionRecord(
        id=session_id,
        created=created,
        name=name or recorder.name or _name_of(captures),
        target=context.profile.name,
        strict=context.strict,
        torch_version=torch_version(),
        tool_version=__version__,
        captures=captures,
        graph_breaks=recorder.graph_breaks,
        recompiles=recorder.recompiles,
        guards=recorder.guards,
        symbols=recorder.symbols,
        notes=(*recorder.notes, *memory_notes(captures)),
        sources=texts_of(_lines(captures, recorder)),
        seconds=seconds,
        peak_memory=max((each.peak for each in memory), default=None),
        memory=memory,
        environment=environment(),
    )
    return judge_again(record, context)


def judge_again(record: SessionRecord, context: JudgingContext) -> SessionRecord:
    """The same captures, checked against another target or other rules; nothing is compiled.

    A rule that raises, or a coverage that cannot be computed, becomes a note, and never an error of the user's run.
    """
    profile, rules = context.profile, context.rules
    notes = [note for note in record.notes if note.part != _COVERAGE and not note.part.startswith(RULE)]
    problems: list[PlacedProblem] = []
    in_other_calls: list[PlacedProblem] = []
    for rule in rules:
        try:
            found = list(problems_of([rule], record.captures, profile.cpu))
            problems += found
            in_other_calls.extend(_in_other_calls(rule, record.captures, found, profile.cpu))
        except Exception as error:
            notes.append(Note(f"{RULE}{rule.rule_id}", f"could not check ({type(error).__name__}: {error})"))
    notes += _only_a_run_could_tell(problems) if context.strict else []
    notes += [
        Note(f"{RULE}for {op}", "what it calls is a graph of its own, which no rule looks at")
        for op in _calling(record)
    ]
    findings = folded((*problems, *in_other_calls))
    coverage = None
    try:
        coverage = coverage_of(record.captures, profile, rules, problems) if record.captures else None
    except Exception as error:
        notes.append(Note(_COVERAGE, f"could not be told ({type(error).__name__}: {error})"))
    lines = (line for finding in findings for place in finding.places for line in (place.cell, place.source))
    return replace(
        record,
        target=profile.name,
        findings=findings,
        coverage=coverage,
        memory_limit=profile.peak_limit or profile.memory_limit,
        notes=tuple(notes),
        sources={**texts_of(lines), **record.sources},
    )


def _only_a_run_could_tell(problems: Iterable[PlacedProblem]) -> list[Note]:
    unknown = {(each.rule.rule_id, each.problem.title): None for each in problems if each.problem.is_unknown}
    return [Note(f"{RULE}{rule_id}", f"only a run could tell: {title}") for rule_id, title in unknown]


def _in_other_calls(
    rule: Constraint, captures: Sequence[CompileCapture], found: Sequence[PlacedProblem], cpu: CpuChoice
) -> Iterator[PlacedProblem]:
    """The errors that a rule finds with the sizes of other calls than the one that was compiled for."""
    for capture in captures:
        mine = [each.problem for each in found if each.capture is capture]
        for other in with_other_sizes(capture, [text for each in mine for text in (each.title, each.observed)]):
            yield from (each for each in problems_of([rule], [other], cpu) if each.severity == "error")


def _calling(record: SessionRecord) -> list[str]:
    """The ops that call graphs of their own, such as ``cond``; flex_attention's is a part of the op."""
    graphs = [graph for capture in record.captures for graph in checked_graphs(capture)]
    bodies = {
        (id(graph), node.name) for graph in graphs for node in graph.nodes if node.op == "get_attr" and not node.outputs
    }
    return sorted(
        {
            name
            for graph in graphs
            for node in graph.calls
            if node.target.startswith(_HIGHER)
            and not (name := node.target.removeprefix(_HIGHER)).startswith("flex_")
            and any((id(graph), each) in bodies for each in node.inputs)
        }
    )


_HIGHER = "torch.ops.higher_order."
RULE = "rule "
_COVERAGE = "coverage"
"""``Note.part`` of the notes that this module adds; :func:`judge_again` drops those of the earlier judgement."""


def _name_of(captures: Sequence[CompileCapture]) -> str:
    """The name of the first graph's function, without the suffix of a graph that resumes it after a break."""
    return captures[0].name.partition(" (")[0].removesuffix(".forward") if captures else "cell"


def _lines(captures: Iterable[CompileCapture], recorder: Recorder) -> Iterable[SourceLine | None]:
    """The lines whose files are stored with the session, beside those of its findings."""
    yield from (graph_break.source for graph_break in recorder.graph_breaks)
    yield from (recompile.source for recompile in recorder.recompiles)
    yield from (guard.source for guard in recorder.guards)
    yield from (symbol.source for symbol in recorder.symbols)
    for capture in captures:
        yield capture.source
        for graph in capture.graphs.values():
            for node in graph.calls:
                yield node.cell
