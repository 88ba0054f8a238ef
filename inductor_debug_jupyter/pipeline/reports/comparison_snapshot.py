"""A comparison of two runs as static HTML, for readers without a kernel: the text, and the first graphs that differ.

Like a session's ``snapshot``, which says what sanitizers leave of a notebook, it is folded and has no style of its own.
"""

from __future__ import annotations

from inductor_debug_jupyter.pipeline.comparing import RunComparison
from inductor_debug_jupyter.pipeline.comparing.graph_pairs import run_pairs
from inductor_debug_jupyter.pipeline.comparing.text import headline
from inductor_debug_jupyter.pipeline.drawing.side_by_side import SIDES, PairedGraphs
from inductor_debug_jupyter.pipeline.drawing.svg import painted
from inductor_debug_jupyter.pipeline.reports.snapshot import MAX_BYTES, cut, folded, image_of
from inductor_debug_jupyter.pipeline.views.comparison import pair_title

_TEXT_BYTES = 12_000


def comparison_snapshot(comparison: RunComparison, *, max_bytes: int = MAX_BYTES) -> str:
    """Static HTML of at most ``max_bytes``, which any sanitizer leaves whole."""
    text = f"<pre>{cut(str(comparison), _TEXT_BYTES)}</pre>"
    graphs = _graphs(comparison, max_bytes - len(text.encode()) - 1_200)
    return folded(f"Static snapshot · two runs compared: {headline(comparison)}", text + graphs)


def _graphs(comparison: RunComparison, room: int) -> str:
    """Both graphs of the first pair that differs, with what became of each shape as its colour and sign."""
    pair = next(run_pairs(*comparison.runs), None) if comparison.runs is not None else None
    if pair is None or comparison.runs is None:
        return ""
    graphs = PairedGraphs(pair, comparison.runs)
    body = _images(graphs)
    if len(body) > room:
        graphs.act("before", "collapse_all")
        body = _images(graphs)
    if len(body) > room:
        body = "<p>The pictures are too large for a snapshot; run the cell again to see them.</p>"
    return folded(pair_title(pair), body)


def _images(graphs: PairedGraphs) -> str:
    legend = {
        entry["text"].partition(" · ")[0]: entry["sign"] for side in SIDES for entry in graphs.paint(side)["legend"]
    }
    images = [image_of(painted(graphs.picture(side)["svg"], graphs.paint(side)), side) for side in SIDES]
    cells = "".join(f"<td>{side}<br>{image}</td>" for side, image in zip(SIDES, images, strict=True))
    signs = ", ".join(f"{sign} {text}" for text, sign in legend.items())
    return f"<p>{signs}</p><table><tr>{cells}</tr></table>"
