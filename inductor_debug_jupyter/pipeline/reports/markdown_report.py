"""The report as Markdown, to be pasted into an issue: what is wrong, where, what to do, and how to see it again.

Nothing in it can be Markdown or HTML of a name's own: texts are escaped, code stands in fences longer than any in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.harmless import one_line, plain, plain_lines
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.reports import sections
from inductor_debug_jupyter.pipeline.reports.collect import ReportData
from inductor_debug_jupyter.pipeline.reports.snapshot import as_markdown, snapshot_markdown
from inductor_debug_jupyter.pipeline.views.places import where_text
from inductor_debug_jupyter.pipeline.views.text import header_line
from inductor_debug_jupyter.version import __version__

LONGEST = 60_000
"""Characters of all sessions; an issue on GitHub takes 65,536."""
_LONGEST_CODE = 12_000
_EVENTS = 20


def markdown_report(data: ReportData) -> str:
    """Every session, the newest first, as far as there is room."""
    found: list[str] = [f"problem: {as_markdown(one_line(problem))}\n" for problem in data.problems]
    left = LONGEST
    for number, record in enumerate(data.sessions):
        text = "\n".join(_session(record, data, number))
        left -= len(text)
        if left < 0 and number:
            found.append(f"… and {words.count(len(data.sessions) - number, 'older session')}.\n")
            break
        found.append(text)
    return "\n".join(found)


def _session(record: SessionRecord, data: ReportData, number: int) -> Iterator[str]:
    yield f"## {as_markdown(words.clip(one_line(header_line(record)), 400))}\n"
    tool = f"torch {record.torch_version}, inductor-debug-jupyter {record.tool_version or __version__}"
    about = [f"{name} {value}" for name, value in (record.environment.rows if record.environment else [])]
    yield as_markdown(words.clip(one_line(", ".join([f"session {record.id}", tool, *about])), 1_500)) + "\n"
    yield snapshot_markdown(record)
    yield from _events("Graph breaks", [(each.source, each.reason) for each in record.graph_breaks])
    yield from _events("Recompiles", [(each.source, "; ".join(each.reasons)) for each in record.recompiles])
    for title, text in sections.texts_of_parts(record):
        yield f"### {title}\n\n{fenced(words.clip(plain_lines(text), _LONGEST_CODE))}\n"
    if record.bisect is not None:
        yield f"### Bisect\n\n{as_markdown(one_line(record.bisect.explanation))}\n"
    if number == 0:
        for trial in data.trials:
            yield f"### What if: {as_markdown(trial['title'])}\n\n{as_markdown(trial['summary'])}\n"
        if data.patch:
            yield f"### Fix-its\n\n{fenced(words.clip(plain_lines(data.patch), _LONGEST_CODE), 'diff')}\n"
    for name, script in sections.repros_of(data.artifacts.get(record.id, ()), data.store.folder):
        code = fenced(words.clip(plain_lines(script), _LONGEST_CODE), "python")
        yield f"### Repro: {as_markdown(plain(name))}\n\n{code}\n"


def _events(title: str, events: list[tuple[object, str]]) -> Iterator[str]:
    if events:
        lines = []
        for source, reason in events[:_EVENTS]:
            where = where_text(source)  # type: ignore[arg-type]
            lines.append(f"- {as_markdown(words.clip(one_line(': '.join(filter(None, [where, reason]))), 600))}")
        if len(events) > _EVENTS:
            lines.append(f"- … and {len(events) - _EVENTS:,} more")
        yield f"### {title}\n\n" + "\n".join(lines) + "\n"


def fenced(text: str, language: str = "") -> str:
    """Text in a fence that nothing in it can close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"
