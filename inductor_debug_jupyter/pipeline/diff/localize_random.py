"""Which op that draws random numbers is wrong.

Such an op cannot be judged on the candidate's values: nobody knows what it should have drawn. It is run by itself, by
the candidate and in eager mode, from the same state of torch's generator. Where the results agree, the op is right.
Where they do not, the candidate may use a generator of its own, which is no fault: then both run again and again, and
the sums of the numbers, of their sizes and squares, and the count of zeros, are compared run by run. They are sums over
many independent draws, so their mean difference over its standard deviation is a normal number; beyond
:data:`_SIGMAS` the two do not draw from the same distribution, and the op is at fault.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.elements import same_values
from inductor_debug_jupyter.pipeline.diff.executions import EAGER, Backend, Call
from inductor_debug_jupyter.pipeline.diff.floors import Spread
from inductor_debug_jupyter.pipeline.diff.judging import judge
from inductor_debug_jupyter.pipeline.diff.localize_kernels import culprit_of
from inductor_debug_jupyter.pipeline.diff.localize_passes import Above
from inductor_debug_jupyter.pipeline.diff.replay import error_line
from inductor_debug_jupyter.pipeline.diff.windows import Compiler, window_of
from inductor_debug_jupyter.pipeline.records import Culprit, OutputDiff
from inductor_debug_jupyter.pipeline.rerun.again import unnoticed
from inductor_debug_jupyter.pipeline.rerun.copies import random_state_kept
from inductor_debug_jupyter.pipeline.torch_compat.graphs import has_zero_dropout, mutated_inputs
from inductor_debug_jupyter.pipeline.torch_compat.replay import AotKeeper, KeptGraph, as_aot_runs
from inductor_debug_jupyter.pipeline.torch_compat.trees import of_kind

_SIGMAS: Final = 6.0
"""Chance exceeds so many standard deviations about once in a million comparisons of 32 runs."""
_DRAWS: Final = 50_000
"""About so many numbers are drawn on each side."""
_FEWEST, _MOST = 32, 256
"""Runs of one op."""
_SEEDS: Final = range(2)
_OTHER_SEED: Final = 20_261_118

Moment = Callable[[torch.Tensor], torch.Tensor]
_MOMENTS: Final[dict[str, Moment]] = {
    "mean": lambda value: value,
    "mean size": torch.abs,
    "mean square": torch.square,
    "share of zeros": lambda value: (value == 0).double(),
}


@dataclass(frozen=True, slots=True)
class Draws(Above):
    """Ops that draw other numbers than they should; ``elsewhere`` has those that only use a generator of their own."""

    elsewhere: tuple[str, ...] = ()


def search_random(call: Call, config: ComparisonConfig, compiler: Compiler) -> Draws:
    """The ops of a model that draw other random numbers than they should."""
    keeper = AotKeeper()
    call.execute(Backend("aot", keeper), config)
    found: list[Culprit] = []
    notes: list[str] = []
    elsewhere: list[str] = []
    for kept in keeper.graphs:
        if kept.args is not None and any(map(draws, kept.graph_module.graph.nodes)):
            with unnoticed(), as_aot_runs(), random_state_kept(), torch.no_grad():
                search = _RandomSearch(kept, compiler)
                search.run(*kept.args)
            found += search.found
            notes += search.notes
            elsewhere += search.elsewhere
    return Draws(tuple(found), tuple(notes), tuple(elsewhere))


def drawn_outputs(
    outputs: Iterable[OutputDiff], call: Call, config: ComparisonConfig, reference: Mapping[str, Any]
) -> frozenset[str]:
    """Of the outputs whose values are wrong, those that come out otherwise in eager mode from other random numbers."""
    wrong = [
        output.path
        for output in outputs
        if output.verdict == "mismatch"
        and (output.shape, output.dtype) == (output.candidate_shape, output.candidate_dtype)
        and output.reference_nonfinite == output.candidate_nonfinite
    ]
    if not wrong:
        return frozenset()
    with random_state_kept():
        torch.manual_seed(_OTHER_SEED)
        other = call.execute(Backend(EAGER), config)
    given = {**other.after, **other.values}
    return frozenset(path for path in wrong if not _is_same(reference.get(path), given.get(path)))


def _is_same(one: Any, other: Any) -> bool:
    tensors = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
    return not tensors or one.shape != other.shape or same_values(one, other)


def from_elsewhere(outputs: Iterable[OutputDiff], paths: Collection[str], draws: Draws) -> tuple[OutputDiff, ...]:
    """The outputs; of these paths the values tell nothing, unless an op that draws is wrong by itself."""
    if draws.culprits or not draws.elsewhere:
        return tuple(outputs)
    why = f"the candidate draws random numbers of its own ({', '.join(draws.elsewhere[:3])}): values cannot be compared"
    return tuple(
        replace(output, verdict="not_compared", reason=why) if output.path in paths else output for output in outputs
    )


def draws(node: torch.fx.Node) -> bool:
    """Whether a node draws random numbers."""
    return "<rng>" in mutated_inputs(node) and not has_zero_dropout(node)


class _RandomSearch(torch.fx.Interpreter):
    """Runs a graph eagerly, and each op that draws on the candidate too."""

    def __init__(self, kept: KeptGraph, compiler: Compiler) -> None:
        super().__init__(kept.graph_module)
        self.found: list[Culprit] = []
        self.notes: list[str] = []
        self.elsewhere: list[str] = []
        self._stage = kept.stage
        self._compiler = compiler

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run a node; one that draws is looked at."""
        result = super().run_node(n)
        if draws(n):
            try:
                self._look(n)
            except Exception as error:  # whatever a backend raises on one op
                self.notes.append(f"{n.name} draws random numbers and was not compared: {error_line(error)}")
        return result

    def _look(self, node: torch.fx.Node) -> None:
        pair = self._pair(node)
        if all(pair.agrees(seed) for seed in _SEEDS):
            return
        if difference := pair.difference():
            reason = f"from the same state of the generator it draws other numbers than eager mode, and {difference}"
            self.found.append(culprit_of(node, self._stage, None, reason))
        else:
            self.elsewhere.append(node.name)
            self.notes.append(
                f"{node.name} draws other random numbers than eager mode; their sums, sizes and zeros agree over "
                f"{pair.runs} runs, which does not show that each is right: what is computed from them was not compared"
            )

    def _pair(self, node: torch.fx.Node) -> _Pair:
        """The candidate's op and eager mode's, each as a function of nothing."""
        window = window_of([node, *(user for user in node.users if user.target is operator.getitem)])
        graph_module, _ = window.graph_module(self.module)  # type: ignore[arg-type]
        inputs = [self.env[start] for start in window.starts]
        compiled = self._compiler(graph_module, inputs)
        plain, _ = window.graph_module(self.module)  # type: ignore[arg-type]

        def run(function: Callable[..., Any]) -> Sequence[torch.Tensor]:
            copies = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]
            return of_kind(torch.Tensor, list(function(*copies)))

        return _Pair(lambda: run(compiled), lambda: run(plain))


