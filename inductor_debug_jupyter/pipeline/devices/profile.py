"""Device profiles: what the hardware accepts, as data.

A profile is a TOML file; every table is optional, and what it does not mention is not restricted::

    name = "my-chip"
    description = "one line for people"

    [dtypes]
    supported = ["float16", "float32", "int32", "bool"]
    ops = { "aten.cumsum" = ["float32"] }   # ops that take other dtypes than the rest

    [numerics]
    format = "IEEE float16"                 # for people
    accumulate = "float32"                  # what sums are kept in
    narrow = { float32 = "float16", int64 = "int32" }   # taken, but kept in another dtype
    products = "bfloat16"                   # what operands of products are rounded to; also tf32, float8_e4m3fn, int8
    precise = ["encoder:softmax"]           # ops that it computes in float32, as session.prescribe() names them

    [ops]
    deny = ["aten.convolution"]             # "default" stands for the documented default list
    allow = ["@matmul", "add", "relu"]      # the only ops that it has; without it, all that are not denied
    decompose = { gelu = ["tanh", "mul", "add"] }   # what the target makes of an op that it does not have; [] for never
    fallback = "cpu"                        # or "none": what is lacking cannot run at all

    [[alignment]]                           # one table a rule; [alignment] when there is but one
    bytes = 128                             # or multiple = 64, in elements
    dims = "innermost"                      # rows, channels, feature (all but batch dimensions), all
    ops = ["@matmul"]                       # also @convolution, @reduction; all ops by default
    not_ops = ["@reduction"]                # but not these
    operands = ["input", "weight"]          # also bias, output; all by default
    dtypes = ["float16", "float32"]         # only tensors of these; all by default
    unit = "stick"                          # what the hardware calls one multiple
    severity = "error"                      # or warning, info

    [[layout]]                              # likewise one table a rule
    format = "contiguous"                   # or channels_last, or tile with tile = [8, 128]
    ops = ["@convolution"]
    severity = "warning"

    [memory]
    limit = "16GiB"                         # each tensor, and the peak; tensor and peak set them apart
    tensor = "4GiB"
    peak = "16GiB"
    scratchpad = "2MiB"                     # one row of a reduction must fit

    [transfer]
    bandwidth = "32GB"                      # bytes a second between the CPU and the target
    latency = 10e-6                         # seconds for each transfer

An unknown key, a value of the wrong kind or an unknown dtype raises an error of one line that names the file, the line
and what is allowed.

:class:`CpuChoice` holds ops that the user chose for the CPU, although the target might have them. The target is never
given such an op, so its rules do not judge it, and the ledger of fallbacks names it. The target reads the op's results
again, so the rules still judge the ops around it.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any

from inductor_debug_jupyter.pipeline.devices.alignment import AlignmentRule
from inductor_debug_jupyter.pipeline.devices.dtypes import dtype_name
from inductor_debug_jupyter.pipeline.devices.layouts import LayoutRule
from inductor_debug_jupyter.pipeline.devices.ops import check_ops, functional_name
from inductor_debug_jupyter.pipeline.devices.profile_file import read_profile
from inductor_debug_jupyter.pipeline.errors import ProfileError
from inductor_debug_jupyter.pipeline.harmless import quoted
from inductor_debug_jupyter.pipeline.reading import LARGEST_TEXT, read_regular
from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord
from inductor_debug_jupyter.pipeline.settings import Settings

MEANT = "it is meant for the CPU"
"""The reason in the ledger."""


def op_name(node: NodeRecord) -> str:
    """The op as AOTAutograd first saw it, by its bare name: ``gelu`` also where the graph has its parts."""
    return functional_name(node.composite or node.target)


@dataclass(frozen=True)
class CpuChoice:
    """The ops and nodes that the user chose for the CPU.

    Args:
        ops: every call of these ops, by their bare names.
        nodes: only these nodes: compile id, stage and name. A part of a decomposed op takes the whole op along.
    """

    ops: frozenset[str] = frozenset()
    nodes: frozenset[tuple[str, str, str]] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.ops or self.nodes)

    def names(self, graph: GraphRecord, compile_id: str) -> frozenset[str]:
        """The chosen nodes of a graph, each with the other parts of its decomposed op."""
        if not self:
            return frozenset()
        chosen = [
            node
            for node in graph.calls
            if op_name(node) in self.ops or (compile_id, graph.stage, node.name) in self.nodes
        ]
        calls = {(node.composite, node.call) for node in chosen if node.composite}
        whole = (node.name for node in graph.calls if node.composite and (node.composite, node.call) in calls)
        return frozenset([*(node.name for node in chosen), *whole])


@dataclass(frozen=True)
class DeviceProfile:
    """What a device accepts. None means "not restricted"."""

    name: str
    description: str = ""
    dtypes: tuple[str, ...] | None = None
    op_dtypes: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    number_format: str = ""
    accumulate: str = ""
    narrow: Mapping[str, str] = field(default_factory=dict)
    products: str = ""
    precise: tuple[str, ...] = ()
    allow: tuple[str, ...] | None = None
    deny: tuple[str, ...] = ()
    decompose: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    fallback: str = "cpu"
    alignments: tuple[AlignmentRule, ...] = ()
    layouts: tuple[LayoutRule, ...] = ()
    memory_limit: int | None = None
    tensor_limit: int | None = None
    peak_limit: int | None = None
    scratchpad: int | None = None
    bandwidth: float | None = None
    latency: float = 0.0
    cpu: CpuChoice = field(default_factory=CpuChoice)
    """The ops that the user chose for the CPU; set by what-if sessions, never by a file."""

    @property
    def alignment(self) -> int:
        """The first alignment rule's multiple, in elements of the dtype that the target computes in; 1 for none."""
        if not self.alignments:
            return 1
        rule = self.alignments[0]
        return rule.elements(rule.dtypes[0] if rule.dtypes else "float16", self.narrow)

    @property
    def alignment_dims(self) -> str:
        """The dimensions for which the first alignment rule holds."""
        return self.alignments[0].dims if self.alignments else "feature"

    def with_settings(self, settings: Settings) -> DeviceProfile:
        """This profile, overridden by the user's options (``--alignment``, ``MOCK_MAX_MEMORY``, …)."""
        changes: dict[str, Any] = {}
        if settings["alignment"] is not None:
            rules = self.alignments[:1] or (AlignmentRule(),)
            changes["alignments"] = tuple(replace(rule, multiple=settings["alignment"], bytes=None) for rule in rules)
        if settings["max_memory"] is not None:
            changes |= {"memory_limit": settings["max_memory"], "tensor_limit": None, "peak_limit": None}
        if settings["dtypes"] is not None:
            changes["dtypes"] = tuple(dtype_name(name) for name in settings["dtypes"])
        if settings["deny"] is not None:
            check_ops(settings["deny"], settings.values["deny"].origin)
            changes["deny"] = (*self.deny, *settings["deny"])
        return replace(self, **changes)

    def seconds(self, size: int | None) -> float | None:
        """Seconds to move so many bytes between the CPU and the target; None when the profile has no bandwidth."""
        if size is None or self.bandwidth is None:
            return None
        return self.latency + size / self.bandwidth


