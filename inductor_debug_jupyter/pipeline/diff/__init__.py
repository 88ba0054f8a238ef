"""KernelDiff: where, and by how much, a candidate's numbers differ from the reference's.

``config`` says what counts as equal; ``elements`` and ``tally`` walk over two tensors piece by piece; ``metrics``
turns that into a verdict; ``outputs`` does it for nested outputs; ``state`` and ``executions`` run a model twice
from the same start; ``harness`` puts it together; ``report``, ``heatmap`` and ``pictures`` are what remains.
"""

from inductor_debug_jupyter.pipeline.diff.config import DEFAULT_TOLERANCES, ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.harness import KernelDiffHarness, overall_verdict
from inductor_debug_jupyter.pipeline.diff.merge import merged
from inductor_debug_jupyter.pipeline.diff.metrics import TensorComparisonResult, compare_tensors, tensors_are_close
from inductor_debug_jupyter.pipeline.diff.outputs import compare_outputs, flatten_outputs
from inductor_debug_jupyter.pipeline.diff.report import DiffReport

__all__ = [
    "DEFAULT_TOLERANCES",
    "ComparisonConfig",
    "DiffReport",
    "KernelDiffHarness",
    "TensorComparisonResult",
    "compare_outputs",
    "compare_tensors",
    "flatten_outputs",
    "merged",
    "overall_verdict",
    "tensors_are_close",
]
