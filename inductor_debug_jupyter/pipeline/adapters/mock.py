"""Mock accelerators: they check graphs like a device and run them on the CPU, op by op.

:class:`MockAcceleratorAdapter` takes its capabilities from its arguments, :class:`IntegratedMockAdapter` from a device
profile and the ``MOCK_*`` variables, read again for each graph, as ``mock_backend`` does.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters.adapter import (
    AcceleratorAdapter,
    AcceleratorCapabilities,
    CompilationResult,
    torch_dtypes,
)
from inductor_debug_jupyter.pipeline.capture.graphs import graph_record
from inductor_debug_jupyter.pipeline.devices import Constraint, DeviceProfile, load_profile, rules_for
from inductor_debug_jupyter.pipeline.devices.memory import DEFAULT_LIMIT
from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError
from inductor_debug_jupyter.pipeline.settings import Settings, resolve

DEFAULT_DTYPES = frozenset({torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool})
"""The dtypes of a mock accelerator by default."""


class _ExecutingMock(AcceleratorAdapter):
    """A mock that compiles a graph into an interpreter, unless it is strict and its rules refuse the graph."""

    @property
    @abstractmethod
    def is_strict(self) -> bool:
        """Whether :meth:`compile` refuses what the rules refuse."""

    def compile(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> CompilationResult:
        """Check the graph and make it runnable."""
        return self.build(gm, inputs, strict=self.is_strict)

    def build(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], *, strict: bool = False) -> CompilationResult:
        """Check and compile one graph; the base class would check twice, because :meth:`compile` checks, too."""
        if type(self).compile is not _ExecutingMock.compile:
            return super().build(gm, inputs, strict=strict)
        started = time.perf_counter()
        findings, refusal = self.judge(gm, inputs, strict=strict)
        if refusal:
            return CompilationResult(False, reason=refusal, findings=findings)
        return CompilationResult(
            success=True,
            run=lambda *args: torch.fx.Interpreter(gm).run(*args),  # an interpreter of its own holds a call's values
            findings=findings,
            seconds=time.perf_counter() - started,
            kernel_specs=kernel_specs(gm),
        )


class MockAcceleratorAdapter(_ExecutingMock):
    """A mock with the capabilities of its arguments; the environment is ignored.

    Args:
        dtypes: the dtypes that it computes in; :data:`DEFAULT_DTYPES` by default.
        ops: the ops that it has, by any of their names; any op by default.
        memory_limit: its memory in bytes; 16 GiB by default.
        alignment: what sizes (batch sizes apart) must be a multiple of.
        strict: whether ``compile`` refuses what the rules refuse.
        name: what to call it.
        description: one line for people.
    """

    def __init__(
        self,
        dtypes: Iterable[torch.dtype | str] | None = None,
        ops: Iterable[str] | None = None,
        memory_limit: int = DEFAULT_LIMIT,
        alignment: int = 1,
        *,
        strict: bool = True,
        name: str = "mock",
        description: str = "a mock accelerator that executes on the CPU",
    ) -> None:
        if isinstance(ops, str):
            raise OptionError(f"ops: {ops!r} is not allowed; allowed: a set of names, such as {{'mm', 'relu'}}")
        self._dtypes = DEFAULT_DTYPES if dtypes is None else torch_dtypes(dtypes)
        self._ops = None if ops is None else frozenset(ops)
        self._memory_limit = memory_limit
        self._strict = strict
        self.alignment = alignment
        self.name = name
        self.description = description
        self.rules()  # raises for a bad value now and not in the middle of a compile

    @property
    def is_strict(self) -> bool:
        """The constructor's argument."""
        return self._strict

    def get_supported_dtypes(self) -> set[torch.dtype]:
        """The constructor's argument."""
        return set(self._dtypes)

    def get_supported_ops(self) -> set[str] | None:
        """The constructor's argument; None means any op."""
        return None if self._ops is None else set(self._ops)

    def get_memory_limit(self) -> int:
        """The constructor's argument."""
        return self._memory_limit


