"""The dicts of the Code tab: source lines, graph nodes and generated code, linked to each other.

The panel shows one *document* at a time: a kernel, the IR before or after fusion, or the wrapper code. A document goes
to the browser as coloured pieces of text (Pygments' tokens), never as markup. A kernel has the nodes that it computes
and, through them, the user's lines; so choosing a line, a node or a kernel highlights the others.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from pygments import lex
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES, Token, _TokenType
from pygments.util import ClassNotFound

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import BACKWARD, CompileCapture, KernelRecord, NodeRecord, SessionRecord
from inductor_debug_jupyter.pipeline.views import labels
from inductor_debug_jupyter.pipeline.views.places import Lookup, kernel_id, line_key
from inductor_debug_jupyter.pipeline.views.view_types import Row

MAX_LINES = 20_000
"""A longer document is cut, and its note says so."""

_TEXTS = {
    "ir_pre_fusion": "IR before fusion",
    "ir_post_fusion": "IR after fusion",
    "code": "wrapper code",
}
_LEXERS = {"cpp": "cpp", "triton": "python", "extern": "python", "ir": "python", "code": "python"}
_COLOURS = {"k": "keyword", "s": "string", "c": "comment", "m": "number", "n": "name"}
"""First letter of Pygments' short class → the class that the panel colours."""


def documents_view(record: SessionRecord) -> list[Row]:
    """Every kernel, IR and wrapper code of the session: kernels first, the forward's before the backward's.

    ``nodes`` are the post-grad nodes that a kernel computes, ``lines`` their lines (``label:number``).
    """
    found: list[Row] = []
    for capture in record.captures:
        found += [_kernel_entry(capture, number) for number in range(len(capture.kernels))]
        for stage, title in _TEXTS.items():
            for key in (stage, f"{stage}{BACKWARD}"):
                if key in capture.texts:
                    backward = key != stage
                    found.append(
                        Row(
                            id=f"{capture.compile_id}|{key}",
                            compile_id=capture.compile_id,
                            title=f"{title}{', backward' if backward else ''}",
                            kind=stage,
                            backward=backward,
                            nodes=[],
                            lines=[],
                        )
                    )
    return found


def _kernel_entry(capture: CompileCapture, number: int) -> Row:
    kernel = capture.kernels[number]
    backward = kernel.stage == "backward"
    lines: dict[str, None] = {}
    for node in _nodes_of(capture, kernel):
        lines |= dict.fromkeys(line_key(line) for line in (node.cell, node.source) if line)
    times = f" ×{len(kernel.calls)}" if len(kernel.calls) > 1 else ""
    return Row(
        id=kernel_id(capture.compile_id, number),
        compile_id=capture.compile_id,
        title=plain(kernel.name) + times,
        kind="kernel",
        backward=backward,
        nodes=list(kernel.nodes),
        lines=list(lines),
    )


def _nodes_of(capture: CompileCapture, kernel: KernelRecord) -> list[NodeRecord]:
    graph = capture.graph(f"post_grad{BACKWARD}" if kernel.stage == "backward" else "post_grad")
    return [node for name in kernel.nodes if (node := graph.node(name)) is not None] if graph else []


def document_view(record: SessionRecord, document: str, *, coloured: int = MAX_LINES) -> Row:
    """The text of one document; a line is a list of ``[class, text]`` pieces, the first ``coloured`` of them coloured.

    Raises:
        NotFoundError: there is no such document.
    """
    compile_id, _, key = document.partition("|")
    capture = next((each for each in record.captures if each.compile_id == compile_id), None)
    if capture is None:
        raise NotFoundError(f"no compile {compile_id!r} was captured")
    kind, _, number = key.partition("|")
    if kind == "kernel" and number.isdecimal() and int(number) < len(capture.kernels):
        kernel = capture.kernels[int(number)]
        computes = f"computes {', '.join(kernel.nodes)}" if kernel.nodes else ""
        return _document(document, plain(kernel.name), kernel.code, kernel.language, computes, coloured)
    if key in capture.texts:
        stage = key.removesuffix(BACKWARD)
        language = "ir" if stage.startswith("ir_") else "code"
        return _document(document, _TEXTS.get(stage, stage), capture.texts[key], language, "", coloured)
    raise NotFoundError(f"compile {compile_id} has no document {key!r}")


