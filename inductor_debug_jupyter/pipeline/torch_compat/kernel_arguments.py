"""Which arguments of a kernel call in Inductor's wrapper are read, and which are written.

A generated kernel's parameter names say so: ``in_ptr0``, ``out_ptr0`` and ``in_out_ptr0``. A call of
torch's (``extern_kernels.mm(x, w, out=buf1)``) writes into ``out`` or returns its result, and reads the rest.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

Role = Literal["in", "out", "in_out"]
_PARAMETERS = re.compile(r"void\s+kernel\s*\((?P<cpp>[^)]*)\)|def\s+triton_\w+\s*\((?P<triton>[^)]*)\)", re.DOTALL)
_LAST_NAME = re.compile(r"(\w+)\s*(?::.*|=.*)?$", re.DOTALL)


@dataclass(frozen=True, slots=True)
class ArgumentPlan:
    """The arguments of one call.

    Attributes:
        labels: of each positional argument: the node whose value its buffer holds, else the buffer's name.
        roles: of each positional argument.
        keywords: role of each keyword argument; labels of those that are tensors.
        result: the label of the call's result; empty when it is not assigned.
    """

    labels: tuple[str, ...]
    roles: tuple[Role, ...]
    keywords: Mapping[str, tuple[str, Role]]
    result: str = ""


def plan_of(
    statement: ast.stmt, source: str, holds: Mapping[str, str], new: Collection[str]
) -> tuple[ast.Call, ArgumentPlan] | None:
    """A statement's call and its arguments; None when it calls nothing, or with ``*args`` or ``**kwargs``.

    Args:
        statement: one of the wrapper's.
        source: the whole wrapper, with the sources of its kernels.
        holds: buffer → the node whose value it holds.
        new: the buffers that this statement is the first to name.
    """
    call = getattr(statement, "value", None)
    if not isinstance(call, ast.Call):
        return None
    if any(isinstance(each, ast.Starred) for each in call.args) or any(each.arg is None for each in call.keywords):
        return None

    def label(value: ast.expr) -> str:
        return holds.get(_base(value), _base(value))

    names = [_base(argument) for argument in call.args]
    roles = _roles(ast.unparse(call.func).removesuffix(".run"), source)
    if len(roles) < len(names):
        roles = ["out" if name in new else "in" for name in names]
    keywords: dict[str, tuple[str, Role]] = {
        str(each.arg): (label(each.value), "out" if each.arg == "out" else "in") for each in call.keywords
    }
    target = statement.targets[0] if isinstance(statement, ast.Assign) else None
    result = label(target) if isinstance(target, ast.Name) else ""
    return call, ArgumentPlan(tuple(map(label, call.args)), tuple(roles[: len(names)]), keywords, result)


def written_by(statement: ast.stmt, source: str) -> set[str]:
    """The buffers that a call of the wrapper writes into; empty for what is no call.

    A function of torch's writes into ``out``, and into its first argument if its name says so (``index_put_``).
    """
    call = getattr(statement, "value", None)
    if not isinstance(call, ast.Call):
        return set()
    callee = ast.unparse(call.func)
    if roles := _roles(callee.removesuffix(".run"), source):
        return {_base(argument) for argument, role in zip(call.args, roles, strict=False) if role != "in"}
    written = {_base(keyword.value) for keyword in call.keywords if keyword.arg == "out"}
    in_place = any(part.endswith("_") and not part.startswith("_") for part in callee.split("."))
    return written | ({_base(call.args[0])} if in_place and call.args else set())


def _base(argument: ast.expr) -> str:
    """The buffer behind an argument, which may be reinterpreted; the text of anything else."""
    names = [node.id for node in ast.walk(argument) if isinstance(node, ast.Name)]
    names = [name for name in names if name not in {"reinterpret_tensor", "torch", "aten"}]
    return names[0] if names else ast.unparse(argument)


def _roles(kernel: str, source: str) -> list[Role]:
    """Roles of a generated kernel's parameters; empty for any other callee."""
    start = re.search(rf"^{re.escape(kernel)} = async_compile\.", source, re.MULTILINE)
    found = _PARAMETERS.search(source, start.end()) if start else None
    if found is None:
        return []
    roles: list[Role] = []
    for parameter in (found["cpp"] or found["triton"] or "").split(","):
        name = _LAST_NAME.search(parameter.strip())
        text = name[1] if name else ""
        roles.append("in_out" if text.startswith("in_out") else "out" if text.startswith("out") else "in")
    return roles
