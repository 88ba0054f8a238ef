"""Wrong numbers as a failure to reduce: what a backend computes is not what eager computes.

Whether it is wrong is for :class:`KernelDiffHarness` to say, by the same policy as ``session.diff()``: both sides start
from the same generators, what rounding explains is no failure, inputs that are written to are compared, and with
``backward`` gradients. The script cannot import that; it holds :mod:`repro.rounding_check`, which measures what
rounding explains at each element, and a limit half-way between that and the error that was seen when it was made.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters import AcceleratorAdapter
from inductor_debug_jupyter.pipeline.capture.modes import CallModes
from inductor_debug_jupyter.pipeline.diff import ComparisonConfig, KernelDiffHarness
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.minify.backend_source import Backend, backend_name, backend_source
from inductor_debug_jupyter.pipeline.minify.predicates import Outcome, ScriptNeeds
from inductor_debug_jupyter.pipeline.records import DiffRecord
from inductor_debug_jupyter.pipeline.repro import FailureCheck, graph_script, rounding_check
from inductor_debug_jupyter.pipeline.repro.values import copy_of
from inductor_debug_jupyter.pipeline.torch_compat.regions import compile_alone, undisturbed
from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed, lines_for_eager_randomness

_SEED = 0
"""Every execution starts from this seed, here and in the script."""

_CHECK = """
BACKEND = {backend}
BACKWARD = {backward}
AUTOCAST = {autocast}
UNIT = {unit!r}  # the least relative rounding error of an op
LIMIT = {limit!r}  # in units of what rounding explains: between {explained:g} and the {seen:.3g} seen with this script


{source}

def compiled(graph):
    return torch.compile(graph, backend=BACKEND, dynamic=False)


def failure(graph, inputs):
    found, told = worst_excess(Graph, make_inputs, compiled, backward=BACKWARD, autocast=AUTOCAST, unit=UNIT)
    print(f"the largest error is {{found:.3g}} times what rounding explains, the limit is {{LIMIT:.3g}}")
    return f"{{told}}" if found > LIMIT else None
"""


class Differs:
    """What a backend computes is not what eager computes, by the policy of :class:`KernelDiffHarness`.

    Args:
        backend: a backend's name, a backend, or an adapter.
        backward: also compare gradients.
        config: what counts as equal, as for the harness.
        isolate: run the backend in a process of its own, as the harness does.
        timeout: likewise.
        memory_limit: likewise.
    """

    needs_roles = False

    def __init__(
        self,
        backend: Backend | AcceleratorAdapter = "inductor",
        *,
        backward: bool = False,
        config: ComparisonConfig | None = None,
        isolate: bool = False,
        timeout: float | None = None,
        memory_limit: int | None = None,
    ) -> None:
        self.backend = backend
        self.needs_gradients = backward
        self.config = replace(config or ComparisonConfig(), heatmaps=False)
        self._limits: dict[str, Any] = {"isolate": isolate, "timeout": timeout, "memory_limit": memory_limit}

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Outcome:
        """Run both and compare; a backend that raises does not differ: that is another failure."""
        with _seeded():
            record = self._harness(gm, inputs).compare().record
        if record.verdict == "mismatch":
            return Outcome(True, _worst(record))
        if record.verdict == "not_compared":
            return Outcome(False, "; ".join(record.notes) or "nothing was compared")
        reason = f"{backend_name(self.backend)} agrees with eager on every output"
        return Outcome(False, reason if record.verdict == "match" else f"{reason}: the differences are rounding")

    def _harness(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> KernelDiffHarness:
        harness = KernelDiffHarness(
            gm,
            tuple(inputs),
            "the graph",
            test_backend=self.backend,
            comparison_config=self.config,
            backward=self.needs_gradients,
            **self._limits,
        )
        if harness.candidate.compiler is None:
            named = harness.candidate.name
            raise UsageError(f"candidate={named!r}; a failure is reduced by compiling, so it must be one that compiles")
        return harness

    def script(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], needs: ScriptNeeds) -> str:
        """A script that runs both, measures what rounding explains, and compares."""
        found = backend_source(self.backend)
        harness = self._harness(gm, inputs)
        unit = _unit(harness)
        autocast = CallModes.now().autocast
        # A backend that needs a process of its own is not run in this one: its error is then not known here.
        seen = math.inf if self._limits["isolate"] else self._seen(harness, gm, inputs, unit)
        check = FailureCheck(
            f"{found.text}\n"
            + _CHECK.format(
                backend=found.expression,
                backward=self.needs_gradients,
                autocast=list(autocast),
                unit=unit,
                limit=float(f"{rounding_check.limit_between(seen):.3g}"),
                explained=rounding_check.EXPLAINED,
                seen=seen,
                source=rounding_check.SOURCE,
            ),
            f"{backend_name(self.backend)} and eager compute different values",
            rounding_check.IMPORTS,
            found.needs,
        )
        setup = (*lines_for_eager_randomness(), *needs.setup)
        return graph_script(gm, inputs, check, size=needs.size, exact=needs.exact, setup=setup)

    def _seen(self, harness: KernelDiffHarness, gm: torch.fx.GraphModule, inputs: Sequence[Any], unit: float) -> float:
        """The error as the script will measure it."""
        compiler = harness.candidate.compiler
        assert compiler is not None, "_harness has looked"

        def compiled(graph: torch.nn.Module) -> Callable[..., Any]:
            return compile_alone(graph, lambda *args, **options: compiler(*args, **options))

        with _seeded(), undisturbed(), caches_bypassed():
            found, _ = rounding_check.worst_excess(
                lambda: copy.deepcopy(gm),
                lambda: [copy_of(value) for value in inputs],
                compiled,
                backward=self.needs_gradients,
                unit=unit,
            )
        return found


def _unit(harness: KernelDiffHarness) -> float:
    """The rounding error of the format that a device declares to compute in; 0 when it is the tensors' own."""
    declared = harness.candidate.held_as
    return 0.0 if declared is None else float(torch.finfo(declared).eps)


def _worst(record: DiffRecord) -> str:
    worst = next(output for output in record.outputs if output.verdict == "mismatch")
    return f"{worst.path or 'output'}: {worst.reason}" if worst.reason else f"{worst.path or 'output'} differs"


@contextmanager
def _seeded() -> Iterator[None]:
    """Random numbers from the script's seed; the user's own go on afterwards as if nothing had been."""
    with torch.random.fork_rng():
        torch.manual_seed(_SEED)
        yield
