"""The capabilities that an accelerator declares, the rule of its op list, and the result of compiling a graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.devices import (
    AlignmentRule,
    Constraint,
    DeviceProfile,
    MemoryConstraint,
    Problem,
    ShapeConstraint,
)
from inductor_debug_jupyter.pipeline.devices.dtypes import dtype_name
from inductor_debug_jupyter.pipeline.devices.known_ops import check_ops
from inductor_debug_jupyter.pipeline.devices.ops import LOWERED, VIEWS, bare_name
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.harmless import Harmless
from inductor_debug_jupyter.pipeline.records import CrashRecord, GraphRecord, NodeRecord, Violation


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
