"""Two runs in, what changed out: ``compare_runs(before, after)``; the same for two stages of one capture.

- ``changes``: the records of an answer. ``runs``: the comparison itself, and which change follows from which.
- ``matching``: the nodes of two programs, matched in linear time. ``programs``: the graphs of two runs that belong
  together, node by node. ``kernels``: launches that were split or merged. ``findings``: findings that are the same.
  ``graph_pairs``: two graphs whose nodes are matched. ``stages``: what the passes between two stages did. ``numbers``,
  ``quantities``: errors and figures. ``union_find``: what is connected.
- ``gates``: which changes make a command fail. ``text``, ``ci_formats`` (JUnit and SARIF): an answer, written.

Nothing here needs torch: both runs may be files from another machine.
"""

from inductor_debug_jupyter.pipeline.comparing import text  # noqa: F401 - how comparisons are written
from inductor_debug_jupyter.pipeline.comparing.changes import RunComparison
from inductor_debug_jupyter.pipeline.comparing.runs import compare_runs
from inductor_debug_jupyter.pipeline.comparing.stages import compare_stages

__all__ = ["RunComparison", "compare_runs", "compare_stages"]
