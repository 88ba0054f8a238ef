"""The interface to a device: what it can do, and how a graph gets there.

An adapter answers three questions (dtypes, ops, memory) and has one method that compiles. From these the base class
makes the rules that a graph is checked against, and a backend for ``torch.compile`` that checks, compiles and runs.
:meth:`AcceleratorAdapter.compile` gets the graph that Dynamo captured, so autograd works through the torch ops that the
compiled function calls.
"""

from __future__ import annotations

import contextlib
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Self

import torch

from inductor_debug_jupyter.pipeline.adapters import device_log
from inductor_debug_jupyter.pipeline.adapters.capabilities import (
    AcceleratorCapabilities,
    CompilationResult,
    SupportedOpsConstraint,
)
from inductor_debug_jupyter.pipeline.capture import Recorder
from inductor_debug_jupyter.pipeline.capture.watch import observe_lowering
from inductor_debug_jupyter.pipeline.devices import Constraint, check, rules_for
from inductor_debug_jupyter.pipeline.errors import (
    AdapterError,
    BackendCrashError,
    ConstraintViolationError,
    InductorDebugError,
    UsageError,
)
from inductor_debug_jupyter.pipeline.records import CompileCapture, KernelSpec, Transfer, Violation
from inductor_debug_jupyter.pipeline.torch_compat import hooks
from inductor_debug_jupyter.pipeline.torch_compat.graphs import copy_graph_module
from inductor_debug_jupyter.pipeline.torch_compat.state import current_compile_id
from inductor_debug_jupyter.pipeline.views.crash import crash_text
from inductor_debug_jupyter.pipeline.views.text import strict_message

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
                device_log.tell_kernels(result, self.capabilities().name)
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
                raise BackendCrashError(crash_text(result.crash), result.crash)
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
