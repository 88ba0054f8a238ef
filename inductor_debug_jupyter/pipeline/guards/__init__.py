"""Guards, recompiles and graph breaks of one callable: a model and inputs in, a :class:`GuardReport` out.

- ``inspector``: calls the model, compiled in a cache region of its own, and reports what that recorded.
- ``would_recompile``: "would these inputs recompile?", evaluated by torch's own guards without running the model.
  ``ChangedInputs`` asks the same of a recorded call with some inputs changed.
"""

from inductor_debug_jupyter.pipeline.guards.inspector import GuardInspector, GuardReport, InspectedGraph
from inductor_debug_jupyter.pipeline.guards.would_recompile import RecompileAnswer

__all__ = ["GuardInspector", "GuardReport", "InspectedGraph", "RecompileAnswer"]
