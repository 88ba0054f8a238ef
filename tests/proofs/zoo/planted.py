"""A case's backend with its fault in it, for as long as a ``with`` block lasts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.fx import Graph

from inductor_debug_jupyter.pipeline.adapters import StickAdapter
from tests.proofs.inside_torch.planting import (
    calls_of,
    decomposition_planted,
    lowering_planted,
    pass_planted,
)
from tests.proofs.kernel_faults import KernelFault
from tests.proofs.zoo import backends
from tests.proofs.zoo.cases import PASS_KINDS, Case
from tests.proofs.zoo.faults import ALTERATIONS, MULTIPLY

_HANDING: dict[tuple[str, str], backends.Handing] = {
    ("lost-write", "last"): backends.lost_writes,
    ("lost-gradient", "none"): backends.detached_weight,
    ("wrong-stride", ""): backends.wrong_strides,
    ("wrong-alias", "copied"): backends.lost_aliases,
    ("wrong-dtype", "output"): backends.wrong_dtype,
}
_DECOMPOSED = {"softmax": "_softmax"}
_FACTORS = {"scale": 0.01, "scale-small": 0.001}


@contextmanager
def planted(case: Case) -> Iterator[Any]:
    """What to give as ``backend=``; a clean case has no fault."""
    if case.backend.startswith("stick"):
        faults = [] if case.is_clean else [f"{case.alteration}:{case.op}"]
        yield StickAdapter("float16" if case.backend == "stick16" else "float32", faults=faults, check=False)
    elif case.backend == "inductor":
        with _in_inductor(case):
            yield "inductor"
    elif case.backend == "aot":
        yield backends.aot_backend(_altered(case), lost_gradient=case.kind == "lost-gradient")
    else:
        yield _custom(case)


def _altered(case: Case) -> backends.AlteredOp | None:
    if case.is_clean or not case.op:
        return None
    return backends.AlteredOp(case.op, ALTERATIONS[case.alteration].tensors, case.planted_at)


def _custom(case: Case) -> Any:
    if case.kind == "call-2":
        return backends.custom_backend(handing=backends.from_call_two())
    if case.alteration == "not-copied":
        return backends.custom_backend(backends.AlteredOp("clone", lambda _, x: x, None))
    return backends.custom_backend(_altered(case), _HANDING.get((case.kind, case.alteration)))


@contextmanager
def _in_inductor(case: Case) -> Iterator[None]:
    if case.is_clean:
        yield
        return
    if case.kind == "kernel":
        with KernelFault(case.op, case.op, _FACTORS[case.alteration]).seeded():
            yield
        return
    alteration = ALTERATIONS[case.alteration]
    if case.kind == "decomposition":
        with decomposition_planted(_DECOMPOSED.get(case.op, case.op), alteration.tensors):
            yield
    elif case.kind in PASS_KINDS:
        stages = PASS_KINDS[case.kind]
        chance = random.Random(case.seed)

        def edit(graph: Graph) -> None:
            assert alteration.node is not None
            for node in calls_of(graph, case.op, case.planted_at):
                alteration.node(node, MULTIPLY.get(case.kind, torch.ops.aten.mul.Tensor))

        with pass_planted(chance.choice(stages), edit):
            yield
    else:
        assert alteration.lowered is not None
        with lowering_planted(case.op, alteration.lowered):
            yield
