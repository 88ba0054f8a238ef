"""Guards, recompiles and graph breaks of one callable: a model and inputs in, a :class:`GuardReport` out.

- ``inspector``: calls the model, compiled in a cache region of its own, so that the user's caches stay untouched.
- ``report``: what one inspection recorded. ``signature``: when two calls have the same report.
- ``asking``: "would these inputs recompile?", evaluated by torch's own guards without running the model.
- ``what_if``: the same question for a recorded call with some inputs changed.
"""

from inductor_debug_jupyter.pipeline.guards.asking import RecompileAnswer
from inductor_debug_jupyter.pipeline.guards.inspector import GuardInspector
from inductor_debug_jupyter.pipeline.guards.report import GuardReport, InspectedGraph

__all__ = ["GuardInspector", "GuardReport", "InspectedGraph", "RecompileAnswer"]
