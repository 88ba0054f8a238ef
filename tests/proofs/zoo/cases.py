"""The cases of the zoo: what is wrong, in which model, with which values, on which backend; drawn from a seed.

A case is its id, ``lowering.scale.tanh/mlp/mask-1e9/inductor/17``: kind, alteration and op of the fault, model, regime,
backend, and the seed of weights and inputs. ``clean/mlp/mask-1e9/inductor/17`` is the same without a fault.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from inductor_debug_jupyter.pipeline.errors import OptionError
from tests.proofs.inside_torch.planting import Place
from tests.proofs.zoo.faults import ALTERATIONS, Alteration
from tests.proofs.zoo.subjects import MODELS, places
from tests.proofs.zoo.values import REGIMES

CLEAN = "clean"
BACKENDS = ("inductor", "aot", "custom", "stick16", "stick32")
PASS_KINDS = {
    "pre-grad": ("pre-grad",),
    "joint": ("joint-first", "joint-last"),
    "post-grad": ("post-grad-first", "post-grad-last"),
}
HANDED_OVER = ("lost-write", "lost-gradient", "wrong-stride", "wrong-alias", "call-2")
"""Kinds that are no graph op: only the verdict is scored, and that localize does not tick."""

_WEIGHTS = {
    "lowering": 5,
    "decomposition": 4,
    "pre-grad": 3,
    "joint": 3,
    "post-grad": 3,
    "kernel": 3,
    "backend": 6,
    "k-of-n": 4,
    "nan-swallowed": 2,
    "wrong-dtype": 3,
    "lost-write": 2,
    "lost-gradient": 2,
    "wrong-stride": 1,
    "wrong-alias": 1,
    "call-2": 1,
    "adapter": 3,
}
"""Kind → how often it is drawn."""

KINDS = tuple(_WEIGHTS)

_COMPOSITE = frozenset({"gelu", "silu", "softmax"})
"""What Inductor takes apart: these have a decomposition, and no lowering."""
_LOWERED = frozenset(
    ["tanh", "sigmoid", "exp", "erf", "relu", "rsqrt", "cos", "sin", "bitwise_xor", "logical_xor", "log"]
)
_IN_KERNELS = frozenset({"tanh", "erf", "log"})
"""What the generated C++ spells as one call that nothing else uses."""
_PASS_OPS = {
    "pre-grad": frozenset(["tanh", "gelu", "sigmoid", "silu", "softmax", "mul", "sub", "add", "relu"]),
    "joint": frozenset(["tanh", "erf", "sigmoid", "sub", "mul", "add", "relu", "exp"]),
    "post-grad": frozenset(["tanh", "erf", "sigmoid", "sub", "mul", "add", "relu", "exp"]),
}
_SELECTIVE = frozenset({"add", "mul", "sub", "div", "masked_fill", "clone", "mean"})
"""Ops that a model has on other lines too: the fault is on the marked line only, so it must be planted by line."""
_SMALL = frozenset({"scale", "scale-small", "operand", "in-bfloat16"})
"""Alterations that bfloat16 hides."""
_NO_BACKWARD = frozenset({"nan", "complex", "denormal", "device", "integers", "bools"})
_DEVICE_FAULTS = {
    "copy-first-stick": "clone",
    "negative-zero": "eq",
    "read-padding": "sum",
    "wrong-accumulation": "mm",
}
_DEVICE_MODELS = ("mlp", "gru", "graph-break")


@dataclass(frozen=True)
class Case:
    """One case; ``alteration`` and ``op`` are empty where they mean nothing."""

    kind: str
    model: str
    regime: str
    backend: str
    seed: int
    alteration: str = ""
    op: str = ""

    @property
    def id(self) -> str:
        """The text that :func:`parse_case` reads."""
        fault = ".".join(part for part in (self.kind, self.alteration, self.op) if part)
        return f"{fault}/{self.model}/{self.regime}/{self.backend}/{self.seed}"

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong."""
        return self.kind == CLEAN

    @property
    def backward(self) -> bool:
        """Whether gradients are compared too."""
        if self.kind == "lost-gradient":
            return True
        return self.seed % 4 == 0 and self.regime not in _NO_BACKWARD and self.kind not in HANDED_OVER

    @property
    def repeats(self) -> int:
        """How often each side runs."""
        return 3 if self.kind == "call-2" else 1

    @property
    def blames_op(self) -> bool:
        """Whether a graph op is at fault."""
        return not self.is_clean and bool(self.op)

    @property
    def lines(self) -> frozenset[Place]:
        """The user's lines that may be blamed."""
        return places(self.model, self.op) if self.op else frozenset()

    @property
    def planted_at(self) -> frozenset[Place] | None:
        """The lines that the fault is planted on; None when it is on the op wherever that is."""
        return self.lines if self.op in _SELECTIVE else None

    @property
    def without_fault(self) -> Case:
        """The same model, values and backend, without the fault."""
        return replace(self, kind=CLEAN, alteration="", op="")


