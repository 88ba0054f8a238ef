"""The other process of an isolated adapter: it builds the adapter, and compiles and runs the graphs that it is sent.

A graph goes through ``torch.compile`` once more, so that a backend is called exactly as torch calls it. The running op
is reported, so that a crash names it: ``torch.fx.Interpreter`` is patched, which covers adapters that run op by op.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters import device_log
from inductor_debug_jupyter.pipeline.adapters.adapter import AcceleratorAdapter
from inductor_debug_jupyter.pipeline.adapters.graph_json import read_graph
from inductor_debug_jupyter.pipeline.adapters.lookup import arguments, find_adapter
from inductor_debug_jupyter.pipeline.errors import AdapterError, UsageError
from inductor_debug_jupyter.pipeline.isolation import running
from inductor_debug_jupyter.pipeline.isolation.values import Packer
from inductor_debug_jupyter.pipeline.torch_compat.graphs import target_name


class _CompiledOnlyError(Exception):
    """Raised instead of a graph's first run, to stop after compiling."""


class GraphServer:
    """The methods that a :class:`Connection` calls in the other process."""

    def __init__(self) -> None:
        self._adapter: AcceleratorAdapter | None = None
        self._graphs: dict[str, _ServedGraph] = {}
        self._calls: dict[int, tuple[list[torch.Tensor], list[torch.Tensor]]] = {}
        self._count = 0
        self._events: list[device_log.Event] = []
        self._listening = ExitStack()  # for the life of this process
        self._listening.enter_context(device_log.listening(self._keep))
        report_ops()

    def open(self, written: dict[str, Any], setup: Sequence[str]) -> dict[str, Any]:
        """Import and build the adapter; returns its capabilities."""
        for module in written["imports"]:
            try:
                importlib.import_module(module)
            except ImportError as error:
                raise UsageError(f"{module} cannot be imported in a fresh interpreter: {error}") from error
        if setup:
            exec("\n".join(setup), {"torch": torch})  # noqa: S102 - the caller's own settings of Inductor
        args, kwargs = arguments(written)
        self._adapter = find_adapter(written["name"], *args, **kwargs)
        declared = {name: getattr(self._adapter, name) for name in ("compute_dtype", "sum_dtype")}
        return {**vars(self._adapter.capabilities()), **declared}

    def load(self, key: str, written: Mapping[str, Any]) -> None:
        """Read a graph."""
        assert self._adapter is not None
        self._graphs[key] = _ServedGraph(read_graph(written), self._adapter)

    def compile(self, key: str, inputs: Sequence[Any], state: Mapping[str, Any]) -> dict[str, Any]:
        """Compile a graph for these inputs, without running it."""
        self._events.clear()
        with _state(state):
            return self._graphs[key].compile(inputs) | {"events": self._taken_events()}

    def run(self, key: str, inputs: Sequence[Any], state: Mapping[str, Any]) -> dict[str, Any]:
        """Run a graph; returns its outputs, the inputs that it wrote to, and the random state."""
        self._events.clear()
        before = [_bytes(each).clone() if isinstance(each, torch.Tensor) else each for each in inputs]
        with _state(state):
            result = self._graphs[key].run(inputs)
        leaves = _Leaves(inputs)
        structure = leaves.packer.pack(result)
        call = -1
        if state["grad"] and any(leaf.requires_grad for leaf in leaves.fresh):
            self._count += 1
            call = self._count
            self._calls[call] = (leaves.fresh, [each for each in inputs if isinstance(each, torch.Tensor)])
        return {
            "structure": structure,
            "leaves": leaves.described,
            "tensors": [leaf.detach() for leaf in leaves.fresh],
            "grad": [leaf.requires_grad for leaf in leaves.fresh],
            "call": call,
            "written": {
                index: each.detach()
                for index, each in enumerate(inputs)
                if isinstance(each, torch.Tensor) and not torch.equal(before[index], _bytes(each))
            },
            "rng": torch.get_rng_state(),
            "events": self._taken_events(),
        }

    def backward(self, call: int, tangents: Sequence[torch.Tensor | None]) -> dict[str, Any]:
        """The gradients of a call's inputs (tensors only), from those of its outputs."""
        outputs, inputs = self._calls.pop(call)
        wanted = [each for each in inputs if each.requires_grad]
        pairs = [
            (out, tangent)
            for out, tangent in zip(outputs, tangents, strict=True)
            if tangent is not None and out.requires_grad
        ]
        found = iter(
            torch.autograd.grad([out for out, _ in pairs], wanted, [tangent for _, tangent in pairs], allow_unused=True)
        )
        gradients = [next(found) if each.requires_grad else None for each in inputs]
        return {"gradients": gradients, "events": self._taken_events()}

    def _keep(self, event: device_log.Event) -> None:
        """Keep an event of the adapter for the next answer, up to a limit."""
        if len(self._events) < device_log.MOST_EVENTS:
            self._events.append(event)

    def _taken_events(self) -> list[dict[str, Any]]:
        """The adapter's events since the last call, which are then dropped here."""
        events = [{"kind": type(event).__name__, **device_log.jsonable(asdict(event))} for event in self._events]
        self._events.clear()
        return events

    def forget(self, calls: Sequence[int]) -> None:
        """Drop the values of calls whose backward will not come."""
        for call in calls:
            self._calls.pop(call, None)


