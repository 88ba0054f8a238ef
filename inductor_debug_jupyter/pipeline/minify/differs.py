"""Wrong numbers as a failure to reduce: a backend (the candidate) does not compute what eager mode does.

:class:`KernelDiffHarness` decides, by the same policy as ``session.diff()``: candidate and reference start from the
same generators, an error that rounding explains is no failure, inputs that are written to are compared, and with
``backward`` gradients. The script cannot import the harness; it contains :mod:`repro.rounding_check`, which measures
what rounding explains at each element, and a limit half-way between that and the error when the script was made.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.adapters import AcceleratorAdapter
from inductor_debug_jupyter.pipeline.capture.calls import CallModes
from inductor_debug_jupyter.pipeline.diff import ComparisonConfig, KernelDiffHarness
from inductor_debug_jupyter.pipeline.errors import ReproError, UsageError
from inductor_debug_jupyter.pipeline.minify.backend_source import Backend, backend_name, backend_source
from inductor_debug_jupyter.pipeline.minify.predicates import Outcome, ScriptNeeds
from inductor_debug_jupyter.pipeline.records import DiffRecord
from inductor_debug_jupyter.pipeline.repro import FailureCheck, graph_script, rounding_check
from inductor_debug_jupyter.pipeline.repro.values import copy_of, drawn
from inductor_debug_jupyter.pipeline.torch_compat.regions import compile_alone, undisturbed
from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed, lines_for_eager_randomness

_SEED = 0
"""Every execution starts from this seed, here and in the script."""

_CHECK = """
BACKEND = {backend}
BACKWARD = {backward}
AUTOCAST = {autocast}
UNIT = {unit!r}  # the least relative rounding error of an op
LIMIT = {limit!r}  # in floors: {meaning} when this was made


{source}

def compiled(graph):
    return torch.compile(graph, backend=BACKEND, dynamic=False)


def failure(graph, inputs):
    found, told = worst_excess(Graph, make_inputs, compiled, backward=BACKWARD, autocast=AUTOCAST, unit=UNIT)
    print(f"largest error: {{found:.3g}} floors, where one is what a rounding in each op does; limit: {{LIMIT:.3g}}")
    return told if found > LIMIT else None
