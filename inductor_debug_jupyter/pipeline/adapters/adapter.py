"""The interface to a device: what it can do, and how a graph gets there.

An adapter answers three questions (dtypes, ops, memory) and has one method that compiles. From these the base class
makes the rules that a graph is checked against, and a backend for ``torch.compile`` that checks, compiles and runs.
:meth:`AcceleratorAdapter.compile` gets the graph that Dynamo captured, so autograd works through the torch ops that the
compiled function calls.

:class:`AcceleratorCapabilities` is what an accelerator declares, :class:`CompilationResult` what a compile gave.
"""

from __future__ import annotations

import contextlib
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import torch

from inductor_debug_jupyter.pipeline.adapters import device_log
from inductor_debug_jupyter.pipeline.capture import Recorder
from inductor_debug_jupyter.pipeline.capture.watch import observe_lowering
from inductor_debug_jupyter.pipeline.devices import (
    AlignmentRule,
    Constraint,
    DeviceProfile,
    MemoryConstraint,
    Problem,
    ShapeConstraint,
    check,
    rules_for,
)
from inductor_debug_jupyter.pipeline.devices.dtypes import dtype_name
from inductor_debug_jupyter.pipeline.devices.ops import LOWERED, VIEWS, bare_name, check_ops
from inductor_debug_jupyter.pipeline.errors import (
    AdapterError,
    BackendCrashError,
    ConstraintViolationError,
    InductorDebugError,
    OptionError,
    UsageError,
)
from inductor_debug_jupyter.pipeline.harmless import Harmless
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    CrashRecord,
    GraphRecord,
    KernelSpec,
    NodeRecord,
    Transfer,
    Violation,
)
from inductor_debug_jupyter.pipeline.torch_compat import hooks
from inductor_debug_jupyter.pipeline.torch_compat.graphs import copy_graph_module
from inductor_debug_jupyter.pipeline.torch_compat.state import current_compile_id
from inductor_debug_jupyter.pipeline.views.text import strict_message


def torch_dtypes(dtypes: Iterable[torch.dtype | str]) -> frozenset[torch.dtype]:
    """Dtypes, or their names, as dtypes.

    Raises:
        OptionError: there is no such dtype.
    """
    return frozenset(getattr(torch, dtype_name(dtype)) for dtype in dtypes)


@dataclass(frozen=True)
class AcceleratorCapabilities(Harmless):
    """What an accelerator can do. None means unknown: nothing is checked there.

    Args:
        name: what to call it.
        dtypes: the dtypes that it computes in, as torch dtypes or their names.
        ops: the ops that it has, by any of their names (``mm``, ``aten.mm``, ``linear``).
        memory_limit: bytes, for each tensor and for the peak.
        alignment: what every size that is not a batch must be a multiple of, in elements.
        alignment_dims: which sizes that holds for: ``feature``, ``innermost`` or ``all``.
        description: one line for people.
    """

    name: str
    dtypes: frozenset[torch.dtype] | None = None
    ops: frozenset[str] | None = None
    memory_limit: int | None = None
    alignment: int = 1
    alignment_dims: str = "feature"
    description: str = ""

    def __post_init__(self) -> None:
        if self.dtypes is not None:
            object.__setattr__(self, "dtypes", torch_dtypes(self.dtypes))
        if isinstance(self.ops, str):
            raise OptionError(f"ops: {self.ops!r} is not allowed; allowed: a set of names, such as {{'mm', 'relu'}}")
        if self.ops is not None:
            object.__setattr__(self, "ops", frozenset(self.ops))
        ShapeConstraint(self.alignment, self.alignment_dims)  # this rule and the next raise for a bad value
        if self.memory_limit is not None:
            MemoryConstraint(self.memory_limit)

    @property
    def unknown(self) -> tuple[str, ...]:
        """The fields that are None."""
        return tuple(name for name in ("dtypes", "ops", "memory_limit") if getattr(self, name) is None)

    def __str__(self) -> str:
        dtypes = "unknown" if self.dtypes is None else ", ".join(sorted(map(dtype_name, self.dtypes)))
        ops = "unknown" if self.ops is None else f"{len(self.ops)} listed"
        memory = "unknown" if self.memory_limit is None else f"{self.memory_limit:,} bytes"
        return f"{self.name}: dtypes {dtypes}; ops {ops}; memory {memory}"

    def profile(self) -> DeviceProfile:
        """The device profile of these capabilities, without the list of ops, which has a rule of its own."""
        return DeviceProfile(
            name=self.name,
            description=self.description,
            dtypes=None if self.dtypes is None else tuple(sorted(map(dtype_name, self.dtypes))),
            alignments=(AlignmentRule(multiple=self.alignment, dims=self.alignment_dims),)
            if self.alignment > 1
            else (),
            memory_limit=self.memory_limit,
        )


