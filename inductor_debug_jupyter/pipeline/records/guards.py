"""Guards and symbolic sizes of a compile."""

from __future__ import annotations

import re
from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.records.graph import SourceLine
from inductor_debug_jupyter.pipeline.records.in_words import InWords

TENSOR_CHECK = re.compile(
    r"^check_tensor\(.+\), (?P<dtype>[\w.]+), device=(?P<device>[^,]+), requires_grad=(?P<grad>\w+),"
    r" size=(?P<size>\[.*?\]), stride=(?P<stride>\[.*?\])\)$"
)
"""torch's check of a tensor: dtype, device, sizes and strides."""
_TYPE = re.compile(r"^___check_(?:obj|type)_id\(.+, \d+\), type=<class '(?P<type>.+)'>$")


@dataclass(frozen=True, slots=True)
class Guard(InWords):
    """One condition that torch checks before it reuses a compiled graph.

    ``kind`` is torch's own name (``TENSOR_MATCH``), ``expression`` what is looked at (``L['x']``), ``checks`` the
    code of each check, ``source`` the user's line that made torch add it.
    """

    compile_id: str
    kind: str
    expression: str
    checks: tuple[str, ...] = ()
    source: SourceLine | None = None

    @property
    def value(self) -> str:
        """The required value: ``3`` of ``L['n'] == 3``, a tensor's dtype and sizes; empty where there is none."""
        return next((value for check in self.checks if (value := checked_value(check))), "")

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        return f"{self.kind} {self.expression or 'global state'}{where}"


@dataclass(frozen=True, slots=True)
class SymbolRecord:
    """A symbolic size or number in one compile.

    ``expressions`` is what it stands for (``L['x'].size()[0]``; empty when data decides), ``low`` and ``high`` its
    range (None: unbounded), ``value`` its value when compiled. ``fixed`` is the number or symbol that torch replaced it
    by; ``source`` is then the line that caused it, else the line that made the symbol.
    """

    compile_id: str
    symbol: str
    expressions: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    value: int | None = None
    fixed: str = ""
    source: SourceLine | None = None

    @property
    def range(self) -> str:
        """``[2, ∞]``."""
        return f"[{'-∞' if self.low is None else self.low}, {'∞' if self.high is None else self.high}]"


def checked_value(check: str) -> str:
    """The value that one check requires, in torch's own words."""
    if match := TENSOR_CHECK.match(check):
        return f"{match['dtype']} size={match['size']} stride={match['stride']} requires_grad={match['grad']}"
    if match := _TYPE.match(check):
        return match["type"]
    if check.startswith("___"):
        return ""
    left, _, right = check.partition(" == ") if " == " in check else check.partition(" is ")
    return right if left and "\n" not in right else ""
