"""The values in the code of a guard: ``(L['x'].size()[0] % 2) == 0`` looks at ``L['x'].size()[0]``."""

from __future__ import annotations

import ast

_OF_TENSORS = frozenset({"size", "stride", "storage_offset"})


def values_in(check: str) -> tuple[str, ...]:
    """Every value that a check looks at, in order; none when it is not Python."""
    try:
        tree = ast.parse(check.strip(), mode="eval").body
    except SyntaxError:
        return ()
    found: dict[str, None] = {}
    _collect(tree, found)
    return tuple(found)


def computes(check: ast.expr) -> bool:
    """Whether one side of a comparison is computed from values or sizes, and not a plain value."""
    return any(isinstance(node, (ast.BinOp, ast.UnaryOp)) or _is_of_tensor(node) for node in ast.walk(check))


def _collect(tree: ast.AST, found: dict[str, None]) -> None:
    if isinstance(tree, ast.expr) and _is_value(tree):
        found[ast.unparse(tree)] = None
        return
    for child in ast.iter_child_nodes(tree):
        _collect(child, found)


def _is_value(tree: ast.expr) -> bool:
    """``L['x'].y[0]``, ``L['x'].size()[0]``, ``L['x'].storage_offset()``."""
    if not isinstance(tree, (ast.Attribute, ast.Subscript, ast.Call)):
        return False
    node: ast.expr = tree
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        if isinstance(node, ast.Call):
            if not _is_of_tensor(node):
                return False
            node = node.func
        else:
            node = node.value
    return isinstance(node, ast.Name) and node.id in {"L", "G"}


def _is_of_tensor(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _OF_TENSORS
