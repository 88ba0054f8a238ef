"""The static snapshot for readers without a kernel: folded HTML with the session's text and its worst graph.

Jupyter's sanitizer removes inline SVG, scripts and styles from notebooks that are not trusted. It keeps ``<details>``,
``<pre>`` and an ``<img>`` with a data URL, so a snapshot has nothing else.
"""

from __future__ import annotations

import re
from base64 import b64encode
from html import escape

from inductor_debug_jupyter.pipeline.drawing.graph_view import FIRST_VIEW, GraphView
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.views.places import Lookup
from inductor_debug_jupyter.pipeline.views.text import session_text

MAX_BYTES = 150_000
_TEXT_BYTES = 40_000
_NOISE = re.compile(r"<!--.*?-->\s*|<title>.*?</title>\s*| (?:id|class)=\"[^\"]*\"(?=[^<]*>)", re.DOTALL)
"""Comments, titles, ids and classes, which an image does not need."""
_LIMITS = (FIRST_VIEW, 10)
"""The numbers of shapes to try until the picture is small enough; the first is the panel's."""


def snapshot_html(record: SessionRecord) -> str:
    """Static HTML of at most :data:`MAX_BYTES`, which any sanitizer leaves whole."""
    head = "<details><summary>Static snapshot (for readers without a kernel)</summary>"
    body = f"<pre>{_text(record)}</pre>"
    room = MAX_BYTES - len((head + body).encode()) - 500
    return f"{head}{body}{_image(record, room)}</details>"


def _text(record: SessionRecord) -> str:
    """The escaped text, cut at a line's end when it is too long."""
    whole = escape(session_text(record))
    if len(whole.encode()) <= _TEXT_BYTES:
        return whole
    cut = whole.encode()[:_TEXT_BYTES].decode(errors="ignore")
    return cut[: cut.rfind("\n")] + "\n… cut here; open the session for the rest"


def _image(record: SessionRecord, room: int) -> str:
    lookup = Lookup(record)
    if lookup.first_graph is None:
        return ""
    compile_id, stage = lookup.first_graph
    for limit in _LIMITS:
        picture = GraphView(lookup, compile_id, stage, first=limit).picture()
        data = b64encode(_standalone(picture["svg"]).encode()).decode()
        if len(data) <= room:
            caption = escape(f"Graph {compile_id} {stage}. {picture['note']}".strip())
            return f'<p>{caption}</p><img alt="{caption}" src="data:image/svg+xml;base64,{data}">'
    return "<p>The picture of the graph is too large for a snapshot; run the cell again to see it.</p>"


def _standalone(svg: str) -> str:
    """The SVG on a white sheet, because an image cannot follow the page's dark theme."""
    head, _, rest = _NOISE.sub("", svg).partition(">")
    return f'{head}><rect width="100%" height="100%" x="0" y="0" fill="white"/>{rest}'
