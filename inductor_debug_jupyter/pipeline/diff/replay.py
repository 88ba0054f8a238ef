"""Run nodes of a graph eagerly, as they are, in float64, rounded to a format, or from inputs that are a little off.

An :class:`Evaluator` computes one node from values that are known, going back through the graph no further than to
those. A :class:`Lockstep` runs a whole graph from its inputs, as far as is asked for, and lets go of each value after
its last use.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.torch_compat.graphs import drops_nothing, mutated_inputs
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_kind, map_tensors

_NARROW: Final = (torch.float32, torch.float16, torch.bfloat16)
_SEED: Final = 20_260_101
_KEPT: Final = 1 << 16
"""Signs of at most so many elements are kept (16 MB of them in all)."""
_SLOPPY: Final = 2.0
_BOUNDED: Final = frozenset(("erf", "erfc", "tanh", "sigmoid", "sin", "cos", "gelu"))
_EXACT: Final = frozenset(
    (
        *("relu", "neg", "abs", "clone", "where", "full", "full_like", "copy", "cat", "index", "embedding", "gather"),
        *("amax", "amin", "maximum", "minimum", "clamp", "clamp_min", "clamp_max", "zeros_like", "ones_like"),
        *("scatter", "select_scatter", "constant_pad_nd", "arange", "max_pool2d_with_indices", "threshold_backward"),
        *("repeat", "flip"),
    )
)
"""Ops that round nothing."""


@dataclass(frozen=True, slots=True)
class Form:
    """How to run.

    Attributes:
        exact: widen everything to float64, and casts to narrower floats with it.
        held_as: round what every op writes to this dtype, as a device that holds nothing else does.
        perturbed: let every input be off by one rounding of its own dtype at random, and every result by
            :data:`_SLOPPY` roundings of float32, which is what a vector library may be: of the result's size, or for
            functions whose largest value is 1 of that.
    """

    exact: bool = False
    held_as: torch.dtype | None = None
    perturbed: bool = False

    def given(self, value: Any, own: torch.dtype | None = None) -> Any:
        """An input, prepared; ``own`` is the dtype whose rounding perturbs it."""
        if not isinstance(value, torch.Tensor) or not value.dtype.is_floating_point:
            return value.to(torch.complex128) if isinstance(value, torch.Tensor) and value.is_complex() else value
        if not self.exact:
            return value
        wide = value.double()
        if self.perturbed and (eps := _eps(own or value.dtype)):
            wide = wide * (1 + 0.5 * eps * _signs(wide))
        return self._held(wide)

    def _sloppy(self, value: torch.Tensor, bounded: bool) -> torch.Tensor:
        if value.dtype != torch.float64:
            return value
        off = _SLOPPY * _eps(torch.float32) * _signs(value)
        return value + off if bounded else value * (1 + off)

    def _held(self, value: torch.Tensor) -> torch.Tensor:
        if self.held_as is None or not value.is_floating_point():
            return value
        return value.to(self.held_as).to(value.dtype)

    def run(self, node: torch.fx.Node, args: Any, kwargs: Any) -> Any:
        """One op."""
        if self.exact:
            args, kwargs = map_kind(torch.dtype, _widened, (args, kwargs))
        target: Any = node.target
        result = getattr(args[0], target)(*args[1:], **kwargs) if node.op == "call_method" else target(*args, **kwargs)
        if self.perturbed and not getattr(target, "is_view", False) and _is_computed(target):
            bounded = _bare(target) in _BOUNDED
            return map_tensors(lambda value: self._sloppy(value, bounded), result)
        return map_tensors(self._held, result) if self.held_as is not None else result


def _signs(value: torch.Tensor) -> torch.Tensor:
    """Minus one or one for each element, always the same ones for a shape."""
    make = _kept_signs if value.numel() <= _KEPT else _made_signs
    return make(tuple(value.shape)).to(value.device)


def _made_signs(shape: tuple[int, ...]) -> torch.Tensor:
    generator = torch.Generator().manual_seed(_SEED)
    return torch.randint(0, 2, shape, generator=generator, dtype=torch.float64) * 2 - 1


@functools.lru_cache(maxsize=32)
def _kept_signs(shape: tuple[int, ...]) -> torch.Tensor:
    """The layers of a model have few shapes. Nobody may write into these."""
    return _made_signs(shape)


def _bare(target: Any) -> str:
    return str(target).removeprefix("aten.").split(".")[0]


def _is_computed(target: Any) -> bool:
    """Whether an op computes: taking one of several results, and making a constant, do not."""
    return _bare(target) not in _EXACT and "getitem" not in str(target)


def _eps(dtype: torch.dtype) -> float:
    return float(torch.finfo(dtype).eps) if dtype.is_floating_point else 0.0


def _widened(dtype: torch.dtype) -> torch.dtype:
    return torch.float64 if dtype in _NARROW else dtype


AS_IS: Final = Form()
EXACT: Final = Form(exact=True)
PERTURBED: Final = Form(exact=True, perturbed=True)


class UnreplayableError(Exception):
    """A node cannot be run again: it draws random numbers, or writes into what it is given."""


class Evaluator:
    """Computes single nodes of a graph."""

    def __init__(self, graph_module: torch.fx.GraphModule) -> None:
        self.graph_module = graph_module
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

    def evaluate(self, nodes: Iterable[torch.fx.Node], known: Mapping[str, Any], form: Form) -> Any:
        """Run these nodes, in order, from known values; the last one's value.

        Raises:
            UnreplayableError: one of them cannot be run again.
        """
        values: dict[torch.fx.Node, Any] = {}
        value: Any = None

        def look_up(node: torch.fx.Node) -> Any:
            return values[node] if node in values else form.given(known[node.name])

        for node in nodes:
            value = values[node] = _value_of(node, self.graph_module, look_up, form)
        return value


def _value_of(
    node: torch.fx.Node, graph_module: torch.fx.GraphModule, look_up: Callable[[torch.fx.Node], Any], form: Form
) -> Any:
    if node.op == "get_attr":
        held: Any = graph_module
        for step in str(node.target).split("."):
            held = getattr(held, step)
        return form.given(held)
    if node.op == "placeholder":
        return look_up(node)
    harmless = {"<effect>", "<rng>"} if drops_nothing(node) else {"<effect>"}
    if written := [name for name in mutated_inputs(node) if name not in harmless]:
        what = "draws random numbers" if "<rng>" in written else f"writes into {written[0]}"
        raise UnreplayableError(f"{node.name} {what}")
    args, kwargs = map_kind(torch.fx.Node, look_up, (node.args, node.kwargs))
    return form.run(node, args, kwargs)


class Lockstep:
    """A whole graph, run eagerly only as far as somebody wants to look.

    Args:
        graph_module: the graph.
        inputs: placeholder → value.
        form: how to run it.
        wanted: the nodes that will be asked for, each once; their values are kept until then.
    """

    def __init__(
        self, graph_module: torch.fx.GraphModule, inputs: Mapping[str, Any], form: Form, wanted: Collection[str]
    ) -> None:
        self._module = graph_module
        self._form = form
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
                self._values[node] = self._form.given(self._inputs[node.name])
            elif "copy_" in node.name and len(mutated_inputs(node)) == 1 and not node.users:
                return  # the graph's last act: a new value for an input
            else:
                self._values[node] = _value_of(node, self._module, self._values.__getitem__, self._form)
        except Exception as error:  # whatever an op raises in another dtype
            self.problem = f"{node.name}: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}"
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
