"""The first guard that fails for given inputs, with the value it was compiled for and the new one.

torch's C++ guard tree finds it (``check_verbose``): it stops at the first check that fails and returns its
code, ``L['n'] == 2``, or for tensors a sentence, ``tensor 'L['x']' size mismatch at index 0. expected 3, actual 4``.
The old value is part of that text; the new one is looked up, by evaluating the same expression on the frame's names, as
torch itself does for its log. Values are described without calling the user's ``__repr__``.
"""

from __future__ import annotations

import ast
import enum
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.records.guard_expressions import computes, values_in
from inductor_debug_jupyter.pipeline.torch_compat.guards import Frame, frames_of

_TENSOR = re.compile(
    r"^[Tt]ensor '(?P<name>.+?)' (?P<what>[\w ]+?) mismatch(?: at index (?P<index>\d+))?\."
    r" expected (?P<old>.+?)(?:, actual (?P<new>.+))?$"
)
_IDENTITY = re.compile(r"^___check_(?P<what>obj|type)_id\((?P<name>.+), (?P<id>\d+)\)(?:, type=(?P<type>.+))?$")
_TENSOR_TYPE = re.compile(r"^expected type of '(?P<name>.+?)' to be (?P<old>.+?),")
_PARAMETER_HINT = re.compile(r"\. Guard failed on a parameter.*$")
_MISSING = re.compile(r"^(?:KeyError on|IndexError on|getattr failed on source) (?P<name>.+)$")
_MARKING = "_has_dynamo_dim_marking"
_MODES = "___check_torch_function_mode_stack"
_STATE = re.compile(r"^GLOBAL_STATE changed: (?P<what>.+)$")
_CLASS = re.compile(r"^<class '(?P<name>.+)'>$")
_COMMENT = re.compile(r"\s{2,}#.*$", re.DOTALL)
_ALIASING = "Duplicate tensor"
_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device, torch.Size)
_BRACKETS = {"list": "[]", "tuple": "()", "set": "{}", "frozenset": "{}"}
_LONGEST = 60
_MANY = 6


@dataclass(frozen=True, slots=True)
class FailedGuard:
    """One check that does not hold: its code, what it looks at, the value it wants and the value there is.

    ``aspect`` is the property of a tensor that differs (``size at index 0``) or the process-wide state. ``frames`` is
    the user's stack that made torch add the guard, torch's own frames among them; it may be empty.
    """

    check: str
    expression: str = ""
    old: str = ""
    new: str = ""
    aspect: str = ""
    frames: tuple[Frame, ...] = ()
    checked: int = 0
    """Checks that torch made up to this one; of several graphs, the one with most is nearest to fitting."""


def first_failure(
    root: Any, names: Mapping[str, Any], scope: Mapping[str, Any], distinct: Sequence[str] = ()
) -> FailedGuard | None:
    """The first check that does not hold for a frame with these local names; None when all do.

    Args:
        root: torch's ``RootGuardManager``.
        names: the frame's local names, closure included.
        scope: what else the checks' code refers to: ``G`` and torch's own check functions.
        distinct: the expressions of the tensors that must be different tensors.
    """
    info = root.check_verbose(dict(names))
    if info.result:
        return None
    scope = {**scope, "L": names}
    parts = [str(each) for each in info.verbose_code_parts]
    if parts and parts[0].startswith(_ALIASING):
        return replace(_aliased(parts[0], distinct, scope), checked=info.num_guards_executed)
    part = _failing_part(parts, scope)
    check = _PARAMETER_HINT.sub("", _COMMENT.sub("", part).strip())
    failure = _explained(check, scope, frames_of(getattr(info, "user_stack", None)))
    return replace(failure, checked=info.num_guards_executed)


def scope_of(manager: Any) -> dict[str, Any]:
    """The globals and closure that the code of a ``GuardManagerWrapper``'s checks refers to."""
    return {**(manager.global_scope or {}), **(manager.closure_vars or {})}


def distinct_of(manager: Any) -> tuple[str, ...]:
    """The expressions of the tensors that must be different tensors; torch 2.15 has objects in place of text."""
    return tuple(str(getattr(source, "name", source)) for source in manager.no_tensor_aliasing_sources)


def described(value: Any) -> str:
    """A value in a few words, without running the user's code."""
    if isinstance(value, torch.Tensor):
        return described_tensor(value)
    if isinstance(value, _PLAIN):
        text = repr(value)
        return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"
    if isinstance(value, (list, tuple, set, frozenset, dict)):
        brackets = _BRACKETS.get(type(value).__name__)
        if brackets is None or len(value) > _MANY:
            return f"{type(value).__name__} of {len(value)}"
        return brackets[0] + ", ".join(map(described, value)) + brackets[1]
    if value is _GONE:
        return "gone"
    if isinstance(value, enum.Enum):
        return f"{type(value).__qualname__}.{value.name}"
    if isinstance(value, type):
        return str(value.__qualname__)
    name = getattr(value, "__qualname__", "") if callable(value) and not isinstance(value, torch.nn.Module) else ""
    return name.replace("<locals>.", "") if isinstance(name, str) and name else type(value).__qualname__


