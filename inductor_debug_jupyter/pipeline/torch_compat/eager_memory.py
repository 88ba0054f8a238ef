"""Which storages are alive while a Dynamo graph, and the backward of it, runs eagerly.

The graph is run on fake tensors, with torch's own autograd, under a dispatch mode that holds a weak reference to every
storage. So nothing has to be known of what eager does in place, of formulas of gradients, or of what autograd saves:
eager does it, without data. The run has a thread of its own, which takes along whatever the graph changes of torch's
state (gradient mode, autocast). Symbolic sizes are the numbers that they were at capture.
"""

from __future__ import annotations

import functools
import threading
from bisect import bisect_right
from collections.abc import Callable, Collection
from contextlib import ExitStack
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

from inductor_debug_jupyter.pipeline.records import EagerRun, EagerStorage
from inductor_debug_jupyter.pipeline.torch_compat import graphs
from inductor_debug_jupyter.pipeline.torch_compat.graphs import example_value, node_value


def note_gradients(results: Any, note: Callable[[int], Any]) -> None:
    """Call ``note`` with the position of each of a graph's results into which a gradient comes, when it does."""
    for position, result in enumerate(results if isinstance(results, (list, tuple)) else ()):
        made_by = result.grad_fn if isinstance(result, torch.Tensor) else None
        if made_by is not None:
            made_by.register_prehook(functools.partial(_noted, note, position, result.output_nr))


def _noted(note: Callable[[int], Any], position: int, number: int, gradients: tuple[Any, ...]) -> None:
    if gradients[number] is not None:
        note(position)


_LAST_SEQUENCE = 1 << 62
"""Autograd gives the nodes that add up the gradient of a parameter the largest number there is."""


class EagerProgram:
    """A Dynamo graph and the state in which it is called, copied at once because torch goes on to change the graph."""

    def __init__(self, graph_module: torch.fx.GraphModule) -> None:
        graph = torch.fx.Graph()
        copies: dict[torch.fx.Node, torch.fx.Node] = {}
        result = graph.graph_copy(graph_module.graph, copies)
        graph.output(result)
        self._names = {copy: node.name for node, copy in copies.items()}
        self._module = torch.fx.GraphModule(graph_module, graph)
        self._gradients = torch.is_grad_enabled() and not torch.is_inference_mode_enabled()
        self._autocast = [
            (kind, torch.get_autocast_dtype(kind), torch.is_autocast_cache_enabled())
            for kind in sorted(
                {tensor.device.type for node in copies for tensor in graphs.tensors_of(node_value(node))}
            )
            if torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
        ]

    def run(self, used: Collection[int] = ()) -> EagerRun:
        """Run the program: the storages alive after each op, or ``EagerRun.failed`` with the reason.

        The backward begins at the results in ``used``; if there are none, at the loss, and where the graph returns no
        single number, at all that it returns. Results that the backward does not need are freed before it.
        """
        done: list[EagerRun] = []

        def run() -> None:
            try:
                done.append(self._run(used))
            except Exception as error:  # a size that depends on values, an op that has no fake kernel
                done.append(EagerRun(failed=f"{type(error).__name__}: {error}".partition("\n")[0]))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        thread.join()
        return done[0] if done else EagerRun(failed="interrupted")

    def _run(self, used: Collection[int]) -> EagerRun:
        with ExitStack() as state:
            state.enter_context(torch.random.fork_rng(devices=()))
            state.enter_context(torch.autograd.set_multithreading_enabled(False))
            state.enter_context(torch.set_grad_enabled(self._gradients))
            for kind, dtype, cached in self._autocast:
                state.enter_context(torch.autocast(kind, dtype, cache_enabled=cached))
            mode = state.enter_context(FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv()))
            program = _Program(self._module, self._names, mode)
            inputs = [program.given(node) for node in self._module.graph.find_nodes(op="placeholder")]
            with program.storages:
                loss = program.loss(inputs, used)
                forward = len(program.storages.steps)
                if loss is not None:
                    torch.autograd.backward(loss)
        return program.storages.record(forward)


