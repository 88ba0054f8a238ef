"""A node as Inductor computed it: the kernel that it went into, with what that was given and what it wrote.

The kept call is compiled with Inductor once more and run up to that kernel, fused as it is. Inductor knows of most
buffers which node's value they hold; a node that is in none of them lives inside a kernel only, and has no value that
anybody could look at: what is around it can be had.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.capture.graphs import graph_record
from inductor_debug_jupyter.pipeline.diff.localize_kernels import as_node
from inductor_debug_jupyter.pipeline.errors import InductorDebugError, NotFoundError, UsageError
from inductor_debug_jupyter.pipeline.nodes.matching import CapturedNode, near, same_dynamo_graph
from inductor_debug_jupyter.pipeline.nodes.reexecution import run_again
from inductor_debug_jupyter.pipeline.nodes.stepping import ReachedError
from inductor_debug_jupyter.pipeline.nodes.values import NodeFunction, NodeValues, own_copies
from inductor_debug_jupyter.pipeline.torch_compat.kernel_arguments import Role
from inductor_debug_jupyter.pipeline.torch_compat.kernel_calls import (
    GeneratedGraph,
    GivenArguments,
    KernelCall,
    observed,
)
from inductor_debug_jupyter.pipeline.torch_compat.lowering import compile_with_inductor
from inductor_debug_jupyter.pipeline.views.words import count


def kernel_values(
    calls: Sequence[ModelCall], wanted: CapturedNode, gradients: Sequence[torch.Tensor] | None = None
) -> NodeValues:
    """What the kernel that computes a node is given and writes.

    Raises:
        NotFoundError: the captured graph does not come out again, or no kernel computes the node.
        InductorDebugError: the model raised.
    """

    def backend(watch: _Watch) -> Callable[..., Any]:
        return watch.compile

    with ExitStack() as stack:

        def watcher() -> _Watch:
            watch = _Watch(wanted)
            stack.enter_context(observed(watch))
            return watch

        watch = run_again(calls, wanted.capture, watcher, backend, gradients)
    if watch.problem is not None:
        raise watch.problem
    if watch.values is None:
        raise NotFoundError(f"the kernel of {wanted.record.name} was not called")
    return watch.values


@dataclass(frozen=True)
class _Argument:
    """One argument of the kernel: what it is called, what it is for, and its value or, if written, its form."""

    label: str
    role: Role
    value: Any
    """A number, or an empty tensor of the form that the kernel was compiled for."""
    keyword: str = ""


@dataclass
class _Watch:
    """Waits for the kernel."""

    wanted: CapturedNode
    problem: InductorDebugError | None = None
    unlike: list[str] = field(default_factory=list)
    values: NodeValues | None = None
    recognised: bool = False
    _compiling: bool = False
    _graph: GeneratedGraph | None = None
    _call: KernelCall | None = None
    _last: int = -1
    _given: GivenArguments | None = None
    _inputs: dict[str, Any] = field(default_factory=dict)
    _outputs: dict[str, Any] = field(default_factory=dict)

    # Compiling --------------------------------------------------------------------------------------------------

    def compile(self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Be a backend: Inductor, watched."""
        why_not = same_dynamo_graph(self.wanted.capture, graph_record("dynamo", graph_module))
        self._compiling = not self.recognised and not why_not
        self.recognised |= self._compiling
        self.unlike.append(why_not)
        run = compile_with_inductor(graph_module, example_inputs)
        self._compiling = False
        return run

    def generated(self, graph: GeneratedGraph) -> None:
        """Look for the kernel in a wrapper that was just written."""
        if not self._compiling or self._graph is not None or graph.is_backward != self._is_backward:
            return
        name = self.wanted.record.name
        holding = [call for call in graph.calls if name in call.nodes]
        inside = [call for call in graph.calls if name in call.origins]
        self._graph = graph
        if not holding and not inside:
            known = [each for call in graph.calls for each in (*call.nodes, *call.origins)]
            self.problem = NotFoundError(
                f"no kernel of Inductor computes {name}: it was dropped, replaced, or is only another view"
                f"{near(name, known)}"
            )
            return
        first = (holding or inside)[0]
        self._call = graph.calls[first.made_by] if first.made_by >= 0 else first
        index = self._call.index
        self._last = max(call.index for call in graph.calls if index in {call.index, call.made_by})

    @property
    def _is_backward(self) -> bool:
        return self.wanted.stage.endswith("backward")

    # Running ----------------------------------------------------------------------------------------------------

    def begin(self, graph: GeneratedGraph, inputs: Mapping[str, Any]) -> None:
        """Nothing more needs to run if there is no such kernel."""
        if graph is self._graph and self.problem is not None:
            raise ReachedError

    def before(self, graph: GeneratedGraph, call: KernelCall, given: GivenArguments) -> None:
        """Keep what the kernel is given."""
        if graph is self._graph and call is self._call:
            self._given = given
            self._inputs = own_copies(dict(_inputs_of(given)))

    def after(self, graph: GeneratedGraph, call: KernelCall, values: Mapping[str, torch.Tensor]) -> None:
        """Keep what the kernel wrote; then everything is known."""
        if graph is not self._graph or self._call is None or self._call.index not in {call.index, call.made_by}:
            return
        for name, value in values.items():
            self._outputs[name] = own_copies(as_node_or_buffer(graph, name, value))
        if call.index == self._last:
            self.values = self._answer()
            raise ReachedError

    def end(self, graph: GeneratedGraph, outputs: Any) -> None:
        """A wrapper that is over is of no interest."""

    def _answer(self) -> NodeValues:
        assert self._call is not None
        name, kernel = self.wanted.record.name, self._call.kernel
        hidden = ""
        if name not in self._outputs:
            seen = ", ".join(self._outputs) or "none of its nodes"
            hidden = f"{name} lives only inside kernel {kernel}; of its {self._size()} these can be seen: {seen}"
        function = None if self._given is None else _function(name, kernel, self._given)
        return NodeValues(
            self._inputs,
            self._outputs.get(name),
            function,
            note=f"computed by kernel {kernel}",
            kernel=kernel,
            outputs=dict(self._outputs),
            hidden=hidden,
        )

    def _size(self) -> str:
        assert self._call is not None
        return count(len(self._call.origins), "node")


