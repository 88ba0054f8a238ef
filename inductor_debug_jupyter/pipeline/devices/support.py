"""Which ops the target has: one verdict for each op's name, with the reason.

An op is **supported** when the target has it, **decomposable** when the target has its parts, and otherwise it
**falls back** to the CPU, or is **refused** where the profile allows no fallback (``[ops] fallback = "none"``).
Verdicts are cached by name, so a graph costs one look-up a node.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass

from inductor_debug_jupyter.pipeline.devices.constraint import Constraint, Problem
from inductor_debug_jupyter.pipeline.devices.ops import (
    DECOMPOSED,
    DEFAULT_DENY,
    OP_GROUPS,
    PYTHON_NUMBERS,
    VARIANTS,
    VIEWS,
    bare_name,
    check_ops,
    functional_name,
    lowered_names,
    names_of,
)
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord, OpStatus

RUNS_ON_DEVICE = frozenset({"supported", "decomposable"})


@dataclass(frozen=True, slots=True)
class OpVerdict:
    """Whether the target runs one op.

    ``op`` is its bare name; ``lacks`` is the op that the target does not have, as the profile writes it (``aten.erf``,
    which ``gelu`` needs); ``parts`` are the ops that run instead.
    """

    op: str
    status: OpStatus
    reason: str = ""
    lacks: str = ""
    parts: tuple[str, ...] = ()

    @property
    def runs_on_device(self) -> bool:
        """Whether the target runs it, whole or in parts."""
        return self.status in RUNS_ON_DEVICE


class OpSupport:
    """The ops of one target.

    Args:
        allow: the only ops that it has; None for all that are not denied.
        deny: ops that it does not have.
        decompose: op → what it is made of on this target; adds to :data:`DECOMPOSED` and rescues a denied op. Made of
            nothing: the target runs it whole or not at all.
        fallback: whether the CPU may run what the target lacks.

    Names may be written in any way (``aten.convolution``, ``nn.Conv2d``); ``@matmul`` stands for a group.
    """

    def __init__(
        self,
        allow: Iterable[str] | None = None,
        deny: Iterable[str] = (),
        decompose: Mapping[str, Iterable[str]] | None = None,
        *,
        fallback: bool = True,
    ) -> None:
        self._allow = None if allow is None else _bare_names(allow)
        self._deny = _bare_names(deny)
        self._own: dict[str, tuple[str, ...]] = {}
        for op, parts in (decompose or {}).items():
            names = {name for known in lowered_names(bare_name(op)) for name in (known, *_variants(known))}
            self._own.update(dict.fromkeys(names, tuple(map(bare_name, parts))))
        self._lacking: OpStatus = "fallback" if fallback else "refused"
        self._known: dict[tuple[str, str, tuple[str, ...], str], OpVerdict] = {}

    def verdict(self, node: NodeRecord, graph: GraphRecord | None = None) -> OpVerdict:
        """The verdict for a node's op as AOTAutograd first saw it, however far the graph was lowered."""
        key = (node.target, node.composite, node.aten_ops, _variant(node, graph))
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._decide(*key)
        return known

    def lacks(self, bare: str) -> bool:
        """Whether the target does not run an op, given by its bare name."""
        return not self._of_name(bare, bare).runs_on_device

    def denies(self, bare: str) -> bool:
        """Whether the profile's list of missing ops has this one, by its bare name."""
        return bare in self._deny

    def _decide(self, target: str, composite: str, aten_ops: tuple[str, ...], variant: str) -> OpVerdict:
        whole = functional_name(composite or target) + variant
        if aten_ops and not self._deny.get(bare_name(target)):
            return self._worst(whole, aten_ops, variant)
        verdict = self._of_name(whole, bare_name(composite or target))
        knows_parts = whole in self._own or bool(self._parts(whole))
        if composite and verdict.status == "supported" and self._allow is None and not knows_parts:
            part = bare_name(target)  # no table has this op's parts, so the ops that it was lowered to are checked
            if (written := self._deny.get(part)) is not None:
                return self._lack(whole, written, f"{whole} needs {part}, which the target does not have")
        return verdict

    def _worst(self, whole: str, aten_ops: tuple[str, ...], variant: str) -> OpVerdict:
        """The verdict for a Dynamo node, which runs on the device when all the aten ops that it stands for do."""
        names = [(functional_name(op), bare_name(op)) for op in aten_ops]
        verdicts = [self._of_name(op + variant if op in VARIANTS else op, written) for op, written in names]
        bad = next((each for each in verdicts if not each.runs_on_device), None)
        if bad is not None:
            return OpVerdict(whole, bad.status, bad.reason, bad.lacks)
        parts = tuple(dict.fromkeys(part for each in verdicts for part in each.parts))
        return OpVerdict(whole, "decomposable" if parts else "supported", "", "", parts)

    def _of_name(self, op: str, written_as: str, depth: int = 0) -> OpVerdict:
        if (denied := self._deny.get(written_as) or self._deny.get(op)) is not None:
            reason = f"{denied} is on the target's list of ops that it does not have"
            return self._in_parts(op, self._own.get(op, ()), denied, reason, depth)
        if self._allow is None:
            return self._needs(op, depth)
        if op in VIEWS or op in PYTHON_NUMBERS:
            return OpVerdict(op, "supported", "no arithmetic")
        if op in self._allow or written_as in self._allow:
            return OpVerdict(op, "supported")
        reason = f"aten.{written_as} is not on the target's list of ops that it has"
        return self._in_parts(op, self._parts(op), f"aten.{written_as}", reason, depth)

    def _parts(self, op: str) -> tuple[str, ...]:
        own = self._own.get(op)
        return DECOMPOSED.get(op, ()) if own is None else own

    def _in_parts(self, op: str, parts: tuple[str, ...], lacks: str, reason: str, depth: int) -> OpVerdict:
        if parts and depth < 4:
            missing = [part for part in parts if not self._of_name(part, part, depth + 1).runs_on_device]
            if not missing:
                return OpVerdict(op, "decomposable", f"runs as {', '.join(parts)}", parts=parts)
            return self._lack(op, lacks, f"neither {op} nor {missing[0]}, which it is made of, is there")
        return self._lack(op, lacks, reason)

    def _needs(self, op: str, depth: int) -> OpVerdict:
        """The verdict where the profile has no allow list: the target has every op whose parts are not denied."""
        for part in self._parts(op):
            if (written := self._deny.get(part)) is not None and depth < 4:
                return self._lack(op, written, f"{op} needs {part}, which the target does not have")
        parts = self._own.get(op, ())
        return OpVerdict(op, "decomposable" if parts else "supported", parts=parts)

    def _lack(self, op: str, lacks: str, reason: str) -> OpVerdict:
        return OpVerdict(op, self._lacking, reason, lacks)


