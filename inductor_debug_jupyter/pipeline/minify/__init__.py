"""Reduce a failing graph to the smallest one that still fails, and write it down as a standalone script.

::

    minifier = Minifier(gm, inputs, error, backend="my_backend")
    print(minifier.minify())              # 1 of 318 ops after 13 evaluations: …
    minifier.generate_repro_script("repro.py")

In: a graph (:func:`dynamo_graph` makes that of a model), its inputs and a failure: an exception, a violation of a
rule, or any :class:`FailurePredicate`; :class:`Differs` is that of wrong numbers, by the policy of ``session.diff()``.
:class:`ProcessEnds` that of a crash or a hang, and :func:`failure_of` finds out which it is for a backend. Out: a
:class:`MinimalRepro` and its script.

- ``graphs`` finds the graphs of a model, ``triage`` what fails; ``predicates``, ``differs`` and ``endings`` decide
  whether a graph fails, ``cutting`` makes smaller graphs.
- ``fewer_nodes`` and ``smaller_inputs`` choose which to test, ``evaluations`` counts and keeps the outcomes;
  ``minifier`` puts it all together.
- ``backend_source`` is for the script: how it imports a backend.
"""

from inductor_debug_jupyter.pipeline.minify.backend_source import backend_source
from inductor_debug_jupyter.pipeline.minify.differs import Differs
from inductor_debug_jupyter.pipeline.minify.endings import ProcessEnds
from inductor_debug_jupyter.pipeline.minify.evaluations import Budget, Progress, ReductionStrategy
from inductor_debug_jupyter.pipeline.minify.graphs import dynamo_graph, graphs_of
from inductor_debug_jupyter.pipeline.minify.minifier import Minifier, MinimalRepro
from inductor_debug_jupyter.pipeline.minify.predicates import FailurePredicate, Outcome, RaisesSame
from inductor_debug_jupyter.pipeline.minify.triage import Trial, minifier_of

__all__ = [
    "Budget",
    "Differs",
    "FailurePredicate",
    "Minifier",
    "MinimalRepro",
    "Outcome",
    "ProcessEnds",
    "Progress",
    "RaisesSame",
    "ReductionStrategy",
    "Trial",
    "backend_source",
    "dynamo_graph",
    "graphs_of",
    "minifier_of",
]
