"""``%inductor_debug --compare BEFORE AFTER``: two sessions, by variable, id or file."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.display import display

from inductor_debug_jupyter.pipeline.comparing import RunComparison
from inductor_debug_jupyter.pipeline.errors import InductorDebugError
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.reports.comparison_page import comparison_page
from inductor_debug_jupyter.pipeline.session import DebugSession
from inductor_debug_jupyter.pipeline.settings import resolve
from inductor_debug_jupyter.pipeline.store import SETTINGS, ArtifactStore

_FLAG = "--compare"


def runs_to_compare(line: str) -> list[str] | None:
    """The names behind ``--compare``; None when the line does not begin so.

    Raises:
        UsageError: IPython's own, when there are not two.
    """
    flag, _, rest = line.strip().partition(" ")
    if flag != _FLAG:
        return None
    try:
        runs = shlex.split(rest)
    except ValueError as error:
        raise UsageError(f"%inductor_debug {_FLAG}: {error}") from None
    if len(runs) != 2:
        raise UsageError(f"%inductor_debug {_FLAG}: give two runs: variables, ids of sessions, last, or files")
    return runs


def compare_runs_of(shell: Any, runs: Sequence[str]) -> RunComparison:
    """The comparison, which the notebook shows as text; graphs that differ are displayed side by side before it.

    Raises:
        UsageError: IPython's own, for a run that is not there.
    """
    try:
        before, after = (_session(shell, name) for name in runs)
        comparison = before.compare(after)
    except InductorDebugError as error:
        raise UsageError(f"%inductor_debug {_FLAG}: {error}") from None
    _show_side_by_side(comparison, (before.record, after.record))
    return comparison


def _show_side_by_side(comparison: RunComparison, runs: tuple[SessionRecord, SessionRecord]) -> None:
    """The comparison's page in a frame of its own, whose policy lets nothing in; where nothing differs, nothing."""
    if any(graph.nodes for graph in comparison.graphs):
        page = escape(comparison_page(comparison, runs), quote=True)
        frame = f'<iframe srcdoc="{page}" style="width:100%;height:760px;border:0" title="Two runs compared"></iframe>'
        display({"text/html": frame, "text/plain": ""}, raw=True)


def _session(shell: Any, name: str) -> DebugSession:
    value = shell.user_ns.get(name)
    if isinstance(value, DebugSession):
        return value
    if name.endswith(".json") or Path(name).is_file():
        return DebugSession.load(name)
    return DebugSession.of_record(ArtifactStore.of(resolve(names=SETTINGS)).load(name))
