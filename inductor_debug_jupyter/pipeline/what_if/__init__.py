"""What if: the session under another target, dtype, alignment, batch or sequence, or with an op in parts or on the CPU.

In: a :class:`WhatIfRequest` (``request``) and a session. Out: a :class:`WhatIfTrial` (``trial``) with the session
before and after, side by side.

- ``judging`` changes the device profile: the same captures are judged again, without a compile.
- ``inputs`` changes the inputs of a kept call, and ``baseline`` selects what it is compared with; ``outputs`` runs both
  sides on copies of the model and compares what they return.
- ``differences`` compares the two sessions, ``trial`` shows that as text, JSON and rows of the panel; ``form`` lists
  what can be changed. ``numerics``: another arithmetic.

Whether other inputs would *recompile* is decided in :mod:`~inductor_debug_jupyter.pipeline.guards.would_recompile`.
"""

from inductor_debug_jupyter.pipeline.what_if.differences import Changes, Figure
from inductor_debug_jupyter.pipeline.what_if.outputs import Numbers
from inductor_debug_jupyter.pipeline.what_if.request import WhatIfRequest
from inductor_debug_jupyter.pipeline.what_if.trial import WhatIfTrial

__all__ = ["Changes", "Figure", "Numbers", "WhatIfRequest", "WhatIfTrial"]
