"""Which ops make the deviation of a result.

Rounding errors are as good as random, so what they do to a result adds up in its variance: each op's share is the sum,
over the elements of its value, of (derivative of the result × the op's own rounding error)². The op's own error is what
the device's arithmetic makes of the op on exact inputs; the derivatives come from a backward pass through the graph.

A result of many elements has a derivative for each of them. Their squares are summed by projections: for random signs
s, the derivative of Σ sᵢ·resultᵢ, squared, is on average the sum of the squares (:data:`_PROJECTIONS` backward passes).

The prediction is checked: the whole graph runs in that arithmetic. The largest ops are confirmed one by one, in two
runs: the error of that op alone is added to its value, and the graph runs on exactly; and the graph runs in that
arithmetic, with the op's value replaced by what the reference makes of its inputs.

The result is an output, or the margin of an output's two best values: how far the second is from flipping the choice.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.capture.graphs import lines_of
from inductor_debug_jupyter.pipeline.diff.executions import Call
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.formats.arithmetic import Arithmetic
from inductor_debug_jupyter.pipeline.formats.rounding import rounded
from inductor_debug_jupyter.pipeline.numerics.arithmetic_run import ModelGraph, copied, rounds
from inductor_debug_jupyter.pipeline.records.numerics import BudgetShare, ErrorBudget
from inductor_debug_jupyter.pipeline.rerun.again import unnoticed
from inductor_debug_jupyter.pipeline.torch_compat.graphs import module_path_of, target_name
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_kind, map_tensors, of_kind

_PROJECTIONS: Final = 8
_CONFIRMED: Final = 10
"""So many of the largest ops are confirmed."""
_SEED: Final = 20_260_601
_MARGIN: Final = re.compile(r"margin(\((?P<path>.*)\))?")
_ONE_NUMBER: Final = "the result is one number: what a run shows is one draw, and may be any fraction of the prediction"


def error_budget(
    call: Call,
    arithmetic: Arithmetic,
    of: str | None = None,
    confirmed: int = _CONFIRMED,
    precise: Collection[str] = (),
) -> ErrorBudget:
    """The deviation of one output of a model in a device's arithmetic, shared out among its ops.

    Args:
        call: the model and its inputs.
        arithmetic: the device's.
        of: the path of an output, as a comparison names it, or ``margin(path)``: the distance of the two best values in
            its last dimension (``margin`` alone: of the logits, or else of the first output); by default the first.
        confirmed: so many of the largest ops are confirmed, each by two runs.
        precise: places of ops that the device has in float32 anyway.

    Raises:
        UsageError: there is no such output, the arithmetic rounds as float32 does, or the model cannot be run so.
    """
    if arithmetic.is_exact:
        raise UsageError("numerics='float32' rounds as the model itself does; allowed: a narrower arithmetic")
    with unnoticed():
        graph = ModelGraph.of(call, precise)
        return budget_of(graph, arithmetic, of, confirmed)


@dataclass(frozen=True, slots=True)
class Result:
    """What the budget is of: an output of the graph, or the margin between the two best values in its last dimension.

    ``best`` are the places of these two in the exact output.
    """

    name: str
    at: int
    best: torch.Tensor | None = None

    def of(self, outputs: Sequence[Any]) -> torch.Tensor:
        """Its value, given the graph's outputs."""
        output: torch.Tensor = outputs[self.at]
        if self.best is None:
            return output
        first, second = output.gather(-1, self.best).unbind(-1)
        return first - second


def result_of(graph: ModelGraph, of: str | None) -> Result:
    """The result that is meant: by default the first output.

    Raises:
        UsageError: there is no such output, or there is nothing to choose from in it.
    """
    paths = list(graph.outputs)
    if of in graph.outputs or of is None:
        name = of or paths[0]
        return Result(name, graph.outputs[name])
    margin = _MARGIN.fullmatch(of)
    path = (margin["path"] or ("logits" if "logits" in paths else paths[0])) if margin else ""
    if path not in graph.outputs:
        raise UsageError(f"of={of!r}; allowed: {', '.join(paths)}, margin or margin(one of these)")
    at = graph.outputs[path]
    output = graph.run(Arithmetic())[at]
    if not output.ndim or output.shape[-1] < 2:
        raise UsageError(f"of={of!r}: {path} has no two values to choose from in its last dimension")
    return Result(f"margin({path})", at, output.topk(2, dim=-1).indices)


