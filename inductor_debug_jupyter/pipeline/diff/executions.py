"""One side of a comparison: run the model with a backend, and keep what came out.

A backend is ``eager`` (the model as it is, whatever it was compiled with before), the name of a ``torch.compile``
backend or of a registered adapter, ``module:attribute``, a function like a backend, or an adapter: an object with
``as_backend()`` or ``compile(graph_module, inputs)``.
``dynamo`` is torch's backend called "eager": traced, not lowered.

The candidate counts as compiled only if its backend was really asked to compile and did: Dynamo runs eagerly
whatever it gives up on, and a comparison of eager with eager proves nothing.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters import AcceleratorAdapter, BackendAdapter, IsolatedAdapter, find_adapter
from inductor_debug_jupyter.pipeline.adapters.lookup import (
    BUILT_IN,
    DYNAMO,
    backend_names,
    check_name,
    registered_adapters,
)
from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.contract import Facts, is_dense
from inductor_debug_jupyter.pipeline.diff.effects import (
    Effects,
    differentiate,
    everything_of,
    is_changed,
    state_of,
)
from inductor_debug_jupyter.pipeline.diff.outputs import flatten_outputs, path_of_call
from inductor_debug_jupyter.pipeline.diff.recording import SUFFIX, Recording
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.records import CrashRecord
from inductor_debug_jupyter.pipeline.rerun.again import unnoticed
from inductor_debug_jupyter.pipeline.rerun.copies import Memo, as_computed, clone_inputs, memo_copy, own_module
from inductor_debug_jupyter.pipeline.rerun.reachable import reach
from inductor_debug_jupyter.pipeline.rerun.time_limit import time_limit
from inductor_debug_jupyter.pipeline.torch_compat import regions
from inductor_debug_jupyter.pipeline.torch_compat.state import caches_bypassed
from inductor_debug_jupyter.pipeline.words import clip

log = logging.getLogger("inductor_debug_jupyter")

EAGER = "eager"
_LONGEST_MESSAGE = 400

Compiler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Backend:
    """How to run a model; ``compiler`` is None for eager mode. ``close`` is called when it has run.

    ``held_as`` is the format that a device holds every float in, where that is narrower than the tensors' own.
    ``recording`` is an execution of elsewhere, which is not run again. ``is_torchs``: it is a backend of torch's own,
    which computes in the tensors' formats. ``sums_in`` is the format that a device says it keeps running sums in.
    """

    name: str
    compiler: Compiler | None = None
    close: Callable[[], None] | None = field(default=None, compare=False)
    held_as: torch.dtype | None = None
    recording: Recording | None = field(default=None, compare=False)
    is_torchs: bool = False
    sums_in: torch.dtype | None = None

    @property
    def isolated(self) -> bool:
        """Whether it runs in a process of its own, which is ended by ``close``."""
        return self.close is not None


def resolve_backend(value: Any, option: str) -> Backend:
    """The backend that was meant.

    Raises:
        UsageError: there is no such backend.
    """
    if (known := _without_compiler(value)) is not None:
        return known
    if not isinstance(value, str):
        return _backend_of(value, option)
    if value in backend_names() and value not in {*BUILT_IN, *registered_adapters()}:  # an adapter knows more
        compiler = regions.registered_backend(EAGER if value == DYNAMO else value)
        is_torchs = str(getattr(compiler, "__module__", "")).partition(".")[0] == "torch"
        return Backend(value, compiler, is_torchs=is_torchs)
    if ":" not in value:
        check_name(value, option, also=(EAGER,))
    return _backend_of(find_adapter(value, origin=option), option)


def _backend_of(value: Any, option: str) -> Backend:
    """An adapter, an object with ``compile``, or a function like a ``torch.compile`` backend."""
    name = getattr(value, "name", None) or getattr(value, "__name__", None) or type(value).__name__
    held = getattr(value, "compute_dtype", None)
    held_as = held if isinstance(held, torch.dtype) else None
    declared = getattr(value, "sum_dtype", None)
    sums_in = declared if isinstance(declared, torch.dtype) else None
    if isinstance(value, IsolatedAdapter):  # its process stays: whoever made it ends it
        run, stays = value.as_backend(fallback=False), lambda: None
        return Backend(value.name, run, stays, value.compute_dtype, sums_in=value.sum_dtype)
    if callable(as_backend := getattr(value, "as_backend", None)):
        # Our adapters would rather run eagerly than not at all; here that would compare eager with eager.
        strictly = {"fallback": False} if "fallback" in inspect.signature(as_backend).parameters else {}
        return Backend(str(name), as_backend(**strictly), held_as=held_as, sums_in=sums_in)
    if not isinstance(value, torch.nn.Module) and callable(compile_ := getattr(value, "compile", None)):
        return Backend(str(name), compile_, held_as=held_as, sums_in=sums_in)
    if callable(value):
        return Backend(str(name), value, held_as=held_as, sums_in=sums_in)
    raise OptionError(f"{option}={value!r}; allowed: the name of a backend, a callable, an adapter or a Recording")


def _without_compiler(value: Any) -> Backend | None:
    """Eager mode, a recording, or the file of one; None for anything else."""
    if isinstance(value, str) and value == EAGER:
        return Backend(EAGER)
    if isinstance(value, str | Path) and str(value).endswith(SUFFIX):
        value = Recording.load(value)
    return Backend(value.name, recording=value) if isinstance(value, Recording) else None


def isolated_backend(value: Any, option: str, timeout: float | None, memory: int | None = None) -> Backend:
    """The backend that was meant, in a process of its own; ``eager`` is the user's own code and stays here.

    ``timeout`` and ``memory`` are the limits of that process.

    Raises:
        UsageError: there is no such backend, or it cannot go to another process.
    """
    if (known := _without_compiler(value)) is not None:
        return known
    if isinstance(value, str):
        if ":" not in value:
            check_name(value, option, also=(EAGER,))
    elif not isinstance(value, AcceleratorAdapter):
        if not callable(value):
            raise OptionError(f"{option}={value!r}; allowed: the name of a backend, a callable or an adapter")
        value = BackendAdapter(value)
    alone = IsolatedAdapter(value, timeout=timeout, memory=memory)
    compiler = alone.as_backend(fallback=False)  # asks the adapter what it is
    return Backend(alone.name, compiler, alone.close, alone.compute_dtype, sums_in=alone.sum_dtype)


@dataclass(slots=True)
class Execution:
    """What one side did.

    What a later call did goes by the same paths with ``call 2:`` and so on in front (:mod:`outputs`).

    Attributes:
        values: outputs and gradients by path.
        seconds: how long it took, compiling included.
        error: what it raised; empty when it ran.
        crash: how the process ended that it ran in, if it did.
        incomplete: why what ran is not, or not all, what should have run; empty when it is.
        after: inputs, and tensors, numbers and texts that the model reaches, as the run left them.
        changed: those of them that it wrote to, replaced, made or took away.
        facts: what the tensors are beside their values; not known of a recording.
        notes: what could not be looked into.
        broken: how the backend did not keep to the graph that it was given, beside the values.
        spoiled: the user's own tensors that the run wrote to, though it had copies: what follows starts from these.
        overwritten: results of a call that a later call wrote over, as a device does that uses its memory again.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    error: str = ""
    crash: CrashRecord | None = None
    incomplete: list[str] = field(default_factory=list)
    after: dict[str, Any] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)
    facts: dict[str, Facts] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    spoiled: list[str] = field(default_factory=list)
    overwritten: set[str] = field(default_factory=set)

    def add(self, number: int, effects: Effects) -> None:
        """Take in what a call did."""

        def marked(found: Mapping[str, Any]) -> dict[str, Any]:
            return {path_of_call(number, path): value for path, value in found.items()}

        self.values = {**self.values, **marked(effects.values)}
        self.after |= marked(effects.after)
        self.changed |= {path_of_call(number, path) for path in effects.changed}
        self.facts |= {
            path_of_call(number, path): replace(
                facts, shares=frozenset(path_of_call(number, each) for each in facts.shares)
            )
            for path, facts in effects.facts.items()
        }
        self.incomplete += [why for why in effects.incomplete if why not in self.incomplete]


