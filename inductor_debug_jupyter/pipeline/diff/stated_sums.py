"""Whether a device keeps its running sums in the format that it says.

At the outputs of a model sums of a narrower format hide behind the rounding of every result. In single matrix products
they do not: with inputs that are designed for it (:mod:`~inductor_debug_jupyter.pipeline.formats.designed_inputs`) all
else is exact, so the candidate either gives the exact sum or does not keep it as it says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Final, cast

import torch

from inductor_debug_jupyter.pipeline.capture.graphs import lines_of
from inductor_debug_jupyter.pipeline.diff.candidate_arithmetic import OpInputs, compiled_op, designed_for, terms_added
from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.executions import Backend, Call
from inductor_debug_jupyter.pipeline.diff.localize import as_compiler
from inductor_debug_jupyter.pipeline.formats.designed_inputs import FEWEST_TERMS, Design
from inductor_debug_jupyter.pipeline.records import Culprit
from inductor_debug_jupyter.pipeline.rerun.again import unnoticed
from inductor_debug_jupyter.pipeline.rerun.time_limit import time_limit
from inductor_debug_jupyter.pipeline.torch_compat.graphs import module_path_of, target_name
from inductor_debug_jupyter.pipeline.torch_compat.replay import AotKeeper, KeptGraph, as_aot_runs

_TESTED: Final[tuple[Design, ...]] = ("whole", "sums")
_LOST: Final = 0.25
"""Results are whole numbers: what is further off is another one."""


def says_wide_sums(backend: Backend) -> bool:
    """Whether a device says that it keeps sums in a wider format than its results."""
    held, sums = backend.held_as, backend.sums_in
    return held is not None and sums is not None and sums.itemsize > held.itemsize


@dataclass(frozen=True, slots=True)
class SumsTested:
    """The ops that show that a device does not keep sums as it says, and notes on what was not tried."""

    culprits: tuple[Culprit, ...] = ()
    notes: tuple[str, ...] = ()


def try_sums(call: Call, backend: Backend, config: ComparisonConfig, timeout: float | None = None) -> SumsTested:
    """Whether a device keeps sums in the format that it says; what it raises is noted.

    Of each kind of matrix product in the model the one of the most terms is tried.

    Args:
        call: the model and its inputs.
        backend: the candidate, which :func:`says_wide_sums`.
        config: how outputs are flattened.
        timeout: seconds for each op.
    """
    keeper = AotKeeper()
    call.execute(Backend("aot", keeper), config)
    forward = [each for each in keeper.graphs if each.stage == "forward" and each.args is not None]
    try:
        with unnoticed(), as_aot_runs(), torch.no_grad():
            return SumsTested(tuple(culprit for kept in forward for culprit in _lost_in(kept, backend, timeout)))
    except Exception as error:  # whatever a backend raises on a single op
        why = f"on a single op it raised {type(error).__name__}: {error}"
        return SumsTested(notes=(f"whether {backend.name} keeps sums as it says was not tried: {why}",))
    finally:
        if backend.close is not None:
            backend.close()


def _lost_in(kept: KeptGraph, backend: Backend, timeout: float | None) -> Iterator[Culprit]:
    assert backend.compiler is not None
    compiler = as_compiler(backend.compiler)
    for node, known in _products(kept).items():
        if (run := compiled_op(kept.graph_module, node, compiler)) is None:
            continue
        for design in _TESTED:
            given = designed_for(node, known, design)
            with time_limit(timeout):
                result = run(given)
            if found := _lost(node, [given[each] for each in node.all_input_nodes], result):
                sums = str(backend.sums_in).removeprefix("torch.")
                said = f"{backend.name} says that it keeps sums in {sums}; of whole numbers whose sum is exact there"
                yield replace(found, reason=f"{said}, {found.op} makes {found.found:g} for {found.expected:g}")
                break


def _lost(node: torch.fx.Node, inputs: list[torch.Tensor], result: torch.Tensor | None) -> Culprit | None:
    """A product of whole numbers that did not come out exact, with its worst element; None when all did."""
    exact = cast("Callable[..., torch.Tensor]", node.target)(*[each.double() for each in inputs])
    if result is None or result.shape != exact.shape:
        return None
    off = (result.double() - exact).abs().nan_to_num(torch.inf)
    at = tuple(int(each) for each in torch.unravel_index(off.argmax(), off.shape))
    if off[at] <= _LOST:
        return None
    return Culprit(
        target_name(node),
        node.name,
        "forward",
        module_path=module_path_of(node),
        source=lines_of(node)[0],
        index=at,
        expected=float(exact[at]),
        found=float(result[at]),
    )


def _products(kept: KeptGraph) -> dict[torch.fx.Node, dict[torch.fx.Node, torch.Tensor]]:
    """Of each kind of matrix product the one that adds up the most terms, with its inputs."""
    products = [node for node in kept.graph_module.graph.nodes if terms_added(node) >= FEWEST_TERMS]
    most = {target_name(node): node for node in sorted(products, key=terms_added)}
    values = OpInputs(kept.graph_module, list(most.values()))
    values.run(*[each.detach().clone() if isinstance(each, torch.Tensor) else each for each in kept.args or ()])
    return values.of
