"""Run nodes of a graph eagerly, as they are or under stochastic arithmetic.

An :class:`Evaluator` computes one node from values that are known, going back through the graph no further than to
those. A :class:`Lockstep` runs a whole graph from its inputs, as far as is asked for, and lets go of each value after
its last use.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from operator import attrgetter
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.diff.elements import same_values
from inductor_debug_jupyter.pipeline.diff.floors import RUNS, Spread
from inductor_debug_jupyter.pipeline.diff.judging import FINE, Judgement, confirm, judge, judge_common_factor
from inductor_debug_jupyter.pipeline.torch_compat.graphs import has_zero_dropout, mutated_inputs, target_name
from inductor_debug_jupyter.pipeline.torch_compat.guard_failures import described_tensor
from inductor_debug_jupyter.pipeline.torch_compat.stochastic import (
    StochasticArithmetic,
    WideArithmetic,
    multiplies,
    seeds,
)
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_kind


class UnreplayableError(Exception):
    """A node cannot be run again: it draws random numbers, or writes into what it is given."""


class OtherKindError(UnreplayableError):
    """The candidate's value has another shape or dtype than eager mode makes of the same inputs."""


def error_line(error: BaseException) -> str:
    """The first line of an error, with its type unless that says nothing to a user."""
    first = (str(error).splitlines() or [""])[0]
    return first if isinstance(error, UnreplayableError) else f"{type(error).__name__}: {first}"


class Evaluator:
    """Computes single nodes of a graph.

    Args:
        graph_module: the graph.
        only_products: the format that a device holds floats in (``held_as``) is that of its products alone.
    """

    def __init__(self, graph_module: torch.fx.GraphModule, *, only_products: bool = False) -> None:
        self.graph_module = graph_module
        self._only_products = only_products
        self.nodes: dict[str, torch.fx.Node] = {node.name: node for node in graph_module.graph.nodes}
        self._order = {node: position for position, node in enumerate(graph_module.graph.nodes)}

    def position(self, name: str) -> int:
        """Where a node stands in the graph."""
        return self._order[self.nodes[name]]

    def slice_of(self, name: str, known: Collection[str]) -> tuple[list[torch.fx.Node], list[torch.fx.Node]]:
        """The nodes to run for one value, in order, and the known ones that they start from."""
        needed: dict[torch.fx.Node, None] = {}
        starts: dict[torch.fx.Node, None] = {}
        waiting = [self.nodes[name]]
        while waiting:
            node = waiting.pop()
            if node in needed:
                continue
            needed[node] = None
            for each in node.all_input_nodes:
                if each.name in known:
                    starts[each] = None
                else:
                    waiting.append(each)
        return sorted(needed, key=self._order.__getitem__), sorted(starts, key=self._order.__getitem__)

    def evaluate(self, nodes: Iterable[torch.fx.Node], known: Mapping[str, Any], *, draws: bool = False) -> Any:
        """Run these nodes, in order, from known values; the last one's value.

        Raises:
            UnreplayableError: one of them cannot be run again; one that draws random numbers can with ``draws``.
        """
        values: dict[torch.fx.Node, Any] = {}
        value: Any = None

        def look_up(node: torch.fx.Node) -> Any:
            return values[node] if node in values else known[node.name]

        for node in nodes:
            value = values[node] = _value_of(node, self.graph_module, look_up, draws=draws)
        return value

    def is_wrong(
        self,
        name: str,
        known: Mapping[str, Any],
        value: torch.Tensor,
        held_as: torch.dtype | None = None,
        together: Collection[str] = (),
    ) -> bool:
        """Whether a candidate's value of one node is wrong, beside what is known of all other nodes."""
        nodes, _ = self.slice_of(name, known.keys() - {name})
        return self.judge(nodes, known, value, held_as, together).wrong

    def judge(
        self,
        nodes: Sequence[torch.fx.Node],
        known: Mapping[str, Any],
        value: torch.Tensor,
        held_as: torch.dtype | None = None,
        together: Collection[str] = (),
    ) -> Judgement:
        """Judge a candidate's value against the same nodes, run eagerly from the candidate's own inputs.

        ``together`` are known values that the same code made: it may go on with what it has in registers, while a
        16-bit value that is written to memory is rounded.

        Raises:
            Exception: whatever an op raises; :class:`UnreplayableError` when it cannot be run again.
        """
        if self._only_products and not any(multiplies(node.target) for node in nodes):
            held_as = None
        if has_no_values(nodes[-1]):
            raise UnreplayableError(f"{nodes[-1].name} is memory that nobody has written to")
        own = self.evaluate(nodes, known)
        if not isinstance(own, torch.Tensor):
            raise UnreplayableError("eager mode makes no tensor of it")
        if (own.shape, own.dtype, own.layout) != (value.shape, value.dtype, value.layout):
            raise OtherKindError(f"it is {described_tensor(value)}, and in eager mode {described_tensor(own)}")
        if same_values(own, value):
            return FINE

        def again(noise: StochasticArithmetic | WideArithmetic) -> dict[str, Any]:
            given = known
            if isinstance(noise, StochasticArithmetic):
                given = {**known, **{name: noise.unrounded(known[name]) for name in together if name in known}}
            with noise:
                return {"": self.evaluate(nodes, given)}

        spread = Spread(own)
        for seed in seeds(RUNS, held_as):
            spread.add(again(StochasticArithmetic(seed, held_as))[""])
        judged = {"": judge(value, spread, held_as)}

        confirm(judged, {"": value}, {"": spread}, held_as, again)
        if held_as is None:
            judge_common_factor(judged, {"": value}, {"": spread}, again)
        return judged[""]


