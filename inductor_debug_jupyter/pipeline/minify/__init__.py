"""Reduce a failing graph to the smallest one that still fails, and write it down as a standalone script.

::

    minifier = Minifier(gm, inputs, error, backend="my_backend")
    print(minifier.minify())              # 1 of 318 ops after 13 evaluations: …
    minifier.generate_repro_script("repro.py")

A failure is an exception, a violation of a rule, or whatever a :class:`FailurePredicate` tells: :class:`Differs` looks
for wrong numbers, by the policy of ``session.diff()``.

- ``predicates`` and ``differs`` say whether a graph fails; ``tracing`` makes the graph of a model, ``cutting`` makes
  smaller ones, ``search`` decides which to look at, ``minifier`` puts it together.
- ``backend_source`` and ``script_limit`` are for the script: how it gets at a backend, and which error is a failure.
"""

from inductor_debug_jupyter.pipeline.minify.backend_source import backend_source
from inductor_debug_jupyter.pipeline.minify.differs import Differs
from inductor_debug_jupyter.pipeline.minify.minifier import Minifier, MinimalRepro
from inductor_debug_jupyter.pipeline.minify.predicates import FailurePredicate, Outcome
from inductor_debug_jupyter.pipeline.minify.tracing import dynamo_graph

__all__ = ["Differs", "FailurePredicate", "Minifier", "MinimalRepro", "Outcome", "backend_source", "dynamo_graph"]
