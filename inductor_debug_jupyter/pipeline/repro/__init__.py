"""A captured graph → one standalone script that needs torch and nothing else.

:func:`violation_script` works from records, :func:`graph_script` from a live graph and its inputs.
"""

from inductor_debug_jupyter.pipeline.repro.functions import function_source
from inductor_debug_jupyter.pipeline.repro.graph_script import FailureCheck, graph_script
from inductor_debug_jupyter.pipeline.repro.script import violation_script

__all__ = ["FailureCheck", "function_source", "graph_script", "violation_script"]
