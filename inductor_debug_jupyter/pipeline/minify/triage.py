"""What fails when a backend runs a model: its numbers, an exception, or its process; and in which of the graphs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters import AcceleratorAdapter
from inductor_debug_jupyter.pipeline.adapters.graph_json import write_graph
from inductor_debug_jupyter.pipeline.adapters.isolated import IsolatedAdapter
from inductor_debug_jupyter.pipeline.adapters.lookup import BUILT_IN, registered_adapters
from inductor_debug_jupyter.pipeline.diff import ComparisonConfig
from inductor_debug_jupyter.pipeline.errors import NothingFailsError
from inductor_debug_jupyter.pipeline.isolation.installed import BACKENDS, registered
from inductor_debug_jupyter.pipeline.minify.backend_source import Backend, backend_name, backend_source
from inductor_debug_jupyter.pipeline.minify.differs import Differs
from inductor_debug_jupyter.pipeline.minify.endings import ProcessEnds
from inductor_debug_jupyter.pipeline.minify.graphs import FoundGraph, graphs_of
from inductor_debug_jupyter.pipeline.minify.minifier import Minifier
from inductor_debug_jupyter.pipeline.minify.predicates import FailurePredicate, Outcome, RaisesSame, compiled_call
from inductor_debug_jupyter.pipeline.records import Culprit
from inductor_debug_jupyter.pipeline.repro.values import copy_of
from inductor_debug_jupyter.pipeline.rerun.again import unnoticed
from inductor_debug_jupyter.pipeline.torch_compat.regions import undisturbed


@dataclass(frozen=True)
class Trial:
    """How a backend is tried.

    Attributes:
        backend: the backend.
        backward: also compare gradients.
        config: what counts as equal.
        open_sizes: compile with symbolic sizes.
        isolate: in a process of its own; None: where the backend is a third-party one that is given by name.
        timeout: in a process of its own, seconds for each step.
        memory_limit: bytes of that process.
        culprits: the ops that a search has blamed already.
    """

    backend: Backend | AcceleratorAdapter = "inductor"
    backward: bool = False
    config: ComparisonConfig | None = None
    open_sizes: bool = False
    isolate: bool | None = None
    timeout: float | None = None
    memory_limit: int | None = None
    culprits: Sequence[Culprit] = ()

    @property
    def is_isolated(self) -> bool:
        """Whether the backend runs in a process of its own."""
        return is_foreign(self.backend) if self.isolate is None else self.isolate


def is_foreign(backend: Any) -> bool:
    """Whether a backend's name says that it is neither torch's nor ours: its code may crash or hang."""
    if not isinstance(backend, str) or backend in BUILT_IN:
        return False
    if ":" in backend:
        return not backend.startswith(("torch.", "inductor_debug_jupyter."))
    points = registered(BACKENDS) | registered_adapters()
    return backend in points and is_foreign(points[backend].value.replace(" ", ""))


def minifier_of(model: Callable[..., Any], inputs: Any, trial: Trial, **options: Any) -> Minifier:
    """The minifier of the first graph of a model that fails on a backend, in whatever way it fails.

    Args:
        model: a module or a function.
        inputs: a tensor, a tuple or list of positional arguments, or a dict of keyword arguments.
        trial: how the backend is tried.
        options: as for :class:`Minifier`; ``journals`` is a folder for its journal.

    Raises:
        NothingFailsError: nothing fails.
        ReproError: no script can import the backend.
    """
    graphs = graphs_of(model, inputs, gradients=trial.backward, open_sizes=trial.open_sizes)
    journals: Path | None = options.pop("journals", None)
    reason = ""
    for graph in graphs:
        predicate, outcome = failure_of(graph, trial)
        if predicate is None:
            reason = reason or outcome.reason
            continue
        try:
            backend_source(trial.backend)  # raises before the search, which takes long
        except BaseException:
            predicate.close()
            raise
        journal = None if journals is None else journals / f"{_digest(graph, trial)}.jsonl"
        options = {"journal": journal, **options, "fails": predicate, "where": graph.name, "whole": outcome}
        return Minifier(graph.gm, graph.inputs, **options)
    raise NothingFailsError(f"nothing to reproduce: {reason}")


def failure_of(graph: FoundGraph, trial: Trial) -> tuple[FailurePredicate | None, Outcome]:
    """How a graph fails on a backend; None when it does not, with what happens instead.

    Raises:
        CannotSendError: the backend runs in a process of its own, and the graph cannot go there.
    """
    if trial.is_isolated:
        write_graph(graph.gm)
    alone = (
        IsolatedAdapter(trial.backend, timeout=trial.timeout, memory=trial.memory_limit)  # type: ignore[arg-type]
        if trial.is_isolated
        else None
    )
    found: tuple[FailurePredicate | None, Outcome] = None, Outcome(False, "")
    try:
        found = _failure(graph, trial, alone)
    finally:
        if found[0] is None and alone is not None:
            alone.close()
    return found


def _failure(graph: FoundGraph, trial: Trial, alone: IsolatedAdapter | None) -> tuple[FailurePredicate | None, Outcome]:
    sizes: dict[str, Any] = {"backward": trial.backward, "open_sizes": trial.open_sizes}
    differs = Differs(trial.backend, config=trial.config, adapter=alone, culprits=trial.culprits, **sizes)
    inputs = [copy_of(value) for value in graph.inputs]
    record = differs.compared(graph.gm, inputs)
    outcome = differs.outcome(record)
    if outcome.fails:
        return differs, outcome
    if record.crashes and alone is not None:
        crash = record.crashes[0]
        ends = ProcessEnds(crash, alone, trial.backend, timeout=trial.timeout, **sizes)
        return ends, Outcome(True, crash.sentence)
    if record.passed:
        return None, outcome
    error = _raised(lambda: graph.gm.forward(*map(copy_of, graph.inputs)))
    if error is not None:  # in eager mode too
        return None, Outcome(False, f"eager mode raises {type(error).__name__}, too")
    run = compiled_call(alone or trial.backend, **sizes)
    error = _raised(lambda: run(graph.gm, [copy_of(value) for value in graph.inputs]))
    if error is None:
        return None, outcome
    same = RaisesSame(error, backend=alone or trial.backend, written_as=trial.backend, **sizes)
    return same, Outcome(True, same.expected[1])


def _raised(run: Callable[[], Any]) -> BaseException | None:
    try:
        with unnoticed(), undisturbed():
            run()
    except Exception as error:
        return error
    return None


def _digest(graph: FoundGraph, trial: Trial) -> str:
    """A hash of the graph, the shapes of its inputs, and how the backend is tried: the name of the journal."""
    shapes = [(str(value.dtype), tuple(value.shape)) for value in graph.inputs if isinstance(value, torch.Tensor)]
    identity = (graph.gm.code, shapes, backend_name(trial.backend), trial.backward, trial.open_sizes)
    return hashlib.sha256(repr(identity).encode()).hexdigest()[:16]