_ALSO: dict[str, tuple[str, ...]] = {
    "linear": ("addmm", "mm"),
    "matmul": ("mm", "bmm", "mv", "dot"),
    "scaled_dot_product_attention": (
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention_for_cpu_backward",
    ),
}
"""Names that stand for several ops, beside :data:`LOWERED`."""


class SupportedOpsConstraint(Constraint):
    """The only ops that the target has, by any of their names.

    Views are always allowed, because they move no data. A name allows the ops that it is lowered to, and the ops that
    are lowered to it: ``linear`` allows ``addmm``, and ``mm`` where there is no bias.
    """

    rule_id = "op.not_supported"

    def __init__(self, supported_ops: Iterable[str]) -> None:
        self.supported_ops = tuple(sorted(set(supported_ops)))
        check_ops(self.supported_ops, "get_supported_ops()")
        self._allowed = set(VIEWS)
        for bare in map(bare_name, self.supported_ops):
            self._allowed |= {bare, *LOWERED.get(bare, ()), *_ALSO.get(bare, ())}
            self._allowed |= {lowered for lowered, names in LOWERED.items() if bare in names}

    def check_node(self, node: NodeRecord, graph: GraphRecord) -> Problem | None:
        """The problem of a node whose op is not on the list."""
        bare = bare_name(node.target)
        if bare in self._allowed:
            return None
        return Problem(
            node.name,
            f"the target has no {bare}",
            observed=node.target,
            allowed=", ".join(self.supported_ops) or "no op at all",
            explanation=f"{bare} is not on the target's list of ops that it has.",
            hints=(f"replace {bare} by ops that the target has, or keep this part on the CPU",),
            evidence=f"bare(op) == {bare!r}",
        )


@dataclass(frozen=True)
class CompilationResult:
    """The result of compiling one graph.

    Args:
        success: whether the graph compiled.
        run: the compiled function; it takes the graph's inputs and returns its outputs. None without success.
        reason: without success, one line of why.
        findings: the violations of the graph.
        seconds: how long it took.
        kernel_specs: one mapping for each kernel, if the adapter describes its kernels (``op``, ``inputs``, …).
        crash: how the adapter's own process ended, if it did.
    """

    success: bool
    run: Callable[..., Any] | None = None
    reason: str = ""
    findings: tuple[Violation, ...] = ()
    seconds: float = 0.0
    kernel_specs: tuple[Mapping[str, Any], ...] = ()
    crash: CrashRecord | None = None

    def __post_init__(self) -> None:
        if self.success != (self.run is not None):
            raise OptionError(
                f"CompilationResult: success={self.success} with run={self.run!r} is not allowed; "
                "allowed: a function to run with success=True, or None and a reason with success=False"
            )


log = logging.getLogger("inductor_debug_jupyter")


