"""The dicts of the panel's header, its Findings tab, its source pane, and the raw detail of a node."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.documentation import rule_ids
from inductor_debug_jupyter.pipeline.harmless import one_line, plain
from inductor_debug_jupyter.pipeline.records import BACKWARD, CoverageRecord, Place, SessionRecord, Violation
from inductor_debug_jupyter.pipeline.records.findings import severity_counts
from inductor_debug_jupyter.pipeline.views import labels, text
from inductor_debug_jupyter.pipeline.views.diff import VERDICT_KINDS
from inductor_debug_jupyter.pipeline.views.labels import label_of
from inductor_debug_jupyter.pipeline.views.places import (
    Lookup,
    called_text,
    code_text,
    label_and_number,
    model_text,
    where_text,
)
from inductor_debug_jupyter.pipeline.views.view_types import Row, TabView, copied
from inductor_debug_jupyter.pipeline.words import ICONS, RANK


def header_view(record: SessionRecord) -> Row:
    """The title, the figures with the tabs they lead to, the tabs that have data, and the ``tab`` that opens first.

    That is the tab with the worst error or warning; where two are as bad, the findings come first.
    """
    kinds = (("findings", _worst_severity(record)), ("diff", diff_kind(record)))
    news = [(RANK[kind], tab) for tab, kind in kinds if kind in {"error", "warning"}]
    return Row(
        title=text.title_text(record),
        figures=_figures(record),
        tabs=list(_tabs(record)),
        tab=min(news, key=lambda each: each[0])[1] if news else "overview",
    )


def _worst_severity(record: SessionRecord) -> str:
    return next((severity for severity, number in severity_counts(record.findings).items() if number), "")


def _has_graph(record: SessionRecord) -> bool:
    return any(capture.graphs for capture in record.captures)


def _tabs(record: SessionRecord) -> Iterator[TabView]:
    """The tabs that the session has data for, in their order."""
    yield _tab("overview", "Overview")
    if record.findings:
        yield _tab("findings", "Findings", f"{len(record.findings):,}", _worst_severity(record))
    if _has_graph(record):
        yield _tab("graph", "Graph")
        if any(capture.kernels or capture.rest or "code" in capture.texts for capture in record.captures):
            yield _tab("code", "Code")
    if record.memory:
        over = record.memory_limit is not None and (record.peak_memory or 0) > record.memory_limit
        yield _tab("memory", "Memory", *(("✗", "error") if over else ()))
    if record.coverage is not None and record.coverage.graphs:
        yield _placement_tab(record, record.coverage)
    if record.transfers or record.kernel_specs:
        yield _tab("transfers", "Transfers", f"{len(record.transfers):,}")
    if _has_guards(record):
        yield _tab("guards", "Guards", f"{len(record.guards):,}" if record.guards else "")
    yield from _tabs_of_numbers(record)


def _tabs_of_numbers(record: SessionRecord) -> Iterator[TabView]:
    if kind := _diff_tab_kind(record):
        yield _tab("diff", "KernelDiff", {**ICONS, "good": "✓"}[kind], kind)
    if record.error_budget is not None:
        yield _tab("budget", "Error budget")
    if record.kernel_times is not None:
        yield _tab("time", "Time")


def _placement_tab(record: SessionRecord, coverage: CoverageRecord) -> TabView:
    """With the number of ops that are not on the target; as bad as the findings are."""
    left = coverage.count("fallback") + coverage.count("refused")
    kind = "error" if severity_counts(record.findings)["error"] else "warning"
    return _tab("placement", "Placement", *((f"{left:,}", kind) if left else ()))


def _tab(name: str, title: str, badge: str = "", kind: str = "") -> TabView:
    return TabView(id=name, title=title, badge=badge, kind=kind)


def _diff_tab_kind(record: SessionRecord) -> str:
    """The kind of the comparison or, without one, of the search for culprits; empty without either."""
    kind, search = diff_kind(record), record.localization
    if not kind and search is not None:
        return "error" if search.culprits else "good" if 0 < search.compared == len(search.nodes) else "warning"
    return kind


def _has_guards(record: SessionRecord) -> bool:
    return bool(record.guards or record.graph_breaks or record.recompiles)


def diff_kind(record: SessionRecord) -> str:
    """``error``, ``warning`` or ``good``; empty without a comparison."""
    return VERDICT_KINDS[record.diff.verdict] if record.diff else ""


def _figures(record: SessionRecord) -> list[Row]:
    """The figures of the header; clicking one opens its ``tab`` (empty: not a link)."""
    found = [*_compile_figures(record)]
    for severity, number in severity_counts(record.findings).items():
        if number:
            found.append((f"{ICONS[severity]} {words.count(number, severity)}", "findings", severity))
    if not record.findings:
        found.append((text.verdict_text(record), "overview", verdict_kind(record)))
    if record.diff is not None:
        found.append((text.diff_verdict(record.diff), "diff", diff_kind(record)))
    if record.notes:
        found.append((words.count(len(record.notes), "note"), "overview", ""))
    if memory := text.memory_text(record):
        found.append((memory, "memory" if record.memory else "", ""))
    if record.kernel_times is not None:
        found.append((f"{words.short_time(record.kernel_times.seconds)} a call", "time", ""))
    if record.seconds:
        found.append((words.duration(record.seconds), "", ""))
    return [Row(text=figure, tab=tab, kind=kind) for figure, tab, kind in found]


def _compile_figures(record: SessionRecord) -> Iterator[tuple[str, str, str]]:
    """Text, tab and kind of what the compiler did."""
    if record.captures:
        yield words.count(len(record.captures), "graph"), "graph" if _has_graph(record) else "overview", ""
        guards_tab = "guards" if _has_guards(record) else "overview"
        yield words.count(len(record.graph_breaks), "break"), guards_tab, "warning" if record.graph_breaks else ""
    if record.recompiles:
        yield words.count(len(record.recompiles), "recompile"), "guards", "warning"


def graphs_to_come(record: SessionRecord) -> dict[str, list[str]]:
    """Compile id → the graphs that Inductor makes when they are asked for."""
    made_of = {"forward": "post_grad", "backward": f"post_grad{BACKWARD}"}
    return {
        capture.compile_id: [made for stage, made in made_of.items() if stage in capture.graphs]
        for capture in record.captures
        if capture.rest is not None
    }


def verdict_kind(record: SessionRecord) -> str:
    """The worst severity; without findings ``good`` if a target was checked; ``warning`` if nothing was captured."""
    if not record.captures:
        return "warning"
    return _worst_severity(record) or ("good" if record.target else "")


def findings_view(record: SessionRecord, lookup: Lookup | None = None, *, max_places: int | None = None) -> list[Row]:
    """One row for each finding, worst first, with at most ``max_places`` places; ``count`` counts all of them."""
    lookup = lookup or Lookup(record)
    return [_finding(index, finding, lookup, max_places) for index, finding in lookup.ordered]


def _finding(index: int, finding: Violation, lookup: Lookup, max_places: int | None) -> Row:
    """One row of the Findings tab with its explanation; ``count`` counts places, also those left out."""
    first = finding.places[0] if finding.places else None
    where = " · ".join(filter(None, [model_text(first) if first else "", plain(finding.observed)]))
    return copied(finding, "rule_id", "severity", "title", "observed", "allowed") | Row(
        index=index,
        has_page=finding.rule_id in rule_ids(),
        icon=ICONS[finding.severity],
        where=where,
        called_from=called_text(first) if first else "",
        count=len(finding.places),
        explanation=one_line(finding.explanation),
        hints=[one_line(hint) for hint in finding.hints],
        fixits=[one_line(fixit) for fixit in finding.fixits],
        places=[_place(place) for place in finding.places[:max_places]],
        selection=lookup.of_finding(index),
        groups=_groups(finding, first),
        search=f"{finding.severity} {finding.rule_id} {finding.title} {where}".lower(),
    )


def _groups(finding: Violation, place: Place | None) -> dict[str, str]:
    """Grouping → the finding's group; ``place`` is its first place."""
    return {
        "severity": f"{finding.severity}s",
        "rule": plain(finding.rule_id),
        "module": plain(place.module_path if place else "") or "outside of any module",
        "line": where_text(place.line if place else None) or "no line known",
    }


