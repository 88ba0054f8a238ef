"""The dicts that the panels are given: header, findings, sources, and raw detail of a node."""

from __future__ import annotations

from collections.abc import Collection

from inductor_debug_jupyter.pipeline.records import (
    Place,
    SessionRecord,
    Violation,
)
from inductor_debug_jupyter.pipeline.views import text, words
from inductor_debug_jupyter.pipeline.views.places import Lookup
from inductor_debug_jupyter.pipeline.views.shapes import (
    FigureView,
    FindingView,
    HeaderView,
    LineView,
    NodeView,
    PlaceView,
    SourceView,
    TabView,
)
from inductor_debug_jupyter.pipeline.views.words import ICONS, RANK, label_of, plain


def header_view(record: SessionRecord) -> HeaderView:
    """The header's figures with the tabs they lead to, and the tabs that have something to say, worst news first."""
    has_graph = any(capture.graphs for capture in record.captures)
    counts = text.severity_counts(record.findings)
    worst = next((severity for severity, number in counts.items() if number), "")
    tabs = [TabView(id="overview", title="Overview", badge="", kind="")]
    if record.findings:
        tabs.append(TabView(id="findings", title="Findings", badge=f"{len(record.findings):,}", kind=worst))
    if has_graph:
        tabs.append(TabView(id="graph", title="Graph", badge="", kind=""))
    if has_graph and any(capture.kernels or "code" in capture.texts for capture in record.captures):
        tabs.append(TabView(id="code", title="Code", badge="", kind=""))
    if record.memory:
        over = record.memory_limit is not None and (record.peak_memory or 0) > record.memory_limit
        tabs.append(TabView(id="memory", title="Memory", badge="✗" if over else "", kind="error" if over else ""))
    if record.coverage is not None and record.coverage.graphs:
        left = sum(record.coverage.count(status) for status in ("fallback", "refused"))
        badge = f"{left:,}" if left else ""
        tabs.append(TabView(id="placement", title="Placement", badge=badge, kind="warning" if left else ""))
    if record.transfers or record.kernel_specs:
        tabs.append(TabView(id="transfers", title="Transfers", badge=f"{len(record.transfers):,}", kind=""))
    if _has_guards(record):
        badge = f"{len(record.guards):,}" if record.guards else ""
        tabs.append(TabView(id="guards", title="Guards", badge=badge, kind=""))
    wrong = diff_kind(record)
    if record.diff is not None:
        tabs.append(TabView(id="diff", title="KernelDiff", badge=_DIFF_ICONS[wrong], kind=wrong))
    elif record.localization is not None:
        found = record.localization
        kind = "error" if found.culprits else "good" if 0 < found.compared == len(found.nodes) else "warning"
        tabs.append(TabView(id="diff", title="KernelDiff", badge=_DIFF_ICONS[kind], kind=kind))
    return HeaderView(
        title=text.title_text(record),
        figures=_figures(record, counts, "graph" if has_graph else "overview"),
        tabs=tabs,
        tab=_worst_tab(worst, wrong),
    )


_DIFF_ICONS = {"": "", "error": "✗", "warning": "⚠", "good": "✓"}


def _has_guards(record: SessionRecord) -> bool:
    return bool(record.guards or record.graph_breaks or record.recompiles)


def diff_kind(record: SessionRecord) -> str:
    """``error``, ``warning`` or ``good``; empty without a comparison."""
    if record.diff is None:
        return ""
    return {"mismatch": "error", "not_compared": "warning"}.get(record.diff.verdict, "good")


def _worst_tab(findings: str, diff: str) -> str:
    """The tab with the worst news; where two are as bad, the findings come first."""
    for severity in ("error", "warning"):
        if findings == severity:
            return "findings"
        if diff == severity:
            return "diff"
    return "overview"


def _figures(record: SessionRecord, counts: dict[str, int], graph_tab: str) -> list[FigureView]:
    figures = []
    guards_tab = "guards" if _has_guards(record) else "overview"
    if record.captures:
        figures.append(FigureView(text=words.count(len(record.captures), "graph"), tab=graph_tab, kind=""))
        broken = "warning" if record.graph_breaks else ""
        figures.append(FigureView(text=words.count(len(record.graph_breaks), "break"), tab=guards_tab, kind=broken))
    if record.recompiles:
        told = words.count(len(record.recompiles), "recompile")
        figures.append(FigureView(text=told, tab="guards", kind="warning"))
    for severity, number in counts.items():
        if number:
            told = f"{ICONS[severity]} {words.count(number, severity)}"
            figures.append(FigureView(text=told, tab="findings", kind=severity))
    if not record.findings:
        figures.append(FigureView(text=text.verdict_text(record), tab="overview", kind=verdict_kind(record)))
    if record.diff is not None:
        kind = diff_kind(record)
        figures.append(FigureView(text=text.diff_verdict(record.diff), tab="diff", kind=kind))
    if record.notes:
        figures.append(FigureView(text=words.count(len(record.notes), "note"), tab="overview", kind=""))
    if memory := text.memory_text(record):
        figures.append(FigureView(text=memory, tab="memory" if record.memory else "", kind=""))
    if record.seconds:
        figures.append(FigureView(text=words.duration(record.seconds), tab="", kind=""))
    return figures


