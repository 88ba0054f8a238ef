"""A repro: the smallest script that shows a failure, and how it was found."""

from __future__ import annotations

from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.records.in_words import InWords


@dataclass(frozen=True, slots=True)
class ReproRecord(InWords):
    """A script that showed the failure in a fresh process, which took ``verified`` seconds.

    ``reason`` is how the reduced graph fails; ``where`` names the graph among several of a model; ``changes`` are what
    was done to its inputs. ``ops`` of ``total_ops`` are left after ``evaluations`` tested graphs; ``is_complete`` is
    False where the budget ended the search early. ``exact_values``: the script holds values of the user's own tensors.
    """

    path: str
    script: str
    reason: str
    ops: int = 0
    total_ops: int = 0
    evaluations: int = 0
    seconds: float = 0.0
    verified: float = 0.0
    where: str = ""
    changes: tuple[str, ...] = ()
    is_complete: bool = True
    exact_values: bool = False

    def __str__(self) -> str:
        of = f" of {self.where}" if self.where else ""
        early = "" if self.is_complete else " (the search was ended early)"
        return (
            f"{self.ops} of {self.total_ops} ops{of} after {self.evaluations} evaluations{early}: {self.reason}\n"
            f"{self.path} (verified in {self.verified:.1f} s in a fresh process)"
        )