@dataclass(eq=False)
class CompiledGraphs:
    """What backends made of graphs, kept from one run of a harness to the next.

    Dynamo traces anew each time; a graph with the same code, inputs of the same kind and no constants of its own is
    given to the backend once.
    """

    _made: dict[Any, Callable[..., Any]] = field(default_factory=dict)

    def made(
        self,
        backend: Backend,
        graph_module: torch.fx.GraphModule,
        inputs: Sequence[Any],
        make: Callable[[], Callable[..., Any]],
    ) -> Callable[..., Any]:
        """What a backend made of such a graph before, or else makes of it now."""
        if backend.close is not None or any(node.op == "get_attr" for node in graph_module.graph.nodes):
            return make()
        kinds = [
            (value.dtype, tuple(map(str, value.shape)), value.requires_grad, str(value.device), tuple(value.stride()))
            if isinstance(value, torch.Tensor)
            else str(value)
            for value in inputs
        ]
        key = id(backend.compiler), graph_module.code, tuple(kinds), torch.is_grad_enabled()
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


@dataclass(eq=False)
class _CountedCompiler:
    """Passes graphs on, and counts what became of them.

    Dynamo traces the model in the grad mode of the call. ``without_gradients`` the backend compiles and runs the graph
    as if that were off: nobody asked for gradients, and a device may have no backward. A model that goes backward by
    itself gets a :class:`_NeedsGradientsError` then.
    """

    backend: Backend
    without_gradients: bool
    kept: CompiledGraphs | None = None
    compiled: int = 0
    failures: list[str] = field(default_factory=list)
    miscounted: dict[str, None] = field(default_factory=dict)
    _inductor_debug: bool = True

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], **options: Any) -> Any:
        def make() -> Callable[..., Any]:
            assert self.backend.compiler is not None
            return runnable(self.backend.compiler(graph_module, example_inputs, **options), self.backend.name)

        try:
            with self._grad_mode():
                if self.kept is None or options:
                    run = make()
                else:
                    run = self.kept.made(self.backend, graph_module, example_inputs, make)
        except Exception as error:
            if not regions.asks_to_trace_again(error):
                self.failures.append(describe(error))
            raise
        self.compiled += 1
        return self._counting_outputs(run, graph_module)

    def _counting_outputs(self, run: Callable[..., Any], graph_module: torch.fx.GraphModule) -> Callable[..., Any]:
        """The same, noting when it gives more or fewer outputs than the graph has: Dynamo takes those that it knows."""
        (outputs,) = graph_module.graph.output_node().args
        boxed = getattr(run, "_boxed_call", False)
        if not isinstance(outputs, tuple | list) or (boxed and not self.without_gradients):
            return run
        wanted = len(outputs)
        traced = [getattr(each, "meta", {}).get("example_value") for each in outputs]

        def counted(*args: Any) -> Any:
            with self._grad_mode():
                made = run(*args)
            if not isinstance(made, tuple | list):
                self.miscounted[f"a graph of {wanted} outputs gave no tuple or list, but {type(made).__name__}"] = None
                return made
            if len(made) != wanted:
                self.miscounted[f"a graph of {wanted} outputs gave {len(made)}"] = None
            return tuple(map(_differentiable, made, traced)) if self.without_gradients else made

        counted._boxed_call = boxed  # type: ignore[attr-defined]  # as torch marks it
        return counted

    def _grad_mode(self) -> AbstractContextManager[Any]:
        return torch.set_grad_enabled(torch.is_grad_enabled() and not self.without_gradients)

    def incomplete(self) -> list[str]:
        """Why the candidate is not what was asked for."""
        if self.failures:
            return [f"{len(self.failures)} graphs could not be compiled and ran eagerly: {self.failures[0]}"]
        return [] if self.compiled else [f"{self.backend.name} was given nothing to compile: Dynamo found no graph"]


