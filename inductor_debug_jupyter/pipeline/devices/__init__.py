"""What a target would refuse of captured graphs: captures and a profile in, violations, op coverage and memory out.

- ``profile`` and ``profile_file``: the :class:`DeviceProfile`, read from TOML; ``profiles/`` has the built-in ones.
- ``constraint``: the base class of rules. ``alignment`` (alignment), ``dtypes``, ``layouts``, ``support`` (ops) and
  ``memory`` hold the rules.
- ``checker``: :func:`rules_for` makes the rules of a profile, :class:`JudgingContext` holds them with profile and
  settings, :func:`check` runs them and folds their problems.
- ``coverage``: whether the target runs each op. ``partition`` cuts graphs into segments and lists the transfers.
- ``memory``: bytes over time, from the liveness of storages; ``symbolic`` evaluates symbolic sizes, ``other_sizes`` has
  those of later calls.
- ``ops``: names of ops, and the check that torch has them.
- ``judge``: all of it for one session, as a record.
"""

from inductor_debug_jupyter.pipeline.devices.alignment import AlignmentConstraint, AlignmentRule, ShapeConstraint
from inductor_debug_jupyter.pipeline.devices.checker import JudgingContext, check, rules_for
from inductor_debug_jupyter.pipeline.devices.constraint import Constraint, Problem
from inductor_debug_jupyter.pipeline.devices.coverage import coverage_of, graph_coverage
from inductor_debug_jupyter.pipeline.devices.dtypes import DtypeConstraint
from inductor_debug_jupyter.pipeline.devices.layouts import LayoutConstraint, LayoutRule
from inductor_debug_jupyter.pipeline.devices.memory import MemoryConstraint, memory_of
from inductor_debug_jupyter.pipeline.devices.ops import DEFAULT_DENY
from inductor_debug_jupyter.pipeline.devices.profile import DeviceProfile, load_profile, profile_names
from inductor_debug_jupyter.pipeline.devices.support import OpSupport, UnsupportedOpsConstraint

__all__ = [
    "DEFAULT_DENY",
    "AlignmentConstraint",
    "AlignmentRule",
    "Constraint",
    "DeviceProfile",
    "DtypeConstraint",
    "JudgingContext",
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
    "profile_names",
    "rules_for",
]
