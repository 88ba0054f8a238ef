"""Graph breaks and recompiles, from torch's structured trace.

torch reports one break several times: once for the function that it is in, once for each function that this one was
inlined into, and again for each recompile. A break is *distinct* by its deepest line outside torch and its reason.
Its ``count`` says how often one function was compiled with that break in it: of all functions that report the same
break, the one that did so most often counts, so that inlining does not count double.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from typing import Any

from inductor_debug_jupyter.pipeline.capture.sources import source_line, user_frames
from inductor_debug_jupyter.pipeline.records import GraphBreak, Recompile, SourceLine

_AT = re.compile(r"Graph break in user code at (?P<file>.+):(?P<line>\d+)")
_HEADLINE = re.compile(r"Graph Break Reason:(?P<same_line>[^\n]*)\n+(?P<headline>[^\n]+)")
_EXPLANATION = re.compile(r"Explanation: (?P<text>[^\n]+)")
_HINT = re.compile(r"Hint: (?P<text>[^\n]+)")
_ID = re.compile(r"/gb/(?P<id>gb\d+)\.html")
_LOG_DETAIL = re.compile(r"\s+#.*$")
_ADDRESS = re.compile(r"(___check_(?:obj|type)_id\(.+), \d+\)")
_LOCAL = re.compile(r"\bL\['(\w+)'\]")
_FAILED_TENSOR = re.compile(r"^tensor '(?P<name>.+)' [\w ]+ mismatch")
_FAILED_CHECK = re.compile(r"^(?P<name>[\w.\[\]'\"]+) (?:==|is|!=|in|not) ")

_BREAK = "dynamo_graph_break_reason"
_RUNS = (
    "Attempted to wrap RNN",
    "Data dependent operator",
    "Dynamic shape operator",
    "Encountered non-PT2-compliant op",
    "Failed to convert args/kwargs to proxy",
    "Fake tensor propagation exception",
    "Inplace op on input tensor",
    "NotImplementedError/UnsupportedFakeTensorException",
    "Operator does not support",
    "RuntimeError when making fake tensor call",
    "Skip calling `torch.compiler.disable()`d",
    "Skip inlining `torch.compiler.disable()`d",
    "Sparse tensor creation",
)
"""How torch's names begin for breaks at which an op, or a whole function, runs uncompiled between two graphs."""

_Key = tuple[str, int, str]


class BreakLog:
    """Collects breaks and recompiles from the records of the trace."""

    def __init__(self) -> None:
        self._breaks: dict[_Key, GraphBreak] = {}
        self._reports: dict[_Key, Counter[str]] = {}
        self._recompiles: list[Recompile] = []

    @property
    def graph_breaks(self) -> tuple[GraphBreak, ...]:
        """Distinct breaks, in the order in which they were met."""
        return tuple(replace(known, count=max(self._reports[key].values())) for key, known in self._breaks.items())

    @property
    def recompiles(self) -> tuple[Recompile, ...]:
        """Recompiles, in order. One whose failed guard names no line has none yet."""
        return tuple(self._recompiles)

    def add(self, metadata: dict[str, Any], payload: Any) -> None:
        """Add one trace record; all but two kinds are ignored."""
        name = (metadata.get("artifact") or {}).get("name")
        if name == _BREAK and isinstance(payload, str):
            self.add_break(_compile_id(metadata), reason_of(payload), _source(payload), payload)
        elif name == "recompile_reasons" and payload:
            self._add_recompile(_compile_id(metadata), payload)

    def add_break(self, compile_id: str, reason: str, source: SourceLine | None, text: str = "") -> None:
        """Add one break; ``text`` is torch's whole message. A break with a reason replaces one without on its line."""
        on_line = [key for key in self._breaks if source and key[:2] == (source.file, source.line)]
        if not reason and on_line:
            return
        for key in on_line:
            if not key[2]:
                del self._breaks[key], self._reports[key]
        key = (source.file if source else "", source.line if source else 0, reason)
        function, _, _ = compile_id.partition("/")
        self._reports.setdefault(key, Counter())[function] += 1
        if key not in self._breaks:
            hints = tuple(dict.fromkeys(match["text"] for match in _HINT.finditer(text)))
            torch_id = match["id"].upper() if (match := _ID.search(text)) else ""
            self._breaks[key] = GraphBreak(
                compile_id, reason, source, hints, gb_type=_headline(text) if text else "", torch_id=torch_id
            )

    def add_from_backend(self, compile_id: str, reason: str, source: SourceLine | None) -> None:
        """Add a break that a backend found on Dynamo's ``OutputGraph``; ``reason`` is the text of a trace record."""
        self.add_break(compile_id, reason_of(f"Graph Break Reason:\n{reason}") if reason else "", source, reason)

    def _add_recompile(self, compile_id: str, payload: Any) -> None:
        """One reason for each entry that did not fit, the newest first: its line is the recompile's."""
        if isinstance(payload, str) and payload.startswith("["):
            payload = json.loads(payload)
        reasons = [payload] if isinstance(payload, str) else [str(reason) for reason in payload]
        # The check that failed, without the log's details and without addresses, which differ from run to run.
        texts = tuple(without_addresses(_LOG_DETAIL.sub("", text.partition("\n")[0]).rstrip()) for text in reasons)
        frames = user_frames(reasons[0])
        self._recompiles.append(Recompile(compile_id, texts, source_line(*frames[-1]) if frames else None))


def failed_value(reason: str) -> tuple[str, str]:
    """Compile id and value of a failed guard: ``0/1: tensor 'x' size mismatch …`` → ``("0/1", "x")``."""
    compile_id, _, what = reason.partition(": ")
    match = _FAILED_TENSOR.match(what) or _FAILED_CHECK.match(what)
    return compile_id, match["name"] if match else ""


def without_scope(expression: str) -> str:
    """A guard's expression as torch writes it in a reason: ``L['x']`` → ``x``."""
    return _LOCAL.sub(r"\1", expression)


def _compile_id(metadata: dict[str, Any]) -> str:
    return f"{metadata.get('frame_id', '?')}/{metadata.get('frame_compile_id', '?')}"


def without_addresses(check: str) -> str:
    """A check without the addresses in it, which differ from run to run."""
    return _ADDRESS.sub(r"\1)", check)


def ran_between_graphs(metadata: dict[str, Any], payload: Any) -> str:
    """The reason of a break at which ops ran that are in no graph; empty for other breaks and other records."""
    if (metadata.get("artifact") or {}).get("name") != _BREAK or not isinstance(payload, str):
        return ""
    return reason_of(payload) if _headline(payload).startswith(_RUNS) else ""


def reason_of(text: str) -> str:
    """What torch says about a break, in one line: its name for this kind, and the explanation."""
    explanation = match["text"].strip() if (match := _EXPLANATION.search(text)) else ""
    headline = _headline(text)
    return f"{headline}: {explanation}" if explanation else headline


def _headline(text: str) -> str:
    """Torch's name for this kind of break."""
    headline = text.partition("\n")[0]
    if match := _HEADLINE.search(text):
        headline = match["headline"].strip()
        if headline.startswith("Explanation:"):
            headline = match["same_line"].strip()
    return headline


def _source(text: str) -> SourceLine | None:
    if frames := user_frames(text.partition("Traceback (most recent call last)")[0]):
        return source_line(*frames[-1])
    if match := _AT.search(text):
        return source_line(match["file"], int(match["line"]))
    return None
