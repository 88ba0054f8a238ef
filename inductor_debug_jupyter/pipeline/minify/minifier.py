"""The smallest graph that still fails, and a script that shows it.

The strategies of :meth:`Minifier._strategies` make the graph smaller one after another; each asks the
:class:`FailurePredicate` through :class:`Evaluations`. What is left has to fail again, and its script has to fail in a
fresh process, before it is called a repro.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.adapters import AcceleratorAdapter
from inductor_debug_jupyter.pipeline.devices import Constraint, load_profile, rules_for
from inductor_debug_jupyter.pipeline.errors import ConstraintViolationError, FlakyFailureError, UsageError
from inductor_debug_jupyter.pipeline.harmless import Harmless
from inductor_debug_jupyter.pipeline.minify.backend_source import Backend
from inductor_debug_jupyter.pipeline.minify.cutting import GraphCutter
from inductor_debug_jupyter.pipeline.minify.evaluations import Budget, Case, Evaluations, Progress, ReductionStrategy
from inductor_debug_jupyter.pipeline.minify.fewer_nodes import FewerNodes
from inductor_debug_jupyter.pipeline.minify.graphs import graphs_of
from inductor_debug_jupyter.pipeline.minify.predicates import (
    CallerSays,
    FailurePredicate,
    Outcome,
    RaisesSame,
    ScriptNeeds,
    StillFound,
)
from inductor_debug_jupyter.pipeline.minify.smaller_inputs import ALL_REPLACED, SmallerInputs
from inductor_debug_jupyter.pipeline.records import ReproRecord, Violation
from inductor_debug_jupyter.pipeline.repro import check_shows_alone
from inductor_debug_jupyter.pipeline.repro.graph_script import calls_of
from inductor_debug_jupyter.pipeline.repro.values import copy_of, drawn, is_drawn
from inductor_debug_jupyter.pipeline.settings import resolve
from inductor_debug_jupyter.pipeline.store import SETTINGS, ArtifactStore, Shelf
from inductor_debug_jupyter.pipeline.store.files import explained
from inductor_debug_jupyter.pipeline.words import count

REPEATS_OF_A_PASS: Final = 2
"""How often a whole graph that passes is run again."""

Failure = BaseException | Violation | Sequence[Violation] | None


@dataclass(frozen=True)
class MinimalRepro(Harmless):
    """The result of a reduction.

    Args:
        gm: the smallest failing graph.
        inputs: its inputs.
        reason: how it fails.
        kept: the names of the nodes that are left of the whole graph.
        total_ops: how many ops the whole graph has.
        evaluations: how many graphs were tested.
        nearest_passing: of the graphs that did not fail, the one that differs least; None when all failed.
        is_complete: False when the budget ended the search early.
        changes: what was done to the inputs, in words.
        path: the script, once it was written; None before.
        verified: seconds that the script took in a fresh process; None if it was not run there.
        where: which graph of the model it is a part of, where there are several.
        script: the text of the script.
        seconds: how long the search took.
    """

    gm: torch.fx.GraphModule
    inputs: tuple[Any, ...]
    reason: str
    kept: tuple[str, ...]
    total_ops: int
    evaluations: int
    nearest_passing: torch.fx.GraphModule | None = None
    is_complete: bool = True
    changes: tuple[str, ...] = ()
    path: Path | None = None
    verified: float | None = None
    where: str = ""
    script: str = ""
    seconds: float = 0.0

    @property
    def ops(self) -> int:
        """How many ops are left."""
        return len(calls_of(self.gm))

    @property
    def record(self) -> ReproRecord:
        """The result without live objects, to be saved."""
        written = "listed(" in self.script or "packed(" in self.script
        return ReproRecord(
            path="" if self.path is None else str(self.path),
            script=self.script,
            reason=self.reason,
            ops=self.ops,
            total_ops=self.total_ops,
            evaluations=self.evaluations,
            seconds=self.seconds,
            verified=self.verified or 0.0,
            where=self.where,
            changes=self.changes,
            is_complete=self.is_complete,
            exact_values=written and not any(change in ALL_REPLACED for change in self.changes),
        )

    def __str__(self) -> str:
        lines = str(self.record).splitlines()[: None if self.path else 1]
        if self.nearest_passing is not None:
            lines.append(f"nearest that passes: {count(len(calls_of(self.nearest_passing)), 'op')}")
        return "\n".join(lines)


class Minifier:
    """Reduces a failing graph.

    Args:
        gm: the graph, such as a backend is given.
        inputs: its inputs.
        error: the failure: an exception (the same type with the same first line must come again), a
            :class:`ConstraintViolationError` or violations (the rule must find the same again; the first is taken).
        run: how to run a graph, ``run(gm, inputs)``; by default it is called. A text is a backend's name.
        backend: a torch.compile backend, by name or itself, or an adapter, to run the graph with.
        fails: for any other failure, ``fails(gm, inputs)`` or a :class:`FailurePredicate` such as :class:`Differs`.
        rules: the rules to check a violation against; by default those of ``target``.
        target: a device profile; by default ``INDUCTOR_DEBUG_TARGET`` or ``default``.
        setup: lines of Python that the script runs first, such as settings of torch.
        max_evaluations: how many graphs to test at most.
        seconds: how long to search at most.
        journal: a file that keeps the outcomes while the search runs; one that was interrupted goes on from there.
        on_progress: called with a :class:`Progress` after each tested graph.
        where: which graph of a model this is, for the answer.
        whole: how the whole graph fails, where that is known.

    Raises:
        UsageError: the arguments name no failure to reduce.
    """

    def __init__(
        self,
        gm: torch.fx.GraphModule,
        inputs: Sequence[Any] | torch.Tensor,
        error: Failure = None,
        *,
        run: Callable[..., Any] | str | None = None,
        backend: Backend | AcceleratorAdapter | None = None,
        fails: Callable[..., Any] | FailurePredicate | None = None,
        rules: Sequence[Constraint] | None = None,
        target: str | None = None,
        setup: Sequence[str] = (),
        max_evaluations: int = 2000,
        seconds: float | None = None,
        journal: Path | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        where: str = "",
        whole: Outcome | None = None,
    ) -> None:
        if not isinstance(gm, torch.fx.GraphModule):
            raise UsageError(
                f"gm: a {type(gm).__name__} is not allowed; allowed: a torch.fx.GraphModule "
                "(Minifier.of_model takes a model)"
            )
        if isinstance(run, str):
            run, backend = None, run
        self.gm = gm
        self.inputs = (inputs,) if isinstance(inputs, torch.Tensor) else tuple(inputs)
        self.target = str(resolve({"target": target}, names=["target"])["target"])
        self.setup = tuple(setup)

        def checked() -> Sequence[Constraint]:
            settings = resolve({"target": target})
            return rules or rules_for(load_profile(settings["target"]).with_settings(settings))

        self.predicate = _predicate(error, run, backend, fails, checked)
        self._where = where
        self._whole = whole
        self._minimal: MinimalRepro | None = None
        self._script: str | None = None
        self._total = len(calls_of(gm))
        self._on_progress = on_progress or (lambda progress: None)
        self._tested = Evaluations(
            lambda case: self.predicate(case.gm, [copy_of(value) for value in case.inputs]),
            Budget(max_evaluations, seconds),
            journal,
            self._report_progress,
        )

    @classmethod
    def of_model(cls, model: Callable[..., Any], inputs: Any, error: Failure = None, **options: Any) -> Minifier:
        """A minifier of the graph of a model that fails: the first that does of those that Dynamo makes of it.

        Args:
            model: a module or a function.
            inputs: a tensor, a tuple or list of positional arguments, or a dict of keyword arguments.
            error: the failure.
            options: as for :class:`Minifier`.

        Raises:
            UsageError: there is no graph, none fails by itself, or the arguments name no failure to reduce.
        """
        fails = options.get("fails")
        # A comparison runs in this grad mode, so the model is traced in it, too.
        gradients = getattr(fails, "needs_gradients", False)
        found = graphs_of(model, inputs, gradients=gradients, open_sizes=getattr(fails, "open_sizes", False))
        several = [cls(each.gm, each.inputs, error, where=each.name, **options) for each in found]
        return next((each for each in several if each.whole().fails), several[0])

    def whole(self) -> Outcome:
        """Whether the whole graph fails, and how (or what happens instead); computed once.

        A graph that passes is run again, so that a failure that comes and goes is found.

        Raises:
            FlakyFailureError: it fails in some runs only.
        """
        if self._whole is None:
            first = self._run_whole()
            if not first.fails:
                later = [self._run_whole() for _ in range(REPEATS_OF_A_PASS if self.predicate.confirmations else 0)]
                if failed := [each for each in later if each.fails]:
                    raise FlakyFailureError(_flaky(len(failed), len(later) + 1, "the whole graph", failed[0].reason))
            self._whole = first
        return self._whole

    def _run_whole(self) -> Outcome:
        return self.predicate(self.gm, [copy_of(value) for value in self.inputs])

    def minify(self) -> MinimalRepro:
        """Find the smallest failing graph; computed once. After an interrupt it goes on where it was.

        Raises:
            UsageError: the whole graph does not fail in this way, or a graph without ops does too.
            FlakyFailureError: the failure comes and goes.
        """
        if self._minimal is None or not self._minimal.is_complete:
            try:
                self._minimal = self._reduced()
            finally:
                self.predicate.close()
        return self._minimal

    @property
    def smallest(self) -> Case | None:
        """The smallest graph so far that fails, also after an interrupt."""
        return self._tested.smallest

    def _reduced(self) -> MinimalRepro:
        tested = self._tested
        tested.start()
        whole = self.whole()
        if not whole.fails:
            raise UsageError(f"there is nothing to reduce: the whole graph does not fail in this way ({whole.reason})")
        cutter = GraphCutter(
            self.gm,
            self.inputs,
            hoist_attributes=not self.predicate.needs_roles,
            gradients=self.predicate.needs_gradients,
            open_sizes=self.predicate.open_sizes,
        )
        everything = Case(self.gm, self.inputs, tuple(cutter.candidates), ("whole",))
        tested.smallest = everything
        case: Case = everything
        for strategy in self._strategies(cutter):
            case = strategy.reduce(case, tested)
        self._confirm(case)
        passing = tested.nearest_passing(case.kept)
        nearest = None if passing is None else cutter.cut(passing)[0]
        if case is everything:  # cutting alone makes the failure go away
            tested.is_complete = False
        elif nearest is None and not self.predicate.keeps_inputs:
            nearest = self._without_ops(cutter)
        if tested.is_complete:
            tested.finish()
        outcome = tested.seen.get(case.key, whole)
        return MinimalRepro(
            gm=case.gm,
            inputs=case.inputs,
            reason=outcome.reason,
            kept=case.kept,
            total_ops=self._total,
            evaluations=len(tested.seen) + 1,
            nearest_passing=nearest,
            is_complete=tested.is_complete,
            changes=case.changes if case is not everything else (),
            where=self._where,
            seconds=tested.seconds,
        )

    def _strategies(self, cutter: GraphCutter) -> Sequence[ReductionStrategy]:
        """What makes the graph smaller, in this order."""
        blamed = [cutter.raised_at] if cutter.raised_at else self.predicate.likely(self.gm, self.inputs)
        guess = [name for name in blamed if name in cutter.candidates]
        guesses = [guess[:1], guess] if len(guess) > 1 else [guess]
        nodes = FewerNodes(cutter, guesses)
        if self.predicate.keeps_inputs:
            return (nodes,)
        return (nodes, SmallerInputs(runs_eagerly=cutter.raised_at is None))

    def _confirm(self, case: Case) -> None:
        """Run the smallest failing graph again.

        Raises:
            FlakyFailureError: it does not fail each time.
        """
        again = [self._tested.test(case) for _ in range(self.predicate.confirmations)]
        if passed := [each for each in again if not each.fails]:
            failed = len(again) - len(passed) + 1
            raise FlakyFailureError(_flaky(failed, len(again) + 1, f"a graph of {case.ops} ops", passed[0].reason))

    def _without_ops(self, cutter: GraphCutter) -> torch.fx.GraphModule:
        """The graph without ops, where no other was seen to pass.

        Raises:
            UsageError: it fails, too.
        """
        gm, inputs = cutter.without_ops()
        try:
            outcome = self.predicate(gm, inputs)
        except Exception:  # the user's own function may need an op
            return gm
        if outcome.fails:
            raise UsageError(
                "there is nothing to reduce: every graph fails, also one that only returns its inputs "
                f"({outcome.reason}); what fails is not in the graph, or fails= is always true"
            )
        return gm

    def _report_progress(self) -> None:
        smallest = self._tested.smallest
        ops = smallest.ops if smallest is not None else self._total
        self._on_progress(Progress(len(self._tested.seen) + 1, ops, self._total, self._tested.seconds))

    def repro_script(self) -> str:
        """The text of the standalone script; :meth:`generate_repro_script` also checks that it fails alone.

        Raises:
            ReproError: the graph cannot be written as one.
        """
        minimal = self.minify()
        try:
            needs = ScriptNeeds(
                size=f"{minimal.ops} of {minimal.total_ops} ops",
                exact=self._needs_exact_values(minimal),
                setup=self.setup,
                target=self.target,
            )
            return self.predicate.script(minimal.gm, minimal.inputs, needs)
        finally:
            self.predicate.close()

    def written(self, path: str | Path | Shelf | None = None) -> MinimalRepro:
        """The result with its script, which was run in a fresh interpreter and showed the failure, and is at ``path``.

        The file is ``path``, or in ``repros/`` of a session's shelf or of the artifact folder.

        Raises:
            ReproError: the graph cannot be written as a script, or the script does not fail alone; nothing is written.
            StoreError: the file cannot be written.
        """
        script = self.repro_script()
        seconds = check_shows_alone(script)
        if path is None:
            path = Shelf(ArtifactStore.of(resolve(names=SETTINGS)), f"minify-{uuid.uuid4().hex[:6]}")
        if isinstance(path, Shelf):
            target = path.put("repros", "minified.py", script)
        else:
            target = Path(path)
            with explained("write", target):
                if target.is_dir():
                    target = target / "minified.py"
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(script, encoding="utf-8")
        self._minimal = replace(self.minify(), path=target.resolve(), verified=seconds, script=script)
        return self._minimal

    def generate_repro_script(self, path: str | Path | Shelf | None = None) -> Path:
        """The path of the script, as :meth:`written` leaves it.

        Raises:
            ReproError: the graph cannot be written as a script, or the script does not fail alone; nothing is written.
            StoreError: the file cannot be written.
        """
        found = self.written(path).path
        assert found is not None
        return found

    def _needs_exact_values(self, minimal: MinimalRepro) -> bool:
        """Whether the failure goes away when large inputs are drawn from a seed."""
        if not any(map(is_drawn, minimal.inputs)):
            return False
        return not self.predicate(minimal.gm, drawn(minimal.inputs)).fails


def _predicate(
    error: Failure,
    run: Callable[..., Any] | None,
    backend: Backend | AcceleratorAdapter | None,
    fails: Callable[..., Any] | FailurePredicate | None,
    rules: Callable[[], Sequence[Constraint]],
) -> FailurePredicate:
    if fails is not None:
        return fails if isinstance(fails, FailurePredicate) else CallerSays(fails)
    if isinstance(error, ConstraintViolationError):
        error = error.findings
    if isinstance(error, Violation):
        return StillFound(error, rules())
    if isinstance(error, BaseException):
        return RaisesSame(error, run, backend)
    if error and all(isinstance(each, Violation) for each in error):
        return StillFound(error[0], rules())
    raise UsageError(
        f"error: {error!r} is not allowed; allowed: an exception, a violation or several, or fails= with a function"
    )


def _flaky(failed: int, runs: int, what: str, reason: str) -> str:
    return (
        f"the failure comes and goes: {what} fails in {failed} of {runs} runs ({reason}); a reduction would follow "
        "chance. Make it repeat itself first: a seed, torch.use_deterministic_algorithms(True), or one thread"
    )
