"""An adapter, or any ``torch.compile`` backend, in a process of its own.

Dynamo captures in this process, where the user's classes are; each captured graph is compiled and run in the other one.
The adapter is built there by its name, so its code need not be imported here, and an import that crashes is survived,
too. Each call of a graph sends the inputs and receives the outputs. Writes of the graph to its inputs are repeated
here, an output that is a view of an input becomes a view again, and the random state is copied back. For gradients, the
other process keeps a call's outputs until the backward.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters import device_log
from inductor_debug_jupyter.pipeline.adapters.adapter import (
    AcceleratorAdapter,
    AcceleratorCapabilities,
    CompilationResult,
)
from inductor_debug_jupyter.pipeline.adapters.graph_json import write_graph
from inductor_debug_jupyter.pipeline.adapters.lookup import reference
from inductor_debug_jupyter.pipeline.errors import AdapterError, BackendCrashError, OptionError, UsageError
from inductor_debug_jupyter.pipeline.isolation import DEFAULT_SECONDS, Answer, Limits, Worker
from inductor_debug_jupyter.pipeline.isolation.values import Unpacker
from inductor_debug_jupyter.pipeline.records import CrashRecord, KernelSpec, Transfer, Violation
from inductor_debug_jupyter.pipeline.torch_compat.state import changed_inductor_settings, current_compile_id

SERVER = "inductor_debug_jupyter.pipeline.adapters.graph_server:GraphServer"
_numbers = itertools.count()


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
            self.sum_dtype = self._local.sum_dtype
        self.name = adapter if isinstance(adapter, str) else adapter.capabilities().name
        limits = Limits(DEFAULT_SECONDS if timeout is None else timeout, memory)
        self._connection = Connection(Worker(SERVER, limits, name=self.name), written)
        self.crashes: list[CrashRecord] = self._connection.crashes

    def capabilities(self) -> AcceleratorCapabilities:
        """The adapter's capabilities; from the other process when only its name is known here."""
        if self._local is not None:
            return self._local.capabilities()
        if not self._connection.capabilities:
            self._connection.open()
        declared = dict(self._connection.capabilities)
        self.compute_dtype, self.sum_dtype = declared.pop("compute_dtype"), declared.pop("sum_dtype")
        del declared["alignment_dims"]  # by name, an adapter is checked on all feature dimensions
        return AcceleratorCapabilities(**declared | ({} if ":" in self.name else {"name": self.name}))

    def get_supported_dtypes(self) -> set[torch.dtype] | None:
        """The field of :meth:`capabilities`, which the adapter's process declares."""
        dtypes = self.capabilities().dtypes
        return None if dtypes is None else set(dtypes)

    def get_supported_ops(self) -> set[str] | None:
        """The field of :meth:`capabilities`, which the adapter's process declares."""
        ops = self.capabilities().ops
        return None if ops is None else set(ops)

    def get_memory_limit(self) -> int | None:
        """The field of :meth:`capabilities`, which the adapter's process declares."""
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
        kinds = {type(value) for value in inputs if isinstance(value, torch.Tensor)}
        symbolic = any(isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) for value in inputs)
        if kinds <= {torch.Tensor, torch.nn.Parameter} and not symbolic:
            specs = graph.ask("compile", inputs)["kernel_specs"]
        disable: Callable[..., Any] = torch.compiler.disable
        return CompilationResult(True, disable(lambda *args: graph(*args)), kernel_specs=tuple(specs))

    def close(self) -> None:
        """End the process; the next graph starts another."""
        self._connection.worker.close()