class _ServedGraph:
    """One graph with the function that the adapter compiled from it."""

    def __init__(self, gm: torch.fx.GraphModule, adapter: AcceleratorAdapter) -> None:
        self._adapter = adapter
        self._only_compile = False
        self._specs: list[Any] = []
        self._was_compiled = False
        torch.compiler.reset()  # every graph has torch's full number of recompiles
        self._function = torch.compile(gm.forward, backend=self._backend, fullgraph=True)

    def compile(self, inputs: Sequence[Any]) -> dict[str, Any]:
        self._only_compile = True
        try:
            self._function(*inputs)
        except _CompiledOnlyError:
            pass
        finally:
            self._only_compile = False
        return {"kernel_specs": self._specs}

    def run(self, inputs: Sequence[Any]) -> Any:
        result = self._function(*inputs)
        if not self._was_compiled:
            raise AdapterError("torch found nothing to compile in this graph, so the backend was not asked")
        return result

    def _backend(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        self._was_compiled = True
        made = self._adapter.compiled(gm, inputs)
        if made.run is None:
            raise AdapterError(made.reason or "it does not say why")
        self._specs = [device_log.jsonable(spec) for spec in made.kernel_specs]
        run = made.run

        def call(*args: Any) -> Any:
            if self._only_compile:
                raise _CompiledOnlyError
            return run(*args)

        disable: Callable[..., Callable[..., Any]] = torch.compiler.disable
        return disable(call)


class _Leaves:
    """A graph's output tensors, each described as new, as an input, or as a view of an input."""

    def __init__(self, inputs: Sequence[Any]) -> None:
        self._inputs = {
            each.untyped_storage().data_ptr(): (index, each)
            for index, each in reversed(list(enumerate(inputs)))
            if isinstance(each, torch.Tensor) and each.numel()
        }
        self._exact = {id(each): index for index, each in enumerate(inputs) if isinstance(each, torch.Tensor)}
        self.fresh: list[torch.Tensor] = []
        self.described: list[dict[str, Any]] = []
        self.packer = Packer("an output", special=self._take)

    def _take(self, value: Any) -> dict[str, Any] | None:
        if not isinstance(value, torch.Tensor):
            return None
        self.described.append(self._describe(value))
        return {"leaf": len(self.described) - 1}

    def _describe(self, value: torch.Tensor) -> dict[str, Any]:
        if id(value) in self._exact:
            return {"input": self._exact[id(value)]}
        index, base = self._inputs.get(value.untyped_storage().data_ptr() if value.numel() else 0, (-1, value))
        if index < 0 or base.dtype != value.dtype:
            self.fresh.append(value)
            return {"fresh": len(self.fresh) - 1}
        return {
            "view_of": index,
            "shape": list(value.shape),
            "stride": list(value.stride()),
            "offset": value.storage_offset() - base.storage_offset(),
        }


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)


def _state(state: Mapping[str, Any]) -> ExitStack:
    """Set the caller's modes and random state; grad mode, inference mode and autocast end with the stack."""
    torch.set_default_dtype(state["default_dtype"])
    torch.use_deterministic_algorithms(state["deterministic"])
    torch.set_float32_matmul_precision(state["matmul_precision"])
    torch.set_num_threads(state["threads"])
    torch.set_rng_state(state["rng"])
    stack = ExitStack()
    stack.enter_context(torch.inference_mode(state["inference"]))
    stack.enter_context(torch.set_grad_enabled(state["grad"]))
    if state["autocast"] is not None:
        stack.enter_context(torch.autocast("cpu", dtype=state["autocast"]))
    return stack


def report_ops() -> None:
    """Patch ``torch.fx.Interpreter`` so that it reports the node that it runs; a crash can then name the op."""
    original = torch.fx.Interpreter.run_node

    def run_node(self: torch.fx.Interpreter, n: torch.fx.Node) -> Any:
        if not n.op.startswith("call_"):
            return original(self, n)
        with running(f"{target_name(n)} (node {n.name})"):
            return original(self, n)

    torch.fx.Interpreter.run_node = run_node  # type: ignore[method-assign]  # this process is ours
