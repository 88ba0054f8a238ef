"""Open and close a capture: while it is open, what the user runs passes the compiler.

There are three cases:

- what the user compiles now is only watched;
- what the user compiled before is compiled once more in a cache region of its own (see
  :mod:`~inductor_debug_jupyter.pipeline.torch_compat.regions`);
- a plain module call is, with ``eager``, traced by Dynamo into graphs that are lowered only to be recorded. When it is
  one graph the call then runs *as it is written*. Where Dynamo breaks the graph, its graphs are run eagerly, op for op:
  same values, same random numbers, forward's Python once a call.

While an instrument of the user's watches (a mode, a profiler, a tracer: see
:mod:`~inductor_debug_jupyter.pipeline.torch_compat.instruments`), what is called runs as it is, and a note says so.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.capture.calls import CallLog, ModelCall
from inductor_debug_jupyter.pipeline.capture.on_demand import INDUCTOR_STAGES, suspend_inductor
from inductor_debug_jupyter.pipeline.capture.recorder import CALL, NOT_OURS, Recorder
from inductor_debug_jupyter.pipeline.capture.threads import PART
from inductor_debug_jupyter.pipeline.errors import HookError
from inductor_debug_jupyter.pipeline.interrupts import held_back
from inductor_debug_jupyter.pipeline.options import ON_DEMAND
from inductor_debug_jupyter.pipeline.torch_compat import hooks, lowering
from inductor_debug_jupyter.pipeline.torch_compat.eager_memory import note_gradients
from inductor_debug_jupyter.pipeline.torch_compat.guard_checks import CalledFunction
from inductor_debug_jupyter.pipeline.torch_compat.instruments import (
    active_instrument,
    python_tracers,
    recomputes_checkpoint,
    unseen,
)
from inductor_debug_jupyter.pipeline.torch_compat.module_calls import GraphRun, PlainCall, hooks_of
from inductor_debug_jupyter.pipeline.torch_compat.stack_levels import not_counted
from inductor_debug_jupyter.pipeline.torch_compat.state import current_compile_id


class CaptureWatch:
    """Opens and closes one capture.

    Args:
        recorder: keeps what the compiler makes.
        lower: how far to lower plain modules (``dynamo``, ``aot`` or ``inductor``); ``on-demand`` is ``inductor``,
            whose part is suspended.
        eager: whether to show plain module calls to the compiler at all.
        calls: keeps the calls with their inputs, to be run again; None keeps none.
        only: which called models and functions to capture; all by default.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        lower: str = "inductor",
        eager: bool = False,
        calls: CallLog | None = None,
        only: Callable[[Any], bool] | None = None,
    ) -> None:
        self._only = only
        self._recorder = recorder
        self._eager = eager
        self._calls = calls
        self.kept: dict[CalledFunction, ModelCall] = {}
        """Called function → its call that can be run again, where one was kept."""
        self._keeping = threading.RLock()
        self._undo = ExitStack()
        self._compiled: dict[int, tuple[weakref.ref[torch.nn.Module], PlainCall]] = {}
        """Modules, by identity: the user may say which are equal, and that they cannot be hashed."""
        self._compile_call: Callable[..., Callable[..., Any]]
        self._backend = _Observer(recorder, lower)
        self._tracers = python_tracers()

    def open(self) -> None:
        """Start capturing. A seam that this torch lacks is noted, and the rest goes on."""
        with held_back(undo=self.close):
            self._undo.callback(self._recorder.threads.close)
            self._recorder.threads.open()
            self._undo.callback(hooks.unlisten, self._recorder)
            hooks.listen(self._recorder)
            self._install("already compiled functions", self._redirect_compiled)
            self._install("compiled functions", self._notice_artifacts)
            if self._eager:
                self._install("plain modules", self._watch_modules)

    def close(self) -> None:
        """Stop capturing and put everything back. Safe to call twice."""
        with held_back():
            self._undo.close()
            self._compiled.clear()
            self._backend.recorder = None
            self._recorder.close()
        if self._recorder.threads.child_compiled():
            self._recorder.note(PART, "what a forked child process compiled was not captured")
        for name in self._recorder.threads.unfinished():
            self._recorder.note(
                PART, f"{name!r} was still running when the capture ended: what it does from then on was not captured"
            )

    def _note_call(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        region: int = -1,
        backend: Any = None,
    ) -> None:
        owner = getattr(function, "__self__", None)
        self._recorder.now.calling = type(owner).__name__ if isinstance(owner, torch.nn.Module) else ""
        if self._only is not None:
            self._recorder.now.following = self._only(owner if isinstance(owner, torch.nn.Module) else function)
        if not self._recorder.now.following:
            return
        instrument = active_instrument((*args, *kwargs.values()), self._tracers)
        if instrument is None or not instrument.sees_copies:
            with unseen() if instrument is not None else nullcontext():
                self._remember(function, args, kwargs, region, backend)

    def _remember(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], region: int, backend: Any
    ) -> None:
        try:
            self._recorder.called.add(function, args, kwargs, region, backend)
        except Exception as error:
            self._recorder.failed("calls", error)
        if self._calls is None:
            return
        try:
            with self._keeping:
                last = next(reversed(self._calls.calls), None)
                self._calls.add(function, args, kwargs, backend)
                newest, current = next(reversed(self._calls.calls), None), self._recorder.called.now.current
                if newest is not None and newest is not last and current is not None:
                    self.kept[current] = newest
        except Exception as error:
            self._recorder.failed("inputs for a comparison", error)

    def _install(self, part: str, install: Callable[[], Callable[[], None]]) -> None:
        """Install one hook; its module is imported only here, so that a missing private name costs this part only."""
        try:
            self._undo.callback(install())
        except (HookError, ImportError) as error:
            self._recorder.failed(part, error)

    def _redirect_compiled(self) -> Callable[[], None]:
        from inductor_debug_jupyter.pipeline.torch_compat.regions import CompiledCallRedirect

        redirect = CompiledCallRedirect(
            self._note_call,
            lambda why: self._recorder.note("compiled functions", why),
            self._recorder.threads.here,
            self._recorder.threads.in_use,
            on_other_thread=self._missed_elsewhere,
        )
        redirect.install()
        return redirect.remove

    def _notice_artifacts(self) -> Callable[[], None]:
        from inductor_debug_jupyter.pipeline.torch_compat.ahead_of_time import notice_artifacts

        return notice_artifacts(
            lambda name: self._recorder.note(f"{CALL}{name}", "it was compiled ahead of time: it was not captured")
        )

    def _watch_modules(self) -> Callable[[], None]:
        from inductor_debug_jupyter.pipeline.torch_compat import regions
        from inductor_debug_jupyter.pipeline.torch_compat.module_calls import ModuleCallWatch

        self._compile_call = regions.compile_call
        watch = ModuleCallWatch(self._call, self._recorder.threads.here, self._missed, self._unwatched)
        watch.install()
        return watch.remove

    @not_counted
    def _call(
        self, module: torch.nn.Module, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """One plain module call, shown to the compiler and run eagerly."""
        if recomputes_checkpoint():
            return call(module, *args, **kwargs)
        with self._recorder.threads.calling(), self._recorder.called.running():
            self._note_call(call.__get__(module), args, kwargs)
            if not self._recorder.now.following:
                return call(module, *args, **kwargs)
            part = f"{CALL}{type(module).__name__}"
            if (instrument := active_instrument((*args, *kwargs.values()), self._tracers)) is not None:
                self._recorder.note(part, f"it ran as it is, and was not captured: {instrument.reason}")
                return call(module, *args, **kwargs)
            try:
                compiled, is_known = self._compiled_call(module, call)
            except Exception as error:
                self._recorder.failed(part, error)
                return call(module, *args, **kwargs)
            if is_known:
                return compiled.run(module, args, kwargs)
            heard = self._recorder.compiles_heard
            result = compiled.run(module, args, kwargs)
            compiles = self._recorder.heard_since(heard)
            if not compiles:
                self._recorder.note(
                    part, "it ran, and Dynamo did not look at it: a stance, a setting or a kind of model"
                )
            elif why := self._recorder.nothing_captured(compiles):
                self._recorder.note(part, f"it ran, and no graph of it was captured: {why}")
            return result

    def _compiled_call(self, module: torch.nn.Module, call: Callable[..., Any]) -> tuple[PlainCall, bool]:
        """The module's call for the compiler, and whether it was called before with the same hooks."""
        key, hooks = id(module), hooks_of(module)
        known = self._compiled.get(key)
        if known is not None and known[0]() is module and known[1].hooks == hooks:
            return known[1], True
        compiled = PlainCall(self._compile_call(module, call, self._backend), call, hooks)
        calls = self._compiled
        calls[key] = weakref.ref(module, lambda _: calls.pop(key, None)), compiled
        return compiled, False

    def _missed(self, module: torch.nn.Module, reason: str) -> None:
        """A call that is not shown to the compiler."""
        name, threads = type(module).__name__, self._recorder.threads
        if threads.here():
            if self._only is None or self._only(module):
                self._recorder.note(f"{CALL}{name}", f"it ran as it is, and was not captured: {reason}")
        else:
            self._missed_elsewhere(name)

    def _missed_elsewhere(self, name: str) -> None:
        """A call on a thread that the capture does not follow."""
        if thread := self._recorder.threads.unknown_here():
            self._recorder.note(PART, f"{name} was called on {thread!r}, and not captured: {NOT_OURS}")

    def _unwatched(self, name: str) -> None:
        """A class of modules whose calls could not be watched."""
        self._recorder.note(f"{CALL}{name}", "it was given a __call__ of its own later: its calls were not captured")


class _Observer:
    """The backend of plain modules: lower a copy for the recorder, then run the graph as it is.

    torch keeps a compiled function's backend for as long as the user's code lives: it must not keep the session.
    """

    __name__ = "inductor_debug_observer"

    def __init__(self, recorder: Recorder, lower: str) -> None:
        self.recorder: Recorder | None = recorder
        self.lower = lower

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        if self.recorder is None:
            return GraphRun(graph_module)
        observe_lowering(self.recorder, self.lower, graph_module, example_inputs)
        used = self.recorder.used(current_compile_id() or "")
        return GraphRun(graph_module, lambda results: note_gradients(results, used.add))


def observe_lowering(
    recorder: Recorder, lower: str, graph_module: torch.fx.GraphModule, example_inputs: list[Any]
) -> None:
    """Lower a copy of a Dynamo graph so that the recorder sees every stage; a failure is a reason, not an error."""
    if lower == "dynamo":
        return
    if lower in ("inductor", ON_DEMAND) and any(
        isinstance(each, torch.Tensor) and each.is_meta for each in example_inputs
    ):
        lower = "aot"
        for stage in ("post_grad", "code"):
            recorder.missing(current_compile_id() or "", stage, "Inductor computes nothing on the meta device")
    stages = ("forward",) if lower == "aot" else ("forward", *INDUCTOR_STAGES)
    try:
        if lower == ON_DEMAND:
            suspend_inductor(recorder, graph_module, example_inputs)
        else:
            step = lowering.lower_with_aot if lower == "aot" else lowering.lower_with_inductor
            step(graph_module, example_inputs)
    except Exception as error:
        recorder.failed_lowering(current_compile_id() or "", lower, stages, error)
