"""A node's inputs and output are those of a plain eager run, to the last bit, forward and backward.

The plain run is the model itself, called outside of any compiler, with every op that reaches the kernels written down
by a dispatch mode: none of the code that runs nodes again takes part in it. Which op of it a node is, is told without
looking at a number: by the op, its shapes, and what its operands were computed from, three ops back, down to the names
of parameters. Views are looked through. What AOTAutograd has other ops for than eager mode cannot be told, nor can
backward ops that are alike in all that.
"""

from __future__ import annotations

import copy
import random
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from every_node import every_node
from proofs import draws
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.benchmarks.models import transformers
from inductor_debug_jupyter.pipeline.diff import flatten_outputs
from inductor_debug_jupyter.pipeline.nodes import TracedCalls
from inductor_debug_jupyter.pipeline.nodes.matching import find_node
from inductor_debug_jupyter.pipeline.nodes.reexecution import Reexecution
from inductor_debug_jupyter.pipeline.records import CompileCapture, NodeRecord
from inductor_debug_jupyter.pipeline.session import DebugSession

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

DEPTH = 3
FEWEST = 35
"""So many nodes of a graph can be told at least: Mamba's steps are alike, and AOTAutograd computes some values anew."""
VIEWS = {
    *("view", "_unsafe_view", "t", "transpose", "permute", "expand", "unsqueeze", "squeeze", "slice", "select"),
    *("split", "split_with_sizes", "detach", "alias", "as_strided", "_reshape_alias", "unbind", "lift_fresh", "clone"),
}
"""Looked through. A ``clone`` too: AOTAutograd has one for a dropout that is off, eager mode has nothing."""

Source = tuple[Any, int] | str
"""Where an operand comes from: an op and which of its results, or the name of a parameter."""


def op_name(target: str) -> str:
    """The op without what functionalization changes: in place or not, and the name that batch norm has then."""
    packet = target.removeprefix("aten.").partition(".")[0]
    if "batch_norm" in packet and not packet.endswith("backward"):
        return "batch_norm"
    return packet.removesuffix("_")


def cloned(values: Any) -> Any:
    return tree_map(lambda value: value.detach().clone() if isinstance(value, torch.Tensor) else value, values)


@dataclass(frozen=True, eq=False, repr=False)
class Op:
    """One op of the plain run."""

    name: str
    inputs: dict[str, Any]
    outputs: list[torch.Tensor]
    sources: tuple[Source, ...]

    @property
    def shapes(self) -> tuple[Any, ...]:
        made = self.outputs[:3] if self.name == "batch_norm" else self.outputs
        return tuple((tuple(each.shape), str(each.dtype)) for each in made)


class Tape(TorchDispatchMode):
    """Every op that runs while it is on. Memory is what tells who made an operand: all of it is kept alive."""

    def __init__(self, named: dict[str, torch.Tensor]) -> None:
        super().__init__()
        self.ops: list[Op] = []
        self._made: dict[int, Source] = {memory(tensor): name for name, tensor in named.items()}
        self._alive: list[Any] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        names = [argument.name for argument in func._schema.arguments]
        given = cloned({**dict(zip(names, args, strict=False)), **kwargs})
        read = [self._made.get(memory(each), "?") for each in tensors((args, kwargs))]
        made = func(*args, **kwargs)
        self._alive.append((args, kwargs, made))
        if op_name(str(func)) in VIEWS:
            self._made |= {memory(each): read[0] for each in tensors(made)}
        else:
            op = Op(op_name(str(func)), given, tensors(cloned(made)), tuple(read))
            self.ops.append(op)
            self._made |= {memory(each): (op, at) for at, each in enumerate(tensors(made))}
        return made


def tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


def key_of_op(op: Op, depth: int = DEPTH) -> Any:
    def told(source: Source) -> Any:
        return source if isinstance(source, str) else (key_of_op(source[0], depth - 1), source[1]) if depth else "…"

    return op.name, op.shapes, tuple(map(told, op.sources)) if depth else ()


def key_of_node(capture: CompileCapture, stage: str, node: NodeRecord, depth: int = DEPTH) -> Any:
    def source(name: str, at: str, index: int = 0) -> Any:
        found = capture.graphs[at].by_name[name]
        if found.op == "placeholder":
            if at == "backward" and (capture.graphs["forward"].node(name) is not None):
                return source(name, "forward", index)
            return found.origin if found.role in {"parameter", "buffer"} else "?"
        if op_name(found.target) == "batch_norm" and index > 2:  # statistics, which eager mode updates in place
            return source(found.inputs[index], at)
        if found.target == "operator.getitem" or op_name(found.target) in VIEWS:
            index = int(found.arguments.rpartition(",")[2]) if found.target == "operator.getitem" else index
            return source(found.inputs[0], at, index)
        return (key_of_node(capture, at, found, depth - 1), index) if depth else "…"

    outputs = node.outputs[:3] if op_name(node.target) == "batch_norm" else node.outputs
    shapes = tuple((spec.shape, f"torch.{spec.dtype}") for spec in outputs)
    return op_name(node.target), shapes, tuple(source(name, stage) for name in node.inputs) if depth else ()


def computing(capture: CompileCapture, stage: str) -> list[NodeRecord]:
    calls = capture.graphs[stage].calls
    return [node for node in calls if node.target != "operator.getitem" and op_name(node.target) not in VIEWS]


