"""PNG files of a comparison: a heatmap for each of the worst outputs, and one picture of all.

Drawn with matplotlib's object interface, so that the user's own figures and backend are left alone. A picture that
cannot be made is a note and never an error: the comparison itself stands.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final

from inductor_debug_jupyter.pipeline.errors import InductorDebugError
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import DiffRecord, Heatmap, LocalizationRecord, OutputDiff
from inductor_debug_jupyter.pipeline.records.diff import VERDICT_ICONS, VERDICT_WORDS, worst_outputs_first
from inductor_debug_jupyter.pipeline.records.localization import STATUS_WORDS
from inductor_debug_jupyter.pipeline.settings import resolve
from inductor_debug_jupyter.pipeline.store import SETTINGS, ArtifactStore, Shelf
from inductor_debug_jupyter.pipeline.store.files import explained, make_folder
from inductor_debug_jupyter.pipeline.words import clip

OUTPUTS_IN_SUMMARY: Final = 30

_COLOURS = {"mismatch": "#d55e00", "not_compared": "#999999", "rounding": "#0072b2", "match": "#009e73"}
_NOT_FINITE = "#cc79a7"
_STATUS_COLOURS = {"introduced": "#d55e00", "amplified": "#e69f00", "rounding": "#0072b2"}


def draw(record: DiffRecord, output_dir: str | Path | Shelf | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Draw a comparison; where the pictures are, and what to say about those that are not."""
    try:
        import matplotlib as _  # noqa: F401  # only to see whether it is there
    except ImportError as error:
        return (), (f"no pictures: matplotlib is not installed ({error}); pip install matplotlib",)
    ordered = worst_outputs_first(record.outputs)
    with_heatmap = [output for output in ordered if output.heatmap is not None]
    model = _file_name(record.model)
    summary = partial(_summary_png, record, ordered)
    drawn = [_drawn(f"{model}_summary", summary, output_dir)] if ordered else []
    drawn += [
        _drawn(f"{model}_{_file_name(output.path)}", partial(_heatmap_png, output), output_dir)
        for output in with_heatmap
    ]
    paths = tuple(path for made, _ in drawn for path in made)
    notes = [note for _, missing in drawn for note in missing]
    differing = sum(output.verdict != "match" and output.mismatch_percentage is not None for output in ordered)
    if differing > len(with_heatmap):
        notes.append(f"heatmaps were drawn of {len(with_heatmap)} outputs, the worst; {differing} differ")
    return paths, tuple(notes)


