"""Which ops make the deviation of a result.

Rounding errors are as good as random, so what they do to a result adds up in its variance: each op's share is the sum,
over the elements of its value, of (derivative of the result × the op's own rounding error)². The op's own error is what
the device's arithmetic makes of the op on exact inputs; the derivatives come from a backward pass through the graph.

A result of many elements has a derivative for each of them. Their squares are summed by projections: for random signs
s, the derivative of Σ sᵢ·resultᵢ, squared, is on average the sum of the squares (:data:`_PROJECTIONS` backward passes).

The prediction is checked: the whole graph runs in that arithmetic. The largest ops are confirmed one by one: the error
of that op alone is added to its value, and the graph runs on exactly.
"""

from __future__ import annotations

import math
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


def error_budget(call: Call, arithmetic: Arithmetic, of: str | None = None, confirmed: int = _CONFIRMED) -> ErrorBudget:
    """The deviation of one output of a model in a device's arithmetic, shared out among its ops.

    Args:
        call: the model and its inputs.
        arithmetic: the device's.
        of: the path of an output, as a comparison names it; by default the first.
        confirmed: so many of the largest ops are confirmed, each by a run.

    Raises:
        UsageError: there is no such output, the arithmetic rounds as float32 does, or the model cannot be run so.
    """
    if arithmetic.is_exact:
        raise UsageError("numerics='float32' rounds as the model itself does; allowed: a narrower arithmetic")
    with unnoticed():
        graph = ModelGraph.of(call)
        return budget_of(graph, arithmetic, output_path(graph, of), confirmed)


def output_path(graph: ModelGraph, of: str | None) -> str:
    """The path of the output that is meant: by default the first.

    Raises:
        UsageError: there is no such output.
    """
    path = next(iter(graph.outputs)) if of is None else of
    if path not in graph.outputs:
        raise UsageError(f"of={of!r}; allowed: {', '.join(graph.outputs)}")
    return path


def budget_of(graph: ModelGraph, arithmetic: Arithmetic, path: str, confirmed: int) -> ErrorBudget:
    """The budget of one output of a graph."""
    at = graph.outputs[path]
    run = _WithErrors(graph, arithmetic)
    variances = run.variances(at)
    exact = run.result(at)
    count = max(1, exact.numel())
    total = sum(variances.values())
    predicted = math.sqrt(total / count)

    def deviation(made: list[Any]) -> float:
        return float((made[at].double() - exact).square().mean().sqrt())

    shares = []
    for number, (node, variance) in enumerate(sorted(variances.items(), key=lambda each: -each[1])):
        alone = deviation(graph.run_with_error(node, run.errors_of(node))) if number < confirmed and variance else None
        shares.append(
            BudgetShare(
                target_name(node),
                node.name,
                variance / total if total else 0.0,
                math.sqrt(variance / count),
                alone,
                module_path_of(node),
                lines_of(node)[0],
            )
        )
    seen = deviation(graph.run(arithmetic))
    size = float(exact.square().mean().sqrt())
    return ErrorBudget(path, str(arithmetic), predicted, seen, size, tuple(shares), graph.notes)


class _WithErrors(torch.fx.Interpreter):
    """Runs a graph exactly, and notes the error that the device makes in each op.

    To the value of each op that rounds a zero is added whose gradient is the derivative by that value.
    """

    def __init__(self, graph: ModelGraph, arithmetic: Arithmetic) -> None:
        super().__init__(graph.kept.graph_module)
        self._arithmetic = arithmetic
        self._probes: dict[torch.fx.Node, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        """Node → the zero and the device's error, for each of its results."""
        self._are_rounded: set[torch.fx.Node] = set()
        with torch.enable_grad():
            self._outputs = self.run(*map(copied, graph.kept.args or ()))

    def result(self, at: int) -> torch.Tensor:
        """One output of the graph, in float64."""
        output: torch.Tensor = self._outputs[at]
        return output.detach().double()

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
            exact, made = target(*args, **kwargs), self._arithmetic.compute(target, args, kwargs)
        pairs = zip(of_kind(torch.Tensor, made), of_kind(torch.Tensor, exact), strict=True)
        return [theirs.double() - own.double() for theirs, own in pairs]

    def variances(self, at: int) -> dict[torch.fx.Node, float]:
        """What each op adds to the variance of one output, summed over its elements.

        Raises:
            UsageError: there is no derivative.
        """
        output = self._outputs[at]
        if not output.requires_grad:
            raise UsageError("no op that rounds leads to this output")
        generator = torch.Generator().manual_seed(_SEED)
        totals = dict.fromkeys(self._probes, 0.0)
        draws = 1 if output.numel() == 1 else _PROJECTIONS
        for _ in range(draws):
            signs = torch.randint(0, 2, output.shape, generator=generator).to(output.dtype) * 2 - 1
            try:
                output.backward(signs, retain_graph=True)
            except RuntimeError as why:
                raise UsageError(f"the output has no derivative: {why}") from why
            for node, probes in self._probes.items():
                for zero, error in probes:
                    if zero.grad is not None:
                        totals[node] += float((zero.grad.double() * error).square().sum()) / draws
                        zero.grad = None
        return totals
