"""Drawing → geometry by graphviz, always in another process and always with a time limit.

``dot`` from the PATH is used; without one, the Graphviz inside ``pygraphviz``'s wheel, in a child interpreter, because
a layout that never ends can only be stopped from outside. When neither works or time runs out, :func:`place` falls
back to our own layout (:mod:`~inductor_debug_jupyter.pipeline.drawing.own_layout`), so that there is always a picture.

Graphviz is given numbers only: sizes, indices and arrows.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from functools import lru_cache
from typing import Any

from inductor_debug_jupyter.pipeline.drawing.geometry import FRAME_TITLE, Geometry, Rect, is_beside, size_of, text_width
from inductor_debug_jupyter.pipeline.drawing.own_layout import layered
from inductor_debug_jupyter.pipeline.drawing.painter import Drawing
from inductor_debug_jupyter.pipeline.errors import LayoutError

SECONDS = 2.0
"""How long graphviz may take before our own layout is used."""
_TOO_MANY = 900
"""With more shapes graphviz is not started, because it would run out of time."""
_CURVED = 250
"""With more shapes edges are straight, which is much faster to lay out."""
_POINTS = 72.0
_PYGRAPHVIZ = (
    "import sys, pygraphviz; graph = pygraphviz.AGraph(string=sys.stdin.buffer.read().decode());"
    "sys.stdout.buffer.write(graph.draw(format=sys.argv[1], prog='dot'))"
)


def place(drawing: Drawing, *, timeout: float = SECONDS) -> tuple[Geometry, str]:
    """The geometry of a drawing, and a sentence when graphviz failed."""
    if len(drawing.shapes) > _TOO_MANY:
        return layered(drawing), ""
    try:
        return _geometry(json.loads(run_graphviz(to_dot(drawing), timeout=timeout))), ""
    except LayoutError as error:
        return layered(drawing), f"Simple layout: {error}"


@lru_cache(maxsize=32)
def run_graphviz(dot: str, *, timeout: float = SECONDS, kind: str = "json0") -> str:
    """Graphviz's output for a DOT text. It is cached, so that panel and snapshot lay the same graph out once.

    Raises:
        LayoutError: there is no graphviz, it refuses the text, or it takes longer than ``timeout`` seconds.
    """
    command = _command(kind)
    try:
        done = subprocess.run(  # noqa: S603 - a fixed command; the text goes through stdin
            command, input=dot.encode(), capture_output=True, timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise LayoutError(f"graphviz did not finish the layout within {timeout:g} s") from error
    except OSError as error:
        raise LayoutError(f"graphviz could not be started: {error}") from error
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise LayoutError(f"graphviz failed: {lines[-1] if lines else f'exit code {done.returncode}'}")
    return done.stdout.decode()


def _command(kind: str) -> list[str]:
    if dot := shutil.which("dot"):
        return [dot, f"-T{kind}"]
    if importlib.util.find_spec("pygraphviz") is not None:
        return [sys.executable, "-c", _PYGRAPHVIZ, kind]
    raise LayoutError("there is no graphviz here: install it (apt install graphviz) or run pip install pygraphviz")


def to_dot(drawing: Drawing) -> str:
    """The drawing in graphviz's language: sizes and arrows."""
    splines = "true" if len(drawing.shapes) <= _CURVED else "line"
    lines = [
        "digraph {",
        f"graph [rankdir=TB, splines={splines}, nodesep=0.16, ranksep=0.3, margin=0];",
        'node [shape=box, fixedsize=true, label=""];',
        "edge [arrowhead=none];",
    ]
    inside: dict[str, list[str]] = {}
    for shape in drawing.shapes:
        width, height = size_of(shape)
        inside.setdefault(shape.frame, []).append(
            f"{shape.id} [width={width / _POINTS:.3f}, height={height / _POINTS:.3f}];"
        )
    _add_frames(drawing, inside, lines, "")
    beside = {shape.id for shape in drawing.shapes if is_beside(shape)}
    for tail, head in drawing.edges:
        lines.append(f"{tail} -> {head}{'' if tail in beside else ' [weight=6]'};")  # heavy edges are drawn straight
    return "\n".join([*lines, "}"])


def _add_frames(drawing: Drawing, inside: dict[str, list[str]], lines: list[str], frame: str) -> None:
    """Add the shapes of a frame, and the frames in it as clusters, whose labels only keep room for a title."""
    lines += inside.get(frame, [])
    for each in drawing.frames:
        if each.frame != frame:
            continue
        width, height = text_width(each.title, 10.0) + 30, FRAME_TITLE
        label = (
            f'<<table border="0" cellborder="0"><tr><td fixedsize="true" width="{width:.0f}" height="{height:.0f}">'
            "</td></tr></table>>"
        )
        lines.append(f"subgraph cluster_{each.id} {{ label={label}; labeljust=l; margin=8;")
        _add_frames(drawing, inside, lines, each.id)
        lines.append("}")


def _geometry(found: dict[str, Any]) -> Geometry:
    """Graphviz's JSON as a geometry; y is turned round, because graphviz's grows upwards."""
    _, _, width, height = map(float, found["bb"].split(","))
    shapes: dict[str, Rect] = {}
    frames: dict[str, Rect] = {}
    names: dict[int, str] = {}
    for each in found.get("objects", ()):
        name = each["name"]
        names[each["_gvid"]] = name
        if name.startswith("cluster_"):
            left, low, right, top = map(float, each["bb"].split(","))
            frames[name.removeprefix("cluster_")] = Rect(left, height - top, right - left, top - low)
        else:
            x, y = map(float, each["pos"].split(","))
            wide, high = float(each["width"]) * _POINTS, float(each["height"]) * _POINTS
            shapes[name] = Rect(x - wide / 2, height - y - high / 2, wide, high)
    edges = [
        (names[each["tail"]], names[each["head"]], _points(each["pos"], height)) for each in found.get("edges", ())
    ]
    return Geometry(width, height, shapes, frames, edges)


def _points(text: str, height: float) -> list[tuple[float, float]]:
    pairs = [part.split(",")[-2:] for part in text.split()]
    return [(float(x), height - float(y)) for x, y in pairs]