def parse_case(text: str) -> Case:
    """The case of an id.

    Raises:
        OptionError: there is no such case.
    """
    parts = text.strip().split("/")
    if len(parts) == 5 and parts[4].isdecimal():
        fault, model, regime, backend, seed = parts
        kind, alteration, op = (*fault.split("."), "", "")[:3]
        known = kind in {*KINDS, CLEAN} and model in MODELS and regime in REGIMES and backend in BACKENDS
        case = Case(kind, model, regime, backend, int(seed), alteration, op)
        if known and (case.is_clean or replace(case, seed=0) in _combinations(kind)):
            return case
    raise OptionError(f"--case: {text!r} is not allowed; allowed: an id such as {_EXAMPLE}")


_SEEDS = 1000
_EXAMPLE = "lowering.scale.tanh/mlp/mask-1e9/inductor/17"


def drawn(seed: int, texts: Collection[str] = ()) -> Iterator[Case]:
    """Faulty cases without end, each once; kinds by their weight, then models, values and backends evenly.

    With ``texts``, only cases whose id has all of them.

    Raises:
        OptionError: no case has them.
    """
    chance = random.Random(seed)
    possible = {
        kind: [case for case in _combinations(kind) if all(text in case.id for text in texts)] for kind in KINDS
    }
    weights = {kind: _WEIGHTS[kind] for kind, cases in possible.items() if cases}
    if not weights:
        raise OptionError(f"--only: {' '.join(texts)!r} is not allowed; allowed: a part of an id such as {_EXAMPLE}")
    seen: set[str] = set()
    while len(seen) < _SEEDS * sum(map(len, possible.values())):
        kind = chance.choices(list(weights), list(weights.values()))[0]
        case = replace(_chosen(chance, possible[kind]), seed=chance.randrange(_SEEDS))
        if case.id not in seen:
            seen.add(case.id)
            yield case


def _chosen(chance: random.Random, left: Sequence[Case]) -> Case:
    """One of the cases: models evenly, then values, then backends."""
    for field in ("model", "regime", "backend"):
        chosen = chance.choice(sorted({getattr(case, field) for case in left}))
        left = [case for case in left if getattr(case, field) == chosen]
    return chance.choice(left)


@functools.cache
def _combinations(kind: str) -> tuple[Case, ...]:
    """Every case of a kind, with seed 0."""
    found = []
    for model in MODELS:
        for regime in REGIMES:
            if _fits(model, regime):
                found += list(_of_kind(kind, model, regime))
    return tuple(found)


def _fits(model: str, regime: str) -> bool:
    """Some pairs say nothing, such as a regime of float inputs for a model of tokens."""
    entry = MODELS[model]
    if (regime == "near-constant" and entry.tokens) or (regime == "nan" and entry.training):
        return False  # one NaN in a batch is NaN everywhere behind a BatchNorm
    if entry.hub and regime in {"device", "complex", "nan", "integers", "bools"}:
        return False
    return not (regime == "device" and model not in _DEVICE_MODELS)


def _of_kind(kind: str, model: str, regime: str) -> Iterator[Case]:
    if regime == "device" and kind != "adapter":
        return iter(())
    return _FINDERS.get(kind, _of_ops)(Case(kind, model, regime, "custom", 0))


def _lost_writes(blank: Case) -> Iterator[Case]:
    if MODELS[blank.model].writes:
        yield replace(blank, alteration="last")


def _lost_gradients(blank: Case) -> Iterator[Case]:
    entry = MODELS[blank.model]
    if blank.regime not in _NO_BACKWARD and not entry.hub:
        yield replace(blank, alteration="zero", backend="aot")
        if entry.one_graph:
            yield replace(blank, alteration="none")


def _wrong_aliases(blank: Case) -> Iterator[Case]:
    if blank.model == "in-place":
        yield replace(blank, alteration="copied")
        yield replace(blank, alteration="not-copied")


def _of_results(blank: Case) -> Iterator[Case]:
    entry = MODELS[blank.model]
    if entry.one_graph and not entry.hub and (blank.kind, blank.model) != ("call-2", "autocast"):
        yield blank


def _of_ops(blank: Case) -> Iterator[Case]:
    if blank.kind == "wrong-dtype" and MODELS[blank.model].one_graph and blank.regime != "complex":
        yield replace(blank, alteration="output")
    own = MODELS[blank.model].sites()
    outer = {op for op in own if op[0] not in "(<"} | set(REGIMES[blank.regime].ops)
    inner = {op.strip("()") for op in own if op[0] != "<"} - _COMPOSITE | set(REGIMES[blank.regime].ops)
    for alteration in ALTERATIONS.values():
        if blank.model == "autocast" and alteration.name in _SMALL:
            continue
        for op in sorted((outer | inner) & alteration.ops):
            for backend in _places_to_plant(blank.kind, alteration, op, outer, inner):
                yield replace(blank, alteration=alteration.name, op=op, backend=backend)


