"""Rewrites that make a finding go away, verified by the rules and by a comparison of the numbers.

In: a session's record with its findings, the target's rules, and the calls of the models. Out: fix-its that hold, the
fixed model, and a diff of the user's source that puts it in place.

- Which changes: ``fixit`` (what a finding suggests), ``rewrite`` (such a change as data), ``search`` (which of them
  together make the graph acceptable, and what ``session.fixits()`` and ``session.fix_all()`` return), ``verify`` (run,
  judge and compare with them).
- The rewritten graph: ``backend`` (``fixed(model, pad=…)`` and its ``torch.compile`` backend), ``rewriting`` (the
  interpreter that traces the new graph), ``border`` (what the host pads and casts), ``original`` (shapes, strides and
  aliases to give back), ``mutations`` (writes in place), ``precision`` (ops that stay in float32).
- Padded arithmetic: ``padded`` (a value, and a call with such values), ``padded_ops`` and ``padded_views`` (how ops
  keep padding).
- The user's source: ``patch`` (the line in front of the model's call, as a diff).
"""

from inductor_debug_jupyter.pipeline.fixits.backend import fixed
from inductor_debug_jupyter.pipeline.fixits.fixit import FixIt, suggestions
from inductor_debug_jupyter.pipeline.fixits.search import FixResult, Offers
from inductor_debug_jupyter.pipeline.fixits.verify import FixTrial

__all__ = ["FixIt", "FixResult", "FixTrial", "Offers", "fixed", "suggestions"]
