"""What if: the session under another target, dtype, alignment, batch or sequence, or with an op in parts or on the CPU.

In: a :class:`WhatIfRequest` (``request``) and a session. Out: a :class:`WhatIfTrial` (``trial``) with the session
before and after, side by side.

- ``judging`` changes the device profile: the same captures are judged again, without a compile.
- ``inputs`` changes the inputs of a kept call, and ``rerun`` runs it on a copy of the model; ``baseline`` selects what
  it is compared with, ``both_runs`` runs both sides, and ``output_changes`` compares their outputs.
- ``differences`` compares the two sessions, ``table`` and ``view`` show that as text, JSON and rows of the panel;
  ``form`` lists what can be changed.

Whether other inputs would *recompile* is decided in :mod:`~inductor_debug_jupyter.pipeline.guards.changed_inputs`.
"""

from inductor_debug_jupyter.pipeline.what_if.differences import Changes, Figure, Numbers
from inductor_debug_jupyter.pipeline.what_if.request import WhatIfRequest
from inductor_debug_jupyter.pipeline.what_if.trial import WhatIfTrial

__all__ = ["Changes", "Figure", "Numbers", "WhatIfRequest", "WhatIfTrial"]