class Connection:
    """The connection to one adapter's process; the adapter is built again after a crash."""

    def __init__(self, worker: Worker, written: Mapping[str, Any]) -> None:
        self.worker = worker
        self._written = written
        self._opened = -1
        self.capabilities: dict[str, Any] = {}
        self.crashes: list[CrashRecord] = []
        self.unwanted: list[int] = []

    def open(self) -> None:
        """Build the adapter in the other process, unless that process has it.

        Raises:
            UsageError: it cannot be built there.
            BackendCrashError: importing or building it ended the process.
        """
        if self._opened == self.worker.generation and self.worker.pid is not None:
            return
        self.unwanted.clear()
        self.capabilities = self.call("open", dict(self._written), changed_inductor_settings(), phase="import")
        self._opened = self.worker.generation  # it grows by one after each crash

    def ask(self, method: str, *values: Any, graph: str = "") -> Any:
        """Call a method of :class:`GraphServer` in the other process.

        Raises:
            AdapterError: the adapter raised.
            BackendCrashError: the adapter ended its process.
        """
        if self.unwanted:
            forgotten = list(self.unwanted)
            self.unwanted.clear()
            self.call("forget", forgotten, phase="run")
        answer = self.call(method, *values, phase=method, graph=graph)
        for event in answer.pop("events"):
            device_log.tell(_event(event))
        return answer

    def call(self, method: str, *values: Any, phase: str, graph: str = "") -> Any:
        """Call a method of :class:`GraphServer`, without what :meth:`ask` does beside it.

        Raises:
            UsageError: in the phases ``import`` and ``load``, what the other process lacks.
        """
        answer = self.worker.ask(method, *values, phase=phase, graph=graph)
        if isinstance(answer, CrashRecord):
            if phase != "backward":
                self.crashes.append(answer)
            raise BackendCrashError(str(answer), answer)
        if answer.error:
            raise _error(answer, self.worker.name, phase)
        return answer.value


def _error(answer: Answer, name: str, phase: str) -> Exception:
    first = answer.message.splitlines()[0] if answer.message else ""
    if phase in {"import", "load"}:
        return UsageError(f"{name} cannot be used in another process: {first or answer.error}")
    reason = first if answer.error == "AdapterError" else f"{answer.error}: {first}" if first else answer.error
    if phase == "compile":  # the caller's message begins with "did not compile"
        return AdapterError(f"at {answer.op}: {reason}" if answer.op else reason)
    what = "raised in the backward" if phase == "backward" else "raised while it ran"
    at = f" at {answer.op}" if answer.op else ""
    return AdapterError(f"{name} {what}{at}: {reason}")


def _event(written: dict[str, Any]) -> device_log.Event:
    """A transfer or kernel that the adapter reported in the other process, with this process's compile id."""
    kind = written.pop("kind")
    compile_id = current_compile_id() or written["compile_id"]
    if kind == KernelSpec.__name__:
        return KernelSpec(**written | {"compile_id": compile_id})
    sizes = {name: tuple(written[name]) for name in ("shape", "device_layout")}
    return Transfer(**written | sizes | {"compile_id": compile_id})


class RemoteGraph:
    """A graph and the connection to where it runs; raises ``CannotSendError`` for a graph that cannot be sent."""

    def __init__(self, gm: torch.fx.GraphModule, connection: Connection) -> None:
        self.connection = connection
        self._written = write_graph(gm)
        self._key = f"graph_{next(_numbers)}"
        self._loaded = -1
        ops = [node for node in gm.graph.nodes if node.op.startswith("call_")]
        self.name = f"a graph of {len(ops)} ops" if len(ops) != 1 else f"a graph of one op ({ops[0].name})"

    def __call__(self, *inputs: Any) -> Any:
        """Run the graph in the adapter's process."""
        wants_gradient = torch.is_grad_enabled() and any(
            isinstance(each, torch.Tensor) and each.requires_grad for each in inputs
        )
        call = _RemoteCall(self, inputs)
        apply: Callable[..., Any] = _Remote.apply
        return call.result(apply(call, *inputs) if wants_gradient else call.run())

    def ask(self, method: str, inputs: Sequence[Any]) -> dict[str, Any]:
        """``compile`` or ``run`` it in the other process, which is sent the graph where it does not have it."""
        self.connection.open()
        if self._loaded != self.connection.worker.generation:
            self.connection.call("load", self._key, dict(self._written), phase="load", graph=self.name)
            self._loaded = self.connection.worker.generation
        answer: dict[str, Any] = self.connection.ask(method, self._key, list(inputs), _state(), graph=self.name)
        return answer


