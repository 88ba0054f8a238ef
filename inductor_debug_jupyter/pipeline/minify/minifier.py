"""The smallest graph that still fails, and a script that shows it.

:class:`DeltaDebugging` tests halves first, then the set without one part, in ever finer parts. The result is minimal in
the sense that no single item can be taken away. No set is tested twice.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import torch

from inductor_debug_jupyter.pipeline.adapters import AcceleratorAdapter
from inductor_debug_jupyter.pipeline.devices import Constraint, load_profile, rules_for
from inductor_debug_jupyter.pipeline.errors import ConstraintViolationError, UsageError
from inductor_debug_jupyter.pipeline.harmless import Harmless
from inductor_debug_jupyter.pipeline.minify.backend_source import Backend
from inductor_debug_jupyter.pipeline.minify.cutting import GraphCutter
from inductor_debug_jupyter.pipeline.minify.predicates import (
    CallerSays,
    FailurePredicate,
    Outcome,
    RaisesSame,
    ScriptNeeds,
    StillFound,
    first_line,
)
from inductor_debug_jupyter.pipeline.records import Violation
from inductor_debug_jupyter.pipeline.repro import check_shows_alone
from inductor_debug_jupyter.pipeline.repro.graph_script import calls_of
from inductor_debug_jupyter.pipeline.repro.values import copy_of, drawn, is_drawn
from inductor_debug_jupyter.pipeline.rerun.copies import random_state_kept
from inductor_debug_jupyter.pipeline.settings import resolve
from inductor_debug_jupyter.pipeline.store import SETTINGS, ArtifactStore, Shelf
from inductor_debug_jupyter.pipeline.store.files import explained
from inductor_debug_jupyter.pipeline.torch_compat.regions import compile_as_ours, undisturbed


@dataclass
class DeltaDebugging:
    """One search, with the outcome of every set that it tested.

    Args:
        test: tests one set of items.
        limit: how many sets to test before the smallest failing one so far is the answer.
    """

    test: Callable[[tuple[str, ...]], Outcome]
    limit: int = 2000
    seen: dict[frozenset[str], Outcome] = field(default_factory=dict)
    is_complete: bool = True

    def fails(self, items: Sequence[str]) -> bool:
        """Whether a set fails; past the limit nothing does, so that the search ends."""
        key = frozenset(items)
        if key not in self.seen:
            if len(self.seen) >= self.limit:
                self.is_complete = False
                return False
            self.seen[key] = self.test(tuple(items))
        return self.seen[key].fails

    def smallest(self, items: Sequence[str], guess: Sequence[str] = ()) -> list[str] | None:
        """The smallest failing subset; ``guess`` is tested first. None when the whole set does not fail."""
        if guess and self.fails(guess):
            kept = list(guess)
        elif self.fails(items):
            kept = list(items)
        else:
            return None
        parts = 2
        while len(kept) > 1:
            pieces = _split(kept, parts)
            if (smaller := next(filter(self.fails, pieces), None)) is not None:
                kept, parts = smaller, 2
            elif (smaller := self._without_one(kept, pieces)) is not None:
                kept, parts = smaller, max(parts - 1, 2)
            elif parts >= len(kept):
                break
            else:
                parts = min(parts * 2, len(kept))
        return kept

    def _without_one(self, kept: list[str], pieces: list[list[str]]) -> list[str] | None:
        rests = ([item for item in kept if item not in set(piece)] for piece in pieces)
        return next((rest for rest in rests if rest and self.fails(rest)), None)

    def nearest_passing(self, kept: Sequence[str]) -> tuple[str, ...] | None:
        """Of the sets that passed, the one that differs least from the smallest failing one."""
        smallest = frozenset(kept)
        passing = [items for items, outcome in self.seen.items() if not outcome.fails]
        if not passing:
            return None
        distances = [(len(items ^ smallest), -len(items), sorted(items)) for items in passing]
        return tuple(min(distances)[2])


def _split(items: list[str], parts: int) -> list[list[str]]:
    """Cut a list into so many parts of about the same length."""
    bounds = [len(items) * number // parts for number in range(parts + 1)]
    return [items[start:end] for start, end in pairwise(bounds) if end > start]


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
        is_complete: False when the limit of evaluations ended the search early.
    """

    gm: torch.fx.GraphModule
    inputs: tuple[Any, ...]
    reason: str
    kept: tuple[str, ...]
    total_ops: int
    evaluations: int
    nearest_passing: torch.fx.GraphModule | None = None
    is_complete: bool = True

    @property
    def ops(self) -> int:
        """How many ops are left."""
        return len(calls_of(self.gm))

    def __str__(self) -> str:
        early = "" if self.is_complete else " (the search was ended early)"
        return f"{self.ops} of {self.total_ops} ops after {self.evaluations} evaluations{early}: {self.reason}"


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
        self.max_evaluations = max_evaluations
        self._whole: Outcome | None = None

    @classmethod
    def of_model(cls, model: Callable[..., Any], inputs: Any, error: Failure = None, **options: Any) -> Minifier:
        """A minifier of the one graph that Dynamo makes of a model.

        Args:
            model: a module or a function.
            inputs: a tensor, a tuple or list of positional arguments, or a dict of keyword arguments.
            error: the failure.
            options: as for :class:`Minifier`.

        Raises:
            UsageError: Dynamo breaks the graph, or the arguments name no failure to reduce.
        """
        args, kwargs = ((), inputs) if isinstance(inputs, Mapping) else (inputs, {})
        args = args if isinstance(args, (tuple, list)) else (args,)
        # A comparison runs in this grad mode, so the model is traced in it, too.
        gradients = getattr(options.get("fails"), "needs_gradients", False)
        with torch.set_grad_enabled(gradients or torch.is_grad_enabled()):
            gm, values = dynamo_graph(model, *args, **kwargs)
        return cls(gm, values, error, **options)

    def whole(self) -> Outcome:
        """Whether the whole graph fails, and how (or what happens instead); computed once."""
        if self._whole is None:
            self._whole = self.predicate(self.gm, [copy_of(value) for value in self.inputs])
        return self._whole

    def minify(self) -> MinimalRepro:
        """Find the smallest failing graph; computed once.

        Raises:
            UsageError: the whole graph does not fail in this way.
        """
        return self._minimal

    @cached_property
    def _minimal(self) -> MinimalRepro:
        whole = self.whole()
        if not whole.fails:
            raise UsageError(f"there is nothing to reduce: the whole graph does not fail in this way ({whole.reason})")
        cutter = GraphCutter(
            self.gm,
            self.inputs,
            hoist_attributes=not self.predicate.needs_roles,
            gradients=getattr(self.predicate, "needs_gradients", False),
        )
        search = DeltaDebugging(lambda kept: self.predicate(*cutter.cut(kept)), self.max_evaluations)
        likely = self.predicate.likely(self.gm) if isinstance(self.predicate, StillFound) else []
        guess = [name for name in likely if name in cutter.candidates]
        kept = search.smallest(cutter.candidates, guess if cutter.raised_at is None else [cutter.raised_at])
        total = len(calls_of(self.gm))
        if kept is None:  # cutting alone makes the failure go away
            names, looks = tuple(cutter.candidates), len(search.seen) + 1
            return MinimalRepro(self.gm, self.inputs, whole.reason, names, total, looks, is_complete=False)
        passing = search.nearest_passing(kept)
        gm, inputs = cutter.cut(kept)
        return MinimalRepro(
            gm=gm,
            inputs=tuple(inputs),
            reason=search.seen[frozenset(kept)].reason,
            kept=tuple(kept),
            total_ops=total,
            evaluations=len(search.seen) + 1,
            nearest_passing=None if passing is None else cutter.cut(passing)[0],
            is_complete=search.is_complete,
        )

    def repro_script(self) -> str:
        """The text of the standalone script; :meth:`generate_repro_script` also checks that it fails alone.

        Raises:
            ReproError: the graph cannot be written as one.
        """
        minimal = self.minify()
        needs = ScriptNeeds(
            size=f"{minimal.ops} of {minimal.total_ops} ops",
            exact=self._needs_exact_values(minimal),
            setup=self.setup,
            target=self.target,
        )
        return self.predicate.script(minimal.gm, minimal.inputs, needs)

    def generate_repro_script(self, path: str | Path | Shelf | None = None) -> Path:
        """Run the standalone script in a fresh interpreter, and write it if it shows the failure.

        The file is ``path``, or in ``repros/`` of a session's shelf or of the artifact folder.

        Raises:
            ReproError: the graph cannot be written as a script, or the script does not fail alone; nothing is written.
            StoreError: the file cannot be written.
        """
        script = self.repro_script()
        check_shows_alone(script)
        if path is None:
            path = Shelf(ArtifactStore.of(resolve(names=SETTINGS)), f"minify-{uuid.uuid4().hex[:6]}")
        if isinstance(path, Shelf):
            return path.put("repros", "minified.py", script)
        target = Path(path)
        with explained("write", target):
            if target.is_dir():
                target = target / "minified.py"
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(script, encoding="utf-8")
        return target.resolve()

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
        if hasattr(fails, "script") and hasattr(fails, "needs_roles"):
            return cast(FailurePredicate, fails)
        return CallerSays(fails)
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


def dynamo_graph(model: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[torch.fx.GraphModule, tuple[Any, ...]]:
    """The graph of a model and that graph's inputs, with the model's parameters among them.

    The model is traced and not run. The user's own compiles of it, and torch's count of recompiles, do not change.

    Raises:
        UsageError: Dynamo breaks the graph, or sees none.
    """
    seen: list[tuple[torch.fx.GraphModule, tuple[Any, ...]]] = []

    def keep(gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def run(*values: Any) -> Any:
            seen.append((gm, values))
            raise _SeenError

        return run

    def call(*call_args: Any, **call_kwargs: Any) -> Any:
        return model(*call_args, **call_kwargs)

    try:
        with undisturbed(), random_state_kept():
            compile_as_ours(call, keep, fullgraph=True, dynamic=False)(*args, **kwargs)
    except _SeenError:
        pass
    except Exception as error:
        raise UsageError(f"no single graph of this model: {type(error).__name__}: {first_line(error)}") from error
    if not seen:
        raise UsageError("no graph of this model: it computes nothing with tensors")
    return seen[0]


class _SeenError(Exception):
    """Raised instead of running the graph."""
