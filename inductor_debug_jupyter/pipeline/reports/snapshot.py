"""The static snapshot for readers without a kernel: a saved notebook, a code host's viewer, an exported page.

It is folded HTML: the header line, the findings as a table (where in the model first, the cell's line second), the
graph, the comparison with a picture of the worst output, graph breaks and recompiles, notes. Sanitizers of untrusted
notebooks and of code hosts remove scripts, style sheets, inline SVG and often ``style`` attributes. So nothing depends
on these: there are tables, ``<details>`` and ``<img>`` with data URLs, in the page's own colours. Pictures have a white
sheet, because an image cannot follow the page's dark theme. LaTeX takes no HTML; for it there is the same table as
Markdown.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.drawing.graph_view import FIRST_VIEW, GraphView
from inductor_debug_jupyter.pipeline.harmless import one_line, plain
from inductor_debug_jupyter.pipeline.records import OutputDiff, SessionRecord, Violation
from inductor_debug_jupyter.pipeline.reports.images import heatmap_image
from inductor_debug_jupyter.pipeline.views.bisect import bisect_text
from inductor_debug_jupyter.pipeline.views.diff import diff_summary, diff_text
from inductor_debug_jupyter.pipeline.views.localization import localization_text
from inductor_debug_jupyter.pipeline.views.overview import overview_view
from inductor_debug_jupyter.pipeline.views.places import Lookup, called_text, code_text, model_text
from inductor_debug_jupyter.pipeline.views.text import NOTHING_CAPTURED, header_line
from inductor_debug_jupyter.pipeline.words import ICONS

MAX_BYTES = 60_000
_TABLE_BYTES = 16_000
_TEXT_BYTES = 6_000
_LONGEST_CELL = 240
_PLACES_SHOWN = 3
_HEATMAP_PIXELS = 420
_NOISE = re.compile(r"<!--.*?-->\s*|<title>.*?</title>\s*| (?:id|class)=\"[^\"]*\"(?=[^<]*>)", re.DOTALL)
"""Comments, titles, ids and classes, which an image does not need."""
_LIMITS = (FIRST_VIEW, 10)
"""The numbers of shapes to try until the picture is small enough; the first is the panel's."""


_LEFT = ' style="text-align:left;vertical-align:top;overflow-wrap:anywhere"'
_FIRST = ' style="text-align:left;vertical-align:top;white-space:nowrap"'
"""Notebooks align cells right; where the style is stripped, that is all that changes."""


class Snapshot:
    """What a front end displays: HTML, and for LaTeX Markdown. ``data`` is the HTML."""

    def __init__(self, record: SessionRecord) -> None:
        self.data = snapshot_html(record)
        self._markdown = snapshot_markdown(record)

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        return {"text/html": self.data, "text/markdown": self._markdown, "text/plain": ""}


def snapshot_html(record: SessionRecord, *, max_bytes: int = MAX_BYTES) -> str:
    """Static HTML of at most ``max_bytes``, which any sanitizer leaves whole."""
    lookup = Lookup(record)
    head = f"<details><summary>Static snapshot · {_text(header_line(record, timings=False), 400)}</summary>"
    parts = [_nothing(record), _findings(lookup), _comparison(record), _guards(lookup), _notes(record)]
    room = max_bytes - len((head + "".join(parts)).encode()) - 600
    parts.insert(2, _graph(lookup, room))
    return f"{head}{''.join(parts)}</details>"


def snapshot_markdown(record: SessionRecord) -> str:
    """The table of findings as Markdown; the header line is in the panel's own text, which stands before it."""
    lines = [] if record.captures else [as_markdown(NOTHING_CAPTURED), ""]
    rows = [
        [ICONS[finding.severity], finding.rule_id, finding.title, _where(finding), _to_do(finding)]
        for _, finding in Lookup(record).ordered[:20]
    ]
    if rows:
        lines += ["| | rule | what | where | what to do |", "|---|---|---|---|---|"]
        lines += [
            "| " + " | ".join(as_markdown(words.clip(one_line(cell), 120)) for cell in row) + " |" for row in rows
        ]
    if (more := len(record.findings) - len(rows)) > 0:
        lines += ["", f"… and {words.count(more, 'more finding')}."]
    if record.diff is not None:
        lines += ["", as_markdown(one_line(diff_summary(record.diff)))]
    return "\n".join(lines) + "\n"