class _NeedsGradientsError(Exception):
    """The model itself goes backward through a graph that was compiled without."""


def _differentiable(result: Any, traced: Any) -> Any:
    """A graph's result that requires a gradient if it did when it was traced."""
    if not isinstance(result, torch.Tensor) or result.requires_grad or result._is_view():
        return result
    if not getattr(traced, "requires_grad", False) or not torch.is_grad_enabled():
        return result
    return as_computed(result, _NeedsGradientsError())


_RUNNERS = ("compiled", "compiled_fn", "run", "function", "forward")
"""Where a compile result that is not callable itself may keep what is."""


def runnable(made: Any, name: str) -> Callable[..., Any]:
    """What a backend made, as something to call."""
    places = [made, *(getattr(made, place, None) for place in _RUNNERS)]
    run: Callable[..., Any] | None = next(filter(callable, places), None)
    if run is None:
        raise TypeError(f"backend {name} answered with {type(made).__name__}, which cannot be called")
    return run


@dataclass(frozen=True, slots=True)
class Call:
    """A model and what to call it with.

    The backward starts from ``gradients``, one for each output that requires one; without them from 1 for an output
    that is one number, and from fixed random weights for any other. With ``through`` the model is not compiled: that
    is a context with the function to call in its place. ``noise`` is a context around what the model computes.
    ``differentiable``: backends compile with gradients also where there is no ``backward`` to compare.

    With ``calls`` above 1 the model, compiled once, is called so often in a row, as a loop does: each call with new
    copies of the inputs, but from the model's state, its gradients with it, and the random numbers that the last one
    left. So a fault shows that only a later call has, and one that comes of values that were baked in at the first.
    """

    model: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    backward: bool = False
    noise: AbstractContextManager[Any] | None = None
    kept: CompiledGraphs | None = None
    gradients: Sequence[torch.Tensor] | None = None
    through: Callable[[Any], AbstractContextManager[Callable[..., Any]]] | None = None
    calls: int = 1
    differentiable: bool = False

    def execute(self, backend: Backend, config: ComparisonConfig, timeout: float | None = None) -> Execution:
        """Run it, on copies and from the generators' present state. What the model raises becomes ``error``.

        Autocast is as it is; so is grad mode, but for a ``backward``, for which it is on.
        """
        if backend.recording is not None:
            return Execution(backend.recording.values)
        execution = Execution()
        started = time.perf_counter()
        without_gradients = torch.is_grad_enabled() and not self.differentiable and not self.backward
        compiler = _CountedCompiler(backend, without_gradients, self.kept) if backend.compiler else None
        try:
            with ExitStack() as stack:
                stack.enter_context(unnoticed())
                stack.enter_context(time_limit(timeout))
                stack.enter_context(torch.set_grad_enabled(self.backward or torch.is_grad_enabled()))
                reached = reach(self.model)
                before = everything_of(self.model, reached, self.args, dict(self.kwargs))
                stack.enter_context(_untouched(before, execution))
                memo: Memo = {}
                model = stack.enter_context(
                    own_module(self.model, memo, leaves=self.backward, gradients=True, reached=reached)
                )
                if compiler is not None:
                    stack.callback(lambda: execution.broken.extend(compiler.miscounted))
                run = stack.enter_context(self.through(model)) if self.through else _run(stack, model, compiler)
                given: dict[str, Any] = {}
                for number in range(1, self.calls + 1):
                    given |= self._call_once(execution, number, run, model, before, memo, config)
                execution.overwritten = {path for path in given if is_changed(execution.values[path], given[path])}
                if compiler is not None:
                    execution.incomplete += compiler.incomplete()
        except _NeedsGradientsError:
            return replace(self, differentiable=True).execute(backend, config, timeout)
        except (Exception, SystemExit, GeneratorExit) as error:
            log.debug("%s raised", backend.name, exc_info=True)
            execution.error = describe(error)
            execution.crash = getattr(getattr(error, "inner_exception", None) or error, "crash", None)
        finally:
            if backend.close is not None:
                backend.close()
        execution.seconds = time.perf_counter() - started
        return execution

    def _call_once(
        self,
        execution: Execution,
        number: int,
        run: Callable[..., Any],
        model: Any,
        before: Mapping[str, Any],
        memo: Memo,
        config: ComparisonConfig,
    ) -> dict[str, torch.Tensor]:
        """One call, and what it did; when the backward raises, what the forward gave is kept.

        Of a call that others follow, the very tensors that it gave: they must stay as they are.
        """
        effects = Effects()
        given: dict[str, torch.Tensor] = {}
        try:
            inputs = self.args, dict(self.kwargs)
            args, kwargs = clone_inputs(inputs, memo_copy(memo), leaves=self.backward, gradients=True)
            with self.noise or nullcontext():
                outputs = flatten_outputs(run(*args, **kwargs), flatten_lists=config.flatten_lists)
            reached = reach(model)
            state = state_of(model, reached, args, kwargs)
            effects.note_forward(outputs, state)
            if self.backward:
                differentiate(effects, outputs, state, self.gradients, self.noise or nullcontext())
                reached = reach(model)
            effects.note_state(before, everything_of(model, reached, args, kwargs))
            execution.notes += [note for note in reached.notes if note not in execution.notes]
            if number < self.calls:
                given = {
                    path_of_call(number, path): value
                    for path, value in effects.values.items()
                    if isinstance(value, torch.Tensor) and is_dense(value)
                }
                effects.freeze(before)
        finally:
            execution.add(number, effects)
        return given


