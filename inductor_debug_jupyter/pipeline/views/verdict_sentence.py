"""What a comparison says, in one sentence: what stands first in its text and in the KernelDiff tab."""

from __future__ import annotations

from collections.abc import Sequence

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import SUMS, Culprit, DiffRecord, LocalizationRecord, OutputDiff
from inductor_debug_jupyter.pipeline.views.places import where_text
from inductor_debug_jupyter.pipeline.words import clip, count

_EXPLAINED = ": at most "
"""What is behind it in the reason of an output that a number format explains is a figure."""


def diff_story(record: DiffRecord, localization: LocalizationRecord | None = None) -> str:
    """One sentence: what is wrong and where it comes in, or what explains the difference."""
    wrong = [output for output in record.outputs if output.verdict == "mismatch"]
    if wrong:
        sentence = _wrong(wrong, localization)
        if record.begins_in is None:
            return sentence
        number, of = record.begins_in
        return (
            f"From call {number} of {of} on. {sentence}"
            if number > 1
            else f"From the first of {of} calls on. {sentence}"
        )
    if record.verdict == "not_compared":
        open_ones = sum(output.verdict == "not_compared" for output in record.outputs)
        left = f"{count(open_ones, 'output')} not compared" if open_ones else "nothing was compared as it should be"
        return f"Not known: {left}, and none that was compared is wrong."
    explained = {_explanation(output) for output in record.outputs if output.verdict == "rounding"}
    if not explained:
        return "Equal to the bit."
    words = " and ".join(sorted(explained))
    return f"{words[:1].upper()}{words[1:]}: nothing is wrong."


def _wrong(wrong: list[OutputDiff], localization: LocalizationRecord | None) -> str:
    if localization is not None and localization.culprits:
        return _introduced(wrong, localization.culprits)
    names = clip(", ".join(plain(output.path) for output in wrong[:3]), 80)
    rest = f" and {len(wrong) - 3} more" if len(wrong) > 3 else ""
    missed = [gate for output in wrong for gate in output.missed_gates]
    if missed and all(output.missed_gates and _EXPLAINED in output.reason for output in wrong):
        figures = ", ".join(dict.fromkeys(plain(gate) for gate in missed[:2]))
        return f"Not as required: {names}{rest} ({figures}), though rounding explains the difference."
    searched = "no op was found that explains it" if localization is not None else "localize() names the op"
    return f"Wrong: {names}{rest}; {searched}."


def _introduced(wrong: list[OutputDiff], culprits: Sequence[Culprit]) -> str:
    first, *others = culprits
    more = f", and {count(len(others), 'other op')}" if others else ""
    inheriting = [output for output in wrong if output.path != SUMS or output.dtype]
    who = "1 output inherits" if len(inheriting) == 1 else f"{len(inheriting)} outputs inherit"
    inherit = f"{who} {'them' if others else 'it'}" if inheriting else "the outputs' rounding hides it"
    return f"Wrong numbers come in at {_culprit(first)}{more}; {inherit}."


def _culprit(culprit: Culprit) -> str:
    op = plain(culprit.op).removeprefix("aten.").removesuffix(".default")
    where = where_text(culprit.source)
    kernel = plain(culprit.kernel)
    return "".join([op, f" ({where})" if where else "", f", in kernel {kernel}" if kernel else ""])


def _explanation(output: OutputDiff) -> str:
    """What explains a difference: ``as float16 gives it``, ``looks like …``, ``rounding only``."""
    words = plain(output.reason).partition(_EXPLAINED)[0] if _EXPLAINED in output.reason else ""
    if words.startswith(("as ", "looks like ")):
        return words
    return "rounding only" if words else "within the tolerance"
