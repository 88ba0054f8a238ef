"""KernelDiff: where, and by how much, a candidate's numbers differ from the reference's.

- Two tensors: ``config`` says what counts as equal; ``native`` goes through both with C++, or has ``portable`` do it
  with torch's ops; ``partial_figures`` and ``metrics`` turn that into figures and a verdict; ``details`` takes a second
  look, heatmaps included; ``elements`` is what all ways through two tensors share; ``gates`` are figures that the user
  requires.
- Two executions: ``executions`` runs a model twice from the same start; ``effects`` is what one call did; ``outputs``
  flattens and compares values by their paths, ``contract`` all that an output is beside these; ``recording`` is an
  execution from elsewhere; ``judging`` with ``floors`` tells a bug from rounding, ``output_verdicts`` does so for
  outputs, calls and runs, ``candidate_arithmetic`` finds out in which format a backend computes, ``stated_sums``
  whether it keeps sums as it says; ``harness`` puts it together; ``report``, ``slices`` and ``pictures`` are
  what remains.
- Where it comes in: ``localize``, through ``localize_kernels`` (Inductor) or ``localize_ops`` (any backend) with
  ``localize_blame`` and ``localize_failures``; ``localize_passes`` for what went wrong before code was generated,
  ``localize_tracing`` for calls that Dynamo's graphs do not have;
  ``replay`` runs nodes eagerly, ``windows`` makes graphs of parts; ``localize_layouts`` for strides and shared memory
  of outputs, ``localize_random`` for ops that draw random numbers.
"""

from inductor_debug_jupyter.pipeline.diff.config import DEFAULT_TOLERANCES, ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.details import Details
from inductor_debug_jupyter.pipeline.diff.harness import KernelDiffHarness
from inductor_debug_jupyter.pipeline.diff.metrics import TensorComparisonResult, compare_tensors, tensors_are_close
from inductor_debug_jupyter.pipeline.diff.outputs import compare_outputs, flatten_outputs
from inductor_debug_jupyter.pipeline.diff.recording import Recording, compare_recordings
from inductor_debug_jupyter.pipeline.diff.report import DiffReport, merged, overall_verdict

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