@contextmanager
def _untouched(before: Mapping[str, Any], execution: Execution) -> Iterator[None]:
    """Note which of the user's own tensors a run wrote to all the same: something holds them that is not reached."""
    tensors = {path: value for path, value in before.items() if isinstance(value, torch.Tensor)}
    versions = {path: _version(tensor) for path, tensor in tensors.items()}
    try:
        yield
    finally:
        execution.spoiled += [path for path, tensor in tensors.items() if _version(tensor) != versions[path]]


def _version(tensor: torch.Tensor) -> tuple[int, int]:
    return -1 if tensor.is_inference() else tensor._version, id(tensor.grad) if tensor.is_leaf else 0


def _run(stack: ExitStack, model: Any, compiler: _CountedCompiler | None) -> Callable[..., Any]:
    """The function to call while ``stack`` is open."""
    if compiler is None:
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        return model  # type: ignore[no-any-return]
    stack.enter_context(regions.undisturbed(model))
    stack.enter_context(caches_bypassed())
    return regions.compile_alone(model, compiler)


def describe(error: BaseException) -> str:
    """An exception in one line: torch wraps a backend's error in its own; the innermost cause is what happened."""
    inner = getattr(error, "inner_exception", None) or error
    lines = [line.strip() for line in str(inner).splitlines() if line.strip()]
    text = f"{type(inner).__name__}: {lines[0]}" if lines else type(inner).__name__
    return clip(text, _LONGEST_MESSAGE)
