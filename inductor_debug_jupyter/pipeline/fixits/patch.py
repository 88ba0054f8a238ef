"""Fix-its as a diff of the user's own source, where they can be written there.

A size, a dtype or a layout that stands in the source is changed where it stands: ``nn.Linear(784, 512)`` becomes
``nn.Linear(832, 512)``, and so does ``torch.randn(64, 784)``. What is computed (from a config, a file, another size),
or stands in a library, cannot be written as source; it is listed with the reason. A patched model has other weights
and other results than the original (more of them): unlike the rewrite it says what to build, not how to go on with what
is there.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from inductor_debug_jupyter.pipeline.fixits.fixit import FixIt
from inductor_debug_jupyter.pipeline.fixits.rewrite import Rewrite
from inductor_debug_jupyter.pipeline.records import SessionRecord

_BY_METHOD = {"float64": "double", "float32": "float", "float16": "half", "bfloat16": "bfloat16"}
_ALSO = {"double": "float64", "float": "float32", "half": "float16"}


@dataclass(frozen=True)
class Patch:
    """``diff`` is a unified diff of the ``texts`` (label → new text); ``unwritten`` says what is not in it, and why."""

    diff: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    unwritten: tuple[str, ...] = ()


@dataclass(frozen=True, order=True)
class _Edit:
    """Characters ``start`` to ``end`` become ``text``."""

    start: int
    end: int
    text: str


def own_sources(record: SessionRecord) -> dict[str, str]:
    """The sources of a session that are the user's to change: cells, and files that no installer put there."""
    lines = [
        line
        for capture in record.captures
        for graph in capture.graphs.values()
        for node in graph.calls
        for line in (node.source, node.cell)
        if line is not None
    ]
    installed = {line.label for line in lines if "site-packages" in line.file or "dist-packages" in line.file}
    return {label: text for label, text in record.sources.items() if label not in installed}


def patch_of(fixits: Iterable[FixIt], sources: Mapping[str, str]) -> Patch:
    """The change as a diff of these sources (label → text): cells and files of the user's own."""
    fixits = list(fixits)
    trees = {label: tree for label, text in sources.items() if (tree := _parsed(text)) is not None}
    edits: dict[str, set[_Edit]] = {label: set() for label in trees}
    unwritten = []
    for fixit in fixits:
        found = {label: _edits(fixit.rewrite, tree, sources[label]) for label, tree in trees.items()}
        for label, each in found.items():
            edits[label] |= each
        if not any(found.values()):
            unwritten.append(f"{fixit.title}: {_why_not(fixit)}")
    texts = {label: _edited(sources[label], sorted(each)) for label, each in edits.items() if each}
    return Patch("".join(_diff(label, sources[label], text) for label, text in texts.items()), texts, tuple(unwritten))


def _why_not(fixit: FixIt) -> str:
    if fixit.kind == "pad":
        (size,) = {**fixit.rewrite.pads, **fixit.rewrite.around}
        return f"{size} does not stand in your source: it is computed, or a library's"
    if fixit.kind == "decompose":
        return "torch takes the op apart; there is no other way to call it"
    return "no line of your source says it"


def _parsed(text: str) -> ast.Module | None:
    """The source; magics at the top of a cell are comments to Python."""
    try:
        return ast.parse(
            "\n".join("#" + line[1:] if line.startswith(("%", "!")) else line for line in text.split("\n"))
        )
    except SyntaxError:
        return None


def _edits(rewrite: Rewrite, tree: ast.Module, text: str) -> set[_Edit]:
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line.encode()) + 1)
    found: set[_Edit] = set()
    pads = {**rewrite.around, **rewrite.pads}
    for node in ast.walk(tree):
        if not isinstance(node, ast.expr):
            continue
        start, end = starts[node.lineno - 1] + node.col_offset, _end(node, starts)
        if isinstance(node, ast.Constant) and type(node.value) is int and node.value in pads:
            found.add(_Edit(start, end, str(pads[node.value])))
        elif isinstance(node, ast.Attribute) and (to := _dtype(node, rewrite.casts)):
            found.add(_Edit(end - len(node.attr), end, to))
        elif isinstance(node, ast.Call) and rewrite.contiguous:
            found |= _copies(node, rewrite, starts)
    return found


def _dtype(node: ast.Attribute, casts: Mapping[str, str]) -> str:
    """What ``torch.float64`` or ``.double`` becomes; empty when it stays."""
    if isinstance(node.value, ast.Name) and node.value.id == "torch":
        return casts.get(_ALSO.get(node.attr, node.attr), "")
    if node.attr in _ALSO and _ALSO[node.attr] in casts:
        return _BY_METHOD.get(casts[_ALSO[node.attr]], "")
    return ""


def _copies(node: ast.Call, rewrite: Rewrite, starts: list[int]) -> set[_Edit]:
    """``relu(x.transpose(1, 2))`` → ``relu(x.transpose(1, 2).contiguous())``."""
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if {key.rpartition(":")[2] for key in rewrite.contiguous} & {name, f"_{name}", f"native_{name}"}:
        turned = [each for each in node.args if isinstance(each, ast.Call)]
        return {_Edit(at, at, ".contiguous()") for each in turned if (at := _end(each, starts))}
    return set()


def _end(node: ast.expr, starts: list[int]) -> int:
    return starts[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)


def _edited(text: str, edits: list[_Edit]) -> str:
    data = text.encode()
    for edit in reversed(edits):
        data = data[: edit.start] + edit.text.encode() + data[edit.end :]
    return data.decode()


def _diff(label: str, before: str, after: str) -> str:
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    lines = difflib.unified_diff(old, new, f"a/{label}", f"b/{label}")
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)