"""


class Differs:
    """A backend does not compute what eager mode does, by the policy of :class:`KernelDiffHarness`.

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
        """Run and compare candidate and reference; an exception is another failure, and no difference."""
        with _seeded():
            record = self._harness(gm, inputs).compare().record
        if record.verdict == "mismatch":
            return Outcome(True, _worst(record))
        if not record.passed:
            return Outcome(False, "; ".join(record.notes) or "nothing was compared")
        reason = f"{backend_name(self.backend)} agrees with eager on every output"
        return Outcome(False, reason if record.verdict == "match" else f"{reason} ({record.verdict})")

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
        """A script that runs candidate and reference, measures what rounding explains, and compares."""
        found = backend_source(self.backend)
        exact = needs.exact
        try:
            limit, unit, meaning = self._limit(gm, inputs if exact else drawn(inputs))
        except ReproError:
            if exact:
                raise
            exact = True  # it failed with values from a seed, but not by enough for a script
            limit, unit, meaning = self._limit(gm, inputs)
        check = FailureCheck(
            f"{found.text}\n"
            + _CHECK.format(
                backend=found.expression,
                backward=self.needs_gradients,
                autocast=list(CallModes.now().autocast),
                unit=unit,
                limit=limit,
                meaning=meaning,
                source=rounding_check.SOURCE,
            ),
            f"{backend_name(self.backend)} and eager compute different values",
            rounding_check.IMPORTS,
            found.needs,
        )
        setup = (*lines_for_eager_randomness(), *needs.setup)
        return graph_script(gm, inputs, check, size=needs.size, exact=exact, setup=setup)

    def _limit(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> tuple[float, float, str]:
        """The error from which on the script reports a failure, the least rounding error of an op, and a comment.

        Raises:
            ReproError: a script cannot tell the error from rounding.
        """
        harness = self._harness(gm, inputs)
        # The rounding error of the format that a device declares to compute in; 0 if that is the tensors' own.
        unit = 0.0 if harness.held_as is None else float(torch.finfo(harness.held_as).eps)
        with _seeded():
            explained = explained_error(gm, inputs, backward=self.needs_gradients, unit=unit)
            if harness.candidate.close is not None:  # it runs in a process of its own, and not in this one
                harness.candidate.close()
                return explained, unit, f"rounding explains {explained:.3g}"
            assert harness.candidate.compiler is not None, "_harness has looked"
            seen = seen_error(gm, inputs, harness.candidate.compiler, backward=self.needs_gradients, unit=unit)
        if seen <= explained:
            raise ReproError(
                f"no repro: a script that needs torch only cannot tell the reduced graph's error from rounding: by its "
                f"measure it is {seen:.3g}, and rounding explains {explained:.3g}"
            )
        limit = min(math.sqrt(explained * seen), HIGHEST_LIMIT)
        return float(f"{limit:.3g}"), unit, f"rounding explains {explained:.3g}, and {seen:.3g} was seen"


def _worst(record: DiffRecord) -> str:
    worst = next((output for output in record.outputs if output.verdict == "mismatch"), None)
    if worst is None:
        return "; ".join(record.notes) or "the outputs differ"
    return f"{worst.path or 'output'}: {worst.reason}" if worst.reason else f"{worst.path or 'output'} differs"


@contextmanager
def _seeded() -> Iterator[None]:
    """Start from the script's seed; the user's generators are restored afterwards."""
    with torch.random.fork_rng():
        torch.manual_seed(_SEED)
        yield


LEAST: Final = 8.0
"""Up to so many floors are always rounding: vector libraries differ by that much in ``erf``."""
LEAST_NARROW: Final = 2.0
"""The same where all numbers are in 16 bits or fewer: both sides compute in float32 and round once."""
MOST: Final = 16.0
"""More floors than this are never rounding: fault-free Inductor stays within 12 (GPT-2, ViT, ConvNet, a long sum)."""
HIGHEST_LIMIT: Final = 1000.0
"""The highest limit of a script, however large the error was."""


def seen_error(
    gm: torch.fx.GraphModule, inputs: Sequence[Any], compiler: Callable[..., Any], *, backward: bool, unit: float
) -> float:
    """The largest error of a backend, in floors, as a script will measure it."""

    def compiled(graph: torch.nn.Module) -> Callable[..., Any]:
        return compile_alone(graph, lambda *args, **options: compiler(*args, **options))

    with undisturbed(), caches_bypassed():
        return _measured(gm, inputs, compiled, backward=backward, unit=unit)


def explained_error(gm: torch.fx.GraphModule, inputs: Sequence[Any], *, backward: bool, unit: float) -> float:
    """The largest error, in floors, that a healthy backend may have on this graph."""
    floats = [value.dtype for value in inputs if isinstance(value, torch.Tensor) and value.is_floating_point()]
    narrow = bool(floats) and all(dtype.itemsize <= 2 for dtype in floats) and not unit
    try:
        with torch.autocast("cpu", enabled=False):
            healthy = _measured(gm, inputs, _in_float64, backward=backward, unit=unit)
    except Exception:  # an op has no float64 kernel, or names a dtype: MOST holds
        healthy = math.inf
    return min(max(LEAST_NARROW if narrow else LEAST, 2 * healthy), MOST)


def _measured(
    gm: torch.fx.GraphModule,
    inputs: Sequence[Any],
    run: Callable[[torch.nn.Module], Callable[..., Any]],
    *,
    backward: bool,
    unit: float,
) -> float:
    found, _ = rounding_check.worst_excess(
        lambda: copy.deepcopy(gm), lambda: [copy_of(value) for value in inputs], run, backward=backward, unit=unit
    )
    return found


def _in_float64(graph: torch.nn.Module) -> Callable[..., Any]:
    """The graph in float64, with its results cast to their usual dtypes."""

    def run(*inputs: Any) -> Any:
        with torch.random.fork_rng(), torch.no_grad():
            usual = copy.deepcopy(graph)(*map(copy_of, inputs))
        wide = [
            value.double() if rounding_check.rounds(value) and not value.is_complex() else value for value in inputs
        ]
        found = copy.deepcopy(graph).double()(*wide)
        with torch.no_grad():  # an input that the graph wrote to
            for value, written in zip(inputs, wide, strict=True):
                if written is not value and not torch.equal(written, value.double()):
                    value.copy_(written)
        return _as_usual(found, usual)

    return run


def _as_usual(found: Any, usual: Any) -> Any:
    """The results in their usual dtypes."""
    if isinstance(found, torch.Tensor):
        return found.to(usual.dtype)
    if isinstance(found, (tuple, list)):
        return [_as_usual(each, like) for each, like in zip(found, usual, strict=True)]
    return found
