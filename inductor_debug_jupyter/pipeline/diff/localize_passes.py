"""Where the meaning of a graph changed before any code was generated: a pass, or a decomposition.

When outputs differ and every kernel computes what its graph says, the graph itself is at fault.

- A pass: the graph before it and the graph after it are run on the same inputs (:mod:`torch_compat.passes` keeps
  both, with the arguments of a real call). The first pass whose two graphs give different results is to blame, and
  the op is the one that it dropped or changed.
- A decomposition: each op of the graph that is not yet decomposed is run as it is, and as Inductor takes it apart, on
  the same inputs.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.elements import same_values
from inductor_debug_jupyter.pipeline.diff.executions import Backend, Call
from inductor_debug_jupyter.pipeline.diff.floors import RUNS, Floors, Spread
from inductor_debug_jupyter.pipeline.diff.judging import Judgement, judge
from inductor_debug_jupyter.pipeline.diff.localize_kernels import culprit_of
from inductor_debug_jupyter.pipeline.diff.replay import BESIDE, Lockstep, beside, has_no_values, judge_beside
from inductor_debug_jupyter.pipeline.records import Culprit
from inductor_debug_jupyter.pipeline.rerun.copies import random_state_kept
from inductor_debug_jupyter.pipeline.torch_compat.graphs import mutated_inputs
from inductor_debug_jupyter.pipeline.torch_compat.inductor_passes import PassChange, PassKeeper, decompositions
from inductor_debug_jupyter.pipeline.torch_compat.replay import AotKeeper, KeptGraph
from inductor_debug_jupyter.pipeline.torch_compat.stochastic import StochasticArithmetic
from inductor_debug_jupyter.pipeline.torch_compat.trees import of_kind

_SEED = 0


@dataclass(frozen=True)
class Above:
    """What was found above the kernels, and what could not be looked at."""

    culprits: tuple[Culprit, ...] = ()
    notes: tuple[str, ...] = ()


def search_above(call: Call, config: ComparisonConfig) -> Above:
    """The pass or the decompositions of Inductor's that change what a model computes."""
    passes = PassKeeper()
    execution = call.execute(Backend("passes", passes), config)
    notes = [f"Inductor's passes were not looked at: {execution.error}"] if execution.error else []
    found: list[Culprit] = []
    for lowered in passes.lowered:
        found += _changed_by_pass(lowered.changes, lowered.values, notes)
    if not found:
        keeper = AotKeeper()
        call.execute(Backend("aot", keeper), config)
        found = [culprit for kept in keeper.graphs for culprit in _wrongly_decomposed(kept)]
    return Above(tuple(found), tuple(dict.fromkeys(notes)))


def _changed_by_pass(changes: Sequence[PassChange], values: Mapping[str, Any], notes: list[str]) -> list[Culprit]:
    """The ops that the first pass to blame dropped or changed; passes inside of another come before it.

    A pass whose graphs cannot be run by themselves is said in ``notes``: it may be the one to blame.
    """
    for change in changes:
        names = [node.name for node in change.before.graph.nodes if node.op == "placeholder"]
        if not values.keys() >= set(names):
            continue  # a graph that was never called
        inputs = {name: values[name] for name in names}
        try:
            found = _first_difference(change, inputs)
        except Exception as error:  # whatever an op of the graph raises when it is run alone
            notes.append(f"the pass {change.name} was not looked at: {type(error).__name__}: {error}")
            continue
        if found is not None:
            nodes, judgement = found
            return [_culprit(node, change, judgement) for node in nodes]
    return []


def _first_difference(
    change: PassChange, inputs: Mapping[str, Any]
) -> tuple[Sequence[torch.fx.Node], Judgement] | None:
    """The nodes of the graph before the pass that mean something else after it; None when all results are equal."""
    base = _results(change.before, inputs)
    after = _results(change.after, inputs)

    def again(seed: int) -> Mapping[str, Any]:
        return _results(change.before, inputs, seed)

    floors: Floors | None = None
    wrong: Judgement | None = None
    for name, value in base.items():
        other = after.get(name)
        if isinstance(value, torch.Tensor) != isinstance(other, torch.Tensor):
            wrong = Judgement(True, math.inf, 0.0)
        elif isinstance(other, torch.Tensor) and not same_values(value, other):
            floors = floors or Floors.of(base, again)
            wrong = _judged(other, floors.spreads[name])
        if wrong is not None and wrong.wrong:
            return _to_blame(change, inputs), wrong
    return None


