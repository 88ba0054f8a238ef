"""What if: the session under another target, dtype, alignment, batch or sequence, or with an op in parts or on the CPU.

In: a :class:`WhatIfRequest` (``asked``) and a session. Out: a :class:`WhatIfTrial` (``trial``) with the session before
and after, side by side.

- ``judging`` changes the device profile: the same captures are judged again, without a compile.
- ``inputs`` changes the inputs of a kept call, and ``rerun`` runs it on a copy of the model; ``before`` selects what it
  is compared with, and ``numbers`` compares the outputs.
- ``changes`` compares the two sessions, ``table`` and ``view`` show that as text, JSON and rows of the panel; ``form``
  lists what can be changed.

Whether other inputs would *recompile* is decided in :mod:`~inductor_debug_jupyter.pipeline.guards.what_if`.
"""

from inductor_debug_jupyter.pipeline.what_if.asked import WhatIfRequest
from inductor_debug_jupyter.pipeline.what_if.changes import Changes, Figure, Numbers
from inductor_debug_jupyter.pipeline.what_if.trial import WhatIfTrial

__all__ = ["Changes", "Figure", "Numbers", "WhatIfRequest", "WhatIfTrial"]