class AcceleratorAdapter(ABC):
    """How to run on one accelerator.

    Subclass it, answer the three questions (None means "unknown", and nothing is checked there), and compile. Set
    ``name``, ``description`` and ``alignment`` where the defaults do not fit.
    """

    name: str = ""
    description: str = ""
    alignment: int = 1
    alignment_dims: str = "feature"
    compute_dtype: torch.dtype | None = None
    """The format that the device computes in, if narrower than the tensors' own; comparisons allow its rounding."""
    sum_dtype: torch.dtype | None = None
    """The format that running sums are kept in. Said to be wider than ``compute_dtype``, a sum is rounded once."""
    trains: bool = True
    """Whether gradients flow through what it compiles; False for an inference-only device."""
    made_with: tuple[tuple[Any, ...], dict[str, Any]] = ((), {})
    """The arguments that the class was called with; another process builds the adapter again with them."""

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        """Keep the arguments in ``made_with``."""
        adapter = super().__new__(cls)
        object.__setattr__(adapter, "made_with", (args, kwargs))
        return adapter

    @abstractmethod
    def get_supported_dtypes(self) -> set[torch.dtype] | None:
        """The dtypes that the device computes in."""

    @abstractmethod
    def get_supported_ops(self) -> set[str] | None:
        """The ops that the device has, by any of their names."""

    @abstractmethod
    def get_memory_limit(self) -> int | None:
        """The device's memory in bytes."""

    @abstractmethod
    def compile(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> CompilationResult | Callable[..., Any]:
        """Make a graph runnable on the device.

        Args:
            gm: the graph that Dynamo captured.
            inputs: its inputs, for their shapes and dtypes.

        Returns:
            The compiled function, or a :class:`CompilationResult` with more detail. Raising is a failed compile, too.
        """

    # What follows from these ------------------------------------------------------------------------------------

    def capabilities(self) -> AcceleratorCapabilities:
        """The answers to the three questions as one object."""
        dtypes, ops = self.get_supported_dtypes(), self.get_supported_ops()
        return AcceleratorCapabilities(
            name=self.name or type(self).__name__,
            dtypes=None if dtypes is None else frozenset(dtypes),
            ops=None if ops is None else frozenset(ops),
            memory_limit=self.get_memory_limit(),
            alignment=self.alignment,
            alignment_dims=self.alignment_dims,
            description=self.description,
        )

    def rules(self) -> list[Constraint]:
        """The constraints that the capabilities stand for."""
        capabilities = self.capabilities()
        rules = rules_for(capabilities.profile())
        if capabilities.ops is not None:
            rules.append(SupportedOpsConstraint(capabilities.ops))
        return rules

    def check(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> tuple[Violation, ...]:
        """The violations of a graph's AOT forward and backward; nothing is run."""
        return check(capture_graph(gm, inputs), self.rules())

    def build(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], *, strict: bool = False) -> CompilationResult:
        """Check and compile one graph. Never raises: a failure is a result with a reason.

        In strict mode a graph that the rules refuse is not compiled.
        """
        started = time.perf_counter()
        findings, refusal = self.judge(gm, inputs, strict=strict)
        if refusal:
            return CompilationResult(False, reason=refusal, findings=findings)
        made = self.compiled(gm, inputs)
        return replace(made, findings=made.findings or findings, seconds=time.perf_counter() - started)

    def compiled(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> CompilationResult:
        """Compile one graph without checking it. Never raises: a failure is a result with a reason."""
        try:
            made: Any = self.compile(gm, inputs)  # the vendor's code: it may return anything
        except Exception as error:
            ours = isinstance(error, InductorDebugError)  # its message needs no class name in front
            reason = first_line(error) if ours else f"{type(error).__name__}: {first_line(error)}"
            return CompilationResult(False, reason=reason, crash=getattr(error, "crash", None))
        if isinstance(made, CompilationResult):
            return made
        if callable(made):
            return CompilationResult(True, made)
        return CompilationResult(False, reason=f"compile() gave a {type(made).__name__}, which cannot be called")

    def judge(
        self, gm: torch.fx.GraphModule, inputs: Sequence[Any], *, strict: bool
    ) -> tuple[tuple[Violation, ...], str]:
        """The rules' violations, and in strict mode the reason not to compile the graph (empty: compile it).

        A rule that raises is a reason in strict mode, since the graph was not checked, and otherwise a warning.
        """
        try:
            findings = self.check(gm, inputs)
        except Exception as error:
            reason = f"could not be checked: {type(error).__name__}: {first_line(error)}"
            log.warning("%s: %s", self.capabilities().name, reason)
            return (), reason if strict else ""
        refused = errors_of(findings)
        return findings, f"refused: {refused[0].title}" if strict and refused else ""

    def as_backend(
        self,
        strict: bool = False,
        *,
        fallback: bool | None = None,
        isolate: bool = False,
        timeout: float | None = None,
        memory: int | None = None,
    ) -> Callable[..., Any]:
        """A backend for ``torch.compile`` that checks a graph, compiles it, and runs the result.

        Args:
            strict: raise when the rules refuse the graph or when it does not compile. Otherwise findings are logged.
            fallback: run a graph that does not compile eagerly, with a warning; by default the opposite of ``strict``.
                A comparison passes False, so that it never compares eager with eager.
            isolate: compile and run in a process of its own: a crash or a hang there is an error here.
            timeout: with ``isolate``, seconds for each step.
            memory: with ``isolate``, bytes that the process may have.

        Raises:
            UsageError: the adapter cannot go to another process.
        """
        if isolate:
            from inductor_debug_jupyter.pipeline.adapters.isolated import IsolatedAdapter

            alone = IsolatedAdapter(self, timeout=timeout, memory=memory)
            return alone.as_backend(strict, fallback=fallback)
        if timeout is not None or memory is not None:
            raise UsageError("timeout and memory limit a process of its own: give isolate=True as well")
        falls_back = not strict if fallback is None else fallback

        def backend(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            result = self.build(gm, inputs, strict=strict)
            if result.run is not None:
                for spec in result.kernel_specs:
                    device_log.tell(device_log.kernel_of(spec, self.capabilities().name, current_compile_id() or ""))
                for violation in result.findings:
                    log.warning("%s: %s", self.capabilities().name, violation)
                return result.run
            if falls_back:
                log.warning("%s: not compiled, runs eagerly: %s", self.capabilities().name, result.reason)
                run: Callable[..., Any] = gm.forward
                return run
            return self._raises(result, strict)

        backend.__name__ = backend.__qualname__ = self.capabilities().name
        return backend

    def _raises(self, result: CompilationResult, strict: bool) -> Callable[..., Any]:
        """A function that raises the reason why a graph did not compile.

        Torch wraps errors of a backend and swallows them under ``suppress_errors``; errors of the compiled function
        reach the user unchanged.
        """
        name, refused = self.capabilities().name, errors_of(result.findings)

        def not_compiled(*args: Any, **kwargs: Any) -> Any:
            if strict and refused:
                raise ConstraintViolationError(strict_message(refused, target=name), refused)
            if result.crash is not None:
                raise BackendCrashError(str(result.crash), result.crash)
            raise AdapterError(f"{name} did not compile this graph: {result.reason or 'it does not say why'}")

        return not_compiled

    def tell(self, event: Transfer | KernelSpec) -> None:
        """Report a transfer, or a kernel that was made while running, to open sessions and the log.

        The kernels in :attr:`CompilationResult.kernel_specs` are reported by :meth:`as_backend`.
        """
        device_log.tell(event)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.capabilities().name}>"


class _LoweredError(Exception):
    """Raised instead of running a graph, to stop after lowering."""


def capture_graph(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> tuple[CompileCapture, ...]:
    """The records of a graph and of its AOT forward and backward, without running it; failed lowering is a warning.

    Inside a compile the graph is lowered by AOTAutograd directly. Outside, a copy goes through ``torch.compile`` with a
    backend that lowers it and then stops, because the hooks only report what happens inside a compile.
    """
    recorder = Recorder()
    compile_id = current_compile_id()

    def lower(graph: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        observe_lowering(recorder, "aot", graph, example_inputs)
        return stop

    def stop(*_: Any) -> Any:
        raise _LoweredError

    hooks.listen(recorder)
    try:
        if compile_id is not None:
            recorder.dynamo_graph(compile_id, gm, None)
            lower(gm, list(inputs))
        else:  # a copy has code of its own: torch's limit of compiles counts by code
            with contextlib.suppress(_LoweredError):
                torch.compile(copy_graph_module(gm), backend=lower, dynamic=False)(*inputs)
    finally:
        hooks.unlisten(recorder)
    for note in recorder.notes:
        log.warning("only the Dynamo graph is checked: %s", note)
    return recorder.captures


def errors_of(findings: Sequence[Violation]) -> tuple[Violation, ...]:
    """The findings that strict mode fails on."""
    return tuple(violation for violation in findings if violation.severity == "error")


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
