"""A captured graph → one standalone script that needs torch and nothing else.

In: a violation and its capture (``script``, which cuts the graph down to one op), or a live graph, its inputs and a
check (``graph_script``). Out: the text of a script, which ``fresh_run`` runs in a fresh interpreter: the user gets only
scripts that fail there. ``values`` writes inputs as Python, ``functions`` the user's functions; ``rounding_check`` is
the code by which a script tells wrong numbers from rounding.
"""

from inductor_debug_jupyter.pipeline.repro.fresh_run import check_shows_alone
from inductor_debug_jupyter.pipeline.repro.functions import function_source
from inductor_debug_jupyter.pipeline.repro.graph_script import NEEDS_TORCH, FailureCheck, graph_script
from inductor_debug_jupyter.pipeline.repro.script import violation_script

__all__ = [
    "NEEDS_TORCH",
    "FailureCheck",
    "check_shows_alone",
    "function_source",
    "graph_script",
    "violation_script",
]
