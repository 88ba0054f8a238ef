"""Another target, or the same one with something changed: what a "what if" about the judging makes of a profile."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from inductor_debug_jupyter.pipeline.devices import DeviceProfile, load_profile
from inductor_debug_jupyter.pipeline.devices.checker import checked_graphs
from inductor_debug_jupyter.pipeline.devices.cpu_side import op_name
from inductor_debug_jupyter.pipeline.devices.known_ops import check_ops
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
    nodes = _nodes(asked, captures) if asked.node else []
    wanted = dict(asked.decompose) if isinstance(asked.decompose, Mapping) else {}
    if nodes and isinstance(asked.decompose, bool):
        wanted = dict.fromkeys((op_name(each.node) for each in nodes), asked.decompose)
        notes.append(f"every {' and '.join(wanted)}, not this node alone: a target runs an op in one way")
    for name, parts in wanted.items():
        profile, sentence = _decomposed(profile, name, parts, captures)
        told.append(sentence)
    if asked.fallback is True:
        profile, sentence, note = _nodes_on_cpu(profile, nodes, present_ops(captures)[op_name(nodes[0].node)])
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
        check_ops(wanted, f"decompose[{written!r}]")
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


def _nodes_on_cpu(profile: DeviceProfile, nodes: Sequence[_Found], number: int) -> tuple[DeviceProfile, str, str]:
    """The profile with these nodes on the CPU; in a few words; and which they are, of so many of their op."""
    op, cpu = op_name(nodes[0].node), profile.cpu
    choice = replace(cpu, nodes=cpu.nodes | {each.key for each in nodes})
    names = " and ".join(each.node.name for each in nodes)
    compile_id, stage, _ = nodes[0].key
    others = f", of {number} nodes that are {op}; fallback=[{op!r}] means all of them" if number > len(nodes) else ""
    note = f"only {names} ({op}, {compile_id} {stage}) is meant{others}"
    return replace(profile, cpu=choice), f"node {names} on the CPU", note


class _Found(NamedTuple):
    """A node of a judged graph: compile id, stage and name, and the node itself."""

    key: tuple[str, str, str]
    node: NodeRecord


def _nodes(asked: Asked, captures: Sequence[CompileCapture]) -> list[_Found]:
    """The node that is meant; for one of a graph that is not judged (Dynamo's), what became of it there.

    Raises:
        NotFoundError: no judged graph has it.
        OptionError: it computes nothing that could run elsewhere.
    """
    graphs = {(capture.compile_id, graph.stage): graph for capture in captures for graph in checked_graphs(capture)}
    meant = [key for key in graphs if asked.graph in (None, key)]
    for key in meant:
        if (node := graphs[key].node(asked.node)) is not None:
            return [_Found((*key, node.name), _computing(node))]
    if asked.graph is not None and meant:
        raise NotFoundError(f"{' '.join(asked.graph)} has no node {asked.node!r}")
    backward = asked.graph is not None and "backward" in asked.graph[1]
    for key, graph in graphs.items():
        if (asked.graph is not None and key[0] != asked.graph[0]) or (key[1] == "backward") is not backward:
            continue
        made = [node for node in graph.calls if asked.node in node.origins and bare_name(node.target) not in VIEWS]
        same = graph.node(asked.node) if asked.graph is not None else None
        if made := made or ([_computing(same)] if same is not None else []):
            return [_Found((*key, node.name), node) for node in made]
    raise NotFoundError(f"no judged graph has a node {asked.node!r}, or what became of it")


def _computing(node: NodeRecord) -> NodeRecord:
    """The node, if it computes something."""
    if not node.is_call:
        raise OptionError(f"node={node.name!r} is an input or the output; allowed: a node that computes something")
    if bare_name(node.target) in VIEWS:
        raise OptionError(
            f"node={node.name!r} ({bare_name(node.target)}) moves no data: it stays with what it looks at"
        )
    return node
