"""What a fix-it is, and which ones a finding suggests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from inductor_debug_jupyter.pipeline.devices.constraint import Constraint
from inductor_debug_jupyter.pipeline.devices.dtypes import nearest
from inductor_debug_jupyter.pipeline.devices.ops import bare_name
from inductor_debug_jupyter.pipeline.devices.shapes import AlignmentConstraint, misaligned
from inductor_debug_jupyter.pipeline.fixits.rewrite import Rewrite, place_of
from inductor_debug_jupyter.pipeline.records import SessionRecord, Violation
from inductor_debug_jupyter.pipeline.torch_compat.aten_level import can_take_apart
from inductor_debug_jupyter.pipeline.views.words import count

Kind = Literal["pad", "cast", "contiguous", "decompose", "reorder"]
_COST: dict[Kind, int] = {"reorder": 0, "contiguous": 1, "cast": 2, "decompose": 3, "pad": 4}


@dataclass(frozen=True)
class FixIt:
    """One change that may make a finding go away; an idea until it is verified.

    Attributes:
        kind: what is done.
        title: one line for people.
        finding: the finding that suggested it, as :func:`finding_key` names it.
        rewrite: the change of the graph.
        waste: for a padding, the share that it adds to the size that it pads.
    """

    kind: Kind
    title: str
    finding: str
    rewrite: Rewrite
    waste: float = 0.0

    @property
    def cost(self) -> tuple[int, float]:
        """Cheaper ones sort first: what changes no number before what wastes memory."""
        return _COST[self.kind], self.waste

    @property
    def key(self) -> tuple[str, str]:
        """Two fix-its with the same key are the same change."""
        return self.kind, self.title


def finding_key(violation: Violation) -> str:
    """What stays the same of a finding when the model is captured again."""
    return f"{violation.rule_id}: {violation.title}"


def suggestions(
    record: SessionRecord, rules: Sequence[Constraint], severities: Iterable[str] = ("error", "warning")
) -> list[FixIt]:
    """Every change that a finding suggests, each once, cheapest first; ``rules`` are those that found them."""
    local = {each.rule_id for each in rules if isinstance(each, AlignmentConstraint) and each.is_about_products_only}
    found: dict[tuple[str, str], FixIt] = {}
    for violation in record.findings:
        if violation.severity in severities:
            for fixit in _for(violation, record, around=violation.rule_id in local):
                found.setdefault(fixit.key, fixit)
    return sorted(found.values(), key=lambda fixit: fixit.cost)


def _for(violation: Violation, record: SessionRecord, *, around: bool) -> Iterator[FixIt]:
    key = finding_key(violation)
    rule = violation.rule_id
    if rule.startswith("align."):
        if rule == "align.innermost" and _is_of_images(violation, record):
            yield FixIt("reorder", "lay images out with channels innermost", key, Rewrite(channels_last=True))
        if (sizes := misaligned(violation)) is not None:
            size, to = sizes
            waste = (to - size) / size
            rewrite = Rewrite(around={size: to}) if around else Rewrite(pads={size: to})
            yield FixIt("pad", f"pad {size} to {to} (+{waste:.0%})", key, rewrite, waste)
    elif rule == "dtype.unsupported":
        to_dtype = nearest(violation.observed, violation.allowed.split(", "))
        if _same_family(violation.observed, to_dtype):
            title = f"compute in {to_dtype} instead of {violation.observed}"
            yield FixIt("cast", title, key, Rewrite(casts={violation.observed: to_dtype}))
    elif rule == "layout.not_channels_last":
        yield FixIt("reorder", "lay images out with channels innermost", key, Rewrite(channels_last=True))
    elif rule.startswith("layout."):
        places = {(place.module_path, bare_name(place.target)) for place in violation.places}
        op = bare_name(violation.places[0].target)
        title = f"copy what {op} reads row by row ({count(len(places), 'place')})"
        yield FixIt("contiguous", title, key, Rewrite(contiguous=frozenset(place_of(*each) for each in places)))
    elif rule.startswith("op."):
        op = bare_name(violation.observed)  # not the node's: Inductor's graph may have parts of it already
        if can_take_apart(op):
            yield FixIt("decompose", f"take {op} apart", key, Rewrite(decompose=frozenset({op})))


def _is_of_images(violation: Violation, record: SessionRecord) -> bool:
    """Whether a finding is about four dimensions, other than those of attention: heads are no channels."""
    for place in violation.places:
        for capture in record.captures:
            if capture.compile_id == place.compile_id and (graph := capture.graph(place.stage)) is not None:
                names = {bare_name(each.target) for each in graph.calls}
                if any("attention" in name or name == "bmm" for name in names) and not any("conv" in n for n in names):
                    continue
                node = graph.node(place.node)
                near = [node, *(graph.node(name) for name in node.inputs)] if node is not None else []
                if any(len(spec.shape) == 4 for each in near if each is not None for spec in each.outputs):
                    return True
    return False


def _same_family(dtype: str, other: str) -> bool:
    return ("float" in dtype and "float" in other and "complex" not in dtype) or ("int" in dtype and "int" in other)
