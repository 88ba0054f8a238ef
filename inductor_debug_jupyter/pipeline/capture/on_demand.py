"""Inductor's part of a plain model's compile, made when it is first read.

The rules judge AOTAutograd's graphs. What Inductor makes of them (its own graph, IR, kernels, code) takes several times
as long, so it is suspended when a plain model is captured: its :class:`CompileCapture` then has a ``rest``, and
:func:`completed` makes it. The hooks report to the recorder of the capture, as they would have done at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.capture.recorder import Recorder
from inductor_debug_jupyter.pipeline.records import CompileCapture, Note, SessionRecord
from inductor_debug_jupyter.pipeline.torch_compat.instruments import unseen
from inductor_debug_jupyter.pipeline.torch_compat.state import current_compile_id, torch_logs_muted
from inductor_debug_jupyter.pipeline.torch_compat.suspended_lowering import SuspendedLowering, suspend

INDUCTOR_STAGES = ("post_grad", "code")
"""The stages that are missing when Inductor fails; the others come with these."""


def suspend_inductor(recorder: Recorder, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> None:
    """Lower a Dynamo graph as far as AOTAutograd goes; the recorder is given the rest, unless it could not wait."""
    compile_id = current_compile_id() or ""
    if (lowering := suspend(graph_module, example_inputs)) is not None:
        recorder.suspended(compile_id, RestOfCompile(recorder, compile_id, lowering))


class RestOfCompile:
    """Inductor's part of one compile."""

    def __init__(self, recorder: Recorder, compile_id: str, lowering: SuspendedLowering) -> None:
        self._recorder, self._compile_id, self._lowering = recorder, compile_id, lowering
        self._notes: tuple[Note, ...] = ()

    def make(self) -> tuple[CompileCapture, tuple[Note, ...]]:
        """Make it: the whole capture, and the note when Inductor failed. Ctrl-C leaves all of it to be made."""
        with unseen(), torch_logs_muted():
            return self._recorder.resume(self._compile_id, self._finish), self._notes

    def _finish(self) -> None:
        try:
            self._lowering.finish()
        except Exception as error:
            note = self._recorder.failed_lowering(self._compile_id, "inductor", INDUCTOR_STAGES, error)
            self._notes = (note,)


def completed(record: SessionRecord) -> SessionRecord:
    """The record with everything that Inductor makes of it; the same object when nothing is left to be made."""
    if all(capture.rest is None for capture in record.captures):
        return record
    captures: list[CompileCapture] = []
    notes = list(record.notes)
    for capture in record.captures:
        made, more = (capture, ()) if capture.rest is None else capture.rest.make()
        captures.append(made)
        notes += [note for note in more if note not in notes]
    return replace(record, captures=tuple(captures), notes=tuple(notes))
