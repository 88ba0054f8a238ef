"""Another target, or the same one with something changed: what a "what if" about the judging makes of a profile."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from inductor_debug_jupyter.pipeline.devices import DeviceProfile, load_profile
from inductor_debug_jupyter.pipeline.devices.checker import checked_graphs
from inductor_debug_jupyter.pipeline.devices.cpu_side import op_name
from inductor_debug_jupyter.pipeline.devices.ops import (
    DECOMPOSED,
    VARIANTS,
    VIEWS,
    bare_name,
    functional_name,
    lowered_names,
    names_of,
)
from inductor_debug_jupyter.pipeline.errors import NotFoundError, OptionError
from inductor_debug_jupyter.pipeline.records import CompileCapture, NodeRecord
from inductor_debug_jupyter.pipeline.settings import Setting, Settings
from inductor_debug_jupyter.pipeline.views.words import size
from inductor_debug_jupyter.pipeline.what_if.asked import Asked

ORIGIN = "what if"
_LISTED = 12


@dataclass(frozen=True)
class Judging:
    """The profile to judge with, what is different about it in a few words each, and what to know about that."""

    profile: DeviceProfile
    told: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def changed_judging(
    base: DeviceProfile, settings: Settings, asked: Asked, captures: Sequence[CompileCapture]
) -> Judging:
    """What to judge with.

    What was set beside the target (``--alignment``, …) stays when the target changes.

    Raises:
        ProfileError: there is no such target.
        OptionError: an op that no captured graph has, or whose parts nobody knows.
        NotFoundError: there is no such node.
    """
    said = asked.settings
    profile = load_profile(said["target"]).with_settings(settings) if "target" in said else base
    beside = {name: Setting(said.get(name), ORIGIN) for name in ("alignment", "max_memory", "dtypes", "deny")}
    profile = profile.with_settings(Settings(beside))
    told = _told(base, profile, said)
    notes: list[str] = []
    node = _node(asked, captures)[1] if asked.node else None
    wanted = dict(asked.decompose) if isinstance(asked.decompose, Mapping) else {}
    if node is not None and isinstance(asked.decompose, bool):
        wanted = {op_name(node): asked.decompose}
        notes.append(f"every {op_name(node)}, not this node alone: a target runs an op in one way")
    for name, parts in wanted.items():
        profile, sentence = _decomposed(profile, name, parts, captures)
        told.append(sentence)
    if asked.fallback is True:
        profile, sentence, note = _node_on_cpu(profile, asked, captures)
        told.append(sentence)
        notes.append(note)
    elif isinstance(asked.fallback, tuple):
        names = [_found("fallback", written, captures) for written in asked.fallback]
        profile = replace(profile, cpu=replace(profile.cpu, ops=profile.cpu.ops.union(*names)))
        told.append(f"{', '.join(map(functional_name, asked.fallback))} on the CPU")
    return Judging(profile, tuple(told), tuple(notes))


def _told(base: DeviceProfile, profile: DeviceProfile, said: Mapping[str, Any]) -> list[str]:
    told = []
    if "target" in said:
        told.append(f"target {base.name} → {profile.name}")
    if "alignment" in said:
        before = base.alignment if base.alignments else "none"
        told.append(f"alignment {before} → {profile.alignment}")
    if "max_memory" in said:
        limit = base.peak_limit or base.memory_limit
        told.append(f"memory limit {size(limit) if limit else 'none'} → {size(said['max_memory'])}")
    if "dtypes" in said:
        told.append(f"dtypes {', '.join(base.dtypes) if base.dtypes else 'all'} → {', '.join(profile.dtypes or ())}")
    if "deny" in said:
        told.append(f"without {', '.join(said['deny'])}")
    return told


def present_ops(captures: Sequence[CompileCapture]) -> Counter[str]:
    """Every op of the judged graphs that computes something, by its bare name, with how often it is called."""
    return Counter(
        op_name(node)
        for capture in captures
        for graph in checked_graphs(capture)
        for node in graph.calls
        if bare_name(node.target) not in VIEWS
    )


def parts_of(op: str, profile: DeviceProfile) -> tuple[str, ...]:
    """What an op is made of: on this target, else as everybody knows it; empty when nobody does."""
    names = lowered_names(op)
    own = [tuple(parts) for key, parts in profile.decompose.items() if lowered_names(bare_name(key)) & names and parts]
    known = [DECOMPOSED[name] for name in sorted(names) if name in DECOMPOSED]
    return next(iter([*own, *known]), ())


def _found(option: str, written: str, captures: Sequence[CompileCapture]) -> frozenset[str]:
    """Every name of an op that the captured graphs have.

    Raises:
        OptionError: they do not have it.
    """
    bare = functional_name(written)
    names = lowered_names(bare) | names_of(bare)
    present = present_ops(captures)
    if not names & set(present):
        near = difflib.get_close_matches(bare, present, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        listed = [op for op, _ in present.most_common(_LISTED)]
        more = f" and {len(present) - _LISTED} more" if len(present) > _LISTED else ""
        raise OptionError(
            f"{option}: no captured graph has the op {written!r}; there are {', '.join(listed)}{more}{hint}"
        )
    return names


def _decomposed(
    profile: DeviceProfile, written: str, wanted: bool | Sequence[str], captures: Sequence[CompileCapture]
) -> tuple[DeviceProfile, str]:
    names = _found("decompose", written, captures)
    bare = functional_name(written)
    kept = {key: tuple(parts) for key, parts in profile.decompose.items() if not lowered_names(bare_name(key)) & names}
    if wanted is False:
        return replace(profile, decompose={**kept, bare: ()}), f"{bare} not in parts"
    if wanted is not True:
        parts = tuple(map(bare_name, wanted))
        return replace(profile, decompose={**kept, bare: parts}), f"{bare} in parts: {', '.join(parts)}"
    parts = parts_of(bare, profile)
    if not parts:
        raise OptionError(
            f"decompose: nobody knows what {bare} is made of; say it, such as {{{bare!r}: ['mul', 'add']}}"
        )
    made = {bare: parts}
    for name in sorted(names):
        if name in VARIANTS and (variant := f"{name}_{VARIANTS[name]}") in DECOMPOSED:
            made[variant] = DECOMPOSED[variant]  # gelu with tanh is made of other ops
    return replace(profile, decompose={**kept, **made}), f"{bare} in parts: {', '.join(parts)}"


def _node_on_cpu(
    profile: DeviceProfile, asked: Asked, captures: Sequence[CompileCapture]
) -> tuple[DeviceProfile, str, str]:
    (compile_id, stage), node = _node(asked, captures)
    op, cpu = op_name(node), profile.cpu
    choice = replace(cpu, nodes=cpu.nodes | {(compile_id, stage, node.name)})
    number = present_ops(captures)[op]
    others = f", of {number} that are {op}; fallback=[{op!r}] means all of them" if number > 1 else ""
    note = f"only the node {node.name} ({op}, {compile_id} {stage}) is meant{others}"
    return replace(profile, cpu=choice), f"node {node.name} on the CPU", note


def _node(asked: Asked, captures: Sequence[CompileCapture]) -> tuple[tuple[str, str], NodeRecord]:
    """The node that is meant, and its graph.

    Raises:
        NotFoundError: no judged graph has it.
        OptionError: it computes nothing that could run elsewhere.
    """
    graphs = {(capture.compile_id, graph.stage): graph for capture in captures for graph in checked_graphs(capture)}
    if asked.graph is not None and asked.graph not in graphs:
        where = " ".join(asked.graph)
        judged = ", ".join(" ".join(key) for key in graphs)
        raise NotFoundError(f"node {asked.node!r} of {where}: what runs where is decided for {judged}; choose it there")
    for key in [asked.graph] if asked.graph is not None else list(graphs):
        node = graphs[key].node(asked.node)
        if node is None:
            continue
        if not node.is_call:
            raise OptionError(f"node={asked.node!r} is an input or the output; allowed: a node that computes something")
        if bare_name(node.target) in VIEWS:
            raise OptionError(
                f"node={asked.node!r} ({bare_name(node.target)}) moves no data: it stays where what it looks at is"
            )
        return key, node
    raise NotFoundError(f"no judged graph has a node {asked.node!r}")
