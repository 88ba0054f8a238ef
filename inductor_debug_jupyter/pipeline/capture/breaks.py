"""Graph breaks and recompiles, from torch's structured trace.

torch reports one break several times: once for each frame that it was inlined into, and again for each recompile. A
break is *distinct* by its deepest line outside torch and its reason; repeats only raise its ``count``.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from inductor_debug_jupyter.pipeline.capture.sources import source_line, user_frames
from inductor_debug_jupyter.pipeline.records import GraphBreak, Recompile, SourceLine

_AT = re.compile(r"Graph break in user code at (?P<file>.+):(?P<line>\d+)")
_HEADLINE = re.compile(r"Graph Break Reason:[^\n]*\n+(?P<headline>[^\n]+)")
_EXPLANATION = re.compile(r"Explanation: (?P<text>[^\n]+)")
_HINT = re.compile(r"Hint: (?P<text>[^\n]+)")
_LOG_DETAIL = re.compile(r"\s+#.*$")


class BreakLog:
    """Collects breaks and recompiles as the trace tells them."""

    def __init__(self) -> None:
        self._breaks: dict[tuple[str, int, str], GraphBreak] = {}
        self._recompiles: list[Recompile] = []

    @property
    def graph_breaks(self) -> tuple[GraphBreak, ...]:
        """Distinct breaks, in the order in which they were met."""
        return tuple(self._breaks.values())

    @property
    def recompiles(self) -> tuple[Recompile, ...]:
        """Recompiles, in order."""
        return tuple(self._recompiles)

    def add(self, metadata: dict[str, Any], payload: Any) -> None:
        """Take one trace record; all but two kinds are passed over."""
        name = (metadata.get("artifact") or {}).get("name")
        if name == "dynamo_graph_break_reason" and isinstance(payload, str):
            self._add_break(_compile_id(metadata), payload)
        elif name == "recompile_reasons" and payload:
            self._add_recompile(_compile_id(metadata), payload)

    def _add_break(self, compile_id: str, text: str) -> None:
        reason = _reason(text)
        source = _source(text)
        key = (source.file if source else "", source.line if source else 0, reason)
        if (known := self._breaks.get(key)) is not None:
            self._breaks[key] = replace(known, count=known.count + 1)
            return
        hints = tuple(dict.fromkeys(match["text"] for match in _HINT.finditer(text)))
        self._breaks[key] = GraphBreak(compile_id, reason, source, hints)

    def _add_recompile(self, compile_id: str, payload: Any) -> None:
        if isinstance(payload, str) and payload.startswith("["):
            payload = json.loads(payload)
        reasons = [payload] if isinstance(payload, str) else [str(reason) for reason in payload]
        texts = tuple(_LOG_DETAIL.sub("", reason.partition("\n")[0]) for reason in reasons)
        frames = [frame for reason in reasons for frame in user_frames(reason)]
        self._recompiles.append(Recompile(compile_id, texts, source_line(*frames[-1]) if frames else None))


def _compile_id(metadata: dict[str, Any]) -> str:
    return f"{metadata.get('frame_id', '?')}/{metadata.get('frame_compile_id', '?')}"


def _reason(text: str) -> str:
    headline = match["headline"].strip() if (match := _HEADLINE.search(text)) else text.partition("\n")[0]
    explanation = match["text"].strip() if (match := _EXPLANATION.search(text)) else ""
    return f"{headline}: {explanation}" if explanation else headline


def _source(text: str) -> SourceLine | None:
    if frames := user_frames(text.partition("Traceback (most recent call last)")[0]):
        return source_line(*frames[-1])
    if match := _AT.search(text):
        return source_line(match["file"], int(match["line"]))
    return None
