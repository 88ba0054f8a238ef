"""``%inductor_debug --compare BEFORE AFTER``: two sessions, by variable, id or file; and how a comparison is displayed.

In a notebook a comparison is a panel that opens on the Compare tab and, as an output of its own, the text with both
folded graphs as pictures, which stays when there is no kernel.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from IPython.core.error import UsageError
from IPython.display import display

from inductor_debug_jupyter.pipeline.comparing import RunComparison
from inductor_debug_jupyter.pipeline.errors import InductorDebugError
from inductor_debug_jupyter.pipeline.harmless import encodable
from inductor_debug_jupyter.pipeline.reports.comparison_snapshot import comparison_snapshot
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
    """The comparison, which the notebook displays by :func:`show_comparison`.

    Raises:
        UsageError: IPython's own, for a run that is not there.
    """
    try:
        before, after = (_session(shell, name) for name in runs)
        return replace(before.compare(after), labels=(runs[0], runs[1]))
    except InductorDebugError as error:
        raise UsageError(f"%inductor_debug {_FLAG}: {error}") from None


def show_comparison(shell: Any, comparison: RunComparison) -> None:
    """Show a comparison where the shell can: as a panel with its snapshot in a notebook, else as text."""
    if not hasattr(shell, "kernel"):
        sys.stdout.write(encodable(str(comparison), sys.stdout.encoding) + "\n")
        return
    if comparison.runs is not None:
        from inductor_debug_jupyter.jupyter.panel.widget import DebugPanel

        display(DebugPanel.of_comparison(comparison))
    display({"text/html": comparison_snapshot(comparison), "text/plain": str(comparison)}, raw=True)


def _session(shell: Any, name: str) -> DebugSession:
    value = shell.user_ns.get(name)
    if isinstance(value, DebugSession):
        return value
    if name.endswith(".json") or Path(name).is_file():
        return DebugSession.load(name)
    return DebugSession.of_record(ArtifactStore.of(resolve(names=SETTINGS)).load(name))
