"""What captures are judged with, as one immutable value: what-ifs and further runs get all of it, or a changed copy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.devices.checker import rules_for
from inductor_debug_jupyter.pipeline.devices.constraint import Constraint
from inductor_debug_jupyter.pipeline.devices.profile import DeviceProfile, load_profile
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.settings import Settings


@dataclass(frozen=True)
class JudgingContext:
    """Settings, target and rules of a session.

    Attributes:
        settings: the options in force.
        profile: the target's profile with the settings' changes, and with a what-if's.
        rules: what is checked.
        has_own_rules: the rules are the user's (``constraints=``), not the profile's.
        is_complete: False for a session that was loaded: its file names the target, but neither settings nor rules.
    """

    settings: Settings
    profile: DeviceProfile
    rules: tuple[Constraint, ...]
    has_own_rules: bool = False
    is_complete: bool = True

    @classmethod
    def of(cls, settings: Settings, constraints: Sequence[Constraint] | None = None) -> JudgingContext:
        """The settings' target with its rules, or with ``constraints`` instead.

        Raises:
            UsageError: a bad setting or an unknown target.
        """
        profile = load_profile(settings["target"]).with_settings(settings)
        rules = rules_for(profile) if constraints is None else constraints
        return cls(settings, profile, tuple(rules), has_own_rules=constraints is not None)

    @property
    def strict(self) -> bool:
        """Whether what the target refuses is an error of the run."""
        return bool(self.settings["strict"])

    def check_other_graphs(self) -> None:
        """Check that the context also holds for graphs of another run.

        Raises:
            OptionError: a node of the captured graphs is meant for the CPU, which another run does not have.
        """
        if nodes := [name for _, _, name in self.profile.cpu.nodes]:
            raise OptionError(
                f"node {nodes[0]!r} on the CPU is one of the graphs that were captured, and another run has graphs of "
                "its own; name its op instead: fallback=[…]"
            )
