"""Faults to be found: Inductor's own, and any op made wrong by a given factor in the generated C++."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.torch_compat import kernel_calls
from tests.proofs.inside_torch.inductor_settings import inductor_fault
from tests.proofs.inside_torch.kernel_sources import sources_rewritten

_SPELLINGS = {
    "rsqrt": r"1 / std::sqrt\(tmp\d+\)",
    "clamp_min": r"at::vec::clamp_min\(tmp\d+, decltype\(tmp\d+\)\(0\)\)",
}
"""How the generated C++ writes what is neither a method nor a function of std: in scalar code, and relu."""


@dataclass(frozen=True)
class KernelFault:
    """One way to be wrong.

    Args:
        op: the aten op that is then to blame.
        method: how the generated C++ calls it (``erf``), a constant that it multiplies by (``-0.5``), or the name of
            Inductor's own fault (``inject_…``).
        factor: its result, or the constant, is multiplied by one plus this.
        only_fused: only where the result is not written to memory.
        beside: only in kernels whose source has this text too.
        without: only in kernels whose source has not this text.
    """

    op: str
    method: str
    factor: float = 0.0
    only_fused: bool = False
    beside: str = ""
    without: str = ""

    @property
    def blamed(self) -> str:
        """The op as a graph calls it."""
        return f"aten.{self.op}" if "." in self.op else f"aten.{self.op}.default"

    @contextmanager
    def seeded(self) -> Iterator[set[str]]:
        """Kernels that are compiled in the block have the fault; the sources of the model's own that got it.

        Inductor's own faults are in no source: nothing is in that set.
        """
        changed: set[str] = set()
        if self.method.startswith("inject_"):
            with inductor_fault(self.method):
                yield changed
            return

        def rewritten(source: str) -> str:
            made = self._rewritten(source)
            # Not a part that is compiled again, to look into it.
            if made != source and getattr(kernel_calls._active, "rewrite", None) is not None:
                changed.add(source)
            return made

        with sources_rewritten(rewritten):
            yield changed

    def _rewritten(self, source: str) -> str:
        if self.beside not in source or (self.without and self.without in source):
            return source
        if re.fullmatch(r"-?[\d.]+", self.method):
            constant = "static_cast<float>({})"
            return source.replace(constant.format(self.method), constant.format(f"{self.method} * {1 + self.factor!r}"))
        other = _SPELLINGS.get(self.method, rf"std::{self.method}\(tmp\d+\)")
        call = re.compile(rf"auto (tmp\d+) = (tmp\d+\.{self.method}\(\)|{other});")

        def wrong(match: re.Match[str]) -> str:
            made, expression = match.groups()
            if self.only_fused and re.search(rf"\b{made}\.store\(|\] = {made};", _scope(source, match.end())):
                return match.group()
            return f"auto {made} = {expression} * decltype({expression})({1 + self.factor!r});"

        return call.sub(wrong, source)


def _scope(source: str, start: int) -> str:
    """The rest of the block that begins before ``start``: another block's names are others, though they look alike."""
    depth = 0
    for at in range(start, len(source)):
        depth += {"{": 1, "}": -1}.get(source[at], 0)
        if depth < 0:
            return source[start:at]
    return source[start:]