class _RemoteCall:
    """One run: the inputs that were sent and the answer that came back."""

    def __init__(self, graph: RemoteGraph, inputs: Sequence[Any]) -> None:
        self._graph = graph
        self._inputs = inputs
        self.answer: dict[str, Any] = {}
        self._generation = -1
        self._number = -1

    def run(self) -> tuple[torch.Tensor, ...]:
        """The outputs that are not views of an input."""
        self.answer = self._graph.ask("run", self._inputs)
        self._generation = self._graph.connection.worker.generation
        self._number = self.answer["call"]
        for index, value in self.answer["written"].items():
            target = self._inputs[index]
            if target.requires_grad and torch.is_grad_enabled():
                raise AdapterError(f"{self._graph.name} writes into an input that requires a gradient; run it here")
            with torch.no_grad():
                target.copy_(value)
        torch.set_rng_state(self.answer["rng"])
        return tuple(self.answer["tensors"])

    def backward(self, tangents: Sequence[torch.Tensor | None]) -> list[Any]:
        """The gradients of all inputs."""
        name, connection = self._graph.name, self._graph.connection
        number, self._number = self._number, -1
        if number < 0:
            raise AdapterError(f"the backward of {name} ran already: its values are kept for one")
        if self._generation != connection.worker.generation:
            raise AdapterError(f"the process that ran the forward of {name} has ended: run it again")
        found = iter(connection.ask("backward", number, list(tangents), graph=name)["gradients"])
        return [next(found) if isinstance(each, torch.Tensor) else None for each in self._inputs]

    def result(self, fresh: Sequence[torch.Tensor]) -> Any:
        """The graph's outputs in their structure, views of inputs as views."""
        leaves = [self._leaf(described, fresh) for described in self.answer["leaves"]]
        return Unpacker([], {}, special=lambda _, index: leaves[index]).unpack(self.answer["structure"])

    def _leaf(self, described: Mapping[str, Any], fresh: Sequence[torch.Tensor]) -> torch.Tensor:
        if "fresh" in described:
            return fresh[int(described["fresh"])]
        if "input" in described:
            return self._inputs[described["input"]]  # type: ignore[no-any-return]
        base: torch.Tensor = self._inputs[described["view_of"]]
        offset = int(base.storage_offset()) + int(described["offset"])
        view: torch.Tensor = torch.as_strided(base, described["shape"], described["stride"], offset)
        return view

    def __del__(self) -> None:
        # A forward without a backward: the other process can drop its values.
        if self._number >= 0 and self._generation == self._graph.connection.worker.generation:
            self._graph.connection.unwanted.append(self._number)


class _Remote(torch.autograd.Function):
    """A run as an autograd function, whose backward runs in the other process, too."""

    @staticmethod
    def forward(ctx: Any, call: _RemoteCall, *inputs: Any) -> tuple[torch.Tensor, ...]:
        ctx.call = call
        with torch.enable_grad():
            outputs = call.run()
        ctx.mark_non_differentiable(*(out for out, grad in zip(outputs, call.answer["grad"], strict=True) if not grad))
        ctx.set_materialize_grads(False)
        return outputs

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, *tangents: torch.Tensor | None) -> tuple[Any, ...]:
        return (None, *ctx.call.backward(tangents))


def _state() -> dict[str, Any]:
    """The modes and the random state of this process, which change what a graph computes."""
    return {
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "default_dtype": torch.get_default_dtype(),
        "autocast": torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None,
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "matmul_precision": torch.get_float32_matmul_precision(),
        "threads": torch.get_num_threads(),
        "rng": torch.get_rng_state(),
    }
