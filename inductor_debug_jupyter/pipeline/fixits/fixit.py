"""What a fix-it is, and which fix-its a finding suggests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from inductor_debug_jupyter.pipeline.devices.alignment import AlignmentConstraint, misaligned
from inductor_debug_jupyter.pipeline.devices.constraint import Constraint
from inductor_debug_jupyter.pipeline.devices.dtypes import nearest
from inductor_debug_jupyter.pipeline.devices.ops import bare_name
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.fixits.rewrite import Rewrite, place_of
from inductor_debug_jupyter.pipeline.records import GraphRecord, Prescription, SessionRecord, Violation
from inductor_debug_jupyter.pipeline.torch_compat.aten_tracing import has_decomposition
from inductor_debug_jupyter.pipeline.words import TO_FIX, count

Kind = Literal["pad", "cast", "contiguous", "decompose", "reorder", "precise"]
_COST: dict[Kind, int] = {"reorder": 0, "contiguous": 1, "cast": 2, "decompose": 3, "pad": 4, "precise": 5}


@dataclass(frozen=True)
class FixIt:
    """One change that may make a finding go away; unverified until :mod:`verify` tried it.

    Attributes:
        kind: the kind of change.
        title: one line for people.
        finding: the finding that suggested it, as :func:`finding_key` names it.
        rewrite: the change of the graph.
        waste: for padding, the added share of the size that is padded.
    """

    kind: Kind
    title: str
    finding: str
    rewrite: Rewrite
    waste: float = 0.0

    @property
    def cost(self) -> tuple[int, float]:
        """Sorts cheaper fix-its first: a change of layout before a padding, which wastes memory."""
        return _COST[self.kind], self.waste

    @property
    def key(self) -> tuple[str, str]:
        """Two fix-its with the same key are the same change."""
        return self.kind, self.title


def finding_key(violation: Violation) -> str:
    """Names a finding by what stays the same when the model is captured again."""
    return f"{violation.rule_id}: {violation.title}"


def suggestions(record: SessionRecord, rules: Sequence[Constraint], severities: Iterable[str] = TO_FIX) -> list[FixIt]:
    """The changes that the findings suggest, each once, cheapest first; ``rules`` are those that made the findings."""
    local = {each.rule_id for each in rules if isinstance(each, AlignmentConstraint) and each.is_about_products_only}
    found: dict[tuple[str, str], FixIt] = {}
    for violation in record.findings:
        if violation.severity in severities:
            for fixit in _suggested_by(violation, record, around=violation.rule_id in local):
                found.setdefault(fixit.key, fixit)
    return sorted(found.values(), key=lambda fixit: fixit.cost)


def _suggested_by(violation: Violation, record: SessionRecord, *, around: bool) -> Iterator[FixIt]:
    rule, key, observed = violation.rule_id, finding_key(violation), violation.observed
    if rule == "layout.not_channels_last" or (rule == "align.innermost" and _is_of_images(violation, record)):
        yield FixIt("reorder", "lay images out with channels innermost", key, Rewrite(channels_last=True))
    elif rule.startswith("layout."):
        yield _copies(violation)
    elif rule == "dtype.unsupported":
        to = nearest(observed, violation.allowed.split(", "))
        if _same_family(observed, to):
            yield FixIt("cast", f"compute in {to} instead of {observed}", key, Rewrite(casts={observed: to}))
    elif rule.startswith("op."):
        op = bare_name(observed)  # not the node's: Inductor's graph may have parts of it already
        if has_decomposition(op):
            yield FixIt("decompose", f"take {op} apart", key, Rewrite(decompose=frozenset({op})))
    if rule.startswith("align.") and (sizes := misaligned(violation)) is not None:
        size, padded = sizes
        waste = (padded - size) / size
        rewrite = Rewrite(around={size: padded}) if around else Rewrite(pads={size: padded})
        yield FixIt("pad", f"pad {size} to {padded} (+{waste:.0%})", key, rewrite, waste)


def prescribed(found: Prescription) -> FixIt:
    """The fix-it that a prescription is: everything in the device's format, but for the ops that matter.

    Raises:
        UsageError: torch does not compute in the format, or the prescription does not reach its goal.
    """
    if not found.cast_to:
        raise UsageError(
            f"{found.arithmetic}: torch has no 16-bit format that computes so, so there is nothing to apply"
        )
    if not found.is_reached:
        raise UsageError(f"nothing to apply: with every op in float32 it is still {found.after:.3g}×")
    title = f"compute in {found.cast_to}, {count(len(found.kept), 'op')} of {found.ops} in float32"
    rewrite = Rewrite(casts={"float32": found.cast_to}, precise=frozenset(found.places))
    return FixIt("precise", title, "", rewrite)


def _same_family(dtype: str, other: str) -> bool:
    return ("float" in dtype and "float" in other and "complex" not in dtype) or ("int" in dtype and "int" in other)


def _copies(violation: Violation) -> FixIt:
    places = {(place.module_path, bare_name(place.target)) for place in violation.places}
    op = bare_name(violation.places[0].target)
    title = f"copy what {op} reads row by row ({count(len(places), 'place')})"
    rewrite = Rewrite(contiguous=frozenset(place_of(*each) for each in places))
    return FixIt("contiguous", title, finding_key(violation), rewrite)


def _is_of_images(violation: Violation, record: SessionRecord) -> bool:
    """Whether a finding is about the four dimensions of an image."""
    graphs = {(each.compile_id, stage): graph for each in record.captures for stage, graph in each.graphs.items()}
    places = [(graphs.get((place.compile_id, place.stage)), place.node) for place in violation.places]
    return any(graph is not None and _is_image_at(graph, name) for graph, name in places)


def _is_image_at(graph: GraphRecord, name: str) -> bool:
    """Whether a node makes or reads four dimensions; not in a graph of attention, whose heads are no channels."""
    names = {bare_name(each.target) for each in graph.calls}
    has_attention = any("attention" in each or each == "bmm" for each in names)
    if has_attention and not any("conv" in each for each in names):
        return False
    node = graph.node(name)
    near = [node, *(graph.node(each) for each in node.inputs)] if node is not None else []
    return any(len(spec.shape) == 4 for each in near if each is not None for spec in each.outputs)