def draw_localization(
    record: LocalizationRecord, output_dir: str | Path | Shelf | None = None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Draw the errors of all values in the order of execution; where the picture is, or why there is none."""
    if not record.nodes:
        return (), ("no picture of the errors: nothing was looked at",)
    return _drawn(f"{_file_name(record.model)}_errors", partial(_curve_png, record), output_dir)


def _drawn(
    name: str, make: Callable[[], bytes], output_dir: str | Path | Shelf | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Where one picture is, or why there is none."""
    try:
        return (str(_write(f"{name}.png", make(), output_dir)),), ()
    except InductorDebugError as error:
        return (), (f"no picture {name}: {error}",)
    except Exception as error:  # whatever matplotlib trips over, or that it is not there
        return (), (f"no picture {name}: {type(error).__name__}: {error}",)


def _curve_png(record: LocalizationRecord) -> bytes:
    figure = _figure(8, 3.6)
    axes = figure.subplots()
    least = 1e-12
    allowed = [max(node.in_sequence[1], least) for node in record.nodes]
    axes.plot(
        range(len(allowed)), allowed, color="#999999", linestyle="--", linewidth=1, label="what rounding explains"
    )
    for status, colour in _STATUS_COLOURS.items():
        errors = {at: node.in_sequence[0] for at, node in enumerate(record.nodes) if node.status == status}
        chosen = {at: 1.0 if error is None else max(error, least) for at, error in errors.items()}
        if chosen:
            axes.scatter([*chosen], [*chosen.values()], s=14, color=colour, label=STATUS_WORDS[status], zorder=3)
    axes.set_yscale("log")
    axes.set_xlabel("values, as they are computed")
    axes.set_ylabel("error / largest element")
    axes.legend(fontsize=7)
    culprits = ", ".join(dict.fromkeys(culprit.op for culprit in record.culprits)) or "no culprit"
    axes.set_title(_text(f"{record.model} on {record.candidate}: {culprits}", 90), fontsize=10)
    return _png(figure)


def _draw_histogram(axes: Any, output: OutputDiff) -> None:
    """How many elements have errors of which size."""
    bins = [(low, high, count) for low, high, count in output.histogram if high > 0]
    axes.bar([low for low, _, _ in bins], [count for _, _, count in bins],
             width=[high - low for low, high, _ in bins], align="edge", color="#0072b2")  # fmt: skip
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("absolute error")
    axes.set_ylabel("elements")


def _file_name(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]+", "_", text).strip("_")[:60] or "output"


def _write(name: str, data: bytes, output_dir: str | Path | Shelf | None) -> Path:
    """Into the given folder under a plain name, or among the artifacts under a name that its content determines."""
    if output_dir is None:
        output_dir = Shelf(ArtifactStore.of(resolve(names=SETTINGS)), "")
    if isinstance(output_dir, Shelf):
        return output_dir.put("visualizations", name, data)
    path = Path(output_dir) / name
    make_folder(path.parent)
    with explained("write", path):
        path.write_bytes(data)
    return path.absolute()


def _figure(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _png(figure: Any) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", metadata={"Software": None})
    return buffer.getvalue()


def _text(text: str, width: int) -> str:
    """Text for matplotlib, which reads formulas between dollar signs."""
    return clip(plain(text), width).replace("$", r"\$")


def _heatmap_png(output: OutputDiff) -> bytes:
    from matplotlib.colors import LogNorm

    heatmap = output.heatmap
    assert heatmap is not None
    positive = [value for value in heatmap.values if value]
    below = any(high > 0 for _, high, _ in output.histogram)
    height = 2.6 if heatmap.rows == 1 else 5.4
    figure = _figure(7, height + (1.8 if below else 0))
    if below:
        axes, spread = figure.subplots(2, height_ratios=(height, 1.8))
        _draw_histogram(spread, output)
    else:
        axes = figure.subplots()
    norm = LogNorm(min(positive), max(positive)) if positive and max(positive) > min(positive) > 0 else None
    shown = _grid(heatmap, 0.0 if norm is None else min(positive))
    extent = (0, heatmap.full_columns, heatmap.full_rows, 0)
    axes.set_facecolor(_NOT_FINITE)
    image = axes.imshow(shown, cmap="viridis", norm=norm, extent=extent, aspect="auto", interpolation="nearest")
    figure.colorbar(image, ax=axes, label="largest absolute error")
    axes.set_xlabel("column")
    axes.set_ylabel("row")
    axes.set_title(
        _text(f"{output.path} · {VERDICT_WORDS[output.verdict]}", 70) + "\n" + _text(heatmap.note, 90), fontsize=10
    )
    if None in heatmap.values:
        figure.supxlabel("pink: NaN or infinite", fontsize=8, color=_NOT_FINITE)
    return _png(figure)


def _grid(heatmap: Heatmap, instead_of_zero: float) -> list[list[float]]:
    """The rows of a heatmap; a cell without a finite error is NaN, which is drawn as the background."""

    def shown(value: float | None) -> float:
        return math.nan if value is None else value or instead_of_zero

    columns = heatmap.columns
    return [list(map(shown, heatmap.values[row * columns : (row + 1) * columns])) for row in range(heatmap.rows)]


def _summary_png(record: DiffRecord, ordered: tuple[OutputDiff, ...]) -> bytes:
    shown = ordered[:OUTPUTS_IN_SUMMARY]
    figure = _figure(8, 1.6 + 0.3 * len(shown))
    axes = figure.subplots()
    errors = [output.max_absolute_error or 0.0 for output in shown]
    places = list(range(len(shown)))
    axes.barh(places, errors, color=[_COLOURS[output.verdict] for output in shown])
    axes.set_yticks(places, [_text(f"{VERDICT_ICONS[each.verdict]} {each.path}", 40) for each in shown])
    axes.invert_yaxis()
    if any(errors):
        axes.set_xscale("log")
    axes.set_xlabel("largest absolute error")
    for place, output in zip(places, shown, strict=True):
        words = VERDICT_WORDS[output.verdict]
        if output.max_absolute_error is None and output.mismatch_percentage is not None:
            words += ", NaN or infinite"
        at_edge = not output.max_absolute_error  # nothing to draw on a logarithmic axis
        where = ("axes fraction", "data") if at_edge else "data"
        axes.annotate(f" {words}", (output.max_absolute_error or 0.0, place), xycoords=where, va="center", fontsize=8)
    axes.margins(x=0.25)
    title = f"{record.model}: {record.reference} against {record.candidate} · {VERDICT_WORDS[record.verdict]}"
    axes.set_title(_text(title, 90), fontsize=10)
    return _png(figure)
