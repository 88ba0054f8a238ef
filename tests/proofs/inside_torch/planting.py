"""Make the compiler itself wrong on purpose: a lowering, a decomposition, a pass, one node of an AOT graph.

Faults for benchmarks and tests, never for a user's run. Each is a context (or a backend) and puts back what was there.
What a fault does to a value is written once, as a function of plain tensors; Inductor's IR needs its own spelling of
the same arithmetic, which :class:`Lowered` holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import torch
import torch._inductor.config as inductor_config
from torch.fx import Graph, Node

from inductor_debug_jupyter.pipeline.errors import HookError

Place = tuple[str, int]
"""A file's name (without its folder) and a line in it."""
Wrong = Callable[..., Any]
"""``wrong(original, *args, **kwargs)``: what the faulty op gives."""
GraphEdit = Callable[[Graph], None]

PASSES = {
    "pre-grad": "pre_grad_custom_pass",
    "joint-first": "joint_custom_pre_pass",
    "joint-last": "joint_custom_post_pass",
    "post-grad-first": "post_grad_custom_pre_pass",
    "post-grad-last": "post_grad_custom_post_pass",
}
"""Where a pass of the user's own can be put, in our words → in Inductor's."""

_IN_PLACE = {"iadd": "add", "isub": "sub", "imul": "mul", "itruediv": "div", "truediv": "div", "rsub": "sub"}
_FRAME = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH = str(Path(torch.__file__).parent)


def place_of(node: Node) -> Place | None:
    """The deepest line outside torch that made a node; None when nothing is known of it."""
    frames = [
        (Path(file).name, int(line))
        for file, line in _FRAME.findall(node.meta.get("stack_trace") or node.stack_trace or "")
        if not file.startswith(_TORCH)
    ]
    return frames[-1] if frames else None


def op_name(target: Any) -> str:
    """What a node calls, as :func:`bare_op` says it: ``add`` for aten.add.Tensor, torch.add, operator.iadd."""
    if isinstance(target, torch._ops.OpOverload):
        return bare_op(str(target._schema.name.partition("::")[2]))
    return bare_op(target if isinstance(target, str) else str(getattr(target, "__name__", target)))


def bare_op(name: str) -> str:
    """An op's name at every level: without namespace, overload, ``native_`` and what says that it works in place."""
    parts = name.split(".")
    short = parts[1] if parts[0] == "aten" and len(parts) > 1 else parts[-1]
    short = short.strip("_").removeprefix("native_")
    return _IN_PLACE.get(short, short)


def calls_of(graph: Graph, name: str, places: Iterable[Place] | None) -> list[Node]:
    """The nodes of a graph that call an op on one of these lines; on any line when ``places`` is None."""
    lines = None if places is None else set(places)
    return [
        node
        for node in graph.nodes
        if node.op in {"call_function", "call_method"}
        and op_name(node.target) == name
        and (lines is None or place_of(node) in lines)
    ]


class Lowered:
    """The arithmetic of faults on Inductor's IR, in the place of tensors."""

    @staticmethod
    def of(name: str, *args: Any) -> Any:
        """Another op's lowering (``mul``), on values that are lowered already."""
        from torch._inductor.lowering import lowerings

        return lowerings[getattr(torch.ops.aten, name)](*args)

    @staticmethod
    def each(value: Any, every: int, change: Callable[[Any, Any], Any]) -> Any:
        """``value`` with every ``every``-th element replaced: ``change(ops, element)`` is its new value."""
        import sympy  # type: ignore[import-untyped]
        from torch._inductor.ir import Pointwise
        from torch._inductor.virtualized import ops

        load, sizes = value.make_loader(), list(value.get_size())

        def inner(index: Any) -> Any:
            flat = sympy.Integer(0)
            for size, at in zip(sizes, index, strict=True):
                flat = flat * size + at
            here = ops.eq(ops.index_expr(sympy.Mod(flat, every), torch.int64), ops.constant(every // 2, torch.int64))
            element = load(index)
            return ops.where(here, change(ops, element), element)

        return Pointwise.create(device=value.get_device(), dtype=value.get_dtype(), inner_fn=inner, ranges=sizes)


@contextmanager
def _replaced(table: dict[Any, Any], name: str, wrap: Callable[[Any], Any]) -> Iterator[None]:
    packet = getattr(torch.ops.aten, name)
    keys = [key for key in table if key == packet or getattr(key, "overloadpacket", None) == packet]
    if not keys:
        raise HookError(f"this torch has nothing for aten.{name} there")
    before = {key: table[key] for key in keys}
    table.update({key: wrap(original) for key, original in before.items()})
    try:
        yield
    finally:
        table.update(before)


def _wrapped(wrong: Wrong) -> Callable[[Any], Any]:
    return lambda original: lambda *args, **kwargs: wrong(original, *args, **kwargs)


@contextmanager
def lowering_planted(name: str, wrong: Wrong) -> Iterator[None]:
    """Inductor lowers an aten op as ``wrong`` says; what ``wrong`` gets and gives is Inductor's IR."""
    from torch._inductor.lowering import lowerings

    with _replaced(cast("dict[Any, Any]", lowerings), name, _wrapped(wrong)):
        yield


@contextmanager
def decomposition_planted(name: str, wrong: Wrong) -> Iterator[None]:
    """Inductor takes an aten op apart as ``wrong`` says; it works on (fake) tensors and is traced."""
    from torch._inductor import decomposition

    # The table that is used is a copy of the one that is changed, and is kept in a cache.
    clear = decomposition.fast_random_decomps.cache_clear
    with _replaced(decomposition.decompositions, name, _wrapped(wrong)):
        clear()
        try:
            yield
        finally:
            clear()


@contextmanager
def pass_planted(where: str, edit: GraphEdit) -> Iterator[None]:
    """Inductor runs ``edit`` as a custom pass, at one of :data:`PASSES`."""
    with inductor_config.patch({PASSES[where]: _Pass(edit)}):
        yield


class _Pass:
    """A pass with the two things that Inductor asks of one: a call, and no identity to cache under."""

    def __init__(self, edit: GraphEdit) -> None:
        self._edit = edit

    def __call__(self, graph: Graph) -> None:
        self._edit(graph)

    def uuid(self) -> None:
        """None: what this pass made is never read from a cache."""
        return


def drop(node: Node) -> None:
    """Take a node out: who used it uses its first operand."""
    node.replace_all_uses_with(cast("Node", node.args[0]))
    node.graph.erase_node(node)


def swap_operands(node: Node) -> None:
    """The first two operands change places."""
    first, second, *rest = node.args
    node.args = (second, first, *rest)


def scale(node: Node, factor: float, multiply: Any) -> None:
    """Who used a node uses ``factor`` times it; the new node has the place of the old one."""
    with node.graph.inserting_after(node):
        made = node.graph.call_function(multiply, (node, factor))
    made.meta = dict(node.meta)
    node.replace_all_uses_with(made, delete_user_cb=lambda user: user is not made)


def retarget(node: Node, wrong: Wrong) -> None:
    """A node calls ``wrong(original, …)`` in the place of what it called: for graphs that are interpreted."""
    original = node.target
    if node.op == "call_method":
        node.op, name = "call_function", str(original)
        node.target = lambda receiver, *args, **kwargs: wrong(
            lambda first, *more, **named: getattr(first, name)(*more, **named), receiver, *args, **kwargs
        )
    else:
        node.target = lambda *args, **kwargs: wrong(original, *args, **kwargs)
    node.target.__name__ = op_name(original)
