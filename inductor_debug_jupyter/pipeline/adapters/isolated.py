"""An adapter, or any ``torch.compile`` backend, in a process of its own.

Dynamo captures in this process, where the user's classes are; each captured graph is compiled and run in the other one.
The adapter is built there by its name, so its code need not be imported here, and an import that crashes is survived,
too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters.adapter import AcceleratorAdapter
from inductor_debug_jupyter.pipeline.adapters.capabilities import AcceleratorCapabilities, CompilationResult
from inductor_debug_jupyter.pipeline.adapters.lookup import reference
from inductor_debug_jupyter.pipeline.adapters.remote_graph import SERVER, Connection, RemoteGraph
from inductor_debug_jupyter.pipeline.errors import BackendCrashError, OptionError
from inductor_debug_jupyter.pipeline.isolation import DEFAULT_SECONDS, Limits, Worker
from inductor_debug_jupyter.pipeline.records import CrashRecord, Violation
from inductor_debug_jupyter.pipeline.torch_compat.state import changed_inductor_settings


class IsolatedAdapter(AcceleratorAdapter):
    """An adapter or backend in a process of its own.

    Args:
        adapter: an adapter, or a name: a ``torch.compile`` backend, a registered adapter, or ``module:attribute``.
        timeout: seconds for each step (import, compile, run, backward); 600 by default.
        memory: bytes that the process may have, torch included.
        imports: modules that the process imports first, such as one that defines ops.

    Raises:
        CannotSendError: another process cannot build it: it is defined in a notebook, or an argument is an object.
    """

    def __init__(
        self,
        adapter: AcceleratorAdapter | str,
        *,
        timeout: float | None = None,
        memory: int | None = None,
        imports: Sequence[str] = (),
    ) -> None:
        if isinstance(adapter, IsolatedAdapter) or not isinstance(adapter, AcceleratorAdapter | str):
            raise OptionError(f"adapter={adapter!r}; allowed: an AcceleratorAdapter or a name")
        written = reference(adapter)
        written["imports"] = [*written["imports"], *imports]
        self._local = adapter if isinstance(adapter, AcceleratorAdapter) else None
        if self._local is not None:
            self.compute_dtype, self.trains = self._local.compute_dtype, self._local.trains
        self.name = adapter if isinstance(adapter, str) else adapter.capabilities().name
        limits = Limits(DEFAULT_SECONDS if timeout is None else timeout, memory)
        self._connection = Connection(Worker(SERVER, limits, name=self.name), written, changed_inductor_settings)
        self.crashes: list[CrashRecord] = []

    def capabilities(self) -> AcceleratorCapabilities:
        """The adapter's capabilities; from the other process when only its name is known here."""
        if self._local is not None:
            return self._local.capabilities()
        if not self._connection.capabilities:
            self._keeping_crashes(self._connection.open)
        declared = dict(self._connection.capabilities)
        self.compute_dtype = declared.pop("compute_dtype")
        return AcceleratorCapabilities(**declared | ({} if ":" in self.name else {"name": self.name}))

    def get_supported_dtypes(self) -> set[torch.dtype] | None:
        """As in :meth:`capabilities`."""
        dtypes = self.capabilities().dtypes
        return None if dtypes is None else set(dtypes)

    def get_supported_ops(self) -> set[str] | None:
        """As in :meth:`capabilities`."""
        ops = self.capabilities().ops
        return None if ops is None else set(ops)

    def get_memory_limit(self) -> int | None:
        """As in :meth:`capabilities`."""
        return self.capabilities().memory_limit

    def check(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> tuple[Violation, ...]:
        """The violations of a graph; none, without lowering it, where all capabilities are unknown."""
        if self._local is not None:
            return self._local.check(gm, inputs)
        declared = self.capabilities()
        return super().check(gm, inputs) if len(declared.unknown) < 3 or declared.alignment > 1 else ()

    def compile(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> CompilationResult:
        """Compile the graph in the other process; a graph with symbolic sizes is compiled at its first call.

        Raises:
            CannotSendError: the graph cannot be sent.
            AdapterError: it did not compile; :class:`BackendCrashError` when the process ended.
        """
        graph = RemoteGraph(gm, self._connection)
        specs: Sequence[Any] = ()
        if all(_is_real(value) for value in inputs):
            specs = self._keeping_crashes(lambda: graph.ask("compile", inputs)["kernel_specs"])

        def run(*args: Any) -> Any:
            return self._keeping_crashes(lambda: graph(*args))

        disable: Callable[..., Any] = torch.compiler.disable
        return CompilationResult(True, disable(run), kernel_specs=tuple(specs))

    def _keeping_crashes(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except BackendCrashError as error:
            self.crashes.append(error.crash)
            raise

    def close(self) -> None:
        """End the process; the next graph starts another."""
        self._connection.worker.close()


def _is_real(value: Any) -> bool:
    if isinstance(value, torch.Tensor):
        return type(value) in (torch.Tensor, torch.nn.Parameter)
    return not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)
