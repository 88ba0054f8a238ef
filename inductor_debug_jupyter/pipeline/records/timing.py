"""Where the time of a call goes: its kernels, the machine's roofs, and modules eager and compiled."""

from __future__ import annotations

from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.records.graph import SourceLine
from inductor_debug_jupyter.pipeline.records.in_words import InWords


@dataclass(frozen=True, slots=True)
class KernelTime:
    """One call of a kernel, or of a library's function, in the code that Inductor made.

    Attributes:
        kernel: its name in the code.
        stage: ``forward`` or ``backward``.
        compile_id: the compile that it belongs to in the session; empty where it is not known.
        nodes: the post-grad nodes that it computes.
        ops: their ATen ops.
        start: seconds from the beginning of the model's call, in a run of median length.
        seconds: the median over all runs.
        low: the first quartile.
        high: the third quartile.
        flops: additions and multiplications of its ops; None where a size is symbolic.
        nbytes: bytes that it reads and writes, each tensor once; None where a size is symbolic.
        roof: the share of the machine's own speed that it reaches, by what limits it; None where that is not known.
        bound: what limits it: ``memory`` or ``compute``; empty where that is not known.
    """

    kernel: str
    stage: str
    compile_id: str
    nodes: tuple[str, ...]
    ops: tuple[str, ...]
    start: float
    seconds: float
    low: float
    high: float
    flops: int | None = None
    nbytes: int | None = None
    roof: float | None = None
    bound: str = ""
    module_path: str = ""
    source: SourceLine | None = None


@dataclass(frozen=True, slots=True)
class ModuleTime:
    """A module's seconds in the forward, with what is in it: eager, and the share of the kernels that compute it."""

    path: str
    kind: str
    eager: float
    compiled: float

    @property
    def ratio(self) -> float:
        """Compiled by eager: above 1 the compiler made it slower."""
        return self.compiled / self.eager if self.eager else 0.0


@dataclass(frozen=True, slots=True)
class Roofs:
    """How fast this machine is at best, measured: bytes a second, and multiplications and additions by dtype."""

    memory: float
    matmul: dict[str, float]
    threads: int


@dataclass(frozen=True, slots=True)
class TimingRecord(InWords):
    """Where the time of one call went.

    Attributes:
        model: what was called.
        backward: whether the call went backward.
        runs: how often it was timed after the warm-up.
        seconds: the whole compiled call, backward included: the median.
        eager: the same in eager mode.
        overhead: the share of ``seconds`` that the measuring itself takes.
        kernels: in the order in which they run.
        modules: those of the forward, in the model's order.
        notes: what is not in it.
    """

    model: str
    backward: bool
    runs: int
    seconds: float
    eager: float
    overhead: float
    kernels: tuple[KernelTime, ...] = ()
    modules: tuple[ModuleTime, ...] = ()
    roofs: Roofs | None = None
    notes: tuple[str, ...] = ()

    @property
    def in_kernels(self) -> float:
        """The seconds of all kernels together."""
        return sum(kernel.seconds for kernel in self.kernels)

    @property
    def ranked(self) -> tuple[KernelTime, ...]:
        """The kernels, slowest first."""
        return tuple(sorted(self.kernels, key=lambda kernel: -kernel.seconds))
