"""In which arithmetic a candidate computes, asked of the candidate itself.

A backend that does not say in which formats it computes is given single ops of the model, each as a graph of its own,
on the values that the model has there. :mod:`~inductor_debug_jupyter.pipeline.formats.recognition` tells the arithmetic
from the results. The first product runs twice, the second time on numbers that are too small for float16's full
precision: only there do float16 and tf32 differ. The product that adds up the most terms also runs on inputs that are
designed to show formats and faults (:mod:`~inductor_debug_jupyter.pipeline.formats.designed_inputs`). The sign of each
result is turned in the graph: some backends leave a graph of a single op to torch, and turning a sign rounds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final, cast

import torch

from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.executions import Backend, Call
from inductor_debug_jupyter.pipeline.diff.localize import as_compiler
from inductor_debug_jupyter.pipeline.diff.windows import Compiler, window_of
from inductor_debug_jupyter.pipeline.formats.arithmetic import OPERANDS
from inductor_debug_jupyter.pipeline.formats.designed_inputs import (
    DESIGNS,
    FEWEST_TERMS,
    Design,
    designed_inputs,
    terms_of,
)
from inductor_debug_jupyter.pipeline.formats.recognition import OpSample, Recognition, recognise
from inductor_debug_jupyter.pipeline.rerun.again import unnoticed
from inductor_debug_jupyter.pipeline.rerun.time_limit import time_limit
from inductor_debug_jupyter.pipeline.torch_compat.graphs import is_aten, mutated_inputs, node_value
from inductor_debug_jupyter.pipeline.torch_compat.replay import AotKeeper, KeptGraph, as_aot_runs
from inductor_debug_jupyter.pipeline.torch_compat.stochastic import bare_op, rounds_nothing
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_kind

_PRODUCTS: Final = 6
_OTHERS: Final = 24
"""So many ops of each sort are asked about, each kind of op once: a fault of a kind that is not asked about would have
to be outside of the whole format's floor to be seen."""
_FEWEST, _MOST = 64, 1 << 20
"""Elements that the result of such an op has."""
_SMALL: Final = 2.0**-18
_MOST_ELEMENTS: Final = 0.5
_SIZES: Final = (1e-6, 0.5)
"""What narrow arithmetic does: it moves most elements, by such a share of the output's size."""


def may_be_arithmetic(reference: Any, candidate: Any) -> bool:
    """Whether an output differs as it does on a device of narrow arithmetic: nearly everywhere, and not by much."""
    if not isinstance(reference, torch.Tensor) or not isinstance(candidate, torch.Tensor):
        return False
    if reference.shape != candidate.shape or reference.dtype is not torch.float32 or not reference.numel():
        return False
    reference, candidate = reference.detach().double(), candidate.detach().double()
    error = (candidate - reference).nan_to_num()
    size = float(reference.nan_to_num().square().mean().sqrt())
    share = float(error.square().mean().sqrt()) / size if size else 0.0
    least, most = _SIZES
    return least <= share <= most and float((error != 0).double().mean()) >= _MOST_ELEMENTS


def arithmetic_of(call: Call, backend: Backend, config: ComparisonConfig, timeout: float | None = None) -> Recognition:
    """The arithmetic of a backend, told from ops of a model; what it raises is the reason why it is not known.

    Args:
        call: the model and its inputs.
        backend: the candidate.
        config: how outputs are flattened.
        timeout: seconds for each op.
    """
    assert backend.compiler is not None
    keeper = AotKeeper()
    call.execute(Backend("aot", keeper), config)
    compiler = as_compiler(backend.compiler)
    kept = [each for each in keeper.graphs if each.stage == "forward" and each.args is not None]
    try:
        with unnoticed(), as_aot_runs(), torch.no_grad():
            return recognise(sample for each in kept for sample in _samples(each, compiler, timeout))
    except Exception as error:  # whatever a backend raises on a single op
        return Recognition(None, f"on a single op the candidate raised {type(error).__name__}: {error}")
    finally:
        if backend.close is not None:
            backend.close()


def _samples(kept: KeptGraph, compiler: Compiler, timeout: float | None) -> Iterator[OpSample]:
    """What the candidate makes of chosen ops of a graph."""
    chosen = _chosen(kept.graph_module)
    values = OpInputs(kept.graph_module, chosen)
    values.run(*[_copy(value) for value in kept.args or ()])
    most = max(chosen, key=terms_added, default=None)
    small_is_open = True
    for node in chosen:
        run, known = compiled_op(kept.graph_module, node, compiler), values.of[node]
        if run is None:
            continue
        operands = OPERANDS.get(bare_op(node.target), ())
        small = bool(operands) and small_is_open
        small_is_open = small_is_open and not small
        for given, design in _inputs_of(node, known, small=small, designed=node is most):
            with time_limit(timeout):
                result = run(given)
            if result is not None:
                args, kwargs = map_kind(torch.fx.Node, given.__getitem__, (node.args, node.kwargs))
                yield OpSample(node.target, args, kwargs, result, design)