def _judged(value: torch.Tensor, spread: Spread) -> Judgement:
    if value.shape != spread.base.shape or value.dtype != spread.base.dtype:
        return Judgement(True, math.inf, 0.0)
    return judge(value, spread)


def _results(graph_module: torch.fx.GraphModule, inputs: Mapping[str, Any], seed: int | None = None) -> dict[str, Any]:
    """What a graph gives, and its inputs as it leaves them; from copies and from the same random numbers."""
    outputs, own = _run(torch.fx.Interpreter(graph_module), inputs, seed)
    given = outputs if isinstance(outputs, list | tuple) else [outputs]
    return {f"output {index}": value for index, value in enumerate(given)} | own


def _run(interpreter: torch.fx.Interpreter, inputs: Mapping[Any, Any], seed: int | None) -> tuple[Any, dict[Any, Any]]:
    """The outputs and the inputs' copies; with a ``seed``, under stochastic arithmetic."""
    own = {name: value.clone() if isinstance(value, torch.Tensor) else value for name, value in inputs.items()}
    with random_state_kept(), torch.no_grad(), nullcontext() if seed is None else StochasticArithmetic(seed):
        torch.manual_seed(_SEED)
        return interpreter.run(*own.values()), own


def _to_blame(change: PassChange, inputs: Mapping[str, Any]) -> Sequence[torch.fx.Node]:
    """The nodes before the pass whose results are no more read where the first difference is, or that node itself."""
    before = {node.name: node for node in change.before.graph.nodes}
    after = {node.name: node for node in change.after.graph.nodes}
    first = _first_wrong_node(change, inputs, [name for name in before if name in after])
    if first is not None:
        here = before[first]
        return _no_more_read(here, after[first]) or [here]
    gone = [node for node in before.values() if node.op != "output" and node.name not in after]
    if lost := [node for node in gone if mutated_inputs(node)]:
        return [source for node in lost for source in node.all_input_nodes if source.op != "placeholder"] or lost
    return _no_more_read(change.before.graph.output_node(), change.after.graph.output_node()) or gone


def _no_more_read(before: torch.fx.Node, after: torch.fx.Node) -> list[torch.fx.Node]:
    """The inputs of a node that it does not have any more after a pass; of a part of a tuple, those of the tuple."""
    read = {node.name for node in after.all_input_nodes}
    gone = [node for node in before.all_input_nodes if node.name not in read]
    if not gone and before.target is after.target is operator.getitem:
        return _no_more_read(before.all_input_nodes[0], after.all_input_nodes[0])
    return gone


def _first_wrong_node(change: PassChange, inputs: Mapping[str, Any], common: Iterable[str]) -> str | None:
    """The first node that both graphs have and whose values differ; step by step, so that little is kept at a time.

    A graph that writes to its inputs (Dynamo's own may) cannot go in step: all its values are kept, four times over.
    """
    names = list(common)
    references = beside(change.before, [inputs] * BESIDE, names)
    changed = Lockstep(change.after, inputs, None, names)
    with torch.no_grad():
        for name in names:
            value = changed.value(name)
            if isinstance(value, torch.Tensor) and (found := judge_beside(references, name, value)) and found.wrong:
                return name
    return _first_wrong_value(change, inputs, names) if references[0].problem or changed.problem else None


def _first_wrong_value(change: PassChange, inputs: Mapping[str, Any], names: Sequence[str]) -> str | None:
    base, *others = (_values_on_the_way(change.before, inputs, names, seed) for seed in (None, *range(BESIDE - 1)))
    after = _values_on_the_way(change.after, inputs, names)
    for name in (name for name in names if name in base and name in after):
        spread = Spread(base[name])
        if all(spread.add(other.get(name)) for other in others) and _judged(after[name], spread).wrong:
            return name
    return None


