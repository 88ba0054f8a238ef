"""Read Dynamo's ``OutputGraph``: guards, symbolic sizes and graph breaks.

Guards are read right after they are built: they vanish with the model. ``OutputGraph.guards`` lists what is guarded,
and from which of the user's lines; what is checked in the end is in the C++ tree that :class:`CheckFunctionManager`
builds from it. A tensor's guard, for one, has its sizes and dtype only there, and a symbolic size has its line only
there. Both are read and put together.

A symbol stands for a size, a stride or a number of one input (``L['x'].size()[0]``), or for something that only the
data decides (``u0``: the result of ``.item()`` or ``nonzero``). Torch narrows its range, or replaces it by a fixed
number, because of a line of the user's, which torch keeps as text with a shortened path; the relations themselves are
guards (kind ``SHAPE_ENV``).

Dynamo hands a backend a graph and nothing else. A backend that installs no hook finds the calling ``OutputGraph`` on
the Python stack: :func:`running_compile`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from torch._dynamo.output_graph import OutputGraph

Frame = tuple[str, int, str]
"""File, line and function."""

_LOCATION = re.compile(r"  # (?P<path>[^#\n]+?):(?P<line>\d+) in (?P<function>[^\s(]+)")
_RESUMED = re.compile(r"^torch_dynamo_resume_in_(?P<function>.+)_at_(?P<line>\d+)$")
_ENDLESS = 2**60
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


@dataclass(frozen=True, slots=True)
class SymbolFacts:
    """One symbol. ``expressions`` is what it stands for; ``value`` its value in the example, None when data decides.

    ``fixed`` is what torch replaced it by (``4``, or another symbol), ``frames`` the stack of the line that caused it.
    """

    symbol: str
    expressions: tuple[str, ...]
    low: int | None
    high: int | None
    value: int | None = None
    fixed: str = ""
    frames: tuple[Frame, ...] = ()


def read_symbols(output_graph: Any, code: CodeType) -> list[SymbolFacts]:
    """Every symbol of a trace of ``code``, in the order in which they were made."""
    environment = getattr(output_graph, "shape_env", None)
    ranges = getattr(environment, "var_to_range", None)
    if not ranges:
        return []
    stacks = (guard.user_stack or () for guard in output_graph.guards)
    files = {code.co_filename, *(frame.filename for stack in stacks for frame in stack)}
    return [_facts(environment, symbol, bounds, files) for symbol, bounds in ranges.items()]


def _facts(environment: Any, symbol: Any, bounds: Any, files: set[str]) -> SymbolFacts:
    sources = getattr(environment, "var_to_sources", {}).get(symbol, ())
    value = getattr(environment, "backed_var_to_val", {}).get(symbol)
    fixed = getattr(environment, "replacements", {}).get(symbol)
    where = getattr(environment, "replacements_slocs", {}).get(symbol) if fixed is not None else None
    if where is None and not sources:
        where = getattr(getattr(environment, "var_to_range_sloc", {}).get(symbol), "lower", None)
    location = getattr(where, "maybe_user_loc", None)
    return SymbolFacts(
        symbol=str(symbol),
        expressions=tuple(dict.fromkeys(str(source.name) for source in sources)),
        low=_bound(bounds.lower),
        high=_bound(bounds.upper),
        value=int(value) if value is not None and _is_whole(value) else None,
        fixed="" if fixed is None or fixed == symbol else str(fixed),
        frames=located(f"  # {location}", files) if location else (),
    )


def _bound(bound: Any) -> int | None:
    return int(bound) if _is_whole(bound) and abs(int(bound)) < _ENDLESS else None


def _is_whole(value: Any) -> bool:
    return bool(getattr(value, "is_integer", False)) and "oo" not in str(value)


BreakFacts = tuple[str, tuple[Frame, ...]]
"""A graph break: torch's words for it (empty when only the place is known), and the stack down to it."""


def running_compile() -> tuple[CodeType | None, list[GuardFacts], list[BreakFacts]] | None:
    """Code, guards and breaks of the compile on this stack; None when a graph was handed over by hand."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not isinstance(frame.f_locals.get("self"), OutputGraph):
        frame = frame.f_back
    if frame is None:
        return None
    output_graph: Any = frame.f_locals["self"]
    code = getattr(getattr(output_graph, "root_tx", None), "f_code", None)
    guards = [  # without code of their checks: torch writes it after the backend returns
        GuardFacts(guard.create_fn_name(), guard.name, tuple(guard.code_list or ()), frames_of(guard.user_stack))
        for guard in sorted(output_graph.guards)
    ]
    breaks: list[BreakFacts] = []
    if code is not None and (match := _RESUMED.match(code.co_name)) is not None:
        # The break that this code resumes after: Dynamo writes its line into the function's name.
        breaks.append(("", ((code.co_filename, int(match["line"]), match["function"]),)))
    reason = getattr(output_graph, "compile_subgraph_reason", None)
    if reason is not None and reason.graph_break:
        breaks.append((str(reason.reason), frames_of(reason.user_stack)))
    return code, guards, breaks
