"""Functions whose frames ``warnings.warn(stacklevel=…)`` does not count.

Between the user's line and the model's ``forward`` a captured call passes through frames of ours, and of torch where we
call its compiler. A warning that the model gives to its caller would be ascribed to one of these. Python leaves out the
frames of its own import system when it counts, and knows them by the two words in the name of their file.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import CodeType, FunctionType
from typing import Any, TypeVar, cast

_NOT_COUNTED = " (importlib._bootstrap)"
_F = TypeVar("_F", bound=Callable[..., Any])


def not_counted(function: _F) -> _F:
    """The same function; its frames are not counted."""
    own = cast("FunctionType", function)
    own.__code__ = _renamed(own.__code__)
    return function


def copy_not_counted(function: Callable[..., Any]) -> Callable[..., Any]:
    """A copy of torch's function whose frames are not counted."""
    if not isinstance(function, FunctionType):
        return function
    code = _renamed(function.__code__)
    made = FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    made.__kwdefaults__ = function.__kwdefaults__
    return functools.update_wrapper(made, function)


@functools.cache
def _renamed(code: CodeType) -> CodeType:
    """One copy for good: torch keeps what it compiles of a function on its code object."""
    return code.replace(co_filename=f"{code.co_filename}{_NOT_COUNTED}")
