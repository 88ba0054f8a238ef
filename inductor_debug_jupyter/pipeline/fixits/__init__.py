"""Rewrites that make a finding go away, verified by the rules and by a comparison of the numbers."""

from inductor_debug_jupyter.pipeline.fixits.fixit import FixIt, suggestions
from inductor_debug_jupyter.pipeline.fixits.module import fixed
from inductor_debug_jupyter.pipeline.fixits.offers import Offers
from inductor_debug_jupyter.pipeline.fixits.result import FixResult
from inductor_debug_jupyter.pipeline.fixits.verify import FixTrial

__all__ = ["FixIt", "FixResult", "FixTrial", "Offers", "fixed", "suggestions"]