def _nothing(record: SessionRecord) -> str:
    return "" if record.captures else f"<p><b>⚠ {NOTHING_CAPTURED}</b></p>"


def _findings(lookup: Lookup) -> str:
    """The table of findings: what, where in the model, from which line of the cell, what to do."""
    findings = [finding for _, finding in lookup.ordered]
    if not findings:
        return ""
    rows = [
        [
            f"{ICONS[finding.severity]} {finding.severity}<br><code>{_text(finding.rule_id)}</code>",
            f"<b>{_text(finding.title)}</b>{_code_of(finding)}",
            "<br>".join(_text(where) for where in _places(finding)),
            _text(_to_do(finding)),
        ]
        for finding in findings
    ]
    columns = ("", "what is wrong", "where in the model", "what to do")
    return folded(f"Findings ({len(findings):,})", _table(columns, rows), is_open=True)


def _where(finding: Violation) -> str:
    return model_text(finding.places[0]) if finding.places else ""


def _places(finding: Violation) -> list[str]:
    """The first distinct places, how many more there are, and the cell's line."""
    distinct = list(dict.fromkeys(model_text(place) for place in finding.places))
    more = len(distinct) - _PLACES_SHOWN
    called = called_text(finding.places[0]) if finding.places else ""
    return [
        *distinct[:_PLACES_SHOWN],
        *([f"… and {more:,} more"] if more > 0 else []),
        *([f"called from {called}"] if called else []),
    ]


def _code_of(finding: Violation) -> str:
    return _code(code_text(finding.places[0].line) if finding.places else "")


def _code(line: str) -> str:
    return f"<br><code>{_text(line, 120)}</code>" if line else ""


def _to_do(finding: Violation) -> str:
    """The first fix-it that was verified, else the first hint."""
    return plain(next(iter((*finding.fixits, *finding.hints)), ""))


def _graph(lookup: Lookup, room: int) -> str:
    """The folded graph as a picture of at most ``room`` bytes."""
    if lookup.first_graph is None:
        return ""
    compile_id, stage = lookup.first_graph
    name = next((each.name for each in lookup.record.captures if each.compile_id == compile_id), "")
    title = " · ".join(filter(None, [f"Graph: {stage}", name, compile_id]))
    for limit in _LIMITS:
        picture = GraphView(lookup, compile_id, stage, first=limit).picture()
        image = image_of(picture["svg"], title)
        if len(image) <= room:
            note = f"<p>{_text(picture['note'])}</p>" if picture["note"] else ""
            return folded(title, f"{note}{image}")
    return folded(title, "<p>The picture is too large for a snapshot; run the cell again to see it.</p>")


def image_of(svg: str, title: str) -> str:
    """A picture as an image that is part of the page."""
    data = b64encode(_standalone(svg).encode()).decode()
    return f'<img alt="{_text(title)}" src="data:image/svg+xml;base64,{data}">'


def _comparison(record: SessionRecord) -> str:
    """KernelDiff: its sentence, the worst output as a heatmap, and the figures; the searches for what is wrong."""
    texts = []
    if record.diff is not None:
        texts.append(diff_text(record.diff, localization=record.localization))
    if record.localization is not None:
        texts.append(localization_text(record.localization, timings=False))
    if record.bisect is not None:
        texts.append(bisect_text(record.bisect, timings=False))
    if not texts:
        return ""
    sentence = one_line(diff_summary(record.diff) if record.diff is not None else texts[0].partition("\n")[0])
    picture = _heatmap(record.diff.outputs) if record.diff is not None else ""
    body = f"{picture}<pre>{cut(chr(10).join(texts), _TEXT_BYTES)}</pre>"
    return folded(f"KernelDiff · {sentence}", body, is_open=bool(picture))


