"""The adapter ``stick128``: a simulated accelerator with sticks of 128 bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters.adapter import AcceleratorAdapter
from inductor_debug_jupyter.pipeline.adapters.capabilities import (
    AcceleratorCapabilities,
    CompilationResult,
    torch_dtypes,
)
from inductor_debug_jupyter.pipeline.adapters.stick.faults import Fault, faults_of
from inductor_debug_jupyter.pipeline.adapters.stick.formats import ACCUMULATIONS, DeviceFormat
from inductor_debug_jupyter.pipeline.adapters.stick.kernels import Arithmetic
from inductor_debug_jupyter.pipeline.adapters.stick.program import Device, DeviceProgram, Watch
from inductor_debug_jupyter.pipeline.adapters.stick.refusals import check_graph
from inductor_debug_jupyter.pipeline.devices import Constraint, load_profile, rules_for
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.settings import resolve
from inductor_debug_jupyter.pipeline.torch_compat.graphs import effects_as_ops
from inductor_debug_jupyter.pipeline.torch_compat.lowering import compile_with_aot
from inductor_debug_jupyter.pipeline.torch_compat.state import current_compile_id


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
        self.device = Device(
            name=self.name,
            format=DeviceFormat(format),
            arithmetic=Arithmetic(accumulate, faults_of(faults)),
            cores=cores,
            show_values=values,
            watch=watch,
        )
        self._checks = check

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

    def capabilities(self) -> AcceleratorCapabilities:
        """The alignment and memory of the ``stick128`` profile, with the simulator's own dtypes."""
        profile = load_profile("stick128")
        return AcceleratorCapabilities(
            name=self.name,
            dtypes=torch_dtypes(self.get_supported_dtypes()),
            memory_limit=profile.memory_limit,
            alignment=profile.alignment,
            alignment_dims=profile.alignment_dims,
            description=self.description,
        )

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


def stick128(graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """The backend of ``torch.compile(model, backend="stick128")``: the simulator in its own format.

    Faults come from ``INDUCTOR_DEBUG_FAULTS``. A refused graph raises: running it on the CPU instead would prove
    nothing.
    """
    return StickAdapter(check=False).as_backend(fallback=False)(graph_module, example_inputs)  # type: ignore[no-any-return]
