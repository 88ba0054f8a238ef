"""GuardInspector: call a model once, compiled, and report its graphs, graph breaks and guards.

The model really runs, with its side effects (batch norm statistics, counters, printed lines). Torch's caches stay
untouched: everything is compiled in a cache region of its own, which starts with a copy of the sizes seen so far.
Afterwards the user's compiled functions recompile neither more nor less than without the inspection.

A plain callable is traced by Dynamo, and its graphs run eagerly, op by op. A compiled function keeps its own backend,
mode and options, because its guards depend on them.

:class:`GuardReport` is the report of one inspection: graphs with their guards, graph breaks and recompiles.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TextIO

import msgspec
import torch

from inductor_debug_jupyter.pipeline.capture import Recorder
from inductor_debug_jupyter.pipeline.devices import DeviceProfile, JudgingContext
from inductor_debug_jupyter.pipeline.errors import HookError, OptionError, UsageError
from inductor_debug_jupyter.pipeline.guards.would_recompile import RecompileAnswer, would_recompile
from inductor_debug_jupyter.pipeline.harmless import Harmless
from inductor_debug_jupyter.pipeline.interrupts import uncut
from inductor_debug_jupyter.pipeline.records import Guard, SessionRecord, SourceLine
from inductor_debug_jupyter.pipeline.records.record_parts import RecordParts
from inductor_debug_jupyter.pipeline.rerun.capture_run import CaptureRun
from inductor_debug_jupyter.pipeline.settings import Setting, Settings
from inductor_debug_jupyter.pipeline.torch_compat.guard_checks import CalledFunction, LiveGuards
from inductor_debug_jupyter.pipeline.torch_compat.guard_failures import described
from inductor_debug_jupyter.pipeline.torch_compat.regions import (
    CompiledCallRedirect,
    compile_alone,
    is_compiled,
    uncompiled,
)
from inductor_debug_jupyter.pipeline.torch_compat.state import dynamo_errors_fall_back, torch_logs_muted
from inductor_debug_jupyter.pipeline.views.guards import guards_data, guards_text
from inductor_debug_jupyter.pipeline.words import clip


@dataclass(frozen=True)
class InspectedGraph:
    """One compiled graph with its guards. ``source`` is the first line of its function."""

    compile_id: str
    name: str
    op_count: int
    guards: tuple[Guard, ...] = ()
    source: SourceLine | None = None


@dataclass(frozen=True)
class GuardReport(RecordParts, Harmless):
    """Everything that one inspection recorded.

    ``record`` has the form of a session's record, so that views and the store take it; ``inputs`` describes the
    arguments; ``live`` are torch's own guards, which ``would_recompile`` evaluates.
    """

    record: SessionRecord
    inputs: str
    live: tuple[LiveGuards, ...] = field(default=(), repr=False, compare=False)

    @property
    def name(self) -> str:
        """The name of the inspected callable."""
        return self.record.name

    @cached_property
    def graphs(self) -> tuple[InspectedGraph, ...]:
        """The compiled graphs, in order."""
        graphs = []
        for capture in self.record.captures:
            dynamo = capture.graph("dynamo")
            guards = tuple(guard for guard in self.record.guards if guard.compile_id == capture.compile_id)
            ops = len(dynamo.calls) if dynamo else 0
            graphs.append(InspectedGraph(capture.compile_id, capture.name, ops, guards, capture.source))
        return tuple(graphs)

    @property
    def graph_count(self) -> int:
        """How many graphs were compiled; 0 means that nothing was compiled, not that all is well."""
        return len(self.record.captures)

    @property
    def break_count(self) -> int:
        """How many distinct graph breaks there are."""
        return len(self.record.graph_breaks)

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        data = guards_data(self.record)
        with_graph = {graph.compile_id for graph in self.graphs}
        return {
            "name": self.name,
            "inputs": self.inputs,
            "graph_count": self.graph_count,
            "break_count": self.break_count,
            "guard_count": len(self.guards),
            "graphs": [
                {
                    **msgspec.to_builtins(graph),
                    "guards": [{**msgspec.to_builtins(guard), "value": guard.value} for guard in graph.guards],
                }
                for graph in self.graphs
            ],
            "graph_breaks": data["graph_breaks"],
            "recompiles": data["recompiles"],
            "storms": data["storms"],
            "timeline": data["timeline"],
            "dynamic_shapes": data["dynamic_shapes"],
            "guards_without_graph": msgspec.to_builtins(
                [guard for guard in self.guards if guard.compile_id not in with_graph]
            ),
            "notes": [str(note) for note in self.notes],
        }

    def text(self, max_guards: int | None = 10) -> str:
        """Readable text with at most so many guards of each graph (None for all)."""
        return guards_text(self.record, limit=max_guards)

    def __str__(self) -> str:
        return self.text()


Call = tuple[tuple[Any, ...], dict[str, Any]]

_one_at_a_time = threading.RLock()


class GuardInspector:
    """Reports the guards, graph breaks and recompiles of a module, function, method or compiled function.

    Args:
        model: anything that can be called.

    Raises:
        UsageError: it cannot be called.
    """

    def __init__(self, model: Callable[..., Any]) -> None:
        if not callable(model):
            raise UsageError(f"GuardInspector takes a module, function or method, not {_shown(model)}")
        self.model = model
        self.name = _name_of(uncompiled(model))
        self._reports: dict[Hashable, GuardReport] = {}
        self._last: GuardReport | None = None

    def inspect(self, *args: Any, refresh: bool = False, **kwargs: Any) -> GuardReport:
        """Call the model with these inputs and report what the compiler made of it.

        One dictionary whose keys are parameters of the model is taken as keyword inputs. A call that the compiler
        cannot tell from an earlier one (shapes, dtypes, strides, requires_grad, values of numbers and flags, grad
        mode, the model's own parameters) gets the earlier report. ``refresh=True`` runs it again, which is needed when
        an attribute or a global that the model reads has changed.

        Raises:
            Exception: whatever the model raises, with a note that says what was inspected.
        """
        call = self._as_call(args, kwargs)
        key = call_key(self.model, *call)
        if refresh or key not in self._reports:
            self._reports[key] = self._run([call])
        self._last = self._reports[key]
        return self._last

    def inspect_calls(self, *calls: Sequence[Any] | Mapping[str, Any]) -> GuardReport:
        """Make several calls one after the other and report what recompiled between them.

        Each call is a tuple or list of positional inputs, or a dictionary of keyword inputs.

        Raises:
            UsageError: there is no call, or one is neither a tuple, a list nor a dictionary.
            Exception: whatever the model raises, with a note that says what was inspected.
        """
        if not calls:
            raise UsageError("inspect_calls() takes at least one call: a tuple of inputs or a dictionary of them")
        for call in calls:
            if not isinstance(call, (tuple, list, Mapping)):
                raise UsageError(f"a call is a tuple or list of inputs, or a dictionary of them, not {_shown(call)}")
        self._last = self._run([((), dict(call)) if isinstance(call, Mapping) else (tuple(call), {}) for call in calls])
        return self._last

    def would_recompile(self, *args: Any, **kwargs: Any) -> RecompileAnswer:
        """Whether these inputs fit one of the graphs of the last inspection; the model does not run.

        Raises:
            UsageError: nothing was inspected yet, or the model does not take these inputs.
        """
        if self._last is None:
            raise UsageError("there is nothing to ask yet: call inspect(...) first")
        target = uncompiled(self.model)
        return would_recompile(CalledFunction(target), self._last.live, *self._as_call(args, kwargs))

    def print_report(
        self, report: GuardReport | None = None, max_guards: int | None = 10, file: TextIO | None = None
    ) -> None:
        """Write a report (the last one, if none is given) as text.

        Args:
            report: what to write.
            max_guards: at most so many guards of each graph; None for all.
            file: where to; standard output by default.

        Raises:
            UsageError: nothing was inspected yet.
            OptionError: ``max_guards`` is not a count.
        """
        if max_guards is not None and (
            isinstance(max_guards, bool) or not isinstance(max_guards, int) or max_guards < 0
        ):
            raise OptionError(f"max_guards={max_guards!r}: expected a count from 0, or None for all guards")
        report = report or self._last
        if report is None:
            raise UsageError("there is no report yet: call inspect(...) first")
        (file or sys.stdout).write(report.text(max_guards) + "\n")

    # ------------------------------------------------------------------------------------------------------------

    def _as_call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Call:
        if len(args) == 1 and not kwargs and isinstance(args[0], Mapping) and self._are_parameters(args[0]):
            return (), dict(args[0])
        return args, kwargs

    def _are_parameters(self, names: Mapping[Any, Any]) -> bool:
        target = uncompiled(self.model)
        try:
            parameters = inspect.signature(target.forward if isinstance(target, torch.nn.Module) else target).parameters
        except (TypeError, ValueError):  # a built-in without a signature
            return False
        known = {name for name, parameter in parameters.items() if parameter.kind not in (_VAR_ARGS, _VAR_KWARGS)}
        open_ended = any(parameter.kind is _VAR_KWARGS for parameter in parameters.values())
        given = set(names)
        return bool(given & known) and all(isinstance(name, str) and (name in known or open_ended) for name in given)

    def _run(self, calls: Sequence[Call]) -> GuardReport:
        recorder = _GuardRecorder(fresh=False)
        capturing = CaptureRun(_GUARDS_ONLY, eager=True, name=self.name, recorder=recorder)
        # One at a time: torch keeps one list of compiled frames for all threads that run a function.
        with _one_at_a_time, capturing, _isolated(recorder):
            run = self._runner()
            for number, (args, kwargs) in enumerate(calls, 1):
                recorder.called.now.number = number
                try:
                    run(*args, **kwargs)
                except Exception as error:
                    error.add_note(f"While GuardInspector inspected {self.name}({describe_call(args, kwargs)}).")
                    raise
        inputs = "; ".join(describe_call(*call) for call in calls)
        return GuardReport(capturing.judged(), inputs, tuple(recorder.live.values()))

    def _runner(self) -> Callable[..., Any]:
        """The model as a callable that is compiled when it is called."""
        model = self.model
        if is_compiled(model) or isinstance(model, torch.nn.Module):
            return model

        def inductor_debug_inspector(graph_module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
            run_eagerly: Callable[..., Any] = graph_module.forward
            return run_eagerly

        # A new backend for each inspection, because torch finds its cache entries by backend.
        compiled = compile_alone(model, inductor_debug_inspector)

        def run(*args: Any, **kwargs: Any) -> Any:
            with dynamo_errors_fall_back(), torch_logs_muted():
                return compiled(*args, **kwargs)

        return run


_SETTINGS = {"lower": "dynamo", "diff": False, "profile": False, "strict": False, "calls": "first"}
_GUARDS_ONLY = JudgingContext(
    Settings({name: Setting(value, "GuardInspector") for name, value in _SETTINGS.items()}), DeviceProfile(""), rules=()
)
"""No target and no rules; what Dynamo makes is not lowered."""
_VAR_ARGS, _VAR_KWARGS = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD


class _GuardRecorder(Recorder):
    """Records Dynamo's graph, guards, breaks and recompiles, and ignores what the backend makes of them."""

    def dynamo_graph(self, compile_id: str, graph_module: Any, code: Any) -> None:
        super().dynamo_graph(compile_id, graph_module, code)
        self._compile(compile_id).without_aten_ops()

    def _ignored(self, *_: Any, **__: Any) -> None: ...

    aot_graphs = post_grad_graph = generated = _ignored


@uncut
def _isolated(recorder: Recorder) -> Iterator[None]:
    """Inside the block every compiled function runs in a cache region of its own, also one that never ran before."""
    redirect = CompiledCallRedirect(every=True)
    try:
        redirect.install()
    except HookError as error:
        recorder.failed("already compiled functions", error)
    try:
        yield
    finally:
        redirect.remove()


def _name_of(target: Callable[..., Any]) -> str:
    """``Net`` for a module or another object, ``Net.step`` for a method, ``step`` for a function."""
    name = getattr(target, "__name__" if inspect.isbuiltin(target) else "__qualname__", type(target).__qualname__)
    return str(name).replace("<locals>.", "")


def _shown(value: object) -> str:
    return f"{clip(repr(value), 60)} ({type(value).__name__})"


_PLAIN = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)


