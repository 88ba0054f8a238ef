"""Would these inputs recompile? Torch's own guards are evaluated, and the model does not run.

The answer is *unknown* where only a run could tell: after a graph break (the rest depends on what Python computes in
between), and where hooks change a module's inputs first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import torch

from inductor_debug_jupyter.pipeline.capture.recorder import Recorder, deepest_line
from inductor_debug_jupyter.pipeline.errors import NotFoundError, UsageError
from inductor_debug_jupyter.pipeline.records import SourceLine
from inductor_debug_jupyter.pipeline.records.in_words import InWords
from inductor_debug_jupyter.pipeline.torch_compat.guard_checks import CalledFunction, GuardVerdict, LiveGuards
from inductor_debug_jupyter.pipeline.torch_compat.guard_failures import FailedGuard
from inductor_debug_jupyter.pipeline.views.recompile_advice import advice, varying

YesNoUnknown = Literal["yes", "no", "unknown"]


@dataclass(frozen=True, slots=True)
class RecompileAnswer(InWords):
    """Whether a call would compile again, and why.

    For *yes* the fields describe the failed check of the graph that comes nearest: ``check`` and ``expression`` as
    torch writes them, ``varies`` as the user would, the ``old`` and the ``new`` value, the line and a hint. ``others``
    has the reasons of the other graphs. ``compile_id`` is that graph; for *no*, the graph that would be used.
    """

    answer: YesNoUnknown
    function: str
    reason: str
    compile_id: str = ""
    check: str = ""
    expression: str = ""
    varies: str = ""
    old: str = ""
    new: str = ""
    aspect: str = ""
    source: SourceLine | None = None
    hint: str = ""
    others: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        raise UsageError("the answer is yes, no or unknown: compare session.would_recompile(...).answer")

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        return f"{self.answer}: {self.reason}{where}" + (f". {self.hint}" if self.hint else "")


def chosen_function(functions: Sequence[CalledFunction], target: Any = None) -> CalledFunction:
    """The only function that was called, or the one that ``target`` names.

    Raises:
        NotFoundError: nothing compiled was called, or nothing that ``target`` names.
        UsageError: several fit.
    """
    if not functions:
        raise NotFoundError("nothing compiled was called while this session captured, so there are no guards to ask")
    alive = [each for each in functions if each.is_alive()] or list(functions[-1:])
    names = ", ".join(dict.fromkeys(each.name for each in alive))
    found = alive if target is None else [each for each in alive if each.matches(target)]
    if not found:
        name = target if isinstance(target, str) else type(target).__name__
        raise NotFoundError(f"{name} was not called while this session captured; called: {names}")
    if len(found) > 1 and target is None:
        raise UsageError(f"several functions were called ({names}): say which with would_recompile_of(which, ...)")
    if len(found) > 1:
        raise UsageError(f"{len(found)} of the called functions are meant by {target!r}: pass the one itself")
    return found[0]


def would_recompile(
    called: CalledFunction, live: Iterable[LiveGuards], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> RecompileAnswer:
    """Whether a call with these inputs would compile again.

    Raises:
        UsageError: the function does not take these inputs.
    """
    kept = tuple(live)
    if not called.frames():
        return RecompileAnswer("unknown", called.name, f"{called.name} is gone, and with it what was compiled")
    if (before := called.hooked("_forward_pre_hooks")) is not None:
        return RecompileAnswer("unknown", called.name, f"hooks of {before} change its inputs before they are checked")
    try:
        evaluated = called.check_guards(kept, args, kwargs)
    except TypeError as error:
        raise UsageError(f"{called.name} does not take these inputs: {error}") from None
    if evaluated is None and called.was_compiled(kept):
        reason = f"what was compiled of {called.name} is not in torch's cache any more: the next call compiles"
        return RecompileAnswer("yes", called.name, reason)
    if evaluated is None:
        reason = f"torch did not compile {called.name} itself, only what it calls, with inputs known when it runs"
        return RecompileAnswer("unknown", called.name, reason)
    if evaluated.fits is None:
        return _yes_or_limit(called, evaluated)
    entry = evaluated.fits
    if entry.breaks:
        reason = (
            f"the guards of {entry.compile_id} hold up to its graph break; what comes after depends on what runs there"
        )
        return RecompileAnswer("unknown", called.name, reason, entry.compile_id)
    if (after := called.hooked("_forward_hooks")) is not None:
        reason = f"the guards of {entry.compile_id} hold, but hooks of {after} are compiled for themselves"
        return RecompileAnswer("unknown", called.name, reason, entry.compile_id)
    return RecompileAnswer("no", called.name, f"all guards of {entry.compile_id} hold", entry.compile_id)


def recompile_answer(recorder: Recorder, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> RecompileAnswer:
    """:func:`would_recompile` for a function that was called while the recorder listened."""
    return would_recompile(chosen_function(recorder.called.functions, target), recorder.live.values(), args, kwargs)


def _yes_or_limit(called: CalledFunction, evaluated: GuardVerdict) -> RecompileAnswer:
    nearest = max(evaluated.failures, key=lambda each: each[1].checked)
    entry, failure = nearest
    others = tuple(f"{each.compile_id}: {_reason(why)}" for each, why in evaluated.failures if each is not entry)
    if evaluated.limit:
        reason = f"torch's {evaluated.limit} is reached: it compiles {called.name} no more and runs it uncompiled"
        return RecompileAnswer("no", called.name, reason, others=(f"{entry.compile_id}: {_reason(failure)}", *others))
    return RecompileAnswer(
        "yes",
        called.name,
        _reason(failure),
        entry.compile_id,
        failure.check,
        failure.expression,
        varying(failure),
        failure.old,
        failure.new,
        failure.aspect,
        deepest_line(failure.frames),
        advice(failure).text,
        others,
    )


def _reason(failure: FailedGuard) -> str:
    if not failure.old and not failure.new:
        return failure.check
    return f"{varying(failure)} was {failure.old or 'something else'}, now {failure.new}"


class ChangedInputs:
    """Asks :func:`would_recompile` about recorded calls with changed inputs."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the called functions that still exist."""
        return tuple(self._labelled())

    def inputs(self, function: str | None = None) -> dict[str, str]:
        """Input → its value in the first call, as text."""
        return dict(self._recorder.called.inputs[self._chosen(function)].texts)

    def ask(
        self, changes: Mapping[str, str], *, function: str | None = None, grad: bool | None = None
    ) -> RecompileAnswer:
        """Whether the first call would recompile with these inputs changed: ``{"x": "float32[9, 4]", "n": "3"}``.

        ``grad`` turns gradients on or off for the question; None leaves the current mode.

        Raises:
            UsageError: there is no such input, or its new value cannot be read.
            NotFoundError: there is no such function.
        """
        called = self._chosen(function)
        args, kwargs = self._recorder.called.inputs[called].build(changes)
        with torch.set_grad_enabled(torch.is_grad_enabled() if grad is None else grad):
            return would_recompile(called, self._recorder.live.values(), args, kwargs)

    def _chosen(self, function: str | None) -> CalledFunction:
        labelled = self._labelled()
        if function in labelled:
            return labelled[function]
        return chosen_function(self._recorder.called.functions, function)

    def _labelled(self) -> dict[str, CalledFunction]:
        """Name → function, of those that still exist; the second of one name is ``Linear.forward (2)``."""
        labelled: dict[str, CalledFunction] = {}
        for each in self._recorder.called.functions:
            if each.is_alive():
                same = sum(other.name == each.name for other in labelled.values())
                labelled[f"{each.name} ({same + 1})" if same else each.name] = each
        return labelled
