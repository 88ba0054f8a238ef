"""A captured graph → one standalone script that needs torch and nothing else.

:func:`violation_script` works from records, :func:`graph_script` from a live graph and its inputs;
``rounding_check`` is the code by which a script tells wrong numbers from rounding. :func:`check_shows_alone` runs a
script in a fresh interpreter: one that does not fail there is not handed over.
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
