"""The KernelDiff tab: outputs, worst first, where their errors are, and the values at the worst place."""

from __future__ import annotations

from typing import Any

import traitlets

from inductor_debug_jupyter.jupyter.panels.pane import Pane, asset, error_text
from inductor_debug_jupyter.pipeline.diff.slices import LivePairs
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import DiffRecord, LocalizationRecord
from inductor_debug_jupyter.pipeline.views.diff import cell_place, diff_text, diff_view

TAB = "diff"
"""The id of the tab that it is shown in."""


class KernelDiffPanel(Pane):
    """Shows one comparison.

    ``view`` is :func:`~inductor_debug_jupyter.pipeline.views.diff.diff_view`'s; ``chosen`` is the path of the output on
    show. A click on a cell of the heatmap sets ``picked`` (``path``, and ``row`` and ``column`` in the grid); Python
    answers with ``place``: the index of the first and of the last element that the cell stands for, and the largest
    error among them. Outputs in ``live`` have their tensors still: the browser sets ``wanted`` (measure, dimensions,
    window), and Python answers with ``part``. An error of either is shown as ``error``.

    Args:
        record: the comparison to show.
        pairs: the tensors that are still there.
        localization: which nodes introduce the error, if that was searched for.
    """

    _esm = asset("kernel_diff.js")
    _css = asset("kernel_diff.css")
    view = traitlets.Dict().tag(sync=True)
    chosen = traitlets.Unicode("").tag(sync=True)
    picked = traitlets.Dict().tag(sync=True)
    place = traitlets.Dict().tag(sync=True)
    live = traitlets.List(traitlets.Unicode()).tag(sync=True)
    wanted = traitlets.Dict().tag(sync=True)
    part = traitlets.Dict().tag(sync=True)
    error = traitlets.Unicode("").tag(sync=True)

    def __init__(
        self,
        record: DiffRecord,
        pairs: LivePairs | None = None,
        localization: LocalizationRecord | None = None,
        **traits: Any,
    ) -> None:
        self.record = record
        self._pairs = pairs or LivePairs()
        self._names = {plain(path): path for path in self._pairs.pairs}
        view = diff_view(record, localization=localization)
        first = view["outputs"][0]["path"] if view["outputs"] else ""
        there = {"view": dict(view), "chosen": first, "live": list(self._names), "tab": TAB, "tabs": [TAB]}
        super().__init__(**{**there, **traits})
        self.observe(self._on_picked, names="picked")
        self.observe(self._on_wanted, names="wanted")

    def _on_wanted(self, change: dict[str, Any]) -> None:
        """Make another picture; it begins at the worst element of the output."""
        try:
            wanted = change["new"]
            path = wanted["path"]
            worst = next((each.max_error_indices for each in self.record.outputs if plain(each.path) == path), None)
            part = self._pairs.look(
                self._names.get(path, path),
                measure=wanted.get("measure", "absolute"),
                rows=wanted.get("rows"),
                columns=wanted.get("columns"),
                at=wanted.get("at") or worst or (),
                window=wanted.get("window") or (),
            )
            self.part = {**part, "path": path}
            self.error = ""
        except Exception as error:
            self.error = error_text(error)

    def _on_picked(self, change: dict[str, Any]) -> None:
        try:
            picked = change["new"]
            found = cell_place(self.record, picked["path"], picked["row"], picked["column"])
            self.place = {**picked, **found} if found else {}
            self.error = "" if found else f"there is no such cell: {picked}"
        except Exception as error:
            self.error = error_text(error)

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """The widget and, for front ends without widgets, its text."""
        bundle = super()._repr_mimebundle_(**kwargs)
        data, metadata = bundle if isinstance(bundle, tuple) else (bundle, {})
        return {**(data or {}), "text/plain": diff_text(self.record)}, metadata
