"""KernelDiff: where, and by how much, a candidate's numbers differ from the reference's.

- Two tensors: ``config`` says what counts as equal; ``fast_or_portable`` goes through both, by ``native`` code or the
  ``portable`` way; ``partial_figures`` and ``metrics`` turn that into figures and a verdict; ``details`` takes a second
  look.
- Two executions: ``executions`` runs a model twice from the same start; ``effects`` is what one call did, by ``paths``;
  ``outputs`` flattens and compares values, ``contract`` all that an output is beside these, ``repeats`` several calls;
  ``recording`` is an execution from elsewhere; ``output_verdicts`` and ``judging`` tell a bug from rounding;
  ``harness`` puts it together; ``report``, ``heatmap``, ``slices`` and ``pictures`` are what remains.
- Where it comes in: ``localize``, through ``localize_kernels`` (Inductor) or ``localize_ops`` (any backend) with
  ``localize_blame`` and ``localize_failures``; ``localize_passes`` for what went wrong before code was generated.
"""

from inductor_debug_jupyter.pipeline.diff.compare_recordings import compare_recordings
from inductor_debug_jupyter.pipeline.diff.config import DEFAULT_TOLERANCES, ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.details import Details
from inductor_debug_jupyter.pipeline.diff.harness import KernelDiffHarness, overall_verdict
from inductor_debug_jupyter.pipeline.diff.merge import merged
from inductor_debug_jupyter.pipeline.diff.metrics import TensorComparisonResult, compare_tensors, tensors_are_close
from inductor_debug_jupyter.pipeline.diff.outputs import compare_outputs, flatten_outputs
from inductor_debug_jupyter.pipeline.diff.recording import Recording
from inductor_debug_jupyter.pipeline.diff.report import DiffReport

__all__ = [
    "DEFAULT_TOLERANCES",
    "ComparisonConfig",
    "Details",
    "DiffReport",
    "KernelDiffHarness",
    "Recording",
    "TensorComparisonResult",
    "compare_outputs",
    "compare_recordings",
    "compare_tensors",
    "flatten_outputs",
    "merged",
    "overall_verdict",
    "tensors_are_close",
]
