"""A user's function → text that defines or imports it in a standalone script.

A plain function that uses only torch, the standard library and constants is written out, since notebooks define
backends in cells. A function of an installed package is imported. Any other exists only in this process.
"""

from __future__ import annotations

import ast
import builtins
import dis
import importlib.metadata
import inspect
import sys
import textwrap
from types import FunctionType, ModuleType
from typing import Any

from inductor_debug_jupyter.pipeline.errors import ReproError


def function_source(function: Any, what: str) -> tuple[str, str]:
    """The text that defines a function, and the expression that names it.

    Args:
        function: the function, or the name of a backend.
        what: its role, for an error message (``backend``).

    Raises:
        ReproError: it can neither be written out nor imported.
    """
    if isinstance(function, str):
        return "", repr(function)
    text = _written_out(function) or _imported(function)
    if text is None:
        name = getattr(function, "__qualname__", type(function).__name__)
        raise ReproError(
            f"{what} {name} cannot go into a standalone script: it is neither a plain function that uses only torch "
            "and the standard library, nor part of an installed package; give the name of a registered backend"
        )
    return text, function.__name__


def _written_out(function: Any) -> str | None:
    if not isinstance(function, FunctionType) or function.__closure__ or not function.__name__.isidentifier():
        return None
    try:
        source = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(source)
    except (OSError, TypeError, SyntaxError):
        return None
    defined = tree.body[0]
    if not isinstance(defined, ast.FunctionDef) or defined.decorator_list or defined.name != function.__name__:
        return None
    lines = []
    for name in sorted(_global_names(function)):
        if name not in function.__globals__:
            if hasattr(builtins, name):
                continue
            return None
        line = _definition(name, function.__globals__[name])
        if line is None:
            return None
        lines.append(line)
    _drop_annotations(defined)
    return "\n".join([*lines, "", "", ast.unparse(defined)]).lstrip("\n")


def _global_names(function: FunctionType) -> set[str]:
    """The global names that a function, and functions inside it, use."""
    names: set[str] = set()
    pending = [function.__code__]
    while pending:
        code = pending.pop()
        pending += [constant for constant in code.co_consts if inspect.iscode(constant)]
        names |= {
            instruction.argval
            for instruction in dis.get_instructions(code)
            if instruction.opname in {"LOAD_GLOBAL", "LOAD_NAME"}
        }
    return names


def _definition(name: str, value: Any) -> str | None:
    """A line that defines or imports ``name`` in a script; None when its value is not allowed there."""
    if isinstance(value, ModuleType):
        return f"import {value.__name__} as {name}" if _is_standard(value.__name__) else None
    if value is None or isinstance(value, (bool, int, float, str)):
        return f"{name} = {value!r}"
    module, known = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if module and known and _is_standard(module) and getattr(sys.modules.get(module), known, None) is value:
        return f"from {module} import {known} as {name}"
    return None


def _is_standard(module: str) -> bool:
    root = module.partition(".")[0]
    return root == "torch" or root in sys.stdlib_module_names


def _drop_annotations(defined: ast.FunctionDef) -> None:
    """Remove annotations: they name types that the script does not import."""
    for node in ast.walk(defined):
        if isinstance(node, ast.FunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None


def _imported(function: Any) -> str | None:
    module, name = getattr(function, "__module__", None), getattr(function, "__qualname__", "")
    if not module or not name.isidentifier() or getattr(sys.modules.get(module), name, None) is not function:
        return None
    if module.partition(".")[0] not in importlib.metadata.packages_distributions():
        return None
    return f"from {module} import {name}"
