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
from inductor_debug_jupyter.pipeline.adapters.isolated import IsolatedAdapter
from inductor_debug_jupyter.pipeline.capture.calls import CallModes
from inductor_debug_jupyter.pipeline.diff import ComparisonConfig, KernelDiffHarness
from inductor_debug_jupyter.pipeline.diff.contract import is_layout
from inductor_debug_jupyter.pipeline.errors import ReproError, UsageError
from inductor_debug_jupyter.pipeline.minify.backend_source import Backend, backend_name, backend_source
from inductor_debug_jupyter.pipeline.minify.predicates import (
    FailurePredicate,
    Outcome,
    ScriptNeeds,
    nodes_like,
    nodes_of_line,
)
from inductor_debug_jupyter.pipeline.records import Culprit, DiffRecord
from inductor_debug_jupyter.pipeline.repro import FailureCheck, graph_script, rounding_check
from inductor_debug_jupyter.pipeline.repro.values import copy_of, drawn
from inductor_debug_jupyter.pipeline.torch_compat.regions import compile_alone, undisturbed
from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed, lines_for_eager_randomness, sizes

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
    return torch.compile(graph, backend=BACKEND, dynamic={open_sizes})


def failure(graph, inputs):
    found, told = worst_excess(Graph, make_inputs, compiled, backward=BACKWARD, autocast=AUTOCAST, unit=UNIT)
    print(f"largest error: {{found:.3g}} floors, where one is what a rounding in each op does; limit: {{LIMIT:.3g}}")
    return told if found > LIMIT else None
"""


class Differs(FailurePredicate):
    """A backend does not compute what eager mode does, by the policy of :class:`KernelDiffHarness`.

    Args:
        backend: a backend's name, a backend, or an adapter.
        backward: also compare gradients.
        config: what counts as equal, as for the harness.
        open_sizes: compile with symbolic sizes.
        adapter: the same backend in a process of its own, which stays warm until :meth:`close`.
        culprits: the ops that a search has found at fault already, with the user's lines.
    """

    confirmations = 2

    def __init__(
        self,
        backend: Backend | AcceleratorAdapter = "inductor",
        *,
        backward: bool = False,
        config: ComparisonConfig | None = None,
        open_sizes: bool = False,
        adapter: IsolatedAdapter | None = None,
        culprits: Sequence[Culprit] = (),
    ) -> None:
        self.backend = backend
        self.needs_gradients, self.open_sizes = backward, open_sizes
        self.config = replace(config or ComparisonConfig(), heatmaps=False)
        self._adapter, self._culprits = adapter, culprits
        self._in_values: bool | None = None

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Outcome:
        """Run and compare candidate and reference; an exception is another failure, and no difference."""
        return self.outcome(self.compared(gm, inputs))

    def outcome(self, record: DiffRecord) -> Outcome:
        """Whether a comparison shows a difference, in values if the first one that failed was in values."""
        if record.verdict == "mismatch":
            wrong = [each for each in record.outputs if each.verdict == "mismatch"]
            in_values = any(each.mismatch_percentage or not is_layout(each) for each in wrong)
            self._in_values = in_values if self._in_values is None else self._in_values
            if self._in_values and not in_values:
                return Outcome(False, f"values agree with eager's ({_worst(record)})")
            return Outcome(True, _worst(record))
        if not record.passed:
            return Outcome(False, "; ".join(record.notes) or "nothing was compared")
        reason = f"{backend_name(self.backend)} agrees with eager on every output"
        return Outcome(False, reason if record.verdict == "match" else f"{reason} ({record.verdict})")

    def compared(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> DiffRecord:
        """The comparison of a graph on the two."""
        with _seeded(), sizes("open" if self.open_sizes else "usual"):
            return self._harness(gm, inputs).compare().record

    def likely(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> list[str]:
        """The nodes that a localization blames."""
        found = [nodes_of_line(gm, each.op, each.source, each.module_path) for each in self._culprits[:1]]
        if self._culprits or self.open_sizes:
            return found[0] if found else []
        with _seeded():
            try:
                culprits = self._harness(gm, inputs).localize(free_running=False).culprits
            except Exception:  # it is only for a guess
                return []
        return nodes_like(gm, culprits[0].op, culprits[0].node) if culprits else []

    def close(self) -> None:
        """End the backend's process, if it has one."""
        if self._adapter is not None:
            self._adapter.close()

    def _harness(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> KernelDiffHarness:
        harness = KernelDiffHarness(
            gm,
            tuple(inputs),
            "the graph",
            test_backend=self._adapter or self.backend,
            comparison_config=self.config,
            backward=self.needs_gradients,
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
            _CHECK.format(
                open_sizes=self.open_sizes,
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
            found.text,
        )
        setup = (*(lines_for_eager_randomness() if _draws(gm, inputs) else ()), *needs.setup)
        return graph_script(gm, inputs, check, size=needs.size, exact=exact, setup=setup)

    def _limit(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> tuple[float, float, str]:
        """The error from which on the script reports a failure, the least rounding error of an op, and a comment.

        Raises:
            ReproError: a script cannot tell the error from rounding.
        """
        harness = self._harness(gm, inputs)
        # The rounding error of the format that a device declares to compute in; 0 if that is the tensors' own.
        unit = 0.0 if harness.held_as is None else float(torch.finfo(harness.held_as).eps)
        with _seeded(), sizes("open" if self.open_sizes else "usual"):
            explained = explained_error(gm, inputs, backward=self.needs_gradients, unit=unit)
            if self._adapter is not None:  # it runs in a process of its own, and not in this one
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


def _draws(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> bool:
    """Whether the graph draws random numbers."""
    with torch.random.fork_rng(), torch.no_grad():
        before = torch.get_rng_state()
        copy.deepcopy(gm).forward(*map(copy_of, inputs))
        return not torch.equal(before, torch.get_rng_state())


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
