"""A node's inputs and output are those of a plain eager run, to the last bit, forward and backward.

The plain run is the model itself, called outside of any compiler, with every op that reaches the kernels written down
by a dispatch mode: none of the code that runs nodes again takes part in it. Its ops are lined up with a graph's nodes
by their order; where AOTAutograd has another op than eager mode, there is nothing to line up.
"""

from __future__ import annotations

import copy
import difflib
import random
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.benchmarks.models import benchmark_model
from inductor_debug_jupyter.pipeline.diff import flatten_outputs
from inductor_debug_jupyter.pipeline.nodes.matching import find_node
from inductor_debug_jupyter.pipeline.nodes.reexecution import Reexecution
from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord
from inductor_debug_jupyter.pipeline.session import DebugSession

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


@dataclass(frozen=True)
class Op:
    name: str
    inputs: dict[str, Any]
    outputs: list[torch.Tensor]

    @property
    def key(self) -> tuple[Any, ...]:
        return self.name, tuple((tuple(each.shape), str(each.dtype)) for each in self.outputs)


def cloned(values: Any) -> Any:
    return tree_map(lambda value: value.detach().clone() if isinstance(value, torch.Tensor) else value, values)


class Tape(TorchDispatchMode):
    """Every op that runs while it is on."""

    def __init__(self) -> None:
        super().__init__()
        self.ops: list[Op] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        names = [argument.name for argument in func._schema.arguments]
        given = cloned({**dict(zip(names, args, strict=False)), **(kwargs or {})})
        made = func(*args, **(kwargs or {}))
        tensors = [leaf for leaf in tree_leaves(cloned(made)) if isinstance(leaf, torch.Tensor)]
        self.ops.append(Op(plain_name(str(func)), given, tensors))
        return made


def plain_name(target: str) -> str:
    """The op without what functionalization changes: in place or not, and the name that batch norm has then."""
    packet, _, overload = target.removeprefix("aten.").partition(".")
    if "batch_norm" in packet and not packet.endswith("backward"):
        return "batch_norm"
    return f"{packet.removesuffix('_')}.{overload}"


def key_of(node: NodeRecord) -> tuple[Any, ...]:
    outputs = node.outputs[:3] if "batch_norm" in node.target and "backward" not in node.target else node.outputs
    return plain_name(node.target), tuple((spec.shape, f"torch.{spec.dtype}") for spec in outputs)


def lined_up(graph: GraphRecord, ops: list[Op]) -> list[tuple[NodeRecord, Op]]:
    nodes = [node for node in graph.calls if node.target != "operator.getitem"]
    matcher = difflib.SequenceMatcher(None, [key_of(node) for node in nodes], [op.key for op in ops], autojunk=False)
    return [
        (nodes[block.a + at], ops[block.b + at])
        for block in matcher.get_matching_blocks()
        for at in range(block.size)
    ]  # fmt: skip


def same_bits(one: Any, other: Any) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        ones, others = tree_leaves(one), tree_leaves(other)
        return len(ones) == len(others) and all(map(same_bits, ones, others)) if len(ones) > 1 else one == other
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return bool(torch.equal(*(each.contiguous().flatten().view(torch.uint8) for each in (one, other))))


def plain_run(model: Any, inputs: tuple[Any, ...]) -> tuple[list[Op], list[Op], list[torch.Tensor]]:
    """Ops of the forward, ops of the backward, and what the backward started from."""
    own, given = copy.deepcopy(model), copy.deepcopy(inputs)
    with Tape() as forward:
        made = own(*given)
    outputs = [each for each in flatten_outputs(made).values() if isinstance(each, torch.Tensor) and each.requires_grad]
    generator = torch.Generator().manual_seed(7)
    gradients = [torch.randn(each.shape, generator=generator) for each in outputs]
    with Tape() as backward:
        torch.autograd.backward(outputs, gradients)
    return forward.ops, backward.ops, gradients


def captured(model: Any, inputs: tuple[Any, ...], lower: str = "aot") -> DebugSession:
    state = torch.get_rng_state()
    with capture(eager=True, lower=lower, keep_inputs=True) as session:
        model(*inputs)
    torch.set_rng_state(state)  # the plain run draws the same numbers
    return session


def check(session: DebugSession, stage: str, pairs: list[tuple[NodeRecord, Op]], gradients: list[torch.Tensor]) -> None:
    wanted = [find_node(session.captures, node.name, stage) for node, _ in pairs]
    found = Reexecution(session._kept_calls(), gradients).values(wanted)
    for node, op in pairs:
        values = found[stage, node.name]
        assert values.note == ""
        for name, value in values.inputs.items():
            assert same_bits(value, op.inputs[name]), f"{stage} {node.name} ({node.target}): {name}"
        made = [leaf for leaf in tree_leaves(values.output) if isinstance(leaf, torch.Tensor)]
        assert all(map(same_bits, made, op.outputs)), f"{stage} {node.name} ({node.target})"
        again = values.function(*values.inputs.values())
        if "rand" not in node.target and "bernoulli" not in node.target and "dropout" not in node.target:
            assert same_bits(tree_leaves(again), tree_leaves(values.output)), node.name


@pytest.mark.parametrize("name", ["bert", "resnet", "mamba"])
def test_fifty_random_nodes_of_three_models(name: str) -> None:
    built = benchmark_model(name).build(True)
    model = built.module.train(name == "resnet")  # batch norm updates its statistics; BERT's dropout is tested below
    session = captured(model, built.inputs)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    state = torch.get_rng_state()
    forward_ops, backward_ops, gradients = plain_run(model, built.inputs)
    chooser = random.Random(0)
    checked = 0
    for stage, ops in (("forward", forward_ops), ("backward", backward_ops)):
        graph = session.captures[0].graph(stage)
        assert graph is not None
        pairs = lined_up(graph, ops)
        assert len(pairs) >= 0.6 * len([node for node in graph.calls if node.target != "operator.getitem"])
        chosen = chooser.sample(pairs, min(50, len(pairs)))
        check(session, stage, chosen, gradients)
        checked += len(chosen)
    assert checked >= 50
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)