_UNWRITTEN: Final = frozenset(
    ("empty", "empty_like", "new_empty", "new_empty_strided", "empty_strided", "empty_permuted")
)


def has_no_values(node: torch.fx.Node) -> bool:
    """Whether a node makes memory whose content is undefined by contract."""
    return any(name in _UNWRITTEN for name in target_name(node).split(".")[1:2])


def _value_of(
    node: torch.fx.Node,
    graph_module: torch.fx.GraphModule,
    look_up: Callable[[torch.fx.Node], Any],
    *,
    draws: bool = False,
) -> Any:
    if node.op == "get_attr":
        return attrgetter(str(node.target))(graph_module)
    if node.op == "placeholder":
        return look_up(node)
    harmless = {"<effect>", "<rng>"} if draws or has_zero_dropout(node) else {"<effect>"}
    if written := [name for name in mutated_inputs(node) if name not in harmless]:
        what = "draws random numbers" if "<rng>" in written else f"writes into {written[0]}"
        raise UnreplayableError(f"{node.name} {what}")
    args, kwargs = map_kind(torch.fx.Node, look_up, (node.args, node.kwargs))
    target: Any = node.target
    return getattr(args[0], target)(*args[1:], **kwargs) if node.op == "call_method" else target(*args, **kwargs)


class Lockstep:
    """A whole graph, run eagerly only as far as somebody wants to look.

    Args:
        graph_module: the graph.
        inputs: placeholder → value.
        noise: stochastic arithmetic to run it under; as it is without.
        wanted: the nodes that will be asked for, each once; their values are kept until then.
    """

    def __init__(
        self,
        graph_module: torch.fx.GraphModule,
        inputs: Mapping[str, Any],
        noise: StochasticArithmetic | None,
        wanted: Collection[str],
    ) -> None:
        self._module = graph_module
        self._noise: AbstractContextManager[Any] = noise or nullcontext()
        self._wanted = set(wanted)
        self._inputs = inputs
        self._rest = iter(graph_module.graph.nodes)
        self._values: dict[torch.fx.Node, Any] = {}
        self._uses = {node: len(node.users) for node in graph_module.graph.nodes}
        self._named: dict[str, Any] = {}
        self.outputs: Any = None
        self.problem = ""
        """Why it could not go on; empty while it can."""

    def value(self, name: str) -> Any:
        """The value of a wanted node, let go of afterwards; None when it could not be computed."""
        while name not in self._named and not self.problem:
            if (node := next(self._rest, None)) is None:
                break
            self._step(node)
        return self._named.pop(name, None)

    def finish(self) -> Any:
        """The graph's outputs; None when they could not be computed."""
        while self.outputs is None and not self.problem and (node := next(self._rest, None)) is not None:
            self._step(node)
        return self.outputs

    def _step(self, node: torch.fx.Node) -> None:
        try:
            if node.op == "output":
                self.outputs = map_kind(torch.fx.Node, lambda each: self._values[each], node.args[0])
                return
            if node.op == "placeholder":
                self._values[node] = self._inputs[node.name]
            elif "copy_" in node.name and len(mutated_inputs(node)) == 1 and not node.users:
                return  # the graph's last act: a new value for an input
            else:
                with self._noise:
                    self._values[node] = _value_of(node, self._module, self._values.__getitem__)
        except Exception as error:  # whatever an op raises on other numbers
            self.problem = f"{node.name}: {error_line(error)}"
            return
        if node.name in self._wanted:
            self._named[node.name] = self._values[node]
        self._release(node)

    def _release(self, node: torch.fx.Node) -> None:
        for each in (node, *node.all_input_nodes):
            if each is not node:
                self._uses[each] -= 1
            if self._uses[each] <= 0:
                self._values.pop(each, None)


BESIDE = 3
"""So many references run beside a candidate: one as it is, the others under stochastic arithmetic."""


def beside(
    graph_module: torch.fx.GraphModule,
    inputs: Sequence[Mapping[str, Any]],
    wanted: Collection[str],
    held_as: torch.dtype | None = None,
) -> tuple[Lockstep, ...]:
    """References to run beside a candidate, each from its own inputs."""
    noises = [None, *(StochasticArithmetic(seed, held_as) for seed in range(BESIDE - 1))]
    return tuple(Lockstep(graph_module, own, noise, wanted) for own, noise in zip(inputs, noises, strict=True))


def judge_beside(
    references: Sequence[Lockstep], name: str, value: torch.Tensor, held_as: torch.dtype | None = None
) -> Judgement | None:
    """The value of a node beside those that the references have there; None when they could not come so far."""
    base, *others = [reference.value(name) for reference in references]
    if not isinstance(base, torch.Tensor) or base.shape != value.shape or base.dtype != value.dtype:
        return None
    spread = Spread(base)
    if not all(spread.add(other) for other in others):
        return None
    return judge(value, spread, held_as)