def _variant(node: NodeRecord, graph: GraphRecord | None) -> str:
    """``_tanh`` for a ``gelu`` that is computed with tanh; empty for most ops."""
    op = functional_name(node.composite or node.target)
    word = VARIANTS.get(op)
    if word is None:
        return ""
    if node.composite:
        parts = graph.call_targets.get((node.composite, node.call), ()) if graph else (node.target,)
        return f"_{word}" if any(bare_name(part) == word for part in parts) else ""
    return f"_{word}" if word in node.arguments else ""


def _bare_names(written: Iterable[str]) -> dict[str, str]:
    """Every bare name that a list of ops and groups stands for → how the list writes it."""
    names: dict[str, str] = {}
    for each in written:
        if each.startswith("@"):
            names.update(dict.fromkeys(OP_GROUPS[each[1:]], each))
            continue
        for name in names_of(functional_name(each)):  # graphs hold the op, whichever way it was written
            for known in (name, *_variants(name)):
                names.setdefault(known, each)
    return names


def _variants(op: str) -> tuple[str, ...]:
    """The names of an op's variants: ``gelu_tanh`` of ``gelu``."""
    return (f"{op}_{VARIANTS[op]}",) if op in VARIANTS else ()


class UnsupportedOpsConstraint(Constraint):
    """Ops that the target does not have, by any of their names; :data:`DEFAULT_DENY` when none are given.

    Raises:
        OptionError: torch has no op of that name.
    """

    rule_id = "op.unsupported"

    def __init__(self, unsupported_ops: Iterable[str] = DEFAULT_DENY, *, support: OpSupport | None = None) -> None:
        self.unsupported_ops = () if isinstance(unsupported_ops, str) else tuple(unsupported_ops)
        if isinstance(unsupported_ops, str) or not all(isinstance(name, str) for name in self.unsupported_ops):
            given = f"unsupported_ops: {unsupported_ops!r}"  # a single string would count as a list of letters
            raise OptionError(f"{given} is not allowed; allowed: names of ops, such as ['aten.sort']")
        if support is None and unsupported_ops is not DEFAULT_DENY:
            check_ops(self.unsupported_ops, "unsupported_ops")
        self._support = support or OpSupport(deny=self.unsupported_ops)

    @property
    def support(self) -> OpSupport:
        """Which ops the target has."""
        return self._support

    def check(self, graph: GraphRecord) -> Iterator[Problem]:
        """Every node whose op the target does not have, however far the graph was lowered."""
        for node in graph.calls:
            verdict = self._support.verdict(node, graph)
            if verdict.runs_on_device:
                continue
            whole = node.composite or node.target
            bare = functional_name(verdict.lacks)
            yield Problem(
                node.name,
                f"the target has no {verdict.lacks}",
                observed=whole,
                allowed=f"any op but {verdict.lacks}",
                explanation=verdict.reason[:1].upper() + verdict.reason[1:] + ".",
                hints=(f"replace {bare} by ops that the target has, or keep this part on the CPU",),
                evidence=f"bare(op) in {sorted({bare_name(node.target), *map(bare_name, node.aten_ops)})}",
            )

    def check_names(self, dynamo: GraphRecord, aot_names: Container[str] = ()) -> Iterator[Problem]:
        """Nodes of a Dynamo graph that are denied by a name that only Dynamo uses (``conv2d``).

        Ops that are denied by the name of what they are lowered to are found in the AOT graphs. A list of the ops that
        the target has is a list of AOT names: a Dynamo node that is not on it (``dropout``, which is nothing in
        evaluation mode) is judged by what it was lowered to.
        """
        for problem in self.check(dynamo):
            node = dynamo.by_name[problem.node]
            bare = bare_name(node.target)
            if not self._support.denies(bare):
                continue
            lowered = (lowered_names(bare) - {bare}) | set(map(bare_name, node.aten_ops))
            if bare not in aot_names and not any(self._support.lacks(name) for name in lowered):
                yield problem
