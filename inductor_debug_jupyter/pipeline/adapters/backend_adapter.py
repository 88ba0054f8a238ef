"""Any ``torch.compile`` backend as an adapter, without code.

A backend does not say what its device can do, so graphs are not checked against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters.adapter import AcceleratorAdapter
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.torch_compat.regions import registered_backend

DYNAMO = "dynamo"
"""Our name for torch's backend "eager", which traces a graph and runs it without lowering."""


class BackendAdapter(AcceleratorAdapter):
    """A registered backend by its name, or a backend function.

    Args:
        backend: the name that ``torch.compile(backend=…)`` takes, or a function like one.

    Raises:
        OptionError: there is no such backend.
    """

    def __init__(self, backend: str | Callable[..., Any]) -> None:
        if isinstance(backend, str):
            known = backend_names()
            if backend not in known:
                raise OptionError(f"backend={backend!r}; allowed: {', '.join(known)}")
        elif not callable(backend):
            raise OptionError(f"backend={backend!r}; allowed: the name of a torch.compile backend or a function")
        self.backend = backend
        self.name = backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)
        self.description = f"the torch.compile backend {self.name}; what its device can do is unknown"

    def get_supported_dtypes(self) -> None:
        """Unknown."""
        return

    def get_supported_ops(self) -> None:
        """Unknown."""
        return

    def get_memory_limit(self) -> None:
        """Unknown."""
        return

    def check(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> tuple[()]:
        """No violations: the capabilities are unknown, so nothing can be checked."""
        return ()

    def compile(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """The function that the backend returns for the graph."""
        backend = self.backend
        if isinstance(backend, str):
            backend = registered_backend("eager" if backend == DYNAMO else backend)
        run: Callable[..., Any] = backend(gm, list(inputs))
        return run


def backend_names() -> list[str]:
    """Every backend that ``torch.compile`` knows by name, with "eager" under our name."""
    names = torch.compiler.list_backends(exclude_tags=())
    return [DYNAMO, *(name for name in names if name != "eager")]


def offered_backends() -> list[str]:
    """The backends to suggest: not those that torch has for its own tests and debugging, but for ``aot_eager``."""
    return [DYNAMO, "aot_eager", *(name for name in torch.compiler.list_backends() if name != "eager")]
