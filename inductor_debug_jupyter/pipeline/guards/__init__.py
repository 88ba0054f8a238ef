"""Guard tables, recompiles and graph breaks of one callable, without touching the user's caches."""

from inductor_debug_jupyter.pipeline.guards.asking import RecompileAnswer
from inductor_debug_jupyter.pipeline.guards.inspector import GuardInspector
from inductor_debug_jupyter.pipeline.guards.report import GuardReport, InspectedGraph

__all__ = ["GuardInspector", "GuardReport", "InspectedGraph", "RecompileAnswer"]
