"""How what an execution gave is named: ``logits``, ``grad:layer.weight``, ``input:x``, ``call 2: buffer:seen``."""

from __future__ import annotations

from typing import Final

GRADIENT: Final = "grad:"
"""How the path of a gradient starts."""
INPUT: Final = "input:"
"""How the path of an input starts that the model wrote to."""


def path_of_call(number: int, path: str) -> str:
    """The path of something that a call gave; the first call is not mentioned."""
    return path if number == 1 else f"call {number}: {path}"


def call_number(path: str) -> int:
    """Which call it is of, from 1."""
    number = path.partition(": ")[0].removeprefix("call ")
    return int(number) if path.startswith("call ") and number.isdecimal() else 1


def own_path(path: str) -> str:
    """The path without the call that it is of."""
    return path.partition(": ")[2] if call_number(path) > 1 else path


def is_gradient(path: str) -> bool:
    """Whether it is the path of a gradient, of any call."""
    return own_path(path).startswith(GRADIENT)