def told_apart(capture: CompileCapture, stage: str, ops: list[Op]) -> list[tuple[NodeRecord, Op]]:
    """Each node with its op: those that are alike far back first, then nearer.

    Of several alike the forward's are in the same order; the backward's are not, and cannot be told apart.
    """
    nodes, left, found = computing(capture, stage), list(ops), []
    for depth in range(DEPTH, -1, -1):
        ours, theirs = defaultdict(list), defaultdict(list)
        for node in nodes:
            ours[key_of_node(capture, stage, node, depth)].append(node)
        for op in left:
            theirs[key_of_op(op, depth)].append(op)
        for key, group in ours.items():
            if len(group) == len(theirs[key]) and (stage == "forward" or len(group) == 1):
                found += zip(group, theirs[key], strict=True)
        known, taken = {node.name for node, _ in found}, {id(op) for _, op in found}
        nodes = [node for node in nodes if node.name not in known]
        left = [op for op in left if id(op) not in taken]
    return found


def same_bits(one: Any, other: Any) -> bool:
    ones, others = tree_leaves(one), tree_leaves(other)
    return len(ones) == len(others) and all(map(same_leaf, ones, others))


def same_leaf(one: Any, other: Any) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return bool(one == other)
    if one.dtype != other.dtype or one.shape != other.shape:
        return False
    return bool(torch.equal(*(each.contiguous().flatten().view(torch.uint8) for each in (one, other))))


def plain_run(model: Any, inputs: tuple[Any, ...]) -> tuple[list[Op], list[Op], list[torch.Tensor]]:
    """Ops of the forward, ops of the backward, and what the backward started from."""
    own, given = copy.deepcopy(model), copy.deepcopy(inputs)
    tape = Tape({**dict(own.named_parameters()), **dict(own.named_buffers())})
    with tape:
        made = own(*given)
    forward = len(tape.ops)
    outputs = [each for each in flatten_outputs(made).values() if getattr(each, "requires_grad", False)]
    generator = torch.Generator().manual_seed(7)
    gradients = [torch.randn(each.shape, generator=generator) for each in outputs]
    with tape:
        torch.autograd.backward(outputs, gradients)
    return tape.ops[:forward], tape.ops[forward:], gradients


def captured(model: Any, inputs: tuple[Any, ...], lower: str = "aot") -> DebugSession:
    state = torch.get_rng_state()
    with capture(eager=True, lower=lower, keep_inputs=True) as session:
        model(*inputs)
    torch.set_rng_state(state)  # the plain run draws the same numbers
    return session


def check(session: DebugSession, stage: str, pairs: list[tuple[NodeRecord, Op]], gradients: list[torch.Tensor]) -> None:
    wanted = {node.name: find_node(session.captures, node.name, stage) for node, _ in pairs}
    last = [node.name for node in session.captures[0].graphs[stage].nodes if node.op != "output"][-1]
    found = every_node(session, find_node(session.captures, last, stage), gradients)
    one_by_one = Reexecution(session._calls.needed(), gradients, traces=TracedCalls())
    for node, op in pairs:
        values = found[node.name]
        warm = one_by_one.values(wanted[node.name])
        assert warm.note == ""
        assert same_bits([warm.inputs, warm.output], [values.inputs, values.output]), f"from checkpoints: {node.name}"
        wrong = [name for name, value in values.inputs.items() if not same_bits(value, op.inputs.get(name))]
        assert wrong == [], f"{stage} {node.name} ({node.target})"
        made = [leaf for leaf in tree_leaves(values.output) if isinstance(leaf, torch.Tensor)]
        assert [*map(same_leaf, made, op.outputs)].count(False) == 0, f"{stage} {node.name} ({node.target})"
        again = values.function(*values.inputs.values())
        if "rand" not in node.target and "bernoulli" not in node.target and "dropout" not in node.target:
            agrees = same_bits(again, values.output)
            assert agrees, node.name


def built(name: str) -> tuple[Any, tuple[Any, ...]]:
    """The benchmark models, small: two layers of BERT and Mamba, four blocks of a ResNet, which is in training."""
    library = transformers()
    torch.manual_seed(0)
    tokens = torch.randint(0, 100, (1, 8))
    if name == "bert":
        config = library.BertConfig(
            vocab_size=100, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
        )
        mask = torch.ones_like(tokens)
        mask[0, -3:] = 0  # with nothing masked, transformers takes another way in eager mode than under a compiler
        return library.BertModel(config).eval(), (tokens, mask)
    if name == "mamba":
        sizes = {"vocab_size": 100, "hidden_size": 32, "num_hidden_layers": 2, "state_size": 4}
        # Under a compiler transformers would scan another way than in eager mode.
        config = library.MambaConfig(**sizes, use_cache=False, use_associative_scan=False)
        return library.MambaModel(config).eval(), (tokens[:, :4],)
    config = library.ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 32], depths=[2, 2], layer_type="basic", num_labels=10
    )
    return library.ResNetForImageClassification(config).train(), (torch.randn(2, 3, 32, 32),)


@pytest.mark.parametrize(
    "name", ["bert", *(pytest.param(name, marks=pytest.mark.long) for name in ("resnet", "mamba"))]
)
def test_fifty_random_nodes_of_three_models(name: str) -> None:
    model, inputs = built(name)
    session = captured(model, inputs)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    state = torch.get_rng_state()
    forward_ops, backward_ops, gradients = plain_run(model, inputs)
    chooser = random.Random(0)
    checked = 0
    for stage, ops in (("forward", forward_ops), ("backward", backward_ops)):
        pairs = told_apart(session.captures[0], stage, ops)
        known = {node.name for node, _ in pairs}
        others = Counter(op_name(n.target) for n in computing(session.captures[0], stage) if n.name not in known)
        print(f"{name} {stage}: {len(pairs)} nodes can be told, {others.total()} cannot: {dict(others)}")
        assert len(pairs) >= FEWEST
        chosen = chooser.sample(pairs, min(draws(50, 12), len(pairs)))
        check(session, stage, chosen, gradients)
        checked += len(chosen)
    assert checked >= draws(50, 24)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.equal(torch.get_rng_state(), state)