def _place(place: Place) -> Row:
    """One place of a finding, by the model's own line; ``deeper`` says from which line of the cell it was called."""
    label, number = label_and_number(place.line)
    return Row(
        compile_id=place.compile_id,
        stage=place.stage,
        node=place.node,
        op=plain(labels.short_op(place.target)) if place.target else "",
        module_path=plain(place.module_path),
        label=label,
        line=number,
        text=code_text(place.line),
        deeper=f"called from {text.line_text(place.called_from)}" if place.called_from else "",
    )


def source_view(
    record: SessionRecord, lookup: Lookup | None = None, labels: Collection[str] | None = None
) -> dict[str, Row]:
    """Label → its lines, each with its findings, a mark for a graph break, and the selection that a click makes.

    ``labels`` are the cells and files to include; all of them by default.
    """
    lookup = lookup or Lookup(record)
    broken = {(label_of(item.source), item.source.line) for item in record.graph_breaks if item.source}
    return {
        label: Row(
            label=label,
            lines=[
                _line(label, number, code, (label, number) in broken, lookup)
                for number, code in enumerate(whole.splitlines(), start=1)
            ],
        )
        for label, whole in record.sources.items()
        if labels is None or label in labels
    }


def _line(label: str, number: int, code: str, is_break: bool, lookup: Lookup) -> Row:
    """One line of a user's source; ``findings`` are indices, worst first; ``mark`` is the worst severity or a break."""
    findings = list(lookup.by_line.get((label, number), ()))
    worst = min((lookup.record.findings[index].severity for index in findings), key=RANK.__getitem__, default="")
    selectable = findings or is_break or lookup.has_nodes(label, number)
    return Row(
        number=number,
        text=plain(code),
        findings=findings,
        mark=worst or ("break" if is_break else ""),
        selection=lookup.of_line(label, number) if selectable else None,
    )


