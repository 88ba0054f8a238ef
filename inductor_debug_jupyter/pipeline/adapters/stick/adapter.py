"""The adapter ``stick128``: a simulated accelerator with sticks of 128 bytes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters.adapter import AcceleratorAdapter, CompilationResult
from inductor_debug_jupyter.pipeline.adapters.stick.faults import Fault, faults_of
from inductor_debug_jupyter.pipeline.adapters.stick.kernels import Arithmetic
from inductor_debug_jupyter.pipeline.adapters.stick.memory import ACCUMULATIONS, DeviceFormat, dtype_text
from inductor_debug_jupyter.pipeline.adapters.stick.program import Device, DeviceProgram, Watch
from inductor_debug_jupyter.pipeline.devices import Constraint, load_profile, rules_for
from inductor_debug_jupyter.pipeline.errors import OptionError, RefusedError
from inductor_debug_jupyter.pipeline.settings import resolve
from inductor_debug_jupyter.pipeline.torch_compat.graphs import (
    effects_as_ops,
    is_aten,
    node_value,
    target_name,
    writes_into_operands,
)
from inductor_debug_jupyter.pipeline.torch_compat.lowering import compile_with_aot
from inductor_debug_jupyter.pipeline.torch_compat.state import current_compile_id
from inductor_debug_jupyter.pipeline.torch_compat.trees import of_kind


class StickAdapter(AcceleratorAdapter):
    """Runs AOT graphs, forward and backward, as a device with sticks of 128 bytes would.

    Args:
        format: ``float16``, the device's own, or ``float32``, which loses nothing.
        accumulate: the dtype of running sums: ``float32`` or ``float16``.
        faults: its faults (see :mod:`~inductor_debug_jupyter.pipeline.adapters.stick.faults`); by default those of
            ``INDUCTOR_DEBUG_FAULTS``.
        cores: how many cores share the work of a kernel.
        values: whether transfers are reported with their first values.
        check: whether graphs are checked against the ``stick128`` profile before they are compiled.
        watch: called after each kernel, with the program and the launch.

    Raises:
        OptionError: a value that is not allowed.
    """

    name = "stick128"
    description = "a simulator of a device with 128-byte sticks"

    def __init__(
        self,
        format: str = "float16",  # noqa: A002 - what it is called
        *,
        accumulate: str = "float32",
        faults: Iterable[Fault | str] | str | None = None,
        cores: int = 32,
        values: bool = False,
        check: bool = True,
        watch: Watch | None = None,
    ) -> None:
        if accumulate not in ACCUMULATIONS:
            raise OptionError(f"accumulate={accumulate!r}; allowed: {', '.join(ACCUMULATIONS)}")
        if isinstance(cores, bool) or not isinstance(cores, int) or cores < 1:
            raise OptionError(f"cores={cores!r}; allowed: a whole number from 1 up")
        if faults is None:
            faults = resolve(names=["faults"])["faults"] or ()
        self.compute_dtype = torch.float16 if format == "float16" else None
        self.sum_dtype = ACCUMULATIONS[accumulate]
        self.device = Device(
            name=self.name,
            format=DeviceFormat(format),
            arithmetic=Arithmetic(accumulate, faults_of(faults)),
            cores=cores,
            show_values=values,
            watch=watch,
        )
        self._checks = check
        profile = load_profile("stick128")
        self.alignment, self.alignment_dims = profile.alignment, profile.alignment_dims

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults that are switched on."""
        return self.device.arithmetic.faults

    def get_supported_dtypes(self) -> set[torch.dtype]:
        """The dtypes that the device's memory can hold."""
        return set(self.device.format.dtypes)

    def get_supported_ops(self) -> None:
        """None: the device runs any aten op that does not write into its operands."""
        return

    def get_memory_limit(self) -> int | None:
        """The limit of the ``stick128`` profile."""
        return load_profile("stick128").memory_limit

    def rules(self) -> list[Constraint]:
        """The rules of the ``stick128`` profile; none with ``check=False``."""
        return rules_for(load_profile("stick128")) if self._checks else []

    def check(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> tuple[Any, ...]:
        """The violations of a graph; without rules it is not lowered at all, which saves time."""
        return super().check(gm, inputs) if self._checks else ()

    def compile(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> CompilationResult:
        """Lower with AOTAutograd; each graph becomes a program of the device.

        Raises:
            RefusedError: the device cannot run the graph; the message says what and why.
        """
        programs: list[DeviceProgram] = []
        compile_id = current_compile_id() or ""

        def compiler(graph: torch.fx.GraphModule, stage: str) -> Callable[..., Any]:
            effects_as_ops(graph)
            check_graph(graph, self.device.format)
            programs.append(DeviceProgram(graph, self.device, stage, compile_id))
            return programs[-1]

        run = compile_with_aot(gm, inputs, compiler)
        specs = tuple(spec for program in programs for spec in program.specs)
        return CompilationResult(True, run, kernel_specs=specs)


def check_graph(graph_module: torch.fx.GraphModule, form: DeviceFormat) -> None:
    """Check every node of an AOT graph, so that it is refused when it is compiled and not in the middle of a run.

    Raises:
        RefusedError: the device cannot run a node; the message names the first one and says why.
    """
    for node in graph_module.graph.nodes:
        if node.op == "output":
            continue
        reason = _reason(node) if node.op == "call_function" else ""
        reason = reason or _cannot_hold(node, form)
        if reason:
            what = target_name(node) if node.op == "call_function" else f"{node.op} {node.name}"
            raise RefusedError(f"{what}: {reason}")


def _reason(node: torch.fx.Node) -> str:
    """Why an op cannot be a kernel; empty when it can."""
    target: Any = node.target
    has_tensors = bool(of_kind(torch.Tensor, [node_value(each) for each in node.all_input_nodes]))
    if not is_aten(target):
        if target is operator.getitem or not has_tensors:
            return ""
        return "the device runs aten ops, and has no kernel for this one"
    if writes_into_operands(target):
        return "it writes into its operands; a kernel writes into memory of its own"
    return ""


def _cannot_hold(node: torch.fx.Node, form: DeviceFormat) -> str:
    """Why the device cannot hold a node's value, or gives other bits to a view of bits as another dtype."""
    try:
        for fake in of_kind(torch.Tensor, node_value(node)):
            form.check_holds(fake)
    except RefusedError as error:
        return str(error)
    if str(node.target) in {"aten.view.dtype", "aten.view_copy.dtype"}:
        for fake in of_kind(torch.Tensor, [node_value(each) for each in (node, *node.all_input_nodes)]):
            if (held := form.held_as(fake.dtype)) != fake.dtype:
                return f"it reads bits, and {dtype_text(fake.dtype)} is held as {dtype_text(held)}"
    return ""


def stick128(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """The backend of ``torch.compile(model, backend="stick128")``: the simulator in its own format.

    Faults come from ``INDUCTOR_DEBUG_FAULTS``. A refused graph raises: running it on the CPU instead would prove
    nothing.
    """
    return StickAdapter(check=False).as_backend(fallback=False)(graph_module, example_inputs)  # type: ignore[no-any-return]
