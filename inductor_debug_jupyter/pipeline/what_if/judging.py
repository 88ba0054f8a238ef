"""The judging context of a what-if: another target, or the same one with changes."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from inductor_debug_jupyter.pipeline.devices import DeviceProfile, JudgingContext, load_profile, rules_for
from inductor_debug_jupyter.pipeline.devices.checker import checked_graphs
from inductor_debug_jupyter.pipeline.devices.judge import judge_again
from inductor_debug_jupyter.pipeline.devices.ops import (
    DECOMPOSED,
    VARIANTS,
    VIEWS,
    bare_name,
    check_ops,
    functional_name,
    lowered_names,
    names_of,
)
from inductor_debug_jupyter.pipeline.devices.profile import op_name
from inductor_debug_jupyter.pipeline.errors import NotFoundError, OptionError, ProfileError, UsageError
from inductor_debug_jupyter.pipeline.records import CompileCapture, GraphRecord, NodeRecord, SessionRecord
from inductor_debug_jupyter.pipeline.settings import Setting, Settings
from inductor_debug_jupyter.pipeline.what_if.request import WhatIfRequest
from inductor_debug_jupyter.pipeline.words import size

ORIGIN = "what if"
_OF_TARGET = ("alignment", "max_memory", "dtypes", "deny")
"""The settings that change the target's profile."""
_LISTED = 12


@dataclass(frozen=True)
class Judging:
    """The context to judge with, its changes in words, and notes on them."""

    context: JudgingContext
    changes: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def base_judging(record: SessionRecord, context: JudgingContext, request: WhatIfRequest | None) -> Judging:
    """The context that a record was judged with; of a loaded session, what can be read from its record.

    Raises:
        UsageError: the target of a loaded session is unknown here, and the request gives no other.
    """
    if context.is_complete:
        return Judging(context)
    needs_target = request is not None and request.target is None
    try:
        profile = load_profile(record.target)
    except ProfileError:
        if needs_target:
            raise UsageError(
                f"the session's target {record.target!r} is not built in, and its file is not known here; "
                "give target= as well"
            ) from None
        profile = DeviceProfile(record.target)
    found = replace(context, profile=profile, rules=tuple(rules_for(profile)), is_complete=True)
    if not needs_target:
        return Judging(found)
    again = judge_again(record, found)
    if [each.title for each in again.findings] == [each.title for each in record.findings]:
        return Judging(found)
    note = (
        f"the saved session was judged by more than {profile.name} says (an alignment, a limit, rules of its own), "
        "which is not in its file: part of the difference is due to that"
    )
    return Judging(found, notes=(note,))


def changed_judging(base: JudgingContext, request: WhatIfRequest, captures: Sequence[CompileCapture]) -> Judging:
    """The context with the changes of the request.

    Settings beside the target (``--alignment``, …) and ops that an earlier what-if put on the CPU stay when the target
    changes. The rules are the changed profile's; rules of the user's own stay unless the target changes.

    Raises:
        ProfileError: there is no such target.
        OptionError: an op that no captured graph has, or whose parts are unknown; or a setting of a target, which
            rules of the user's own do not know.
        NotFoundError: there is no such node.
    """
    given = request.settings
    profile = base.profile
    if "target" in given:
        profile = replace(load_profile(given["target"]).with_settings(base.settings), cpu=base.profile.cpu)
    beside = {name: Setting(given.get(name), ORIGIN) for name in _OF_TARGET}
    profile = profile.with_settings(Settings(beside))
    changes = _setting_changes(base.profile, profile, given)
    notes: list[str] = []
    nodes = _nodes(request, captures) if request.node else []
    wanted = dict(request.decompose) if isinstance(request.decompose, Mapping) else {}
    if nodes and isinstance(request.decompose, bool):
        wanted = dict.fromkeys((op_name(node) for _, node in nodes), request.decompose)
        notes.append(f"every {' and '.join(wanted)}, not this node alone: a target runs an op in one way")
    for name, parts in wanted.items():
        profile, change = _decomposed(profile, name, parts, captures)
        changes.append(change)
    if request.fallback is True:
        profile, change, note = _nodes_on_cpu(profile, nodes, present_ops(captures)[op_name(nodes[0][1])])
        changes.append(change)
        notes.append(note)
    elif isinstance(request.fallback, tuple):
        names = [_names_of_present("fallback", written, captures) for written in request.fallback]
        profile = replace(profile, cpu=replace(profile.cpu, ops=profile.cpu.ops.union(*names)))
        changes.append(f"{', '.join(map(functional_name, request.fallback))} on the CPU")
    return Judging(_changed_context(base, request, profile), tuple(changes), tuple(notes))


