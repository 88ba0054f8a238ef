"""Symbolic sizes: their value for given symbols, and whether they are always, sometimes or never a multiple.

Torch writes them as Python (``2*s0``, ``((s0 + 1)//2)``, ``Max(1, s0)``), so they are parsed with ``ast``; nothing is
executed.
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
    match tree:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return hints.get(name)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            known = _values([operand], hints)
            return -known[0] if known else None
        case ast.BinOp(left=left, op=operator, right=right):
            known = _values([left, right], hints)
            return _arithmetic(operator, *known) if known else None
        case ast.Call(func=ast.Name(id=name), args=arguments):
            known = _values(arguments, hints)
            return _function(name, known) if known else None
    return None


def _values(trees: list[ast.expr], hints: Mapping[str, int]) -> list[int]:
    """The values of expressions; empty when one of them is not known."""
    known = [value for tree in trees if (value := _value(tree, hints)) is not None]
    return known if len(known) == len(trees) else []


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
    """``s0 in [2, 512]`` for each symbol whose range is known."""
    return "; ".join(f"{name} in {ranges[name]}" for name in symbols_in(size) if name in ranges)


def known_sizes(hints: Mapping[str, int], ranges: Mapping[str, str]) -> dict[str, int]:
    """Each symbol's value at capture; for one that depends on values its upper bound, where there is one."""
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
    """The bytes of a tensor's storage, with its symbols as given; None when a symbol is not known."""
    return dense_bytes(spec, hints) if spec.storage_bytes is None else spec.storage_bytes


def dense_bytes(spec: TensorSpec, hints: Mapping[str, int]) -> int | None:
    """The bytes of a contiguous tensor of that shape; None when a symbol is not known."""
    total = spec.itemsize
    for size in spec.shape:
        number = evaluate(size, hints)
        if number is None:
            return None
        total *= number
    return total
