"""Where the time of a session's models goes: ``session.profile()``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.profiling import timing_of
from inductor_debug_jupyter.pipeline.records import TimingRecord
from inductor_debug_jupyter.pipeline.session.current_record import CurrentRecord


class Timings:
    """The timings of one session: the answers go into its record.

    Args:
        record: where the answers go.
        call_to_search: the kept call to look at, and notes on those that are left out.
        goes_backward: whether gradients belong to that call.
    """

    def __init__(
        self,
        record: CurrentRecord,
        call_to_search: Callable[[], tuple[ModelCall, list[str]]],
        goes_backward: Callable[[ModelCall], bool],
    ) -> None:
        self._record = record
        self._call_to_search = call_to_search
        self._goes_backward = goes_backward

    def profile(self, *, backward: bool | None = None) -> TimingRecord:
        """Time every kernel of the compiled model in place; ``.ranked`` has the slowest first.

        The call runs again on copies, compiled by Inductor, until it is warm and then for two seconds, in turn with
        eager mode. Each kernel has its ops and lines, what it computes and moves, and what it reaches of this machine's
        own speed, which is measured once; ``.modules`` has the seconds of each module, eager and compiled. Gradients
        are included when the cell went backward, or ``backward`` says so.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
            UsageError: the call's tensors are not on the CPU.
        """
        call, others = self._call_to_search()
        goes_backward = self._goes_backward(call) if backward is None else backward
        found = timing_of(call, self._record.complete().captures, backward=goes_backward)
        found = replace(found, notes=(*found.notes, *others))
        self._record.update(kernel_times=found)
        return found