def _changed_context(base: JudgingContext, request: WhatIfRequest, profile: DeviceProfile) -> JudgingContext:
    given = request.settings
    settings = with_changes(base.settings, given)
    if not base.has_own_rules or "target" in given:
        return JudgingContext(settings, profile, tuple(rules_for(profile)))
    if for_target := [name for name in _OF_TARGET if name in given]:
        raise OptionError(
            f"{for_target[0]}={getattr(request, for_target[0])!r}: this session has rules of its own (constraints=), "
            "and no target's; give target= as well"
        )
    return replace(base, settings=settings, profile=profile)


def with_changes(settings: Settings, changes: Mapping[str, Any]) -> Settings:
    """The settings with some values replaced; denied ops add up."""
    values = dict(changes)
    if "deny" in values:
        values["deny"] = (*(settings["deny"] or ()), *values["deny"])
    return Settings({**settings.values, **{name: Setting(value, ORIGIN) for name, value in values.items()}})


def _setting_changes(base: DeviceProfile, profile: DeviceProfile, given: Mapping[str, Any]) -> list[str]:
    changes = []
    if "target" in given:
        changes.append(f"target {base.name} → {profile.name}")
    if "alignment" in given:
        before = base.alignment if base.alignments else "none"
        changes.append(f"alignment {before} → {profile.alignment}")
    if "max_memory" in given:
        limit = base.peak_limit or base.memory_limit
        changes.append(f"memory limit {size(limit) if limit else 'none'} → {size(given['max_memory'])}")
    if "dtypes" in given:
        before_dtypes = ", ".join(base.dtypes) if base.dtypes else "all"
        changes.append(f"dtypes {before_dtypes} → {', '.join(profile.dtypes or ())}")
    if "deny" in given:
        changes.append(f"without {', '.join(given['deny'])}")
    return changes


def present_ops(captures: Sequence[CompileCapture]) -> Counter[str]:
    """Every op of the judged graphs except views, by its bare name, with the number of its calls."""
    return Counter(
        op_name(node)
        for capture in captures
        for graph in checked_graphs(capture)
        for node in graph.calls
        if bare_name(node.target) not in VIEWS
    )


def parts_of(op: str, profile: DeviceProfile) -> tuple[str, ...]:
    """The parts of an op: this target's, else the usual ones; empty when neither is known."""
    names = lowered_names(op)
    own = [tuple(parts) for key, parts in profile.decompose.items() if lowered_names(bare_name(key)) & names and parts]
    known = [DECOMPOSED[name] for name in sorted(names) if name in DECOMPOSED]
    return next(iter([*own, *known]), ())