def _heatmap(outputs: Sequence[OutputDiff]) -> str:
    """The error of the worst output that has a picture; outputs that match have none."""
    drawn = [each for each in outputs if each.heatmap is not None and each.verdict != "match"]
    if not drawn:
        return ""
    worst = max(drawn, key=lambda each: (not each.passed, each.max_absolute_error or 0.0))
    heatmap = worst.heatmap
    assert heatmap is not None
    scale = max(1, _HEATMAP_PIXELS // max(heatmap.columns, heatmap.rows, 1))
    shape = " × ".join(map(str, worst.shape)) or "one number"
    most = "" if worst.max_absolute_error is None else f", at most {worst.max_absolute_error:.3g}"
    caption = f"Absolute error of {worst.path} ({shape}){most}: white none, darker larger, violet not finite."
    image = heatmap_image(heatmap, passed=worst.passed, scale=scale)
    if len(image) > _TABLE_BYTES:
        return f"<p>{_text(caption)} The picture is too large for a snapshot.</p>"
    return f'<p>{_text(caption)}</p><img alt="{_text(caption)}" src="{image}">'


def _guards(lookup: Lookup) -> str:
    """Graph breaks and recompiles, each with its line, the reason and what to do."""
    view = overview_view(lookup.record, lookup)
    rows = [
        [kind, _text(item["where"]), _text(item["text"]) + _code(item["code"]), _hint(item)]
        for kind, items in (("break", view["breaks"]), ("recompile", view["recompiles"]))
        for item in items
    ]
    if not rows:
        return ""
    breaks, recompiles = view["counts"]["breaks"], view["counts"]["recompiles"]
    title = f"Guards · {words.count(breaks, 'graph break')}, {words.count(recompiles, 'recompile')}"
    return folded(title, _table(("", "where", "why", "what to do"), rows))


def _hint(item: dict[str, Any]) -> str:
    return _text(item["hints"][0]) if item["hints"] else ""


def _notes(record: SessionRecord) -> str:
    """Notes on the capture, stages that were not captured, and the repro scripts."""
    missing = [
        f"{capture.compile_id} {stage} was not captured: {reason}"
        for capture in record.captures
        for stage, reason in capture.missing.items()
    ]
    lines = [*map(str, record.notes), *missing, *(f"repro script: {path}" for path in record.repros)]
    if not lines:
        return ""
    items = _within(
        (f"<li>{_text(line)}</li>" for line in lines), _TEXT_BYTES, lambda more: f"<li>… {more:,} more</li>"
    )
    return folded(f"Notes ({len(lines):,})", f"<ul>{items}</ul>")


def folded(title: str, body: str, *, is_open: bool = False) -> str:
    """A title that opens; ``body`` is HTML."""
    return f"<details{' open' if is_open else ''}><summary>{_text(title, 300)}</summary>{body}</details>"


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of cells that are HTML already, with as many rows as fit."""
    head = "".join(f"<th{_LEFT}>{_text(column)}</th>" for column in columns)
    drawn = (
        f"<tr><td{_FIRST}>{row[0]}</td>{''.join(f'<td{_LEFT}>{cell}</td>' for cell in row[1:])}</tr>" for row in rows
    )
    span = len(columns)
    body = _within(
        drawn, _TABLE_BYTES, lambda more: f'<tr><td colspan="{span}">… and {more:,} more; print(session)</td></tr>'
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _within(items: Iterable[str], room: int, rest: Callable[[int], str]) -> str:
    """The items that fit into ``room`` bytes, and a remark on how many do not."""
    listed, kept, size = list(items), [], 0
    for item in listed:
        size += len(item.encode())
        if size > room:
            break
        kept.append(item)
    more = len(listed) - len(kept)
    return "".join(kept) + (rest(more) if more else "")


def _text(text: str, longest: int = _LONGEST_CELL) -> str:
    """One line, clipped and escaped."""
    return escape(words.clip(one_line(text), longest))


def cut(text: str, room: int) -> str:
    """The escaped text, cut at a line's end when it is too long."""
    whole = escape("\n".join(map(plain, text.splitlines())))
    if len(whole.encode()) <= room:
        return whole
    cut = whole.encode()[:room].decode(errors="ignore")
    return cut[: cut.rfind("\n")] + "\n… cut here; print(session) tells the rest"


def as_markdown(text: str) -> str:
    """Text in which nothing is Markdown or HTML."""
    return re.sub(r"([\\`*_{}\[\]<>|#$])", r"\\\1", text)


def _standalone(svg: str) -> str:
    """The SVG on a white sheet, without what an image does not need."""
    svg = _NOISE.sub("", svg)
    start = svg.index(">", svg.index("<svg")) + 1
    box = re.search(r'viewBox="(\S+) (\S+) (\S+) (\S+)"', svg[:start])
    x, y = (box[1], box[2]) if box else ("0", "0")
    sheet = f'<rect width="100%" height="100%" x="{x}" y="{y}" fill="white"/>'
    return f"{svg[:start].replace('pt', 'px')}{sheet}{svg[start:]}"
