"""A comparison of reference and candidate as text, and as the dict of the KernelDiff tab."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import DiffRecord, Heatmap, LocalizationRecord, OutputDiff, Verdict
from inductor_debug_jupyter.pipeline.records.diff import VERDICT_ICONS, VERDICT_WORDS, VERDICTS, worst_outputs_first
from inductor_debug_jupyter.pipeline.records.in_words import written_by
from inductor_debug_jupyter.pipeline.views.crash import closing_lines, crash_views
from inductor_debug_jupyter.pipeline.views.localization import culprit_rows, search_lines
from inductor_debug_jupyter.pipeline.views.tokens import tokens_text
from inductor_debug_jupyter.pipeline.views.verdict_sentence import diff_story
from inductor_debug_jupyter.pipeline.views.view_types import Row, copied
from inductor_debug_jupyter.pipeline.words import clip, count, duration

VERDICT_KINDS: Final[dict[str, str]] = {
    "mismatch": "error", "not_compared": "warning", "rounding": "good", "match": "good",
}  # fmt: skip
NOTHING_COMPARED = "NOTHING WAS COMPARED"
_OUTPUTS_SHOWN = 20
_FACTS: Final[tuple[tuple[str, str], ...]] = (
    ("Largest error", "max_absolute_error"),
    ("Mean error", "mean_absolute_error"),
    ("Largest relative error", "max_relative_error"),
    ("Mean relative error", "mean_relative_error"),
    ("RMSE", "rmse"),
)


def diff_summary(record: DiffRecord) -> str:
    """The verdict in one line."""
    title = f"{plain(record.model) or 'model'}: {plain(record.reference)} against {plain(record.candidate)}"
    return f"{VERDICT_ICONS[record.verdict]} {title} · {_tally(record)}"


def _tally(record: DiffRecord) -> str:
    if not any(output.verdict != "not_compared" for output in record.outputs):
        return NOTHING_COMPARED
    counted = [(verdict, sum(output.verdict == verdict for output in record.outputs)) for verdict in VERDICTS]
    parts = ", ".join(f"{number} {VERDICT_WORDS[verdict]}" for verdict, number in counted if number)
    doubt = f" · verdict: {VERDICT_WORDS['not_compared']}" if record.verdict == "not_compared" else ""
    return f"{count(len(record.outputs), 'output')}: {parts}{doubt}"


def diff_text(
    record: DiffRecord,
    *,
    limit: int | None = _OUTPUTS_SHOWN,
    timings: bool = False,
    localization: LocalizationRecord | None = None,
) -> str:
    """The comparison as text: what it says in one sentence, the tally, and each output, worst first.

    Args:
        record: the comparison.
        limit: at most so many outputs; the rest are counted. None for all.
        timings: whether to include the seconds, which differ from run to run.
        localization: the search for what is wrong, if there was one: the sentence names the op.
    """
    lines = [diff_story(record, localization), diff_summary(record)]
    lines += [line for each in record.tokens for line in tokens_text(each).splitlines()]
    ordered = worst_outputs_first(record.outputs)
    for output in ordered[:limit]:
        lines += ["", *_output_lines(output)]
    if limit is not None and len(ordered) > limit:
        lines += ["", f"… and {count(len(ordered) - limit, 'output')} more, none of them worse"]
    lines += closing_lines(record)
    if timings:
        took = f"reference {duration(record.reference_seconds)}, candidate {duration(record.candidate_seconds)}"
        lines += ["", f"Took (compiling included): {took}"]
    return "\n".join(lines)


written_by(DiffRecord, diff_text)


def _output_lines(output: OutputDiff) -> list[str]:
    tensors = _tensors_text(output)
    head = f"{VERDICT_ICONS[output.verdict]} {plain(output.path)}"
    lines = [f"{head} · {VERDICT_WORDS[output.verdict]}" + (f" · {tensors}" if tensors else "")]
    if output.reason:
        lines.append(f"  {plain(output.reason)}")
    if output.mismatch_percentage is not None and output.verdict != "match":
        facts = "  ".join(f"{name.lower()} {_figure(getattr(output, field))}" for name, field in _FACTS)
        lines.append(f"  {facts}")
        lines += _quoted_figures(output)
    return lines


def _quoted_figures(output: OutputDiff) -> list[str]:
    """The figures that vendors quote, in one line, as far as they are known."""
    places = ", ".join(f"{share:g}: {distance:.4g}" for share, distance in output.ulp_quantiles)
    known = (
        ("pcc", output.pcc, "{:.7g}"),
        ("cosine", output.cosine, "{:.7g}"),
        ("sqnr", output.signal_to_noise, "{:.1f} dB"),
        ("last places", output.max_ulp, f"{places}, largest {{:.6g}}"),
    )
    parts = [f"{name} {form.format(value)}" for name, value, form in known if value is not None]
    return [f"  {'  '.join(parts)}"] if parts else []


def _figure(value: float | None) -> str:
    return "not finite" if value is None else f"{value:.3e}"


def _tensors_text(output: OutputDiff) -> str:
    if not output.dtype:
        return ""
    seen = _tensor_text(output.shape, output.dtype)
    other = _tensor_text(output.candidate_shape, output.candidate_dtype)
    return seen if seen == other else f"{seen} against {other}"


def _tensor_text(shape: Sequence[int], dtype: str) -> str:
    return f"{plain(dtype)} {'×'.join(map(str, shape))}".rstrip()


def diff_view(record: DiffRecord, *, limit: int = 500, localization: LocalizationRecord | None = None) -> Row:
    """The KernelDiff tab with the worst ``limit`` outputs; the others are counted."""
    ordered = worst_outputs_first(record.outputs)
    return copied(record, "notes", "images") | Row(
        title=f"{plain(record.model)}: {plain(record.reference)} against {plain(record.candidate)}",
        **_verdict_parts(record.verdict),
        story=diff_story(record, localization),
        summary=_tally(record),
        tokens=[line for each in record.tokens for line in tokens_text(each).splitlines()],
        outputs=[_output_view(output) for output in ordered[:limit]],
        left_out=max(0, len(ordered) - limit),
        culprits=culprit_rows(localization) if localization else [],
        crashes=crash_views((*record.crashes, *(localization.crashes if localization else ()))),
        searched=search_lines(localization) if localization else [],
    )


def _verdict_parts(verdict: Verdict) -> Row:
    return Row(verdict=verdict, icon=VERDICT_ICONS[verdict], kind=VERDICT_KINDS[verdict], words=VERDICT_WORDS[verdict])


def _output_view(output: OutputDiff) -> Row:
    """One output: its row in the list, and the figures of its explanation."""
    at = output.max_error_indices
    return copied(output, "path", "reason", "histogram") | Row(
        **_verdict_parts(output.verdict),
        headline=_headline(output),
        tensors=_tensors_text(output),
        at="" if at is None else f"[{', '.join(map(str, at))}]",
        reference="" if at is None else _value_text(output, "reference"),
        candidate="" if at is None else _value_text(output, "candidate"),
        facts=_facts(output),
        heatmap=None if output.heatmap is None else _heatmap_view(output.heatmap, output),
        worst=[copied(place, "index", "reference", "candidate") for place in output.worst],
        nonfinite=[copied(place, "index", "reference", "candidate") for place in output.nonfinite],
    )


def _headline(output: OutputDiff) -> str:
    if output.mismatch_percentage is None:
        return clip(plain(output.reason) or VERDICT_WORDS[output.verdict], 80)
    if output.verdict == "match":
        return "every element is equal"
    outside = f" · {output.mismatch_percentage:.3g}% outside" if output.mismatch_percentage else ""
    error = output.max_absolute_error
    return ("NaN or infinity" if error is None else f"max error {error:.2e}") + outside


def _value_text(output: OutputDiff, role: str) -> str:
    """The reference's or the candidate's value at the worst place; one that is not finite is listed as text."""
    value: float | None = getattr(output, f"{role}_value")
    if value is not None:
        return f"{value:.9g}"
    listed = next((place for place in output.nonfinite if place.index == output.max_error_indices), None)
    if listed is not None:
        return plain(str(getattr(listed, role)))
    return "NaN or infinite" if getattr(output, f"{role}_nonfinite") else "see the reason"


def _facts(output: OutputDiff) -> list[list[str]]:
    """Name and text of each figure that is known."""
    if output.mismatch_percentage is None:
        return []
    known = [
        ("Tolerance, absolute", output.atol, "{:g}"),
        ("Tolerance, relative", output.rtol, "{:g}"),
        ("Would pass with atol", output.smallest_atol, "{:.3g}"),
        ("Would pass with rtol", output.smallest_rtol, "{:.3g}"),
        ("PCC", output.pcc, "{:.9g}"),
        ("Cosine", output.cosine, "{:.9g}"),
        ("SQNR", output.signal_to_noise, "{:.1f} dB"),
        ("Last places, largest", output.max_ulp, "{:.6g}"),
        *((f"Last places, quantile {share:g}", distance, "{:.6g}") for share, distance in output.ulp_quantiles),
        *((f"Quantile {share:g}", error, "{:.3e}") for share, error in output.quantiles),
        ("Zeros of the other sign", output.signed_zeros or None, "{:,d}"),
    ]
    facts = [[name, _figure(getattr(output, field))] for name, field in _FACTS]
    facts.append(["Outside tolerance", f"{output.mismatch_percentage:.4g}%"])
    facts += [[name, form.format(value)] for name, value, form in known if value is not None]
    if output.reference_nonfinite or output.candidate_nonfinite:
        seen = f"{output.reference_nonfinite:,} in the reference, {output.candidate_nonfinite:,} in the candidate"
        facts.append(["NaN or infinite", seen])
    return facts


def _heatmap_view(heatmap: Heatmap, output: OutputDiff) -> Row:
    """A grid of errors; ``tall`` × ``wide`` elements make one cell, ``worst`` is the cell of the worst element."""
    tall, wide = _cell_size(heatmap)
    worst = None
    if output.max_error_indices is not None:
        position = 0
        for extent, at in zip(output.shape, output.max_error_indices, strict=True):
            position = position * extent + at
        row, column = divmod(position, heatmap.full_columns)
        worst = [row // tall, column // wide]
    fields = copied(heatmap, "rows", "columns", "values", "full_rows", "full_columns", "note")
    return fields | Row(tall=tall, wide=wide, worst=worst)


def _cell_size(heatmap: Heatmap) -> tuple[int, int]:
    """How many rows and columns of the tensor one cell stands for."""
    return -(-heatmap.full_rows // heatmap.rows), -(-heatmap.full_columns // heatmap.columns)


def cell_place(record: DiffRecord, path: str, row: int, column: int) -> Row | None:
    """The elements of one heatmap cell: the index of the first and of the last, and the error; None without a cell."""
    found = next((output for output in record.outputs if plain(output.path) == path), None)
    if found is None or (heatmap := found.heatmap) is None:
        return None
    if not (0 <= row < heatmap.rows and 0 <= column < heatmap.columns):
        return None
    tall, wide = _cell_size(heatmap)
    top, left = row * tall, column * wide
    bottom = min(top + tall, heatmap.full_rows) - 1
    right = min(left + wide, heatmap.full_columns) - 1
    return {
        "path": found.path,
        "first": _index(top * heatmap.full_columns + left, found.shape),
        "last": _index(bottom * heatmap.full_columns + right, found.shape),
        "error": heatmap.values[row * heatmap.columns + column],
    }


def _index(position: int, shape: Sequence[int]) -> list[int]:
    """The index of the element at that position, counted row by row; at most that of the last element."""
    position = min(position, math.prod(shape) - 1)
    index = []
    for extent in reversed(shape):
        position, at = divmod(position, extent)
        index.append(at)
    return index[::-1]