def budget_of(graph: ModelGraph, arithmetic: Arithmetic, of: str | None, confirmed: int) -> ErrorBudget:
    """The budget of one result of a graph."""
    result = result_of(graph, of)
    run = _WithErrors(graph, arithmetic)
    with torch.enable_grad():  # the model may have been called without
        variances = run.variances(result.of(run.outputs))
    exact = result.of(run.outputs).detach().double()
    count = max(1, exact.numel())
    total = sum(variances.values())

    def deviation(made: list[Any]) -> float:
        return float((result.of(made).double() - exact).square().mean().sqrt())

    shares = []
    for number, (node, variance) in enumerate(sorted(variances.items(), key=lambda each: -each[1])):
        alone = without = None
        if number < confirmed and variance:
            alone = deviation(graph.run_with_error(node, run.errors_of(node)))
            # an operand that is narrower than results is rounded by the product that reads it
            operands = arithmetic.operands != arithmetic.results
            without = deviation(graph.run(arithmetic, (node.name,), products_round=operands))
        shares.append(
            BudgetShare(
                target_name(node),
                node.name,
                variance / total if total else 0.0,
                math.sqrt(variance / count),
                alone,
                module_path_of(node),
                lines_of(node)[0],
                without,
            )
        )
    seen, size = deviation(graph.run(arithmetic)), float(exact.square().mean().sqrt())
    notes = graph.notes if count > 1 else (*graph.notes, _ONE_NUMBER)
    return ErrorBudget(result.name, str(arithmetic), math.sqrt(total / count), seen, size, tuple(shares), notes)


class _WithErrors(torch.fx.Interpreter):
    """Runs a graph exactly, and notes the error that the device makes in each op.

    To the value of each op that rounds a zero is added whose gradient is the derivative by that value.
    """

    def __init__(self, graph: ModelGraph, arithmetic: Arithmetic) -> None:
        super().__init__(graph.kept.graph_module)
        self._arithmetic = arithmetic
        self._precise = graph.precise
        self._probes: dict[torch.fx.Node, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        """Node → the zero and the device's error, for each of its results."""
        self._are_rounded: set[torch.fx.Node] = set()
        with torch.enable_grad():
            self.outputs: list[Any] = list(self.run(*map(copied, graph.kept.args or ())))
            """The graph's exact outputs, which have derivatives."""

    def errors_of(self, node: torch.fx.Node) -> list[torch.Tensor]:
        """What the device adds to each floating-point result of an op."""
        return [error for _, error in self._probes[node]]

    def run_node(self, n: torch.fx.Node) -> Any:
        """One node; the device's error of it is kept beside its value."""
        value = super().run_node(n)
        if not rounds(n):
            if n.op == "call_function" and self._are_rounded.issuperset(n.all_input_nodes):
                self._are_rounded.add(n)  # it only moves what an op before has rounded
            return value
        self._are_rounded.add(n)
        errors = iter(self._errors(n))
        self._probes[n] = []

        def probed(result: torch.Tensor) -> torch.Tensor:
            error = next(errors)
            if not result.is_floating_point():
                return result
            zero = torch.zeros_like(result, requires_grad=True)
            self._probes[n].append((zero, error))
            return result + zero

        return map_tensors(probed, value)

    def _errors(self, node: torch.fx.Node) -> list[torch.Tensor]:
        """What the device adds in one op: the rounding of its inputs was counted where they were made."""

        def given(each: torch.fx.Node) -> Any:
            held = each in self._are_rounded
            own = map_tensors(copied, self.env[each])
            return map_tensors(lambda value: rounded(value, self._arithmetic.results), own) if held else own

        args, kwargs = map_kind(torch.fx.Node, given, (node.args, node.kwargs))
        target: Any = node.target
        with torch.no_grad():
            exact = target(*args, **kwargs)
            own = node.name not in self._precise
            made = self._arithmetic.compute(target, args, kwargs) if own else exact
        pairs = zip(of_kind(torch.Tensor, made), of_kind(torch.Tensor, exact), strict=True)
        return [theirs.double() - ours.double() for theirs, ours in pairs]

    def variances(self, output: torch.Tensor) -> dict[torch.fx.Node, float]:
        """What each op adds to the variance of a result, summed over its elements.

        Raises:
            UsageError: there is no derivative.
        """
        if not output.requires_grad:
            raise UsageError("no op that rounds leads to this output")
        generator = torch.Generator().manual_seed(_SEED)
        totals = dict.fromkeys(self._probes, 0.0)
        draws = 1 if output.numel() == 1 else _PROJECTIONS
        for _ in range(draws):
            signs = torch.randint(0, 2, output.shape, generator=generator).to(output.dtype) * 2 - 1
            try:
                torch.autograd.backward(output, signs, retain_graph=True)
            except RuntimeError as why:
                raise UsageError(f"the output has no derivative: {why}") from why
            for node, probes in self._probes.items():
                for zero, error in probes:
                    if zero.grad is not None:
                        totals[node] += float((zero.grad.double() * error).square().sum()) / draws
                        zero.grad = None
        return totals
