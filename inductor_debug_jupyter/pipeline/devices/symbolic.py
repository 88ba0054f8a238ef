"""Symbolic sizes: their value for given symbols, and whether they are always, sometimes or never a multiple.

Torch writes them as Python (``2*s0``, ``((s0 + 1)//2)``, ``Max(1, s0)``), so they are parsed with ``ast``; nothing is
executed.
"""

from __future__ import annotations

import ast
import functools
import math
import operator
import re
from collections.abc import Callable, Mapping

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
    try:
        return None if (tree := _parsed(size)) is None else _value(tree, hints)
    except (LookupError, ArithmeticError, TypeError, ValueError):
        return None


def _power(base: int, exponent: int) -> int:
    if not 0 <= exponent < 64:
        raise OverflowError(exponent)
    return int(base**exponent)


_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Div: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_FUNCTIONS: dict[str, Callable[..., int]] = {
    "Max": lambda *values: max(values),
    "Min": lambda *values: min(values),
    **dict.fromkeys(("Mod", "PythonMod"), operator.mod),
    **dict.fromkeys(("FloorDiv", "CleanDiv", "IntTrueDiv"), operator.floordiv),
}


def _value(tree: ast.expr, hints: Mapping[str, int]) -> int:
    """The value of an expression; raises where a symbol or a function is not known, or there is no value."""
    match tree:
        case ast.Constant(value=int(number)):
            return number
        case ast.Name(id=name):
            return hints[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, hints)
        case ast.BinOp(left=left, op=operation, right=right):
            return _OPERATORS[type(operation)](_value(left, hints), _value(right, hints))
        case ast.Call(func=ast.Name(id=name), args=arguments):
            return _FUNCTIONS[name](*(_value(each, hints) for each in arguments))
    raise TypeError(ast.dump(tree))


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
