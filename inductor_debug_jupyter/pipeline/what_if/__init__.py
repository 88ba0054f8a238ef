"""What if: another target, dtype, alignment, batch or sequence, an op in parts or on the CPU, and both side by side.

- ``asked`` is what somebody wants to try, checked; ``judging`` makes another profile of it, and the same captures are
  judged again, without a compile; ``inputs`` makes other inputs of a kept call, which ``rerun`` runs on a copy of the
  model; ``numbers`` compares what came out.
- ``changes`` puts both sessions side by side, ``table`` is that as text, JSON and rows of the panel, ``trial`` is what
  a user holds, and ``form`` what can be changed at all.

Whether other inputs would *recompile* is another question: see :mod:`~inductor_debug_jupyter.pipeline.guards.what_if`.
"""

from inductor_debug_jupyter.pipeline.what_if.asked import Asked
from inductor_debug_jupyter.pipeline.what_if.changes import Changes, Figure, Numbers
from inductor_debug_jupyter.pipeline.what_if.trial import Trial

__all__ = ["Asked", "Changes", "Figure", "Numbers", "Trial"]
