"""A rewrite as one line in front of the user's own call of the model: ``net = fixed(net, pad={784: 832})``.

The model keeps its weights and computes the same, and its own source is not edited: it may be a library's. So the patch
does exactly what was verified. Python knows the columns of the call in a running frame, so the call is found by its
position.
"""

from __future__ import annotations

import ast
import difflib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from inductor_debug_jupyter.pipeline.capture.sources import CallSite, source_text
from inductor_debug_jupyter.pipeline.fixits.rewrite import Rewrite


@dataclass(frozen=True)
class Patch:
    """``diff`` is a unified diff of the ``texts`` (label → new text); ``unwritten`` has what is not in it, and why."""

    diff: str = ""
    texts: Mapping[str, str] = field(default_factory=dict)
    unwritten: tuple[str, ...] = ()


Edit = tuple[int, int, str]
"""The bytes from the first offset to the second become the text."""


@dataclass(frozen=True)
class Source:
    """The text of a cell or a file."""

    label: str
    text: str

    @cached_property
    def tree(self) -> ast.Module | None:
        """The syntax tree, with magics and shell commands as comments; None when the text is no Python."""
        lines = ("#" + line[1:] if line.startswith(("%", "!")) else line for line in self.text.split("\n"))
        try:
            return ast.parse("\n".join(lines))
        except SyntaxError:
            return None

    def at(self, line: int, column: int = 0) -> int:
        """The offset in bytes of a line (from 1) and a column (from 0, in bytes)."""
        return self._starts[line - 1] + column

    def span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """The offsets of a node's first byte and of the first byte behind it."""
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or 0
        return self.at(node.lineno, node.col_offset), self.at(end_line, end_column)

    def before(self, node: ast.stmt) -> str:
        """The text before a statement in its line."""
        return self.text.encode()[self.at(node.lineno) : self.at(node.lineno, node.col_offset)].decode()

    def edited(self, edits: Iterable[Edit]) -> str:
        """The text with the edits made."""
        data = self.text.encode()
        for start, end, text in sorted(edits, reverse=True):
            data = data[:start] + text.encode() + data[end:]
        return data.decode()

    @cached_property
    def _starts(self) -> list[int]:
        starts = [0]
        for line in self.text.split("\n"):
            starts.append(starts[-1] + len(line.encode()) + 1)
        return starts


_WIDTH = 100
_NAME = "fixed"
_OTHER_NAME = "inductor_debug_fixed"
"""The import's name in a source that uses the name ``fixed`` for something else."""
_INNER = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.GeneratorExp, ast.ListComp)
_SCOPES = (*_INNER, ast.SetComp, ast.DictComp)


def call_patch(rewrite: Rewrite, calls: Iterable[tuple[CallSite | None, str]]) -> Patch:
    """The lines and their import as a diff of the sources in which models were called.

    Args:
        rewrite: the changes that the patch puts in force.
        calls: where each model was called, and the name of its own ``torch.compile`` backend.
    """
    edits: dict[Source, set[Edit]] = {}
    unwritten: dict[str, None] = {}
    for site, backend in calls:
        code = fixed_code("model", rewrite, backend)
        source, found, why_not = _located(site, code)
        if source is None or found is None:
            unwritten[why_not] = None
        else:
            edits.setdefault(source, set()).update(_edits(source, *found, rewrite, backend))
    lines: list[str] = []
    texts: dict[str, str] = {}
    for source, each in edits.items():
        text = texts[source.label] = source.edited(each)
        old, new = source.text.splitlines(keepends=True), text.splitlines(keepends=True)
        lines += difflib.unified_diff(old, new, f"a/{source.label}", f"b/{source.label}")
    diff = "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
    return Patch(diff, texts, tuple(unwritten))


Found = tuple[ast.Call, list[ast.AST]]
"""A call, and the syntax nodes around it, outermost first."""


def _located(site: CallSite | None, code: str) -> tuple[Source | None, Found | None, str]:
    """The source of a call and the call in it; else the reason, with the code to write."""
    if site is None:
        return None, None, f"it is not known where the model is called; in front of that, write: model = {code}"
    if any(folder in site.file for folder in ("site-packages", "dist-packages")):
        where = f"{site.label}, line {site.start[0]}, which is a library's, calls the model"
        return None, None, f"{where}; where you make it, write: model = {code}"
    source = Source(site.label, source_text(site.file))
    return source, _call_at(source, site), f"{site.label} is not what it was when the model was called"