def verdict_kind(record: SessionRecord) -> str:
    """The worst that the rules found; ``good`` only for what was checked, ``warning`` when nothing was captured."""
    if not record.captures:
        return "warning"
    for severity, number in text.severity_counts(record.findings).items():
        if number:
            return severity
    return "good" if record.target else ""


def plain_lines(told: str) -> str:
    """Several lines as one; each made plain."""
    return " ".join(plain(part.strip()) for part in told.splitlines() if part.strip())


def findings_view(
    record: SessionRecord, lookup: Lookup | None = None, *, max_places: int | None = None
) -> list[FindingView]:
    """One row for each finding, worst first; it spells out at most ``max_places`` places (``count`` has all)."""
    lookup = lookup or Lookup(record)
    return [_finding(index, finding, lookup, max_places) for index, finding in lookup.ordered]


def _finding(index: int, finding: Violation, lookup: Lookup, max_places: int | None) -> FindingView:
    first = finding.places[0] if finding.places else None
    where = " · ".join(filter(None, [_short_where(first), plain(finding.observed)]))
    return FindingView(
        index=index,
        rule_id=plain(finding.rule_id),
        severity=finding.severity,
        icon=ICONS[finding.severity],
        title=plain(finding.title),
        where=where,
        count=len(finding.places),
        observed=plain(finding.observed),
        allowed=plain(finding.allowed),
        explanation=plain_lines(finding.explanation),
        hints=[plain_lines(hint) for hint in finding.hints],
        fixits=[plain_lines(fixit) for fixit in finding.fixits],
        places=[_place(place) for place in finding.places[:max_places]],
        selection=lookup.of_finding(index),
        groups=_groups(finding, first),
        search=f"{finding.severity} {finding.rule_id} {finding.title} {where}".lower(),
    )


def _groups(finding: Violation, place: Place | None) -> dict[str, str]:
    """Of a finding with several places the first one counts."""
    line = place.line if place else None
    return {
        "severity": f"{finding.severity}s",
        "rule": plain(finding.rule_id),
        "module": plain(place.module_path if place else "") or "outside of any module",
        "line": f"{plain(label_of(line))}, line {line.line}" if line else "no line known",
    }


def _short_where(place: Place | None) -> str:
    if place is None:
        return ""
    line = place.line
    told = f"{plain(label_of(line))}:{line.line}" if line else ""
    return " · ".join(filter(None, [told, plain(place.module_path or place.node)]))


def _place(place: Place) -> PlaceView:
    line = place.line
    deeper = place.source if place.source and place.cell and place.source != place.cell else None
    return PlaceView(
        compile_id=place.compile_id,
        stage=place.stage,
        node=place.node,
        op=plain(words.short_op(place.target)) if place.target else "",
        module_path=plain(place.module_path),
        label=label_of(line) if line else "",
        line=line.line if line else 0,
        text=plain(line.text.strip()) if line else "",
        deeper=text.line_text(deeper) if deeper else "",
    )


def source_view(
    record: SessionRecord, lookup: Lookup | None = None, labels: Collection[str] | None = None
) -> dict[str, SourceView]:
    """Label → its lines, with what stands on each: its findings, a graph break, and what choosing it selects.

    ``labels`` are those of interest; all of them by default.
    """
    lookup = lookup or Lookup(record)
    broken = {(label_of(item.source), item.source.line) for item in record.graph_breaks if item.source}
    return {
        label: SourceView(
            label=label,
            lines=[
                _line(label, number, code, (label, number) in broken, lookup)
                for number, code in enumerate(whole.splitlines(), start=1)
            ],
        )
        for label, whole in record.sources.items()
        if labels is None or label in labels
    }


def _line(label: str, number: int, code: str, is_break: bool, lookup: Lookup) -> LineView:
    findings = list(lookup.by_line.get((label, number), ()))
    worst = min((lookup.record.findings[index].severity for index in findings), key=RANK.__getitem__, default="")
    selectable = findings or is_break or lookup.has_nodes(label, number)
    return LineView(
        number=number,
        text=plain(code),
        findings=findings,
        mark=worst or ("break" if is_break else ""),
        selection=lookup.of_line(label, number) if selectable else None,
    )


def node_view(lookup: Lookup, compile_id: str, stage: str, name: str) -> NodeView | None:
    """Raw detail of one node, or None when the record has no such node."""
    graph = lookup.graphs.get((compile_id, stage))
    node = graph.node(name) if graph else None
    if node is None:
        return None
    line = node.cell or node.source
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
    return NodeView(
        compile_id=compile_id,
        stage=stage,
        node=name,
        title=" ".join(
            filter(None, [plain(words.op_of(node)), words.short_tensor(node.tensor) if node.tensor else ""])
        ),
        label=label_of(line) if line else "",
        line=line.line if line else 0,
        text=plain(line.text.strip()) if line else "",
        rows=[row for row in rows if row[1]],
    )


def _dims(stride: tuple[int | str, ...] | None) -> str:
    return "unknown" if stride is None else f"({', '.join(map(str, stride))})"