class _Interpreter(torch.fx.Interpreter):
    """Keeps a copy of each wanted value as soon as it is there: a later op may write over it."""

    def __init__(self, graph_module: torch.fx.GraphModule, wanted: Collection[str]) -> None:
        super().__init__(graph_module)
        self.kept: dict[str, torch.Tensor] = {}
        self._wanted = set(wanted)

    def run_node(self, n: torch.fx.Node) -> Any:
        """As the interpreter of torch.fx does it."""
        value = super().run_node(n)
        if n.name in self._wanted and isinstance(value, torch.Tensor):
            self.kept[n.name] = value.clone()
        return value


def _values_on_the_way(
    graph_module: torch.fx.GraphModule, inputs: Mapping[str, Any], names: Collection[str], seed: int | None = None
) -> dict[str, torch.Tensor]:
    interpreter = _Interpreter(graph_module, names)
    _run(interpreter, inputs, seed)
    return interpreter.kept


def _culprit(node: torch.fx.Node, change: PassChange, judgement: Judgement) -> Culprit:
    whose = f" ({change.author})" if change.author else " of Inductor's"
    reason = f"the pass {change.name}{whose} changed what is computed here: the graphs before and after it differ"
    return culprit_of(node, _stage_of(change.before), judgement, reason)


def _stage_of(graph_module: torch.fx.GraphModule) -> str:
    """Which graph it is, by the names that AOTAutograd gives placeholders."""
    names = [node.name for node in graph_module.graph.nodes if node.op == "placeholder"]
    has_tangents = any(name.startswith("tangents_") for name in names)
    if any(name.startswith(("primals_", "arg")) for name in names):
        return "joint" if has_tangents else "forward"
    return "backward" if has_tangents else "dynamo"


def _wrongly_decomposed(kept: KeptGraph) -> list[Culprit]:
    """The ops of a graph whose decomposition computes something else, on the arguments of its real call."""
    if kept.args is None:
        return []
    search = _DecompositionSearch(kept)
    _run(search, dict(enumerate(kept.args)), None)
    return search.found


class _DecompositionSearch(torch.fx.Interpreter):
    """Runs a graph, and beside each op that has a decomposition also that."""

    def __init__(self, kept: KeptGraph) -> None:
        super().__init__(kept.graph_module)
        self.found: list[Culprit] = []
        self._table = decompositions()
        self._stage = kept.stage

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run a node, and compare it with what it is taken apart into."""
        result = super().run_node(n)
        decompose = self._table.get(n.target) if n.op == "call_function" else None
        if decompose is None or mutated_inputs(n) or has_no_values(n):
            return result
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        try:
            taken_apart = decompose(*args, **kwargs)
        except Exception:  # a decomposition may refuse
            return result
        if taken_apart is not NotImplemented and (wrong := self._compare(n, args, kwargs, result, taken_apart)):
            reason = "its decomposition, which Inductor uses in its place, computes something else"
            self.found.append(culprit_of(n, self._stage, wrong, reason))
        return result

    def _compare(self, node: torch.fx.Node, args: Any, kwargs: Any, result: Any, other: Any) -> Judgement | None:
        ours, theirs = (of_kind(torch.Tensor, value) for value in (other, result))
        if len(ours) != len(theirs):
            return Judgement(True, math.inf, 0.0)
        if all(map(same_values, ours, theirs)):
            return None
        spreads = [Spread(value) for value in theirs]
        target: Any = node.target
        for seed in range(RUNS):
            with StochasticArithmetic(seed):
                run = of_kind(torch.Tensor, target(*args, **kwargs))
            for spread, value in zip(spreads, run, strict=True):
                spread.add(value)
        judged = [_judged(value, spread) for value, spread in zip(ours, spreads, strict=True)]
        return next((each for each in judged if each.wrong), None)
