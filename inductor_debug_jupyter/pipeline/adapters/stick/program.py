"""One AOT graph on the device: every node is a kernel, every value a :class:`DeviceTensor`.

Inputs and constants are copied to the device, outputs are copied back; in between nothing leaves device memory. Views
are kernels, too, because a transposed tensor has other sticks.
"""

from __future__ import annotations

import logging
import operator
import os
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch

from inductor_debug_jupyter.pipeline.adapters import device_log
from inductor_debug_jupyter.pipeline.adapters.stick.kernels import (
    Arithmetic,
    KernelPlan,
    Operand,
    as_strided,
    plan_kernel,
)
from inductor_debug_jupyter.pipeline.adapters.stick.memory import (
    DeviceFormat,
    DeviceTensor,
    StickLayout,
    dtype_text,
    store,
    to_device,
)
from inductor_debug_jupyter.pipeline.devices.ops import bare_name
from inductor_debug_jupyter.pipeline.errors import RefusedError
from inductor_debug_jupyter.pipeline.records import Transfer
from inductor_debug_jupyter.pipeline.records.transfers import Direction
from inductor_debug_jupyter.pipeline.torch_compat.graphs import is_aten, node_value, target_name
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_kind, map_tensors, of_kind

_VALUES_SHOWN = 8


@dataclass(frozen=True)
class Launch:
    """One kernel that ran: its operands and its result."""

    node: torch.fx.Node
    op: str
    plan: KernelPlan
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    result: Any
    random_state: torch.Tensor
    """The state of torch's generator before it ran."""


Watch = Callable[["DeviceProgram", Launch], None]


@dataclass(frozen=True)
class Device:
    """The simulated device.

    Args:
        name: its name in logs and records.
        format: how it holds numbers.
        arithmetic: how it computes.
        cores: how many cores share the work of a kernel.
        show_values: whether transfers are reported with their first values.
        watch: called after each kernel.
    """

    name: str
    format: DeviceFormat
    arithmetic: Arithmetic
    cores: int
    show_values: bool = False
    watch: Watch | None = None