class _Identity:
    """A key that is equal only for the same object; it keeps the object alive, so that its id is not reused."""

    def __init__(self, value: object) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and other.value is self.value

    def __hash__(self) -> int:
        return id(self.value)


def call_key(target: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Hashable:
    """Equal for two calls that the compiler cannot tell apart.

    A tensor counts with everything but its values; numbers, strings and flags count with their value, containers with
    their elements, any other object by identity. A module's parameters count, too: after ``model.half()`` it is another
    model.
    """
    state = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"))
    return state, _module_key(target), _key(args), _key(kwargs)


def describe_call(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> str:
    """``float32[2, 4], n=3``."""
    return ", ".join([*map(described, args), *(f"{name}={described(value)}" for name, value in kwargs.items())])


def _module_key(target: Callable[..., Any]) -> Hashable:
    owner = target if isinstance(target, torch.nn.Module) else getattr(target, "__self__", None)
    if not isinstance(owner, torch.nn.Module):
        return None
    tensors = (*owner.named_parameters(), *owner.named_buffers())
    modes = tuple(module.training for module in owner.modules())
    return modes, tuple((name, _tensor_key(tensor)) for name, tensor in tensors)


def _tensor_key(tensor: torch.Tensor) -> Hashable:
    layout = tuple(tensor.stride()) if tensor.layout == torch.strided else str(tensor.layout)
    return type(tensor), tuple(tensor.shape), layout, tensor.dtype, tensor.device, tensor.requires_grad


def _key(value: Any) -> Hashable:
    if isinstance(value, torch.Tensor):
        return _tensor_key(value)
    if isinstance(value, _PLAIN):
        return type(value), repr(value)
    if isinstance(value, Mapping):
        return type(value), tuple((_key(name), _key(item)) for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return type(value), tuple(map(_key, value))
    return _Identity(value)
