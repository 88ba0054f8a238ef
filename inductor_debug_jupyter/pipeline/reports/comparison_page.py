"""A comparison of two runs, or of two stages of one capture, as one page in the report's style.

Graphs that differ stand side by side, drawn as in the panel (``offline_panel``); nothing is loaded from elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from inductor_debug_jupyter.pipeline.comparing import RunComparison
from inductor_debug_jupyter.pipeline.comparing.changes import GraphComparison
from inductor_debug_jupyter.pipeline.comparing.gates import GateResult
from inductor_debug_jupyter.pipeline.comparing.graph_pairs import GraphPair, run_pairs
from inductor_debug_jupyter.pipeline.comparing.text import SIGNS, headline
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.reports import panel_assets
from inductor_debug_jupyter.pipeline.reports.html_report import offline_script, template
from inductor_debug_jupyter.pipeline.reports.offline_panel import pair_pieces
from inductor_debug_jupyter.version import __version__

Runs = tuple[SessionRecord, SessionRecord]


def comparison_page(comparison: RunComparison, runs: Runs, gates: Sequence[GateResult] = ()) -> str:
    """The page of two runs; ``gates`` that failed stand at its top."""
    differing = [graph for graph in comparison.graphs if graph.nodes]
    return _page(
        [*run_pairs(*runs)] if differing else [],
        runs,
        comparison=comparison,
        headline=headline(comparison),
        failed=[result for result in gates if result.failures],
        differing=differing,
    )


def stages_page(pair: GraphPair, record: SessionRecord) -> str:
    """The page of two stages of one capture."""
    found: GraphComparison = pair.comparison
    return _page(
        [pair], (record, record), comparison=None, headline=str(found).partition("\n")[0], failed=[], differing=[found]
    )


def _page(pairs: Sequence[GraphPair], runs: Runs, **values: object) -> str:
    pieces = list(pair_pieces(pairs, runs)) if pairs else []
    return template("comparison.html.j2").render(
        pieces=pieces,
        panel_script=offline_script() if pieces else None,
        panel_style=Markup(panel_assets.css()),  # noqa: S704 - a file of this package
        signs=SIGNS,
        version=__version__,
        runs=runs,
        **values,
    )