def as_node_or_buffer(graph: GeneratedGraph, name: str, value: torch.Tensor) -> torch.Tensor:
    """A buffer in the shape of its node, where that can be."""
    node = next((each for each in graph.graph_module.graph.nodes if each.name == name), None)
    shaped = as_node(value, node) if node is not None else None
    return value if shaped is None else shaped


def _arguments(given: GivenArguments) -> list[_Argument]:
    plan = given.plan
    found = [_Argument(*each) for each in zip(plan.labels, plan.roles, given.args, strict=True)]
    found += [_Argument(*plan.keywords[name], value, name) for name, value in given.kwargs.items()]
    taken: dict[str, int] = {}
    named = []
    for each in found:  # the same buffer may be given twice, and a buffer that is also written has a value before
        label = f"{each.label}_before" if each.role == "in_out" else each.label
        taken[label] = taken.get(label, 0) + 1
        label = label if taken[label] == 1 else f"{label}_{taken[label]}"
        named.append(_Argument(label, each.role, each.value, each.keyword))
    return named


def _inputs_of(given: GivenArguments) -> list[tuple[str, torch.Tensor]]:
    return [
        (each.label, each.value)
        for each in _arguments(given)
        if each.role != "out" and isinstance(each.value, torch.Tensor)
    ]


def _form(tensor: torch.Tensor) -> torch.Tensor:
    """Size, strides, dtype and device of a tensor, without its memory."""
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def _function(name: str, kernel: str, given: GivenArguments) -> NodeFunction:
    """A callable of just the kernel: takes what it reads, answers with what it writes, by node."""
    device = next((each.device for each in (*given.args, *given.kwargs.values()) if hasattr(each, "device")), "cpu")
    arguments = [
        _Argument(each.label, each.role, _form(each.value) if isinstance(each.value, torch.Tensor) else each.value,
                  each.keyword)
        for each in _arguments(given)
    ]  # fmt: skip
    names = tuple(each.label for each in arguments if each.role != "out" and isinstance(each.value, torch.Tensor))
    run, result = given.function, given.plan.result

    def apply(inputs: dict[str, Any]) -> dict[str, Any]:
        args, kwargs, written = [], {}, {}
        for each in arguments:
            value = each.value
            if isinstance(value, torch.Tensor):
                given = None if each.role == "out" else _fitting(each, inputs[each.label])
                value = _laid_out(value, given, device)
                if each.role != "in":
                    written[each.label.removesuffix("_before") if each.role == "in_out" else each.label] = value
            if each.keyword:
                kwargs[each.keyword] = value
            else:
                args.append(value)
        made = run(*args, **kwargs)
        return {**written, result: made} if result else written

    return NodeFunction(name, kernel, names, apply)


def _laid_out(form: torch.Tensor, given: torch.Tensor | None, device: Any) -> torch.Tensor:
    """New memory laid out as the kernel expects it, with a given content; an expanded dimension is there once."""
    once = [1 if stride == 0 else size for size, stride in zip(form.shape, form.stride(), strict=True)]
    made = torch.empty_strided(once, form.stride(), dtype=form.dtype, device=device)
    if given is not None:
        made.copy_(given[tuple(slice(0, size) for size in once)])
    return made.expand(form.shape)


def _fitting(argument: _Argument, value: Any) -> torch.Tensor:
    """An input, if it is what the kernel was compiled for: a kernel checks nothing, and would read past the end."""
    form = argument.value
    if not isinstance(value, torch.Tensor) or value.shape != form.shape or value.dtype != form.dtype:
        told = f"{value.dtype}{list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
        allowed = f"{form.dtype}{list(form.shape)}"
        raise UsageError(f"{argument.label} is {told}; allowed: {allowed}, which the kernel was compiled for")
    return value.detach()
