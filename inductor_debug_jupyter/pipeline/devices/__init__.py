"""What the hardware accepts, and what it would refuse of a captured graph.

A :class:`DeviceProfile` is data (TOML); :func:`rules_for` turns it into constraints; :func:`check` runs constraints
over captures and folds what they find. A constraint of one's own is a subclass of :class:`Constraint` with a
``rule_id`` and a ``check_node``.
"""

from inductor_debug_jupyter.pipeline.devices.checker import check, rules_for
from inductor_debug_jupyter.pipeline.devices.constraint import Constraint, Problem
from inductor_debug_jupyter.pipeline.devices.coverage import coverage_of, graph_coverage
from inductor_debug_jupyter.pipeline.devices.dtypes import DtypeConstraint
from inductor_debug_jupyter.pipeline.devices.layouts import LayoutConstraint, LayoutRule
from inductor_debug_jupyter.pipeline.devices.memory import MemoryConstraint, memory_of, peak_memory
from inductor_debug_jupyter.pipeline.devices.ops import DEFAULT_DENY
from inductor_debug_jupyter.pipeline.devices.profile import DeviceProfile, load_profile, profile_names
from inductor_debug_jupyter.pipeline.devices.shapes import AlignmentConstraint, AlignmentRule, ShapeConstraint
from inductor_debug_jupyter.pipeline.devices.support import OpSupport, UnsupportedOpsConstraint

__all__ = [
    "DEFAULT_DENY",
    "AlignmentConstraint",
    "AlignmentRule",
    "Constraint",
    "DeviceProfile",
    "DtypeConstraint",
    "LayoutConstraint",
    "LayoutRule",
    "MemoryConstraint",
    "OpSupport",
    "Problem",
    "ShapeConstraint",
    "UnsupportedOpsConstraint",
    "check",
    "coverage_of",
    "graph_coverage",
    "load_profile",
    "memory_of",
    "peak_memory",
    "profile_names",
    "rules_for",
]
