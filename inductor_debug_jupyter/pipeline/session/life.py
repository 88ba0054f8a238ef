"""A session's life: capturing, judging what was captured, keeping the record in the artifact folder."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from inductor_debug_jupyter.pipeline.adapters.device_log import DeviceLog, listening
from inductor_debug_jupyter.pipeline.backends.ledger import new_session_id
from inductor_debug_jupyter.pipeline.backends.strict import refusal
from inductor_debug_jupyter.pipeline.capture import CaptureWatch, Recorder
from inductor_debug_jupyter.pipeline.capture.calls import CallLog, ModelCall
from inductor_debug_jupyter.pipeline.capture.compile_steps import StepObserver
from inductor_debug_jupyter.pipeline.capture.kept_inputs import InputBudget
from inductor_debug_jupyter.pipeline.capture.watch import CALL
from inductor_debug_jupyter.pipeline.devices import Constraint, DeviceProfile, load_profile, rules_for
from inductor_debug_jupyter.pipeline.devices.judge import judge
from inductor_debug_jupyter.pipeline.diff.slices import LivePairs
from inductor_debug_jupyter.pipeline.errors import ConstraintViolationError, NotFoundError, StoreError, in_a_line
from inductor_debug_jupyter.pipeline.interrupts import held_back
from inductor_debug_jupyter.pipeline.records import CompileCapture, DeferredTexts, Note, SessionRecord
from inductor_debug_jupyter.pipeline.settings import Settings, resolve
from inductor_debug_jupyter.pipeline.store import ArtifactStore
from inductor_debug_jupyter.pipeline.torch_compat.instruments import unseen
from inductor_debug_jupyter.pipeline.words import size

log = logging.getLogger("inductor_debug_jupyter")

_UNSAVED = "artifacts"
"""The part that a note names when the store could not write."""

finished: list[SessionLife] = []
"""The session that was finished last in this process, if any."""


def added(observers: list[Any], observer: Callable[..., None]) -> Callable[[], None]:
    """Add an observer; the answer takes it out again, also when it is called twice."""
    observers.append(observer)

    def remove() -> None:
        observers[:] = [each for each in observers if each is not observer]

    return remove


class SessionLife:
    """What captures, judges and keeps. See :class:`DebugSession` for the arguments."""

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        constraints: Sequence[Constraint] | None = None,
        eager: bool = False,
        fresh: bool = True,
        keep_inputs: bool = False,
        inputs_limit: int | InputBudget | None = None,
        name: str = "",
        on_step: StepObserver | None = None,
        only: Callable[[Any], bool] | None = None,
    ) -> None:
        self.settings = settings or resolve()
        self.profile: DeviceProfile = load_profile(self.settings["target"]).with_settings(self.settings)
        self.rules: Sequence[Constraint] = rules_for(self.profile) if constraints is None else list(constraints)
        self._constraints = constraints
        self.strict = bool(self.settings["strict"])
        self.selection: dict[str, Any] = {}
        self._selection_observers: list[Callable[[dict[str, Any]], None]] = []
        self._change_observers: list[Callable[[], None]] = []
        self._name = name
        self._id, self._created = new_session_id()
        self._recorder = Recorder(fresh=fresh, on_step=on_step)
        budget = InputBudget(inputs_limit) if isinstance(inputs_limit, int) else inputs_limit
        self._calls = CallLog(None if self.settings["diff"] else budget)
        self._watch = CaptureWatch(
            self._recorder,
            lower=self.settings["lower"],
            eager=eager,
            calls=self._calls if keep_inputs or self.settings["diff"] else None,
            only=only,
        )
        self._device = DeviceLog()
        self._listening = ExitStack()
        self._started = 0.0
        self._record: SessionRecord | None = None
        self._loaded = False
        """Whether it only shows a record: what it was checked with is not all in there."""
        self._saves = True
        """Whether it goes to the artifact folder by itself; a what-if does when it is saved."""
        self._calls_gone = ""
        """Why there is no call to run again, where this session knows better than its log of calls."""
        self.diff_pairs = LivePairs()
        """The worst outputs' tensors of the last comparison, for the panel."""

    # Capturing --------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Start capturing on this thread."""
        self._started = time.perf_counter()
        with held_back(undo=self.stop):
            self._listening.enter_context(listening(self._device))
            self._watch.open()

    def stop(self) -> None:
        """Stop capturing and put everything back, without looking at what was captured. Safe to call twice."""
        with held_back():
            self._watch.close()
            self._listening.close()

    def close(self, *, save: bool = True) -> None:
        """Stop capturing, put everything back, check what was captured, and save it. Safe to call twice.

        With ``save=False`` somebody else goes through :meth:`saving`, when there is time for it.
        """
        self.stop()
        if self._record is not None:
            return
        with unseen():
            self._record = self._judged(seconds=time.perf_counter() - self._started)
        finished[:] = [self]
        if save:
            self._save_to_store()

    @contextmanager
    def saved_once(self) -> Iterator[None]:
        """Changes inside the block are not written one by one: whoever opens it goes through :meth:`saving` once."""
        before, self._saves = self._saves, False
        try:
            yield
        finally:
            self._saves = before

    def can_wait(self) -> bool:
        """Whether it is likely that saving later will do; if not it is tried now, so that it is said in time."""
        if not self.record.captures:
            return True
        try:
            self._store().probe()
        except StoreError:
            self._save_to_store()
            return False
        return True

    def saving(self) -> Iterator[None]:
        """Save to the artifact folder in many short steps: most of it is writing texts that nobody looked at yet."""
        for capture in self.record.captures:
            if isinstance(capture.texts, DeferredTexts):
                yield from capture.texts.steps()
        self._save_to_store()

    def refusal(self) -> ConstraintViolationError | None:
        """In strict mode, the error that this session ends in; the repro is written the first time it is asked for."""
        if not self.strict:
            return None
        error = refusal(self.record, None if self._unsaved() else self._store())
        if error is not None and error.repro and error.repro not in self.record.repros:
            self._update(repros=(*self.record.repros, error.repro))
        return error

    def _store(self) -> ArtifactStore:
        return ArtifactStore.of(self.settings)

    def _unsaved(self) -> Note | None:
        """The note that says why the session is in memory only."""
        return next((note for note in self.record.notes if note.part == _UNSAVED), None)

    def _save_to_store(self) -> None:
        """Write the session where the command line finds it. What cannot be written is said once, and never raised."""
        if not self._saves or not self.record.captures:
            return
        said = self._unsaved()
        record = replace(self.record, notes=tuple(note for note in self.record.notes if note is not said))
        try:
            self._store().save_session(record)
        except StoreError as error:
            reason = str(error)
        except Exception as error:  # a fault of the store is no reason to end the user's run
            log.debug("the store failed", exc_info=True)
            reason = f"unexpected {in_a_line(error)}"
        else:
            self._record = record
            return
        if said is None:
            note = Note(_UNSAVED, f"nothing was saved: {reason}. The session is in memory; session.save(path) keeps it")
            log.warning("%s", note)
            self._record = replace(self.record, notes=(*self.record.notes, note))

    def _file_away(self) -> Path:
        """Write the session into the artifact folder, from now on after each change; where its file lies."""
        store = self._store()
        store.save_session(self.record, pinned=True)
        self._saves = True
        return store.folder / store.artifacts(self._id, "sessions")[-1].path

    # The record -------------------------------------------------------------------------------------------------

    @property
    def record(self) -> SessionRecord:
        """Everything, as a record that outlives the process; while capturing, what there is so far."""
        if self._record is not None:
            return self._record
        return self._judged()

    def _judged(self, seconds: float = 0.0) -> SessionRecord:
        """What was captured and what adapters told, checked."""
        record = judge(
            self._recorder,
            session_id=self._id,
            created=self._created,
            name=self._name,
            profile=self.profile,
            rules=self.rules,
            strict=self.strict,
            seconds=seconds,
        )
        return replace(record, **self._told(record.notes))

    def _told(self, notes: Sequence[Note]) -> dict[str, Any]:
        """What adapters told so far, as fields of a record."""
        return {
            "transfers": self._device.told_transfers,
            "kernel_specs": self._device.told_kernels,
            "notes": (*(note for note in notes if note.part != "transfers"), *self._device.notes),
        }

    def _update(self, **changes: Any) -> None:
        """Take something new into the record, and save it."""
        self._record = replace(self.record, **changes)
        self._save_to_store()

    @property
    def has_inputs(self) -> bool:
        """Whether a model call was kept, so that it can be run again."""
        return bool(self._calls.there())

    def _call_was_kept(self, capture: CompileCapture) -> bool:
        """Whether a call can be run again of the model that a graph is of; where nobody saw the call, it is assumed."""
        made_by = self._recorder.made_by(capture.compile_id)
        if made_by is None:
            return True
        call = self._watch.kept.get(made_by)
        return call is not None and any(call is each for each in self._calls.there())

    def _kept_calls(self) -> Sequence[ModelCall]:
        """The calls that can be run again.

        Raises:
            NotFoundError: there are none; it says why.
        """
        if not (there := self._calls.there()):
            raise NotFoundError(self._why_no_calls())
        return there

    def _lost_calls(self) -> list[str]:
        """Why each call that the cell made and that cannot be run again cannot."""
        self._calls.there()
        limit = size(self._calls.budget.limit) if self._calls.budget is not None else ""
        texts = {
            "model is gone": "{0}, which was called, is gone: keep it in a variable",
            "inputs were let go": "the inputs of this call of {0} were let go ({1}): kept inputs have at most {2} in "
            "all, and others were used later; run its cell again",
            "too large": "the inputs of {0} were not kept to run it again: they have {1}, and no more than {2} in all "
            "are kept without being asked",
        }
        return [texts[lost.reason].format(lost.name, size(lost.nbytes), limit) for lost in self._calls.lost.values()]

    def _why_no_calls(self) -> str:
        if self._calls_gone:
            return self._calls_gone
        asking = "use %%inductor_debug --diff or capture(keep_inputs=True)"
        if lost := self._lost_calls():
            return f"{lost[0]}, or {asking}"
        if missed := [note for note in self._recorder.notes if note.part.startswith(CALL)]:
            return f"no model call was kept to run again: {missed[0]}"
        return (
            "no model call was kept to run again: use %%inductor_debug or capture(keep_inputs=True), and call a model "
            "in the block; a session that was loaded from a file has none"
        )