class DeviceProgram:
    """One graph, ready to run.

    Args:
        graph_module: the AOT graph.
        device: the device that runs it.
        graph: ``forward`` or ``backward``.
        compile_id: the compile that it belongs to.
    """

    def __init__(self, graph_module: torch.fx.GraphModule, device: Device, graph: str, compile_id: str) -> None:
        self.graph_module = graph_module
        self.device = device
        self.graph = graph
        self.compile_id = compile_id
        self.plans: dict[torch.fx.Node, KernelPlan] = {}
        for node in graph_module.graph.nodes:
            if node.op == "call_function" and is_aten(node.target) and (plan := self._planned(node)):
                self.plans[node] = plan

    @property
    def specs(self) -> tuple[dict[str, Any], ...]:
        """The specs of all kernels whose sizes are known before they run."""
        return tuple(plan.spec for plan in self.plans.values())

    def __call__(self, *args: Any) -> Any:
        """Run it on host tensors; host tensors come back."""
        with torch.no_grad():
            return _ProgramRun(self).run(*args)

    def launch(self, node: torch.fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one kernel: load what it reads, compute, store what it writes."""
        device, op = self.device, target_name(node)
        _crash_or_hang(device, op)
        operands = of_kind(DeviceTensor, (args, kwargs))
        whole = device.arithmetic.fault("read-padding", op) is not None
        try:
            loaded = _Registers(whole)
            values, named = map_kind(DeviceTensor, loaded, (args, kwargs))
            if bare_name(op) == "as_strided":
                computed = as_strided(values[0], args[0].offset, *values[1:], **named)
            else:
                computed = device.arithmetic.compute(node.target, op)(*values, **named)
        except RefusedError as error:
            raise RefusedError(f"{op}: {error}") from None
        except (RuntimeError, TypeError, NotImplementedError) as error:
            first = (str(error).strip() or "no message").splitlines()[0]
            raise RefusedError(f"{op} cannot run on the device: {type(error).__name__}: {first}") from error
        return self._stored(node, op, operands, loaded, computed)

    def _stored(
        self, node: torch.fx.Node, op: str, operands: list[DeviceTensor], loaded: _Registers, computed: Any
    ) -> Any:
        results = of_kind(torch.Tensor, computed)
        plan = self.plans.get(node)
        shapes = [(tuple(each.shape), each.dtype) for each in results]
        if plan is None or not _fits(plan, operands, shapes):
            planned = [layout for _, layout in plan.results] if plan else []
            if plan and plan.whole_sticks and len(planned) == len(results):
                computed = _cut(computed, planned)  # a kernel writes its own result and no more
            else:
                plan = self._plan_at_launch(node, operands, shapes)
        stores = iter(zip(plan.results, plan.extents, strict=True))

        def write(values: torch.Tensor) -> DeviceTensor:
            (_, layout), extent = next(stores)
            try:
                return store(values, layout, extent=extent, offset=loaded.offset_of(values))
            except RefusedError as error:
                raise RefusedError(f"{op}: {error}") from None

        return map_tensors(write, computed)

    def _planned(self, node: torch.fx.Node) -> KernelPlan | None:
        """The plan of a node whose sizes are known at compile time."""
        fakes = [
            (each.name, fake)
            for each in (*of_kind(torch.fx.Node, (node.args, node.kwargs)), node)
            for fake in of_kind(torch.Tensor, node_value(each))
        ]
        if not all(isinstance(size, int) for _, fake in fakes for size in fake.shape):
            return None
        laid_out = [(name, self.device.format.layout(tuple(fake.shape), fake.dtype)) for name, fake in fakes]
        made = len(of_kind(torch.Tensor, node_value(node)))
        return self._plan(node, laid_out[: len(laid_out) - made], laid_out[len(laid_out) - made :])

    def _plan(self, node: torch.fx.Node, operands: list[Operand], results: list[Operand]) -> KernelPlan:
        device = self.device
        return plan_kernel(target_name(node), node.name, self.graph, operands, results, device.arithmetic, device.cores)

    def _plan_at_launch(
        self, node: torch.fx.Node, operands: list[DeviceTensor], shapes: list[tuple[tuple[int, ...], torch.dtype]]
    ) -> KernelPlan:
        """The plan of a kernel whose sizes were not known at compile time; its spec is reported now."""
        nodes = of_kind(torch.fx.Node, (node.args, node.kwargs))
        names = [each.name for each in nodes if isinstance(node_value(each), torch.Tensor)]
        plan = self._plan(
            node,
            [(name, operand.layout) for name, operand in zip(names, operands, strict=True)],
            [(node.name, self.device.format.layout(*each)) for each in shapes],
        )
        self.plans[node] = plan
        device_log.tell(device_log.kernel_of(plan.spec, adapter=self.device.name, compile_id=self.compile_id))
        return plan


class _ProgramRun(torch.fx.Interpreter):
    """One execution; values live in device memory."""

    def __init__(self, program: DeviceProgram) -> None:
        super().__init__(program.graph_module)
        self.extra_traceback = False  # a refusal names its op
        self.program = program
        self.running: torch.fx.Node
        mode = device_log.logging_mode()
        self.log_launches = bool(mode)
        self.show_values = program.device.show_values or mode == "values"

    def run_node(self, n: torch.fx.Node) -> Any:
        """Keep the node that runs, because :meth:`call_function` does not get it."""
        self.running = n
        return super().run_node(n)

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A graph input goes to the device."""
        return self._to_device(super().placeholder(target, args, kwargs))

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A constant goes to the device."""
        return self._to_device(super().get_attr(target, args, kwargs))

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Launch a kernel; ``getitem`` and arithmetic on sizes run on the host."""
        if not is_aten(target) or target is operator.getitem:
            return super().call_function(target, args, kwargs)
        node, program = self.running, self.program
        if self.log_launches:
            device_log.log_line(f"launch: op={target_name(node)} node={node.name} ({program.device.name})")
        watch = program.device.watch
        if watch is None:
            return program.launch(node, args, kwargs)
        before = torch.get_rng_state()
        result = program.launch(node, args, kwargs)
        watch(program, Launch(node, target_name(node), program.plans[node], args, kwargs, result, before))
        return result

    def output(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The outputs go to the host; an input that is returned unchanged is the host's own tensor."""
        outputs = super().output(target, args, kwargs)
        (made,) = self.running.args
        if not isinstance(outputs, tuple | list):
            return self._from_device(outputs, made)
        return type(outputs)(map(self._from_device, outputs, cast("Sequence[Any]", made)))

    def _to_device(self, value: Any) -> Any:
        if not isinstance(value, torch.Tensor):
            return value
        device = self.program.device
        try:
            held = to_device(value, device.format)
        except RefusedError as error:
            raise RefusedError(f"{self.running.name}: {error}") from None
        self._report("copy_to_device", self.running.name, held.layout, value)
        return held

    def _from_device(self, value: Any, node: Any) -> Any:
        if not isinstance(value, DeviceTensor):
            return value
        tensor = value.to_host()
        if tensor is not value.host:
            self._report("copy_from_device", node.name, value.layout, tensor)
        return tensor

    def _report(self, direction: Direction, name: str, layout: StickLayout, values: torch.Tensor) -> None:
        program, shown = self.program, ""
        if self.show_values:
            first = values.detach().reshape(-1)[:_VALUES_SHOWN].tolist()
            more = ", …" if values.numel() > _VALUES_SHOWN else ""
            shown = f"[{', '.join(f'{each:.6g}' if isinstance(each, float) else str(each) for each in first)}{more}]"
        device_log.tell(
            Transfer(
                direction,
                name,
                layout.shape,
                dtype_text(layout.dtype),
                layout.device_size,
                device_dtype=dtype_text(layout.device_dtype),
                bytes=layout.nbytes,
                host_bytes=values.numel() * values.itemsize,
                adapter=program.device.name,
                graph=program.graph,
                compile_id=program.compile_id,
                values=shown,
            )
        )


class _Registers:
    """Loads operands into registers, and keeps the storage offset of each operand."""

    def __init__(self, whole_sticks: bool) -> None:
        self.whole_sticks = whole_sticks
        self._offsets: dict[int, int] = {}
        self._kept: list[torch.Tensor] = []

    def __call__(self, tensor: DeviceTensor) -> torch.Tensor:
        loaded = tensor.load(whole_sticks=self.whole_sticks)
        self._offsets[loaded.untyped_storage().data_ptr()] = tensor.offset
        self._kept.append(loaded)
        return loaded

    def offset_of(self, values: torch.Tensor) -> int:
        """The storage offset that a result would have on the host: that of its base plus its own."""
        return int(values.storage_offset()) + self._offsets.get(values.untyped_storage().data_ptr(), 0)


def _cut(computed: Any, planned: list[StickLayout]) -> Any:
    """Each result, cut to the shape that was planned for it."""
    cuts = (tuple(map(slice, layout.shape)) for layout in planned)
    return map_tensors(lambda values: values[next(cuts)], computed)


def _fits(plan: KernelPlan, operands: list[DeviceTensor], shapes: list[tuple[tuple[int, ...], torch.dtype]]) -> bool:
    """Whether an earlier plan was made for these sizes."""
    planned = [(layout.shape, layout.dtype) for _, layout in plan.results]
    return planned == shapes and [layout for _, layout in plan.operands] == [each.layout for each in operands]


def _crash_or_hang(device: Device, op: str) -> None:
    if crash := device.arithmetic.fault("crash", op):
        for handler in device_log.log.handlers + logging.getLogger().handlers:
            handler.flush()
        os.kill(os.getpid(), signal.Signals[crash.argument or "SIGSEGV"])
    if hang := device.arithmetic.fault("hang", op):
        end = time.monotonic() + float(hang.argument or "inf")
        while time.monotonic() < end:
            time.sleep(0.05)  # one step at a time: KeyboardInterrupt and alarms still get through
