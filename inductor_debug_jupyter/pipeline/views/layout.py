"""DOT → SVG, always in another process and always with a time limit.

``dot`` from the PATH does the work; without one, the Graphviz inside ``pygraphviz``'s wheel does, in a child
interpreter, because a layout that never ends can only be stopped from outside. When neither works,
:func:`fallback_svg` draws a plain list, so that there is always a picture to click on.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from functools import lru_cache
from xml.sax.saxutils import escape

from inductor_debug_jupyter.pipeline.errors import LayoutError
from inductor_debug_jupyter.pipeline.views.graph import Drawing, to_dot
from inductor_debug_jupyter.pipeline.views.words import clip, plain

_PYGRAPHVIZ = (
    "import sys, pygraphviz; graph = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode());"
    "sys.stdout.buffer.write(graph.draw(format='svg', prog='dot'))"
)
_ROW = 22
_LISTED = 400


@lru_cache(maxsize=32)
def layout_svg(dot: str, *, timeout: float = 10) -> str:
    """The picture of a DOT text. Results are kept, so that panel and snapshot lay the same graph out once.

    Raises:
        LayoutError: there is no graphviz, it refuses the text, or it takes longer than ``timeout`` seconds.
    """
    command = _command()
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command; the text goes through stdin
            command, input=dot.encode(), capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise LayoutError(f"graphviz did not finish the layout within {timeout:g} s") from error
    except OSError as error:
        raise LayoutError(f"graphviz could not be started: {error}") from error
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise LayoutError(f"graphviz failed: {said[-1] if said else f'exit code {done.returncode}'}")
    svg = done.stdout.decode()
    return svg[svg.index("<svg") :]


def _command() -> list[str]:
    if dot := shutil.which("dot"):
        return [dot, "-Tsvg"]
    if importlib.util.find_spec("pygraphviz") is not None:
        return [sys.executable, "-c", _PYGRAPHVIZ]
    raise LayoutError("there is no graphviz here: install it (apt install graphviz) or run pip install pygraphviz")


def picture_svg(drawing: Drawing, *, timeout: float = 10) -> tuple[str, str]:
    """The SVG of a drawing, and what to say about it: when the layout fails, a plain list and the reason."""
    try:
        return layout_svg(to_dot(drawing), timeout=timeout), drawing.note
    except LayoutError as error:
        return fallback_svg(drawing), f"Drawn as a list: {error}"


def fallback_svg(drawing: Drawing) -> str:
    """The drawing's nodes from top to bottom, in the same structure as graphviz's SVG (``g.node`` with a ``title``)."""
    shapes = [node for node in drawing.nodes if node.kind in ("node", "group") or node.severity]
    left_out = len(shapes) - _LISTED
    rows = [
        f'<g class="node idj-{node.kind}{f" idj-{node.severity}" if node.severity else ""}"><title>{node.id}</title>'
        f'<polygon fill="white" stroke="#666666" points="4,{y} 316,{y} 316,{y + _ROW - 4} 4,{y + _ROW - 4}"/>'
        f'<text x="10" y="{y + 13}" font-family="Helvetica,Arial,sans-serif" font-size="10">'
        f"{escape(clip(plain('  '.join(filter(None, node.label))), 52))}</text></g>"
        for node, y in zip(shapes, range(4, 4 + _ROW * _LISTED, _ROW), strict=False)
    ]
    if left_out > 0:
        rows.append(f'<text x="10" y="{_ROW * _LISTED + 18}" font-size="10">… and {left_out:,} more</text>')
    height = _ROW * (len(rows) + 1)
    return (
        f'<svg width="320pt" height="{height}pt" viewBox="0 0 320 {height}" xmlns="http://www.w3.org/2000/svg">'
        f'<g class="graph">{"".join(rows)}</g></svg>'
    )
