"""Findings of two runs: which are the same, in other words, gone or new.

Two findings are the same if rule, severity and title are equal. The others are paired by rule, observed value and
places: such a pair is one finding with another title (``784 is not a multiple of 64``, then ``… of 128``), not one gone
and one new.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence

from inductor_debug_jupyter.pipeline.records import Violation

Pairs = tuple[tuple[Violation, Violation], ...]
Alone = tuple[Violation, ...]


def equal_findings(before: Sequence[Violation], after: Sequence[Violation]) -> tuple[Pairs, Alone, Alone]:
    """Pairs of the same finding, and those without one, before and after."""
    open_before: dict[tuple[str, str, str], deque[Violation]] = defaultdict(deque)
    for finding in before:
        open_before[finding.rule_id, finding.severity, finding.title].append(finding)
    pairs, new = [], []
    for finding in after:
        if queue := open_before.get((finding.rule_id, finding.severity, finding.title)):
            pairs.append((queue.popleft(), finding))
        else:
            new.append(finding)
    left = {id(finding) for queue in open_before.values() for finding in queue}
    return tuple(pairs), tuple(finding for finding in before if id(finding) in left), tuple(new)


def reworded_findings(before: Sequence[Violation], after: Sequence[Violation]) -> tuple[Pairs, Alone, Alone]:
    """Pairs of findings about the same thing in other words, each with its best match, and those without one."""
    left, pairs, unpaired = list(before), [], []
    for finding in after:
        twin = max(left, key=lambda each: _overlap(each, finding), default=None)
        if twin is None or not _overlap(twin, finding):
            unpaired.append(finding)
        else:
            left.remove(twin)
            pairs.append((twin, finding))
    return tuple(pairs), tuple(left), tuple(unpaired)


def _overlap(one: Violation, other: Violation) -> float:
    """The share of places that two findings about the same thing have in common, by stage, module and op.

    The thing is the observed size or dtype; the number of bytes does not count.
    """
    seen, also = (each.observed.partition(" ")[0] for each in (one, other))
    if one.rule_id != other.rule_id or (seen != also and not one.rule_id.startswith("memory.")):
        return 0.0
    ours, theirs = (
        {(place.stage, place.module_path, place.target) for place in finding.places} for finding in (one, other)
    )
    return len(ours & theirs) / len(ours | theirs) if ours | theirs else 0.0
