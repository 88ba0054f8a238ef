"""What must hold for a compiled graph to be used again."""

from __future__ import annotations

from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.records.graph import SourceLine


@dataclass(frozen=True, slots=True)
class Guard:
    """One condition that torch checks before it reuses a compiled graph.

    ``kind`` is torch's own name (``TENSOR_MATCH``), ``expression`` what is looked at (``L['x']``), ``checks`` the
    code of each check, ``source`` the user's line that made torch ask.
    """

    compile_id: str
    kind: str
    expression: str
    checks: tuple[str, ...] = ()
    source: SourceLine | None = None

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        return f"{self.kind} {self.expression or 'global state'}{where}"
