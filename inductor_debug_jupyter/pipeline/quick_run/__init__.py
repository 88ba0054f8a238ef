"""A first look without a cell: pick a model, a batch, a dtype, a target and a backend, and get a session.

The notebook's form (``quick_run()``) fills in a :class:`QuickRun` and calls :meth:`~QuickRun.run`; a script does the
same (``run``). The model is copied first, so that the user's own stays as it is. ``models`` has the built-in ones.
"""

from __future__ import annotations

from inductor_debug_jupyter.pipeline.quick_run.models import BUILT_IN
from inductor_debug_jupyter.pipeline.quick_run.run import QuickRun

__all__ = ["BUILT_IN", "QuickRun"]
