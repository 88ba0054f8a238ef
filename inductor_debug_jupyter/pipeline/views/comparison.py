"""A comparison as plain dicts, for the panel's Compare tab and for a page.

What differs between two graphs, row by row, and what changed between two runs.
"""

from __future__ import annotations

import re

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.comparing.changes import Change, RunComparison
from inductor_debug_jupyter.pipeline.comparing.graph_pairs import GraphPair
from inductor_debug_jupyter.pipeline.comparing.text import SIGNS, headline
from inductor_debug_jupyter.pipeline.harmless import one_line, plain
from inductor_debug_jupyter.pipeline.views.labels import short_op
from inductor_debug_jupyter.pipeline.views.places import where_text
from inductor_debug_jupyter.pipeline.views.view_types import Row

ROWS = 400
"""So many differences of a pair are listed."""
_CHANGES = 100
_CONSEQUENCES = 12
_LONGEST = 300
_ATEN = re.compile(r"\baten\.(\w+)(?:\.\w+)?")
"""An op's full name, of which people say the middle."""
_KINDS = {"worse": "error", "better": "good", "other": "warning"}


def pair_title(pair: GraphPair) -> str:
    """``forward · Net · 3 nodes not the same``."""
    found = pair.comparison
    return plain(f"{found.stage} · {found.function} · {words.count(len(found.nodes), 'node')} not the same")


def pair_counts(pair: GraphPair) -> str:
    """``120 same · 3 changed · 1 new``."""
    statuses = [node.status for node in pair.comparison.nodes]
    counts = [f"{pair.comparison.same:,} same"]
    return " · ".join([*counts, *(f"{statuses.count(each):,} {each}" for each in dict.fromkeys(statuses))])


def difference_rows(pair: GraphPair) -> list[Row]:
    """The first :data:`ROWS` differences, each with its status, op, what differs, where it is, and its two nodes."""
    places = [{place[2]: place for place in side} for side in pair.status]
    return [
        Row(
            status=node.status,
            op=plain(short_op(node.op)),
            what=plain(words.clip(_ATEN.sub(r"\1", node.what), _LONGEST)),
            where=" · ".join(filter(None, [where_text(node.source), plain(node.module_path)])),
            places=[places[0].get(node.before), places[1].get(node.after)],
        )
        for node in pair.comparison.nodes[:ROWS]
    ]


def changes_view(comparison: RunComparison) -> Row:
    """What changed between two runs: the headline, each change with what follows from it, figures, circumstances."""
    figures = [each for each in comparison.quantities if each.changed]
    return Row(
        headline=headline(comparison),
        changes=[_change(change) for change in comparison.changes[:_CHANGES]],
        figures=[[each.name, each.text(each.before), each.text(each.after)] for each in figures],
        environment=[plain(one_line(_circumstance(each))) for each in comparison.environment],
        unknown=[plain(one_line(each)) for each in comparison.unknown],
    )


def _circumstance(each: tuple[str, str, str]) -> str:
    name, before, after = each
    return f"{name}: {before} → {after}"


def _change(change: Change) -> Row:
    follows = change.consequences
    more = len(follows) - _CONSEQUENCES
    texts = [_line(f"{each.kind}: {each.title}") for each in follows[:_CONSEQUENCES]]
    return Row(
        sign=SIGNS[change.direction],
        severity=_KINDS[change.direction],
        kind=change.kind,
        title=_line(change.title),
        where=where_text(change.source),
        code=plain(change.source.text.strip()) if change.source else "",
        follows=[*texts, *([f"… and {words.count(more, 'more')}"] if more > 0 else [])],
    )


def _line(text: str) -> str:
    return plain(words.clip(one_line(text), _LONGEST))