def _names_of_present(option: str, written: str, captures: Sequence[CompileCapture]) -> frozenset[str]:
    """All names of an op, which has to be in a captured graph.

    Raises:
        OptionError: it is in none.
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
    names = _names_of_present("decompose", written, captures)
    bare = functional_name(written)
    kept = {key: tuple(parts) for key, parts in profile.decompose.items() if not lowered_names(bare_name(key)) & names}
    if wanted is False:
        return replace(profile, decompose={**kept, bare: ()}), f"{bare} not decomposed"
    if wanted is not True:
        check_ops(wanted, f"decompose[{written!r}]")
        parts = tuple(map(bare_name, wanted))
        return replace(profile, decompose={**kept, bare: parts}), f"{bare} decomposed into {', '.join(parts)}"
    parts = parts_of(bare, profile)
    if not parts:
        raise OptionError(
            f"decompose: the parts of {bare} are not known; give them, such as {{{bare!r}: ['mul', 'add']}}"
        )
    made = {bare: parts}
    for name in sorted(names):
        if name in VARIANTS and (variant := f"{name}_{VARIANTS[name]}") in DECOMPOSED:
            made[variant] = DECOMPOSED[variant]  # gelu with tanh is made of other ops
    return replace(profile, decompose={**kept, **made}), f"{bare} decomposed into {', '.join(parts)}"


_JudgedNode = tuple[tuple[str, str, str], NodeRecord]
"""A node of a judged graph, behind its compile id, stage and name."""


def _nodes_on_cpu(profile: DeviceProfile, nodes: Sequence[_JudgedNode], number: int) -> tuple[DeviceProfile, str, str]:
    """The profile with these nodes on the CPU, the change in words, and a note; ``number``: all nodes of their op."""
    (compile_id, stage, _), first = nodes[0]
    op, cpu = op_name(first), profile.cpu
    choice = replace(cpu, nodes=cpu.nodes | {key for key, _ in nodes})
    names = " and ".join(node.name for _, node in nodes)
    others = f", of {number} nodes that are {op}; fallback=[{op!r}] means all of them" if number > len(nodes) else ""
    note = f"only {names} ({op}, {compile_id} {stage}) is meant{others}"
    return replace(profile, cpu=choice), f"node {names} on the CPU", note


def _nodes(request: WhatIfRequest, captures: Sequence[CompileCapture]) -> list[_JudgedNode]:
    """The requested node; if its graph (Dynamo's) is not judged, the nodes that it became in a judged graph.

    Raises:
        NotFoundError: no judged graph has it.
        OptionError: it is no op, or only a view.
    """
    graphs = {(capture.compile_id, graph.stage): graph for capture in captures for graph in checked_graphs(capture)}
    meant = [key for key in graphs if request.graph in (None, key)]
    for key in meant:
        if (node := graphs[key].node(request.node)) is not None:
            return [((*key, node.name), _computing(node))]
    if request.graph is not None and meant:
        raise NotFoundError(f"{' '.join(request.graph)} has no node {request.node!r}")
    for key in filter(lambda key: _may_be_lowered_to(key, request.graph), graphs):
        if made := _lowered_from(request, graphs[key]):
            return [((*key, node.name), node) for node in made]
    raise NotFoundError(f"no judged graph has a node {request.node!r}, or what became of it")


def _may_be_lowered_to(key: tuple[str, str], graph: tuple[str, str] | None) -> bool:
    """Whether a judged graph can have nodes of the requested graph: same compile, and forward or backward as it is."""
    compile_id, stage = graph or (key[0], "forward")
    return compile_id == key[0] and (key[1] == "backward") is ("backward" in stage)


def _lowered_from(request: WhatIfRequest, graph: GraphRecord) -> list[NodeRecord]:
    """The nodes of a judged graph that the requested node became, or the one of its name."""
    made = [node for node in graph.calls if request.node in node.origins and bare_name(node.target) not in VIEWS]
    same = graph.node(request.node) if request.graph is not None else None
    return made if made or same is None else [_computing(same)]


def _computing(node: NodeRecord) -> NodeRecord:
    """The node, checked to be an op and no view."""
    if not node.is_call:
        raise OptionError(f"node={node.name!r} is an input or the output; allowed: a node that computes something")
    if bare_name(node.target) in VIEWS:
        raise OptionError(
            f"node={node.name!r} ({bare_name(node.target)}) moves no data: it stays with what it looks at"
        )
    return node