class _Program(torch.fx.Interpreter):
    """Runs the graph; each op is a step of the node that calls it, or whose gradient it computes."""

    def __init__(self, module: torch.fx.GraphModule, names: dict[torch.fx.Node, str], mode: FakeTensorMode) -> None:
        super().__init__(module)
        self.storages = _Storages()
        self._names = names
        self._mode = mode
        self._attributes: dict[str, Any] = {}

    def given(self, node: torch.fx.Node) -> Any:
        """What stands for an input of the graph."""
        value = node_value(node)
        if not isinstance(value, torch.Tensor):
            return example_value(value)
        shape, stride = ([example_value(size) for size in sizes] for sizes in (value.shape, value.stride()))
        made = torch.empty_strided(shape, stride, dtype=value.dtype, device=value.device)
        identity, size = graphs.storage_of(value)
        self.storages.hold(made, self._names[node], size, identity)
        return made.requires_grad_(value.requires_grad)

    def get_attr(self, target: Any, args: Any, kwargs: Any) -> Any:
        """A constant belongs to the caller, as inputs do."""
        value = super().get_attr(target, args, kwargs)
        if isinstance(value, torch.Tensor) and target not in self._attributes:
            self._attributes[target] = self._mode.from_tensor(value)
            self.storages.hold(self._attributes[target], self.storages.node)
        return self._attributes.get(target, value)

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run a node, and remember which sequence numbers autograd gives to what it calls."""
        self.storages.node = self._names.get(n, n.name)
        self.storages.sequence.append((torch.autograd._get_sequence_nr(), self.storages.node))  # type: ignore[attr-defined]
        made = super().run_node(n)
        return made if n.users or n.op == "output" else None  # the interpreter would hold what nobody reads

    def loss(self, inputs: list[Any], used: Collection[int]) -> torch.Tensor | None:
        """Run the graph; a number that holds what autograd saved of it, or None when there is no backward."""
        result = self.run(*inputs)
        self.env.clear()
        if not torch.is_grad_enabled():
            return None
        trained = {
            position: each
            for position, each in enumerate(result if isinstance(result, (list, tuple)) else [result])
            if isinstance(each, torch.Tensor) and each.requires_grad
        }
        begins = [trained[position] for position in trained if position in used]
        begins = begins or [each for each in trained.values() if not each.dim()] or [*trained.values()]
        apply: Any = _Tangents.apply  # annotated in some torches, and not in others
        made: torch.Tensor | None = apply(*begins) if begins else None
        return made


class _Tangents(torch.autograd.Function):
    """A number whose backward makes the incoming gradients, so that nobody but autograd holds them."""

    @staticmethod
    def forward(ctx: Any, *results: torch.Tensor) -> torch.Tensor:
        ctx.like = [(each.shape, each.dtype, each.device) for each in results]
        return torch.empty(())

    @staticmethod
    def backward(ctx: Any, *_: Any) -> Any:
        return tuple(torch.empty(shape, dtype=dtype, device=device) for shape, dtype, device in ctx.like)


class _Storages(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Notes after each op which storages are there."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.node = ""
        """The node that runs."""
        self.sequence: list[tuple[int, str]] = []
        """The sequence number at which each node began."""
        self.steps: list[tuple[str, str]] = [("", "")]
        self._held: dict[int, EagerStorage] = {}
        self._inputs: set[int] = set()
        self._alive: dict[int, tuple[StorageWeakRef, EagerStorage]] = {}
        self._gone: list[EagerStorage] = []

    def hold(self, tensor: torch.Tensor, node: str, size: int | None = None, identity: int = -1) -> None:
        """Count a tensor of the caller; tensors of one ``identity`` share a storage."""
        storage = tensor.untyped_storage()
        self._inputs.add(storage._cdata)
        size = storage.nbytes() if size is None else size
        key = storage._cdata if identity == -1 else -identity - 1
        self._held.setdefault(key, EagerStorage(node, size, 0, 0, _text(tensor)))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not getattr(func, "is_view", False) and getattr(func, "namespace", "") != "prim":
            self._step(str(func), result)
        return result

    def _step(self, op: str, result: Any) -> None:
        node = self._running()
        gone = [key for key, (storage, _) in self._alive.items() if storage.expired()]  # type: ignore[no-untyped-call]
        for key in gone:
            self._end(self._alive.pop(key)[1], len(self.steps) - 1)
        for tensor in graphs.tensors_of(result):
            self._see(tensor, node)
        self.steps.append((node, op))

    def _see(self, tensor: torch.Tensor, node: str) -> None:
        if tensor.layout is not torch.strided:
            raise NotImplementedError(f"the memory of a {tensor.layout} tensor is not known")
        storage = tensor.untyped_storage()
        if storage._cdata not in self._inputs and storage._cdata not in self._alive:
            reference = StorageWeakRef(storage)  # type: ignore[no-untyped-call]
            made = EagerStorage(node, _most(storage.nbytes()), len(self.steps), 0, _text(tensor))
            self._alive[storage._cdata] = (reference, made)

    def _end(self, storage: EagerStorage, last: int) -> None:
        self._gone.append(EagerStorage(storage.node, storage.bytes, storage.first, last, storage.spec))

    def _running(self) -> str:
        """The node whose op runs now: in a backward, that of the forward op."""
        autograd: Any = torch._C._current_autograd_node()
        if autograd is None:
            return self.node
        number = autograd._sequence_nr()
        if number > _LAST_SEQUENCE:
            return self.steps[-1][0]
        return self.sequence[bisect_right(self.sequence, number, key=lambda each: each[0]) - 1][1]

    def record(self, forward: int) -> EagerRun:
        """All that was seen; the first ``forward`` steps are the forward's."""
        end = len(self.steps)
        for storage in (*self._held.values(), *(storage for _, storage in self._alive.values())):
            self._end(storage, end)
        return EagerRun(tuple(self.steps), tuple(self._gone), forward)


def _most(size: Any) -> int:
    """A size in bytes; one that depends on values as the most that it can be, or a ValueError when it has no bound."""
    if isinstance(size, int):
        return size
    most = size.node.shape_env.bound_sympy(size.node.expr).upper
    if not most.is_Integer:
        raise ValueError(f"a size of {size} bytes has no upper bound")
    return int(most)


def _text(tensor: torch.Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')}[{', '.join(map(str, tensor.shape))}]"