@dataclass(eq=False)
class _Pair:
    candidate: Callable[[], Sequence[torch.Tensor]]
    eager: Callable[[], Sequence[torch.Tensor]]
    runs: int = field(default=_FEWEST, init=False)

    def agrees(self, seed: int) -> bool:
        """Whether both give the same from the same state of torch's generator."""
        torch.manual_seed(seed)
        ours = self.candidate()
        torch.manual_seed(seed)
        theirs = self.eager()
        return len(ours) == len(theirs) and all(
            (one.shape, one.dtype) == (other.shape, other.dtype) and not judge(one, Spread(other)).wrong
            for one, other in zip(ours, theirs, strict=True)
        )

    def difference(self) -> str:
        """What tells the distributions apart; empty when nothing does."""
        ours, theirs = _Sums(), _Sums()
        torch.manual_seed(0)
        first = self.eager()
        smallest = min((value.numel() for value in first), default=1)
        self.runs = min(_MOST, max(_FEWEST, math.ceil(_DRAWS / max(1, smallest))))
        for seed in range(self.runs):
            for side, sums in ((self.candidate, ours), (self.eager, theirs)):
                torch.manual_seed(seed)
                sums.add(side())
        return ours.against(theirs, self.runs)


@dataclass(eq=False)
class _Sums:
    """Of each result and moment: the total of each run."""

    totals: dict[tuple[int, str], list[float]] = field(default_factory=dict)
    sizes: dict[int, tuple[Any, ...]] = field(default_factory=dict)

    def add(self, results: Sequence[torch.Tensor]) -> None:
        for index, result in enumerate(results):
            self.sizes[index] = tuple(result.shape), result.dtype, result.numel()
            value = result.detach().abs() if result.is_complex() else result.detach()
            for name, moment in _MOMENTS.items():
                self.totals.setdefault((index, name), []).append(float(moment(value.double()).sum()))

    def against(self, eager: _Sums, runs: int) -> str:
        """The moment that differs most, in words, if any does."""
        if self.sizes != eager.sizes:
            return f"results of another kind: {list(self.sizes.values())}, in eager mode {list(eager.sizes.values())}"
        worst, verdict = _SIGMAS, ""
        for key, theirs in eager.totals.items():
            ours = self.totals[key]
            one, other = (torch.tensor(each, dtype=torch.float64) for each in (ours, theirs))
            apart = one - other  # run by run: from one generator, both sides vary together
            gap, deviation = float(apart.mean().abs()), float(apart.std()) / math.sqrt(runs)
            sigmas = gap / deviation if deviation else math.inf if gap > 1e-9 * float(other.abs().mean()) else 0.0
            if sigmas > worst:
                count = max(1, self.sizes[key[0]][2])
                worst = sigmas
                verdict = (
                    f"of another distribution: over {runs} runs the {key[1]} is {float(one.mean()) / count:.4g}, in "
                    f"eager mode {float(other.mean()) / count:.4g}, {sigmas:.3g} standard deviations apart"
                )
        return verdict
