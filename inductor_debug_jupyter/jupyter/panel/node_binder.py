"""The button "To namespace": the chosen node's inputs, its output and a callable of it become the user's variables."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from IPython.core.getipython import get_ipython

from inductor_debug_jupyter.jupyter.panel import wire
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.nodes.handle import described

_KERNEL = "inductor"
_PREFIX = "kernel_"


class NodeBinder:
    """Binds nodes of one session to variables of ``namespace``, the notebook's own by default."""

    def __init__(self, session: Any, namespace: MutableMapping[str, Any] | None = None) -> None:
        self._session = session
        self._namespace = namespace

    @property
    def compiled(self) -> list[str]:
        """The ids of compiles with kernels, whose nodes can be bound as kernels too."""
        return [capture.compile_id for capture in self._session.record.captures if capture.kernels]

    def bind(self, request: wire.BindNode) -> dict[str, Any]:
        """Bind a node; what the page shows of it.

        Raises:
            InductorDebugError: there is no such node, it cannot be run, or there are no variables to bind.
        """
        namespace = getattr(get_ipython(), "user_ns", None) if self._namespace is None else self._namespace
        if namespace is None:
            raise UsageError(f"no IPython here, so no variables to bind; session.node({request.node!r}) has the same")
        handle = self._session.node(
            request.node, request.stage, request.compile_id, candidate=_KERNEL if request.kernel else None
        )
        bound = handle.into(namespace, prefix=_PREFIX if request.kernel else "")
        rows = [[plain(name), plain(_words(namespace[name]))] for name in bound.names.values()]
        notes = [f"{bound.instead_of} is yours and stays as it is: another name was chosen" if bound.instead_of else ""]
        notes += [handle.values.hidden, handle.note]
        return {"rows": rows, "notes": [plain(note) for note in notes if note], "code": "\n".join(bound.lines)}


def _words(value: Any) -> str:
    if isinstance(value, dict):
        return f"dict of {', '.join(value)}"
    return described(value)
