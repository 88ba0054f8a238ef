"""A bisection: which step of lowering, from eager to the device, introduces an error."""

from __future__ import annotations

from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.records.diff import DiffRecord
from inductor_debug_jupyter.pipeline.records.in_words import InWords
from inductor_debug_jupyter.pipeline.records.localization import Culprit


@dataclass(frozen=True, slots=True)
class Rung:
    """One step of lowering, compared with eager.

    ``outcome`` is ``good``, ``bad`` (wrong numbers), ``failed`` (an exception or a crash; ``reason`` says which) or
    ``not_run``.
    """

    name: str
    outcome: str
    reason: str = ""
    diff: DiffRecord | None = None
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class BisectRecord(InWords):
    """Every step of lowering, the first that is not good (empty when all are), and which ops it gets wrong."""

    model: str
    rungs: tuple[Rung, ...]
    first_bad: str = ""
    explanation: str = ""
    culprits: tuple[Culprit, ...] = ()
