"""Sizes that are expressions: what they are for given symbols, and whether a multiple is certain, possible or never.

Torch writes them as Python (``2*s0``, ``((s0 + 1)//2)``, ``Max(1, s0)``), so they are read as Python; nothing is run.
"""

from __future__ import annotations

import ast
import functools
import math
import re
from collections.abc import Mapping

from inductor_debug_jupyter.pipeline.records import TensorSpec

_RANGE = re.compile(r"\[(-?\d+), (-?\d+|∞)\]")


@functools.lru_cache(maxsize=4096)
def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None


def symbols_in(size: int | str) -> tuple[str, ...]:
    """The symbols of an expression, sorted."""
    if isinstance(size, int) or (tree := _parsed(size)) is None:
        return ()
    called = {node.func.id for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return tuple(sorted(names - called))


def evaluate(size: int | str, hints: Mapping[str, int]) -> int | None:
    """A size as a number, or None when a symbol is not known."""
    if isinstance(size, int):
        return size
    tree = _parsed(size)
    return None if tree is None else _value(tree, hints)


def _value(tree: ast.expr, hints: Mapping[str, int]) -> int | None:
    if isinstance(tree, ast.Constant):
        return tree.value if isinstance(tree.value, int) else None
    if isinstance(tree, ast.Name):
        return hints.get(tree.id)
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        inner = _value(tree.operand, hints)
        return None if inner is None else -inner
    if isinstance(tree, ast.BinOp):
        left, right = _value(tree.left, hints), _value(tree.right, hints)
        return None if left is None or right is None else _arithmetic(tree.op, left, right)
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        values = [_value(argument, hints) for argument in tree.args]
        known = [value for value in values if value is not None]
        if known and len(known) == len(values):
            return _function(tree.func.id, known)
    return None


def _arithmetic(operator: ast.operator, left: int, right: int) -> int | None:
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.FloorDiv() | ast.Div():
            return left // right if right else None
        case ast.Mod():
            return left % right if right else None
        case ast.Pow() if 0 <= right < 64:
            return int(left**right)
    return None


def _function(name: str, values: list[int]) -> int | None:
    if name == "Max":
        return max(values)
    if name == "Min":
        return min(values)
    if name in {"FloorDiv", "CleanDiv", "IntTrueDiv"} and len(values) == 2 and values[1]:
        return values[0] // values[1]
    if name in {"Mod", "PythonMod"} and len(values) == 2 and values[1]:
        return values[0] % values[1]
    return None


def factor(size: int | str) -> int:
    """The largest number that is certain to divide a size: 6 for ``6*s0``, 1 when nothing is known."""
    if isinstance(size, int):
        return size
    tree = _parsed(size)
    return 1 if tree is None else _factor(tree)


def _factor(tree: ast.expr) -> int:
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int):
        return abs(tree.value)
    if isinstance(tree, ast.UnaryOp):
        return _factor(tree.operand)
    if isinstance(tree, ast.BinOp):
        left, right = _factor(tree.left), _factor(tree.right)
        if isinstance(tree.op, ast.Mult):
            return left * right
        if isinstance(tree.op, (ast.Add, ast.Sub)):
            return math.gcd(left, right)
        if isinstance(tree.op, ast.Pow):
            return left
    return 1


def ranges_text(size: str, ranges: Mapping[str, str]) -> str:
    """``s0 in [2, 512]``, for each symbol of an expression whose range is known."""
    return "; ".join(f"{name} in {ranges[name]}" for name in symbols_in(size) if name in ranges)


def known_sizes(hints: Mapping[str, int], ranges: Mapping[str, str]) -> dict[str, int]:
    """What each symbol was in the example; for one that depends on values, the most it can be, if that is known."""
    sizes = dict(hints)
    for name, text in ranges.items():
        match = _RANGE.fullmatch(text)
        if name not in sizes and match is not None and match[2] != "∞":
            sizes[name] = int(match[2])
    return sizes


def never_reaches(size: str, multiple: int, ranges: Mapping[str, str]) -> bool:
    """Whether a lone symbol's range has no multiple in it."""
    match = _RANGE.fullmatch(ranges.get(size, ""))
    if match is None or match[2] == "∞":
        return False
    first = -(-max(int(match[1]), 1) // multiple) * multiple
    return first > int(match[2])


def bytes_of(spec: TensorSpec, hints: Mapping[str, int]) -> int | None:
    """The memory of a tensor, symbolic sizes as what they were in the example; None when that is not known."""
    if spec.storage_bytes is not None:
        return spec.storage_bytes
    total = spec.itemsize
    for size in spec.shape:
        number = evaluate(size, hints)
        if number is None:
            return None
        total *= number
    return total