def node_view(lookup: Lookup, compile_id: str, stage: str, name: str) -> Row | None:
    """Raw detail of one node, or None when the record has no such node."""
    graph = lookup.graphs.get((compile_id, stage))
    node = graph.node(name) if graph else None
    if node is None:
        return None
    line = node.source or node.cell
    label, number = label_and_number(line)
    rows = [
        ["node", plain(node.name)],
        ["op", plain(f"{node.op} {node.target}")],
        ["module", plain(" ".join(filter(None, [node.module_path, node.module_type and f"({node.module_type})"])))],
        *(["output", f"{plain(str(out))} stride {_dims(out.stride)} on {out.device}"] for out in node.outputs),
        ["inputs", plain(", ".join(node.inputs))],
        ["arguments", plain(node.arguments)],
        ["aten ops", plain(", ".join(node.aten_ops))],
        ["line", text.line_text(node.source) if node.source else ""],
        ["graph", plain(f"{compile_id} {stage}")],
    ]
    return Row(
        compile_id=compile_id,
        stage=stage,
        node=name,
        title=" ".join(
            filter(None, [plain(labels.op_of(node)), labels.short_tensor(node.tensor) if node.tensor else ""])
        ),
        label=label,
        line=number,
        text=code_text(line),
        wrong=_wrong(lookup, (compile_id, stage, name)),
        rows=[row for row in rows if row[1]],
    )


def _wrong(lookup: Lookup, node: tuple[str, str, str]) -> str:
    """That the search for culprits found this node (compile id, stage, name); empty when it did not."""
    search = lookup.record.localization
    for culprit in search.culprits if search else ():
        found = lookup.of_searched(culprit.graph, culprit.node)
        if search and found and (found["compile_id"], found["stage"], found["node"]) == node:
            return f"This is where the wrong numbers of {plain(search.candidate)} come in."
    return ""


def _dims(stride: tuple[int | str, ...] | None) -> str:
    return "unknown" if stride is None else f"({', '.join(map(str, stride))})"