def described_tensor(tensor: torch.Tensor) -> str:
    """``float32[2, 4]``, with what is unusual about it."""
    text = f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(map(str, tensor.shape))}]"
    if tensor.layout != torch.strided:
        text += f" {str(tensor.layout).removeprefix('torch.')}"
    elif not tensor.is_contiguous():
        text += f" stride={tuple(tensor.stride())}"
    if tensor.device.type != "cpu":
        text += f" {tensor.device}"
    return text + (" requires_grad" if tensor.requires_grad else "")


def _failing_part(parts: list[str], scope: Mapping[str, Any]) -> str:
    """The relation between sizes that fails; torch returns the code of all of them as one check."""
    for part in parts if len(parts) > 1 else ():
        try:
            if not eval(part, dict(scope)):  # noqa: S307 - torch's own code of a guard, which it evaluates so too
                return part
        except Exception:  # noqa: S112 - a relation that cannot be evaluated did not fail
            continue
    return parts[0] if parts else "a check that torch does not name"


def _explained(check: str, scope: Mapping[str, Any], frames: tuple[Frame, ...]) -> FailedGuard:
    if match := _TENSOR.match(check):
        return _tensor_failure(check, match, scope, frames)
    if match := _TENSOR_TYPE.match(check):
        value = _looked_up(match["name"], scope)
        old = _CLASS.sub(r"\g<name>", match["old"]).rpartition(".")[2]
        old = "a tensor" if old in ("a tensor type", "Tensor") else old  # torch 2.13 and torch 2.15
        return FailedGuard(check, match["name"], old, _type_name(value), "type", frames)
    if match := _MISSING.match(check):
        return FailedGuard(check, match["name"], "there", "missing", "contents", frames)
    if check.startswith(_MARKING):
        return FailedGuard(check, "", "no dimension marked", "a dimension marked as dynamic", "marking", frames)
    if check.startswith(_MODES):
        return FailedGuard(check, "", "other modes", "the modes in force now", "torch function modes", frames)
    if match := _STATE.match(check):
        what = match["what"].strip()
        return FailedGuard(check, "", *_state(what), what, frames)
    if match := _IDENTITY.match(check):
        value = _looked_up(match["name"], scope)
        kind = _CLASS.sub(r"\g<name>", match["type"] or "").rpartition(".")[2]
        if match["what"] == "type":
            return FailedGuard(check, match["name"], kind, _type_name(value), "type", frames)
        is_alike = kind and _type_name(value) == kind and not isinstance(value, enum.Enum)
        same_kind = f"another {kind}" if is_alike else described(value)
        return FailedGuard(check, match["name"], f"the {kind or 'object'} seen before", same_kind, "identity", frames)
    return _comparison(check, scope, frames)


def _aliased(check: str, distinct: Sequence[str], scope: Mapping[str, Any]) -> FailedGuard:
    """Which of the tensors that must be different are now the same one."""
    same: dict[int, list[str]] = {}
    for expression in distinct:
        same.setdefault(id(_looked_up(expression, scope)), []).append(expression)
    twice = next((names for names in same.values() if len(names) > 1), [])
    now = "the same tensor for " + " and ".join(twice) if twice else "the same tensor twice"
    return FailedGuard(check.strip(), twice[0] if twice else "", "different tensors", now, "aliasing")


def _tensor_failure(
    check: str, match: re.Match[str], scope: Mapping[str, Any], frames: tuple[Frame, ...]
) -> FailedGuard:
    aspect, old, new = match["what"].strip(), match["old"], match["new"] or ""
    value = _looked_up(match["name"], scope)
    if isinstance(value, torch.Tensor) and aspect == "requires_grad":
        old, new = str(not value.requires_grad), str(value.requires_grad)
    if aspect == "dispatch key set":  # without what the two sets share
        before, now = (set(re.sub(r"^DispatchKeySet\((.*)\)$", r"\1", text).split(", ")) for text in (old, new))
        old, new = (", ".join(sorted(keys)) or "nothing more" for keys in (before - now, now - before))
    at = f" at index {match['index']}" if match["index"] else ""
    return FailedGuard(check, match["name"], old, new, aspect + at, frames)