def profile_names() -> tuple[str, ...]:
    """The built-in profiles."""
    folder = resources.files(__package__) / "profiles"
    return tuple(sorted(entry.name.removesuffix(".toml") for entry in folder.iterdir() if entry.name.endswith(".toml")))


def load_profile(target: str) -> DeviceProfile:
    """The built-in profile of that name, or the one in that TOML file.

    Raises:
        ProfileError: there is none, or it is malformed; the message names file and line.
    """
    if target in profile_names():
        data = (resources.files(__package__) / "profiles" / f"{target}.toml").read_bytes()
        return DeviceProfile(**read_profile(data, f"{target}.toml", built_in=True))
    path = Path(os.path.expanduser(target))  # noqa: PTH111 - Path's own raises for a user whom nobody knows
    if path.suffix == ".toml" or os.path.isfile(path):  # noqa: PTH113 - Path's own raises for a name that is too long
        try:
            data = read_regular(path, LARGEST_TEXT)
        except OSError as error:
            raise ProfileError(f"target {quoted(target)}: the file cannot be read ({error.strerror})") from None
        return DeviceProfile(**read_profile(data, str(path)))
    near = difflib.get_close_matches(target, profile_names(), n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ProfileError(f"unknown target {quoted(target)}; allowed: {', '.join(profile_names())}, or a .toml file{hint}")
