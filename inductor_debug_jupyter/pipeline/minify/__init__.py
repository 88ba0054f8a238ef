"""Reduce a failing graph to the smallest one that still fails, and write it down as a standalone script.

::

    minifier = Minifier(gm, inputs, error, backend="my_backend")
    print(minifier.minify())              # 1 of 318 ops after 13 evaluations: …
    minifier.generate_repro_script("repro.py")

In: a graph (:func:`dynamo_graph` makes that of a model), its inputs and a failure: an exception, a violation of a
rule, or any :class:`FailurePredicate`; :class:`Differs` is that of wrong numbers, by the policy of ``session.diff()``.
Out: a :class:`MinimalRepro` and its script.

- ``predicates`` and ``differs`` decide whether a graph fails, ``cutting`` makes smaller graphs, ``minifier`` chooses
  which of them to test, by delta debugging.
- ``backend_source`` is for the script: how it imports a backend.
"""

from inductor_debug_jupyter.pipeline.minify.backend_source import backend_source
from inductor_debug_jupyter.pipeline.minify.differs import Differs
from inductor_debug_jupyter.pipeline.minify.minifier import Minifier, MinimalRepro, dynamo_graph
from inductor_debug_jupyter.pipeline.minify.predicates import FailurePredicate, Outcome

__all__ = ["Differs", "FailurePredicate", "Minifier", "MinimalRepro", "Outcome", "backend_source", "dynamo_graph"]