def _places_to_plant(kind: str, alteration: Alteration, op: str, outer: set[str], inner: set[str]) -> Iterator[str]:
    """The backends on which an alteration of an op can be planted as a fault of this kind.

    ``outer`` are the ops of a graph before Inductor's decompositions, ``inner`` those behind them.
    """
    if op == "exp" and "softmax" in outer and alteration.name.startswith("scale"):
        return  # a softmax divides that out again
    if op in outer and kind == (alteration.kind or "backend"):
        yield "aot"
        if op not in {"polar", "mean"}:
            yield "custom"
    if _is_inductors(kind, alteration, op, outer, inner):
        yield "inductor"


def _is_inductors(kind: str, alteration: Alteration, op: str, outer: set[str], inner: set[str]) -> bool:
    """Whether an alteration of an op can be planted in Inductor as a fault of this kind."""
    if kind in PASS_KINDS:
        level = outer if kind == "pre-grad" else inner
        return alteration.node is not None and op in _PASS_OPS[kind] & level
    if kind == "decomposition":
        return not alteration.kind and op in _COMPOSITE & outer
    if kind == "kernel":
        return op in _IN_KERNELS & inner and alteration.name in {"scale", "scale-small"}
    return kind == (alteration.kind or "lowering") and alteration.lowered is not None and op in _LOWERED & inner


def _of_device(blank: Case) -> Iterator[Case]:
    if blank.regime != "device":
        return
    for fault, op in _DEVICE_FAULTS.items():
        if op == "eq" and blank.model == "graph-break":
            continue  # none of its results is negative: times zero, none is −0.0
        for backend in ("stick16", "stick32"):
            yield replace(blank, alteration=fault, op=op, backend=backend)


_FINDERS: dict[str, Callable[[Case], Iterator[Case]]] = {
    "adapter": _of_device,
    "lost-write": _lost_writes,
    "lost-gradient": _lost_gradients,
    "wrong-alias": _wrong_aliases,
    "wrong-stride": _of_results,
    "call-2": _of_results,
}
"""Kind → the cases of a model and a regime, with seed 0; the other kinds are faults in ops."""

SAMPLE = (
    "lowering.inverted.sigmoid/twin/plain/inductor/1",
    "decomposition.as-relu.gelu/mlp/mask-1e9/inductor/1",
    "pre-grad.dropped.tanh/mlp/plain/inductor/1",
    "joint.swapped.sub/mlp/plain/inductor/1",
    "post-grad.scale.tanh/mlp/small/inductor/1",
    "kernel.scale.erf/mlp/plain/inductor/1",
    "backend.as-relu.gelu/mlp/mask-1e9/aot/2",
    "backend.dropped.add/attention/mask-min/aot/5",
    "backend.scale.softmax/gpt2/mask-inf/custom/3",
    "backend.scale-small.rsqrt/llama/plain/aot/3",
    "backend.scale.polar/graph-break/complex/aot/1",
    "backend.scale.sigmoid/graph-break/denormal/custom/1",
    "backend.scale.tanh/mlp/near-constant/aot/1",
    "backend.inverted.sigmoid/autocast/plain/custom/1",
    "k-of-n.some.relu/conv-bn/plain/aot/3",
    "k-of-n.off-by-one.cumsum/mlp/integers/aot/1",
    "k-of-n.flipped.logical_xor/mlp/bools/custom/1",
    "nan-swallowed.log-abs.log/mlp/nan/aot/2",
    "wrong-dtype.in-bfloat16.gelu/vit/huge-beside-tiny/aot/3",
    "wrong-dtype.output/dynamic/plain/custom/1",
    "lost-write.last/in-place/plain/custom/1",
    "lost-write.last/closure/plain/custom/1",
    "lost-gradient.zero/mlp/plain/aot/1",
    "lost-gradient.none/gru/plain/custom/1",
    "wrong-stride/attention/plain/custom/1",
    "wrong-alias.copied/in-place/plain/custom/1",
    "call-2/mlp/plain/custom/1",
    "adapter.copy-first-stick.clone/mlp/device/stick16/1",
    "clean/mlp/plain/inductor/1",
    "clean/mlp/mask-1e9/aot/2",
    "clean/attention/mask-min/aot/5",
    "clean/autocast/plain/custom/4",
    "clean/mlp/device/stick16/1",
    "clean/conv-bn/near-constant/aot/4",
    "clean/in-place/nan/aot/1",
    "clean/llama/mask-inf/aot/3",
)
"""The fixed cases that CI runs: every kind, on custom backends where those will do, and a few without a fault."""