def _document(document: str, title: str, text: str, language: str, note: str, coloured: int) -> Row:
    rows = text.count("\n") + 1
    if rows > MAX_LINES:
        text = "\n".join(text.split("\n", MAX_LINES)[:MAX_LINES])
        note = " · ".join(filter(None, [note, f"the first {MAX_LINES:,} of {rows:,} lines"]))
    written = text.split("\n")
    first, rest = written[:coloured], written[coloured:]
    pieces = (*highlighted("\n".join(first), _LEXERS.get(language, "")), *highlighted("\n".join(rest), "")[: len(rest)])
    lines = [[[cls, plain(piece)] for cls, piece in row] for row in pieces]
    return Row(id=document, title=title, lines=lines, note=words.clip(plain(note), 400))


@lru_cache(maxsize=8)
def highlighted(text: str, language: str) -> tuple[tuple[tuple[str, str], ...], ...]:
    """The text as lines of (class, piece); an unknown language has no colours."""
    try:
        lexer = get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return tuple(((("", line),) if line else ()) for line in text.split("\n"))
    rows: list[tuple[tuple[str, str], ...]] = []
    row: list[tuple[str, str]] = []
    for token, value in lex(text, lexer):
        cls = _colour(token)
        first, *rest = value.split("\n")
        if first:
            row.append((cls, first))
        for piece in rest:
            rows.append(tuple(row))
            row = [(cls, piece)] if piece else []
    rows.append(tuple(row))
    return tuple(rows)


@lru_cache(maxsize=256)
def _colour(token: _TokenType) -> str:
    while token is not Token and token not in STANDARD_TYPES:
        token = token.parent
    short = STANDARD_TYPES.get(token, "")
    if short.startswith("n") and short not in {"nf", "nc", "nb", "nd"}:
        return ""
    return _COLOURS.get(short[:1], "")


def node_list_view(lookup: Lookup, compile_id: str, stage: str) -> Row:
    """The computing nodes of one graph, in order; ``documents`` of a node are the ids of its kernels.

    Raises:
        NotFoundError: that compile has no graph of that stage.
    """
    graph = lookup.graphs.get((compile_id, stage))
    if graph is None:
        raise NotFoundError(f"compile {compile_id!r} has no {stage!r} graph")
    capture = next(each for each in lookup.record.captures if each.compile_id == compile_id)
    documents = _documents_by_node(capture, stage)
    rows = []
    for node in graph.calls:
        rows.append(
            Row(
                name=plain(node.name),
                text=plain(words.clip(f"{labels.op_of(node)}({node.arguments})", 160)),
                tensor=labels.short_tensor(node.tensor) if node.tensor else "",
                lines=list(dict.fromkeys(line_key(each) for each in (node.source, node.cell) if each)),
                documents=documents.get(node.name, []),
                selection=lookup.of_node(compile_id, stage, node),
                search=f"{node.name} {node.target} {node.module_path}".lower(),
            )
        )
    return Row(compile_id=compile_id, stage=stage, rows=rows)


def _documents_by_node(capture: CompileCapture, stage: str) -> dict[str, list[str]]:
    """Node → its kernels; a Dynamo node has those of all nodes that were made from it."""
    by_node: dict[str, list[str]] = {}
    for number, kernel in enumerate(capture.kernels):
        for name in _nodes_at(stage, capture, kernel):
            by_node.setdefault(name, []).append(kernel_id(capture.compile_id, number))
    return by_node


def _nodes_at(stage: str, capture: CompileCapture, kernel: KernelRecord) -> Iterable[str]:
    """The nodes of one stage's graph that a kernel computes."""
    if stage == "dynamo":
        return dict.fromkeys(origin for node in _nodes_of(capture, kernel) for origin in node.origins)
    side = "backward" if "backward" in stage else "forward"
    return kernel.nodes if stage == "joint" or kernel.stage == side else ()