def _comparison(check: str, scope: Mapping[str, Any], frames: tuple[Frame, ...]) -> FailedGuard:
    """The failure of a check that is a Python expression, such as ``len(L['xs']) == 2``."""
    try:
        tree = ast.parse(check, mode="eval").body
    except SyntaxError:
        return FailedGuard(check, frames=frames)
    looks_at = _innermost_value(tree)
    expression = ast.unparse(looks_at) if looks_at else ""
    if isinstance(tree, ast.Compare) and not isinstance(tree.ops[0], (ast.In, ast.NotIn)):
        old, new, aspect = _compared(tree, looks_at, scope)
        return FailedGuard(check, expression, old, new, aspect, frames)
    now = described(_looked_up(expression, scope))
    if (contents := _contents(tree)) is not None:
        return FailedGuard(check, expression, contents, now, "contents", frames)
    negated = isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not)
    return FailedGuard(check, expression, "empty" if negated else "", now, "", frames)


def _compared(tree: ast.Compare, looks_at: ast.expr | None, scope: Mapping[str, Any]) -> tuple[str, str, str]:
    """Old value, new value and aspect of ``len(L['xs']) == 2``: the constant side is old, the other is evaluated."""
    sides = [tree.left, *tree.comparators]
    constants = [side for side in sides if _innermost_value(side) is None]
    if not constants and isinstance(tree.ops[0], ast.Is):
        return f"one object for {' and '.join(map(ast.unparse, sides))}", "different ones", "aliasing"
    check = ast.unparse(tree)
    # Torch writes the check of a dictionary's length the wrong way round: len(d) != 1 where it must be 1.
    equal = (ast.Eq, ast.Is, ast.NotEq) if check.startswith("len(") else (ast.Eq, ast.Is)
    if len(tree.ops) == 1 and isinstance(tree.ops[0], equal) and len(constants) == 1:
        variable = sides[0] if sides[1] is constants[0] else sides[1]
        if not computes(variable):
            now = described(_looked_up(ast.unparse(variable), scope))
            return ast.unparse(constants[0]), now, _holder(looks_at, scope)
    return check, " and ".join(described(_looked_up(value, scope)) for value in values_in(check)), "relation"


def _holder(value: ast.expr | None, scope: Mapping[str, Any]) -> str:
    """What kind of object has the value as an attribute; empty for a value that is an argument itself."""
    if value is None or not any(isinstance(node, ast.Attribute) for node in ast.walk(value)):
        return ""
    owner = _looked_up(ast.unparse(value.value), scope) if isinstance(value, ast.Attribute) else None
    if isinstance(owner, torch.nn.Module):
        return "attribute of a module"
    if isinstance(owner, (range, slice)):
        return f"part of a {type(owner).__name__}"
    return "attribute of an object"


def _contents(tree: ast.expr) -> str | None:
    """``set.__contains__(L['s'], 'a')`` → ``with 'a'``."""
    absent = isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.Not)
    call = tree.operand if isinstance(tree, ast.UnaryOp) else tree
    if isinstance(call, ast.Compare) and isinstance(call.ops[0], (ast.In, ast.NotIn)):
        word = "without" if absent is isinstance(call.ops[0], ast.In) else "with"
        return f"{word} {ast.unparse(call.left)}"
    if isinstance(call, ast.Call) and ast.unparse(call.func).endswith("__contains__") and len(call.args) == 2:
        return f"{'without' if absent else 'with'} {ast.unparse(call.args[1])}"
    return None


def _innermost_value(tree: ast.AST) -> ast.expr | None:
    """The first ``L['x']…`` or ``G['K']…`` in the tree, up to a call or an operator."""
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Subscript)) and id(node) not in called and _is_path(node):
            return node
    return None


def _is_path(node: ast.expr) -> bool:
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return isinstance(node, ast.Name) and node.id in ("L", "G")


_GONE = type("Gone", (), {})()


def _looked_up(expression: str, scope: Mapping[str, Any]) -> Any:
    """The expression's value now; ``_GONE`` for a key or attribute that does not exist any more."""
    try:
        return eval(expression, dict(scope))  # noqa: S307 - an expression of torch's guards, see above
    except Exception:
        return _GONE


def _type_name(value: Any) -> str:
    return "nothing" if value is _GONE else type(value).__qualname__


def _state(what: str) -> tuple[str, str]:
    """Old and new value of a process-wide switch, where one follows from the other."""
    switches = {
        "grad_mode": torch.is_grad_enabled,
        "deterministic_algorithms": torch.are_deterministic_algorithms_enabled,
    }
    if what in switches:
        now = switches[what]()
        return str(not now), str(now)
    values = {"num_threads": torch.get_num_threads, "default_dtype": torch.get_default_dtype}
    return ("another", str(values[what]())) if what in values else ("", "")