def _inputs_of(
    node: torch.fx.Node, known: dict[torch.fx.Node, Any], *, small: bool, designed: bool
) -> Iterator[tuple[dict[torch.fx.Node, Any], Design | None]]:
    """The model's own inputs of a node; ``small`` ones too, and ``designed`` ones where they tell something."""
    yield known, None
    if small:
        first = cast("torch.fx.Node", node.args[OPERANDS[bare_op(node.target)][0]])
        yield {**known, first: known[first] * _SMALL}, None
    if designed and terms_added(node) >= FEWEST_TERMS:
        yield from ((designed_for(node, known, design), design) for design in DESIGNS)


def terms_added(node: torch.fx.Node) -> int:
    """How many products a node adds up to each element, if its inputs can be designed; 0 for any other node."""
    if node.op != "call_function" or node.kwargs or not all(isinstance(each, torch.fx.Node) for each in node.args):
        return 0
    return terms_of(bare_op(node.target), tuple(node_value(each) for each in node.all_input_nodes))


def designed_for(node: torch.fx.Node, known: dict[torch.fx.Node, Any], design: Design) -> dict[torch.fx.Node, Any]:
    """Inputs of that design in the place of a product's own."""
    nodes = node.all_input_nodes
    made = designed_inputs(bare_op(node.target), tuple(known[each] for each in nodes), design)
    return dict(zip(nodes, made, strict=True))


def compiled_op(
    root: torch.fx.GraphModule, node: torch.fx.Node, compiler: Compiler
) -> Callable[[dict[torch.fx.Node, Any]], torch.Tensor | None] | None:
    """What the candidate makes of one op's first result, given its inputs; None where nothing uses that result."""
    first = next((user for user in node.users if getattr(user.target, "__name__", "") == "getitem"), None)
    nodes = [node] if isinstance(node_value(node), torch.Tensor) else [node, first] if first is not None else []
    if not nodes or (first is not None and len(nodes) == 2 and first.args[1] != 0):
        return None
    window = window_of(nodes)
    graph_module, _ = window.graph_module(root, {nodes[-1]})
    output = graph_module.graph.output_node()
    with graph_module.graph.inserting_before(output):
        (value,) = cast("tuple[torch.fx.Node]", output.args[0])
        turned = graph_module.graph.call_function(torch.ops.aten.neg.default, (value,))
    turned.meta = dict(nodes[-1].meta)
    output.args = ((turned,),)
    graph_module.recompile()
    made: list[Callable[..., Any]] = []

    def run(known: dict[torch.fx.Node, Any]) -> torch.Tensor | None:
        inputs = [known[start] for start in window.starts]
        if not made:
            made.append(compiler(graph_module, inputs))
        (result,) = made[0](*inputs)
        return -result if isinstance(result, torch.Tensor) else None

    return run


def _chosen(graph_module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """Products first, then other ops that round, then those that select or compare.

    Of each kind the one with the most elements that is not too large.
    """
    largest: dict[str, torch.fx.Node] = {}
    for node in graph_module.graph.nodes:
        if node.op != "call_function" or not is_aten(node.target) or mutated_inputs(node) or not _repeats(node):
            continue
        size = _elements(node)
        if not _FEWEST <= size <= _MOST:
            continue
        name = bare_op(node.target)
        if name not in largest or size > _elements(largest[name]):
            largest[name] = node
    products = [node for name, node in largest.items() if name in OPERANDS]
    others = [node for name, node in largest.items() if name not in OPERANDS]
    others.sort(key=lambda node: rounds_nothing(node.target, node.args))
    return products[:_PRODUCTS] + others[:_OTHERS]


def _repeats(node: torch.fx.Node) -> bool:
    """Whether an op computes something from float32 numbers, the same each time.

    Views do not, nor do random numbers (attention is tagged as such for its dropout) and memory that nothing was
    written to.
    """
    target = cast("torch._ops.OpOverload", node.target)
    name = bare_op(target)
    is_random = torch.Tag.nondeterministic_seeded in target.tags and name not in OPERANDS
    if target.is_view or is_random or name.startswith(("empty", "new_empty")):
        return False
    return any(_elements(each) for each in node.all_input_nodes)


def _elements(node: torch.fx.Node) -> int:
    """Elements of a node's first result; 0 where it is no float32 tensor of fixed size."""
    fake = node_value(node)
    fake = fake[0] if isinstance(fake, tuple | list) and fake else fake
    if not isinstance(fake, torch.Tensor) or fake.dtype is not torch.float32:
        return 0
    return fake.numel() if all(isinstance(each, int) for each in fake.shape) else 0


class OpInputs(torch.fx.Interpreter):
    """Runs a graph and keeps what chosen nodes are given."""

    def __init__(self, graph_module: torch.fx.GraphModule, chosen: list[torch.fx.Node]) -> None:
        super().__init__(graph_module)
        self._chosen = set(chosen)
        self.of: dict[torch.fx.Node, dict[torch.fx.Node, Any]] = {}

    def run_node(self, n: torch.fx.Node) -> Any:
        """Run one node; of those that are chosen the inputs are kept."""
        if n in self._chosen:
            self.of[n] = {each: _copy(self.env[each]) for each in n.all_input_nodes}
        return super().run_node(n)


def _copy(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value
