"""Reduce a failing graph to the smallest one that still fails, and write it down as a standalone script.

::

    minifier = Minifier(gm, inputs, error, backend="my_backend")
    print(minifier.minify())              # 1 of 318 ops after 13 evaluations: …
    minifier.generate_repro_script("repro.py")

A failure is an exception, a violation of a rule, or whatever a :class:`FailurePredicate` tells: :class:`Differs` looks
for wrong numbers.
"""

from inductor_debug_jupyter.pipeline.minify.differs import Differs
from inductor_debug_jupyter.pipeline.minify.minifier import Minifier, MinimalRepro
from inductor_debug_jupyter.pipeline.minify.predicates import FailurePredicate, Outcome
from inductor_debug_jupyter.pipeline.minify.tracing import dynamo_graph

__all__ = ["Differs", "FailurePredicate", "Minifier", "MinimalRepro", "Outcome", "dynamo_graph"]
