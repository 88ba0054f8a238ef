"""The model calls of a session that can be run again, and why others cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from inductor_debug_jupyter.pipeline.capture.calls import CallLog, InputBudget, ModelCall
from inductor_debug_jupyter.pipeline.capture.recorder import CALL, Recorder
from inductor_debug_jupyter.pipeline.errors import NotFoundError
from inductor_debug_jupyter.pipeline.records import CompileCapture
from inductor_debug_jupyter.pipeline.torch_compat.guard_checks import CalledFunction
from inductor_debug_jupyter.pipeline.words import size

_LOST = {
    "model is gone": "{0}, which was called, is gone: keep it in a variable",
    "inputs were let go": "the inputs of this call of {0} were let go ({1}): kept inputs have at most {2} in all, and "
    "others were used later; run its cell again",
    "too large": "the inputs of {0} were not kept to run it again: they have {1}, and no more than {2} in all are kept "
    "unless a comparison asks for them, and then until it is over",
}


@dataclass(frozen=True)
class KeptCalls:
    """The kept calls of one capture. A what-if that only judges again shares those of its session.

    Attributes:
        log: the calls.
        recorder: what was recorded while they ran.
        by_function: each function that was called → its kept call.
        why_gone: why there is no call, where the log of calls cannot know.
    """

    log: CallLog
    recorder: Recorder
    by_function: Mapping[CalledFunction, ModelCall] = field(default_factory=dict)
    why_gone: str = ""

    @classmethod
    def of(cls, calls: Sequence[ModelCall], why_gone: str = "", budget: InputBudget | None = None) -> KeptCalls:
        """Calls that no recorder saw; ``budget`` counts their inputs."""
        log = CallLog(budget)
        log.calls.extend(calls)
        return cls(log, Recorder(), why_gone=why_gone)

    def there(self) -> Sequence[ModelCall]:
        """The calls that can be run again."""
        return self.log.there()

    def needed(self) -> Sequence[ModelCall]:
        """The calls that can be run again.

        Raises:
            NotFoundError: there are none; it says why.
        """
        if not (there := self.there()):
            raise NotFoundError(self.why_none())
        return there

    def compared(self) -> Sequence[ModelCall]:
        """The calls that a comparison is of.

        Raises:
            NotFoundError: there are none; it says why.
        """
        self.needed()
        return self.log.compared()

    def was_kept(self, capture: CompileCapture) -> bool:
        """Whether a call of the capture's model can be run again; assumed where the call was not seen."""
        made_by = self.recorder.made_by(capture.compile_id)
        if made_by is None:
            return True
        call = self.by_function.get(made_by)
        return call is not None and any(call is each for each in self.there())

    def lost(self) -> list[str]:
        """Why each call that the cell made and that cannot be run again cannot."""
        self.there()
        limit = size(self.log.budget.limit) if self.log.budget is not None else ""
        return [_LOST[lost.reason].format(lost.name, size(lost.nbytes), limit) for lost in self.log.lost.values()]

    def why_none(self) -> str:
        """Why there is no call to run again."""
        if self.why_gone:
            return self.why_gone
        asking = "use %%inductor_debug --diff or capture(keep_inputs=True)"
        if lost := self.lost():
            return f"{lost[0]}, or {asking}"
        if missed := [note for note in self.recorder.notes if note.part.startswith(CALL)]:
            return f"no model call was kept to run again: {missed[0]}"
        return (
            "no model call was kept to run again: use %%inductor_debug or capture(keep_inputs=True), and call a model "
            "in the block; a session that was loaded from a file has none"
        )