def fixed_code(model: str, rewrite: Rewrite, backend: str = "", *, name: str = _NAME, indent: str = "") -> str:
    """The call of :func:`~inductor_debug_jupyter.pipeline.fixits.backend.fixed`, over several lines if it is long."""
    changes: dict[str, Any] = {
        "pad": dict(rewrite.pads),
        "pad_products": dict(rewrite.around),
        "cast": json.dumps(dict(rewrite.casts)) if rewrite.casts else "",
        "channels_last": rewrite.channels_last,
        "contiguous": json.dumps(sorted(rewrite.contiguous)) if rewrite.contiguous else "",
        "decompose": json.dumps(sorted(rewrite.decompose)) if rewrite.decompose else "",
        "keep_precise": json.dumps(sorted(rewrite.precise)) if rewrite.precise else "",
        "backend": json.dumps(backend) if backend else "",
    }
    arguments = [f"{each}={value}" for each, value in changes.items() if value]
    line = f"{name}({', '.join([model, *arguments])})"
    if len(indent) + len(line) <= _WIDTH:
        return line
    return "\n".join([f"{name}(", *(f"{indent}    {each}," for each in (model, *arguments)), f"{indent})"])


def _call_at(source: Source, site: CallSite) -> Found | None:
    """The call at that position."""
    if source.tree is None:
        return None
    for node, around in _walk(source.tree, []):
        if (
            isinstance(node, ast.Call)
            and (node.lineno, node.col_offset) == site.start
            and (node.end_lineno, node.end_col_offset) == site.end
        ):
            return node, around
    return None


def _walk(node: ast.AST, around: list[ast.AST]) -> Iterator[tuple[ast.AST, list[ast.AST]]]:
    for child in ast.iter_child_nodes(node):
        yield child, [*around, node]
        yield from _walk(child, [*around, node])


def _edits(source: Source, call: ast.Call, around: list[ast.AST], rewrite: Rewrite, backend: str) -> Iterator[Edit]:
    assert source.tree is not None
    name, imported = _imported(source.tree)
    if imported:
        yield _import(source, imported)
    statement = _statement(call.func, around)
    indent = source.before(statement)
    start, end = source.span(call.func)
    callee = source.text.encode()[start:end].decode()
    place: ast.expr = call.func  # net, self.net or nets[0] can be assigned to
    while isinstance(place, ast.Attribute | ast.Subscript):
        place = place.value
    in_front = isinstance(place, ast.Name) and not indent.strip() and _is_own(call.func, around)
    if in_front:
        code = fixed_code(callee, rewrite, backend, name=name, indent=indent)
        at = source.at(statement.lineno)
        yield at, at, f"{indent}{callee} = {code}\n"
    else:
        yield start, end, fixed_code(callee, rewrite, backend, name=name, indent=" " * call.col_offset)


def _statement(callee: ast.expr, around: list[ast.AST]) -> ast.stmt:
    """The statement to write the line in front of: the outermost (a loop) that assigns none of the callee's names."""
    names = {node.id for node in ast.walk(callee) if isinstance(node, ast.Name)}
    statements = [each for each in around if isinstance(each, ast.stmt)]
    inner = max((at for at, each in enumerate(statements) if isinstance(each, _SCOPES)), default=-1)
    mine = statements[inner + 1 :] or statements[-1:]
    return next((each for each in mine if not names & _given_in(each)), mine[-1])


def _is_own(callee: ast.expr, around: list[ast.AST]) -> bool:
    """Whether the callee can be assigned there: a function can assign only names of its own."""
    scope = next((each for each in reversed(around) if isinstance(each, _SCOPES)), None)
    if scope is None or not isinstance(callee, ast.Name):
        return scope is None
    return isinstance(scope, ast.FunctionDef) and callee.id in _given_in(scope)


def _given_in(statement: ast.stmt) -> set[str]:
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def _imported(tree: ast.Module) -> tuple[str, str]:
    """The function's name in a source, and the line that imports it; no line when the source imports it already."""
    package = __name__.partition(".")[0]
    imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module == package)
    for alias in (alias for node in imports for alias in node.names if alias.name == _NAME):
        return alias.asname or alias.name, ""
    if _NAME in {name for node in ast.walk(tree) if (name := _name_in(node))}:
        return _OTHER_NAME, f"from {package} import {_NAME} as {_OTHER_NAME}"
    return _NAME, f"from {package} import {_NAME}"


def _name_in(node: ast.AST) -> str:
    """The name that a syntax node reads, assigns, defines or imports; empty for any other node."""
    match node:
        case ast.Name(id=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
            return name
        case ast.alias(name=name, asname=other):
            return other or name
    return ""


def _import(source: Source, line: str) -> Edit:
    """Write an import behind the imports at the top, or in front of the first statement."""
    assert source.tree is not None
    body = source.tree.body
    first = (
        1 if body and isinstance(body[0], ast.Expr) and isinstance(body[0].value, ast.Constant) and len(body) > 1 else 0
    )
    last = None
    for statement in body[first:]:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            break
        last = statement
    if last is None:
        at = source.at(body[first].lineno)
        return at, at, f"{line}\n"
    _, at = source.span(last)
    return at, at, f"\n{line}"
