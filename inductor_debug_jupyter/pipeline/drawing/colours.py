"""Colouring a drawing: by where an op runs, dtype, bytes made, error, share of a result's error, or time.

Each scheme puts every shape into one class of a legend. Colours are Okabe–Ito's, which colour-blind readers can tell
apart, and each class also has a sign that is drawn on the shape. A closed box has the class of its ops when they agree
(for numbers: the largest class), else ``mixed``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from inductor_debug_jupyter.pipeline import harmless, words
from inductor_debug_jupyter.pipeline.drawing.declutter import Drawn
from inductor_debug_jupyter.pipeline.drawing.painter import Drawing
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.records import NodeRecord
from inductor_debug_jupyter.pipeline.views.places import Lookup
from inductor_debug_jupyter.pipeline.views.view_types import Row

NOTHING = "nothing"
CHANGES = "changes"
TITLES = {
    NOTHING: "Findings only",
    "placement": "Placement",
    "dtype": "Dtype",
    "memory": "Bytes made",
    "error": "Error",
    "budget": "Share of the error",
    "time": "Share of the time",
    CHANGES: "What changed",
}
"""Scheme → its title; :func:`offered` lists those that a graph has data for."""

_PALETTE = ("#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#0072B2", "#D55E00", "#F0E442")
_SIGNS = ("●", "▲", "■", "◆", "▼", "★", "✚")
_GREY = "#999999"
_STEPS = ("#C6DBEF", "#6BAED6", "#2171B5", "#E69F00", "#D55E00")
_STEP_SIGNS = ("▁", "▃", "▅", "▆", "█")
_LAST = len(_STEPS) - 1

_CHANGES = {
    "changed": ("≠", "#E69F00"),
    "new": ("+", "#009E73"),
    "gone": ("−", "#D55E00"),
    "moved": ("⇄", "#CC79A7"),
}

_SHARES = (0.001, 0.01, 0.05, 0.2, 1.0)
"""The largest share of each step."""

ByNode = Mapping[tuple[str, str], Mapping[str, float]]
"""Compile id and stage → node → a number."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Measurements of nodes.

    Errors are those of a search for culprits, shares those of a result's error by an error budget, times the shares of
    the kernels that compute them of a call's time.
    """

    errors: ByNode = field(default_factory=dict)
    shares: ByNode = field(default_factory=dict)
    times: ByNode = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Scheme:
    """Classes with sign, colour and text, and the class of each op (None: not known)."""

    legend: list[Row]
    of_op: list[int | None]
    ordered: bool = False


def offered(lookup: Lookup, compile_id: str, stage: str, measured: Measured) -> list[str]:
    """The schemes for which the graph has data."""
    nodes = lookup.graphs[compile_id, stage].nodes
    found = [NOTHING]
    if _sides(lookup, compile_id, stage) or len({out.device for node in nodes for out in node.outputs}) > 1:
        found.append("placement")
    if any(node.outputs for node in nodes):
        found += ["dtype", "memory"]
    known = {"error": measured.errors, "budget": measured.shares, "time": measured.times}
    return [*found, *(name for name, values in known.items() if values.get((compile_id, stage)))]


def paint(by: str, drawing: Drawing, drawn: Drawn, lookup: Lookup, key: tuple[str, str], measured: Measured) -> Row:
    """The legend (text, sign and colour of each class), and drawn id → index in it for every shape that has a class.

    Raises:
        UsageError: the graph does not offer that scheme.
    """
    allowed = offered(lookup, *key, measured)
    if by not in allowed:
        raise UsageError(f"cannot colour by {by!r}; allowed here: {', '.join(allowed)}")
    schemes: dict[str, Callable[[], _Scheme]] = {
        "placement": lambda: _placement(drawn, lookup, key),
        "dtype": lambda: _classes([node.tensor.dtype if node.tensor else None for node in drawn.ops]),
        "memory": lambda: _numbers([_made(node) for node in drawn.ops], lambda value: words.size(round(value))),
        "error": lambda: _numbers([measured.errors[key].get(node.name) for node in drawn.ops], "{:.1e}".format),
        "budget": lambda: _shares([measured.shares[key].get(node.name) for node in drawn.ops]),
        "time": lambda: _shares([measured.times[key].get(node.name) for node in drawn.ops]),
    }
    if by == NOTHING:
        return Row(by=by, title="", legend=[], of={})
    return _painted(by, schemes[by](), drawing)


def paint_changes(status: Mapping[str, str], drawing: Drawing, drawn: Drawn) -> Row:
    """The colours of what became of nodes in another graph; what is the same has none."""
    names = [name for name in _CHANGES if name in status.values()]
    members = [[node.name, *drawn.members.get(at, [])] for at, node in enumerate(drawn.ops)]
    found = [next((status[name] for name in each if name in status), None) for each in members]
    of_op = [None if each is None else names.index(each) for each in found]
    legend = [
        Row(text=f"{name} · {words.count(found.count(name), 'op')}", sign=sign, colour=colour)
        for name, (sign, colour) in _CHANGES.items()
        if name in names
    ]
    return _painted(CHANGES, _Scheme(legend, of_op), drawing)


def _painted(by: str, scheme: _Scheme, drawing: Drawing) -> Row:
    mixed = len(scheme.legend)
    of: dict[str, int] = {}
    for shape in drawing.shapes[: drawing.units]:
        found = {each for each in scheme.of_op[shape.start : shape.end] if each is not None}
        if found:
            of[shape.id] = max(found) if scheme.ordered else found.pop() if len(found) == 1 else mixed
    legend = list(scheme.legend)
    if mixed in of.values():
        legend.append(Row(text="mixed", sign="◐", colour=_GREY))
    return Row(by=by, title=TITLES[by], legend=legend, of=of)


def _placement(drawn: Drawn, lookup: Lookup, key: tuple[str, str]) -> _Scheme:
    """Target or CPU where a target was checked; else the torch devices that the graph names."""
    if sides := _sides(lookup, *key):
        target = lookup.record.target or "target"
        legend = [
            Row(text=f"runs on {harmless.plain(target)}", sign="●", colour="#56B4E9"),
            Row(text="falls back to the CPU", sign="▲", colour="#E69F00"),
        ]
        number = {"device": 0, "cpu": 1}
        return _Scheme(legend, [number.get(sides.get(node.name, "")) for node in drawn.ops])
    return _classes([node.tensor.device if node.tensor else None for node in drawn.ops])


def _classes(values: Sequence[str | None]) -> _Scheme:
    """One class for each value, the most frequent first; the rarest share one when there are too many."""
    counts: dict[str, int] = {}
    for value in values:
        if value is not None:
            counts[value] = counts.get(value, 0) + 1
    ranked = sorted(counts, key=lambda value: (-counts[value], value))
    number = {value: min(at, len(_PALETTE)) for at, value in enumerate(ranked)}
    legend = [
        Row(text=f"{harmless.plain(value)} · {words.count(counts[value], 'op')}", sign=sign, colour=colour)
        for value, sign, colour in zip(ranked, _SIGNS, _PALETTE, strict=False)
    ]
    if len(ranked) > len(_PALETTE):
        legend.append(Row(text=words.count(len(ranked) - len(_PALETTE), "other"), sign="○", colour=_GREY))
    return _Scheme(legend, [None if value is None else number[value] for value in values])


def _numbers(values: Sequence[float | None], as_text: Callable[[float], str]) -> _Scheme:
    """Five steps of equal factor between the smallest and the largest number."""
    positive = [value for value in values if value is not None and value > 0 and math.isfinite(value)]
    low, high = (min(positive), max(positive)) if positive else (1.0, 1.0)
    span = math.log(high / low) or 1.0
    steps = [None if value is None else _step(value, low, span) for value in values]
    used = sorted({step for step in steps if step is not None})
    borders = [*(low * math.exp(span * step / len(_STEPS)) for step in range(1, len(_STEPS))), high]
    legend = [Row(text=f"≤ {as_text(borders[step])}", sign=_STEP_SIGNS[step], colour=_STEPS[step]) for step in used]
    return _Scheme(legend, [None if step is None else used.index(step) for step in steps], ordered=True)


def _shares(values: Sequence[float | None]) -> _Scheme:
    """Five steps for parts of a whole."""
    steps = [None if value is None else sum(value > limit for limit in _SHARES[:-1]) for value in values]
    used = sorted({step for step in steps if step is not None})
    texts = [f"≤ {limit:.1%}" for limit in _SHARES[:-1]] + [f"> {_SHARES[-2]:.0%}"]
    legend = [Row(text=texts[step], sign=_STEP_SIGNS[step], colour=_STEPS[step]) for step in used]
    return _Scheme(legend, [None if step is None else used.index(step) for step in steps], ordered=True)


def _step(value: float, low: float, span: float) -> int:
    """The step of a number; NaN and infinity are in the last, zero and negative numbers in the first."""
    if math.isnan(value) or value == math.inf:
        return _LAST
    return 0 if value <= 0 else min(_LAST, int(math.log(value / low) / span * len(_STEPS)))


def _made(node: NodeRecord) -> float | None:
    """The bytes of a node's outputs; None when one is symbolic."""
    sizes = [out.nbytes for out in node.outputs]
    return None if None in sizes or not sizes else float(sum(size or 0 for size in sizes))


def _sides(lookup: Lookup, compile_id: str, stage: str) -> dict[str, str]:
    """Node → ``device`` or ``cpu``, where the session has op coverage."""
    coverage = lookup.record.coverage.graph(compile_id, stage) if lookup.record.coverage else None
    return {name: segment.side for segment in coverage.segments for name in segment.nodes} if coverage else {}
