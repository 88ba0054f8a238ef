"""What stays behind without a kernel: folded HTML with the session's text and a picture of its worst graph.

Notebooks that are not trusted pass through a sanitizer that removes inline SVG, scripts and styles; what survives is
``<details>``, ``<pre>`` and an ``<img>`` with a data URL, so there is nothing else here.
"""

from __future__ import annotations

import re
from base64 import b64encode
from html import escape

from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.views.graph_view import FIRST_VIEW
from inductor_debug_jupyter.pipeline.views.picture import picture_view
from inductor_debug_jupyter.pipeline.views.places import Lookup
from inductor_debug_jupyter.pipeline.views.text import session_text

MAX_BYTES = 150_000
_TEXT_BYTES = 40_000
_NOISE = re.compile(r"<!--.*?-->\s*|<title>.*?</title>\s*| (?:id|class)=\"[^\"]*\"(?=[^<]*>)", re.DOTALL)
"""What an image has no use for."""
_LIMITS = (FIRST_VIEW, 10)
"""How many shapes there are at most until the picture is small enough; the first are those of the panel."""


def snapshot_html(record: SessionRecord, *, max_bytes: int = MAX_BYTES) -> str:
    """Static HTML of at most ``max_bytes``, which any sanitizer leaves whole."""
    head = "<details><summary>Static snapshot (for readers without a kernel)</summary>"
    body = f"<pre>{_text(record)}</pre>"
    room = max_bytes - len((head + body).encode()) - 500
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
        picture = picture_view(lookup, compile_id, stage, limit=limit)
        data = b64encode(_standalone(picture["svg"]).encode()).decode()
        if len(data) <= room:
            told = escape(f"Graph {compile_id} {stage}. {picture['note']}".strip())
            return f'<p>{told}</p><img alt="{told}" src="data:image/svg+xml;base64,{data}">'
    return "<p>The picture of the graph is too large for a snapshot; run the cell again to see it.</p>"


def _standalone(svg: str) -> str:
    """On a white sheet, because an image sees nothing of the page's dark theme, and at three quarters of its size."""
    svg = _NOISE.sub("", svg)
    start = svg.index(">", svg.index("<svg")) + 1
    return f'{svg[:start].replace("pt", "px")}<rect width="100%" height="100%" x="0" y="0" fill="white"/>{svg[start:]}'
