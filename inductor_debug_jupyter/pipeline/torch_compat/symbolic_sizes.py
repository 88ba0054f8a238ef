"""Which sizes and numbers are symbolic, and in which range: read from the ``ShapeEnv`` of a finished trace.

A symbol stands for a size, a stride or a number of one input (``L['x'].size()[0]``), or for something that only the
data decides (``u0``: the result of ``.item()`` or ``nonzero``). Torch narrows its range, or replaces it by a fixed
number, because of a line of the user's, which torch keeps as text with a shortened path; the relations themselves are
guards (kind ``SHAPE_ENV``).
"""

from __future__ import annotations

from dataclasses import dataclass
from types import CodeType
from typing import Any

from inductor_debug_jupyter.pipeline.torch_compat.guards import Frame, located

_ENDLESS = 2**60


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