class IntegratedMockAdapter(_ExecutingMock):
    """A mock of a device profile, overridden by the ``MOCK_*`` variables.

    Args:
        target: a profile's name or file; by default ``INDUCTOR_DEBUG_TARGET``, or the profile ``default``.
        strict: whether ``compile`` refuses what the rules refuse; by default ``MOCK_STRICT``, or True.
    """

    def __init__(self, target: str | None = None, *, strict: bool | None = None) -> None:
        self._target = target
        self._strict = strict
        self.name = self.profile().name  # raises for an unknown target
        self.description = self.profile().description

    def _settings(self) -> Settings:
        return resolve({"strict": self._strict, "target": self._target}, defaults={"strict": True})

    def profile(self) -> DeviceProfile:
        """The profile, overridden by the environment's current variables."""
        settings = self._settings()
        return load_profile(settings["target"]).with_settings(settings)

    @property
    def is_strict(self) -> bool:
        """The constructor's argument, else the environment's."""
        return bool(self._settings()["strict"])

    def get_supported_dtypes(self) -> set[torch.dtype] | None:
        """The profile's dtypes; None when they are not restricted."""
        dtypes = self.profile().dtypes
        return None if dtypes is None else set(torch_dtypes(dtypes))

    def get_supported_ops(self) -> set[str] | None:
        """The profile's list; None where it only lists the ops that the device does not have (``profile().deny``)."""
        allow = self.profile().allow
        return None if allow is None else set(allow)

    def get_memory_limit(self) -> int | None:
        """The profile's limit; None when there is none."""
        return self.profile().memory_limit

    def capabilities(self) -> AcceleratorCapabilities:
        """The profile, as capabilities."""
        profile = self.profile()
        return AcceleratorCapabilities(
            name=profile.name,
            dtypes=None if profile.dtypes is None else torch_dtypes(profile.dtypes),
            memory_limit=profile.memory_limit,
            alignment=profile.alignment,
            alignment_dims=profile.alignment_dims,
            description=profile.description,
        )

    def rules(self) -> list[Constraint]:
        """The profile's rules: denied ops and layouts are among them."""
        return rules_for(self.profile())


def create_mock_backend(
    adapter: AcceleratorAdapter | None = None, *, strict: bool | None = None, **options: Any
) -> Callable[..., Any]:
    """A backend for ``torch.compile`` around a mock, or around any adapter.

    Args:
        adapter: the adapter; without one, a mock is made from the options.
        strict: raise when the rules refuse a graph; by default ``MOCK_STRICT``, or True.
        options: ``target=`` for an :class:`IntegratedMockAdapter` (also without any option), or those of
            :class:`MockAcceleratorAdapter`.

    Raises:
        UsageError: the options do not go together.
    """
    if adapter is not None and options:
        raise UsageError(f"create_mock_backend takes an adapter or options, not both; got {', '.join(sorted(options))}")
    is_strict = bool(resolve({"strict": strict}, defaults={"strict": True}, names=["strict"])["strict"])
    try:
        mock = IntegratedMockAdapter if set(options) <= {"target"} else MockAcceleratorAdapter
        made = adapter or mock(**options)
    except TypeError:
        allowed = "target alone, or dtypes, ops, memory_limit, alignment, name, description"
        raise UsageError(
            f"create_mock_backend: {', '.join(sorted(options))} is not allowed; allowed: {allowed}"
        ) from None
    return made.as_backend(strict=is_strict)


def kernel_specs(gm: torch.fx.GraphModule) -> tuple[dict[str, Any], ...]:
    """One kernel spec for each op of a graph, because a mock fuses nothing."""
    record = graph_record("dynamo", gm)
    specs = []
    for node in record.calls:
        operands = [record.node(name) for name in node.inputs]
        specs.append(
            {
                "op": node.target,
                "node": node.name,
                "inputs": [str(spec) for operand in operands if operand for spec in operand.outputs],
                "outputs": [str(spec) for spec in node.outputs],
            }
        )
    return tuple(specs)
