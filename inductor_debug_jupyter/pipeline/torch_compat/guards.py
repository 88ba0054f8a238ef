"""Read Dynamo's guards right after they are built: they vanish with the model.

``OutputGraph.guards`` lists what is guarded, and from which of the user's lines; what is checked in the end is in
the C++ tree that :class:`CheckFunctionManager` builds from it. A tensor's guard, for one, has its sizes and dtype only
there, and a symbolic size has its line only there. Both are read and put together.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

Frame = tuple[str, int, str]
"""File, line and function."""

_LOCATION = re.compile(r"  # (?P<path>[^#\n]+?):(?P<line>\d+) in (?P<function>[^\s(]+)")
_OWN_WRAPPER = ".__call__._torchdynamo_inline"
_VALUE = re.compile(r"\b[LG]\['[^']+'\](?:\.(?!size\(|stride\(|storage_offset\()\w+|\[[^\]]+\])*")


@dataclass(frozen=True, slots=True)
class GuardFacts:
    """One guard: torch's name for its kind, what it looks at, the code of its checks, and the stack that caused it.

    ``frames`` go from the outermost to the deepest, torch's own among them.
    """

    kind: str
    expression: str
    checks: tuple[str, ...]
    frames: tuple[Frame, ...]


def frames_of(stack: Any) -> tuple[Frame, ...]:
    """The frames of a ``traceback.StackSummary``, or of None."""
    return tuple((frame.filename, frame.lineno or 0, frame.name) for frame in stack or ())


def forget_own_wrapper(guards: Any) -> None:
    """Remove the guards that exist only because a capture wraps ``nn.Module.__call__``.

    A module that overrides ``__call__`` and calls ``super().__call__`` leads Dynamo to our wrapper, and past it to the
    plain call; a guard on that way would fail, and the user's code compile again, as soon as the wrapper is gone.
    """
    for guard in [each for each in guards if each.name.endswith(_OWN_WRAPPER)]:
        guards.inner.discard(guard)


def read_guards(code: Any, output_graph: Any, manager: Any) -> list[GuardFacts]:
    """Every guard of the compile that ``manager`` (a ``CheckFunctionManager``) was just built for, in torch's order."""
    leaves = _leaf_checks(manager.guard_manager.root)
    facts: list[GuardFacts] = []
    for guard in sorted(output_graph.guards):
        kind = guard.create_fn_name()
        checks = tuple(guard.code_list or ())
        if kind == "TENSOR_MATCH" or not checks:
            checks = (*leaves.get((guard.name, kind), ()), *checks)
        facts.append(GuardFacts(kind, guard.name, checks, frames_of(guard.user_stack)))
    return [part for each in facts for part in _shape_parts(each, manager.guard_manager.root, code, facts)]


def _leaf_checks(root: Any) -> dict[tuple[str, str], list[str]]:
    """The leaves of the tree: (expression, kind of leaf) → code. Global guards have an empty expression."""
    found: dict[tuple[str, str], list[str]] = {}
    waiting = [("", root)]
    while waiting:
        expression, manager = waiting.pop()
        for leaf in manager.get_leaf_guards():
            parts = [part.partition("  # ")[0].rstrip() for part in leaf.verbose_code_parts()]
            found.setdefault((expression, type(leaf).__name__), []).extend(parts)
        waiting += [(child.get_source(), child) for child in _children(manager)]
    return found


def _children(manager: Any) -> Iterator[Any]:
    """The managers below a manager; one that guards a whole dictionary has a list of its own for the values."""
    yield from manager.get_child_managers()
    if hasattr(manager, "get_key_value_managers"):
        for key_and_value in manager.get_key_value_managers().values():
            yield from filter(None, key_and_value)


def _shape_parts(guard: GuardFacts, root: Any, code: Any, others: Iterable[GuardFacts]) -> list[GuardFacts]:
    """The one guard on all symbolic sizes, as one guard for each relation, with the line that made it hold.

    Where torch names no line of the user's, it is the line that uses the tensor.
    """
    if guard.kind != "SHAPE_ENV":
        return [guard]
    files = {code.co_filename, *(frame[0] for other in others for frame in other.frames)}
    uses = {other.expression: other.frames for other in others if other.kind == "TENSOR_MATCH"}
    frames: dict[str, tuple[Frame, ...]] = {}
    for leaf in root.get_epilogue_lambda_guards():
        for part in leaf.verbose_code_parts():
            frames[part.partition("  # ")[0].rstrip()] = located(part, files)
    parts = []
    for check in guard.checks:  # "2 <= L['x'].size()[0]" looks at L['x']
        value = match.group() if (match := _VALUE.search(check)) else ""
        parts.append(GuardFacts(guard.kind, value, (check,), frames.get(check) or uses.get(value, ())))
    return parts


def located(part: str, files: Iterable[str]) -> tuple[Frame, ...]:
    """The frame behind ``…  # code  # pkg/model.py:35 in f (…)``; torch shortens the path."""
    for match in _LOCATION.finditer(part):
        for file in files:
            if file.endswith(match["path"]):
                return ((file, int(match["line"]), match["function"]),)
    return ()
