"""A node as Inductor computes it: the kernel that it is fused into, with that kernel's inputs and outputs.

The kept call is compiled with Inductor once more and run up to that kernel. Inductor knows of most buffers which node's
value they hold; a node without a buffer exists only inside a kernel and has no value that could be read, but the
kernel's inputs and outputs have.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.diff.localize_kernels import as_node
from inductor_debug_jupyter.pipeline.errors import NotFoundError, UsageError
from inductor_debug_jupyter.pipeline.nodes.matching import CapturedNode, near
from inductor_debug_jupyter.pipeline.nodes.reexecution import Watcher, run_again
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
from inductor_debug_jupyter.pipeline.words import count


def kernel_values(
    calls: Sequence[ModelCall], wanted: CapturedNode, gradients: Sequence[torch.Tensor] | None
) -> NodeValues:
    """The inputs and outputs of the kernel that computes a node.

    Raises:
        NotFoundError: the captured graph does not come out again, or no kernel computes the node.
        InductorDebugError: the model raised.
    """
    with ExitStack() as stack:

        def watcher() -> _Watch:
            watch = _Watch(wanted=wanted)
            stack.enter_context(observed(watch))
            return watch

        watch = run_again(calls, wanted.capture, watcher, gradients)
    if watch.found is None:
        raise NotFoundError(f"the kernel of {wanted.record.name} was not called")
    return watch.found


@dataclass(frozen=True)
class _Argument:
    """One argument of the kernel. ``value`` is a number or a tensor; in a :class:`NodeFunction`, a meta tensor."""

    label: str
    role: Role
    value: Any
    keyword: str = ""

    @property
    def is_input(self) -> bool:
        """Whether it is a tensor that the kernel reads."""
        return self.role != "out" and isinstance(self.value, torch.Tensor)

    def memory(self, inputs: Mapping[str, Any], device: Any) -> Any:
        """What the kernel is called with: a number, or new memory with the input in it."""
        form = self.value
        if not isinstance(form, torch.Tensor) or not self.is_input:
            return _laid_out(form, None, device) if isinstance(form, torch.Tensor) else form
        value = inputs[self.label]
        if not isinstance(value, torch.Tensor) or value.shape != form.shape or value.dtype != form.dtype:
            given = f"{value.dtype}{list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__
            allowed = f"{form.dtype}{list(form.shape)}"  # a kernel would read past the end of others
            raise UsageError(f"{self.label} is {given}; allowed: {allowed}, which the kernel was compiled for")
        return _laid_out(form, value.detach(), device)


@dataclass(kw_only=True)
class _Watch(Watcher):
    """Compiles with Inductor, waits for the kernel, and stops the call behind it."""

    _compiling: bool = False
    _graph: GeneratedGraph | None = None
    _call: KernelCall | None = None
    _last: int = -1
    _given: GivenArguments | None = None
    _inputs: dict[str, Any] = field(default_factory=dict)
    _outputs: dict[str, Any] = field(default_factory=dict)

    def backend(self) -> Callable[..., Any]:
        """Inductor; it notes when it is given the captured graph."""
        return self._compile

    def _compile(self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        self._compiling = self.recognises(graph_module)
        run = compile_with_inductor(graph_module, example_inputs)
        self._compiling = False
        return run

    def generated(self, graph: GeneratedGraph) -> None:
        """Search the kernel in a wrapper that Inductor just wrote."""
        is_backward = self.wanted.stage.endswith("backward")
        if not self._compiling or self._graph is not None or graph.is_backward != is_backward:
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

    def begin(self, graph: GeneratedGraph, inputs: Mapping[str, Any]) -> None:
        """Stop the call if there is no such kernel."""
        if graph is self._graph and self.problem is not None:
            raise ReachedError

    def before(self, graph: GeneratedGraph, call: KernelCall, given: GivenArguments) -> None:
        """Copy the kernel's inputs."""
        if graph is self._graph and call is self._call:
            self._given = given
            self._inputs = own_copies({each.label: each.value for each in _arguments(given) if each.is_input})

    def after(self, graph: GeneratedGraph, call: KernelCall, values: Mapping[str, torch.Tensor]) -> None:
        """Copy the kernel's outputs, and stop the call."""
        if graph is not self._graph or self._call is None or self._call.index not in {call.index, call.made_by}:
            return
        nodes = {node.name: node for node in graph.graph_module.graph.nodes}
        for name, value in values.items():
            shaped = as_node(value, nodes[name]) if name in nodes else None  # a buffer in the shape of its node
            self._outputs[name] = own_copies(value if shaped is None else shaped)
        if call.index == self._last:
            self.found = self._answer()
            raise ReachedError

    def end(self, graph: GeneratedGraph, outputs: Any) -> None:
        """Nothing is needed at the end of a wrapper."""

    def _answer(self) -> NodeValues:
        assert self._call is not None
        name, kernel = self.wanted.record.name, self._call.kernel
        hidden = ""
        if name not in self._outputs:
            seen = ", ".join(self._outputs) or "none of its nodes"
            nodes = count(len(self._call.origins), "node")
            hidden = f"{name} lives only inside kernel {kernel}; of its {nodes} these can be seen: {seen}"
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


def _arguments(given: GivenArguments) -> list[_Argument]:
    plan = given.plan
    found = [_Argument(*each) for each in zip(plan.labels, plan.roles, given.args, strict=True)]
    found += [_Argument(*plan.keywords[name], value, name) for name, value in given.kwargs.items()]
    taken: dict[str, int] = {}
    named = []
    for each in found:  # a buffer may be an argument twice, and one that is also written has a value before
        label = f"{each.label}_before" if each.role == "in_out" else each.label
        taken[label] = taken.get(label, 0) + 1
        label = label if taken[label] == 1 else f"{label}_{taken[label]}"
        named.append(replace(each, label=label))
    return named


def _function(name: str, kernel: str, given: GivenArguments) -> NodeFunction:
    """A callable of just the kernel: takes its inputs, returns its outputs by node."""
    device = next((each.device for each in (*given.args, *given.kwargs.values()) if hasattr(each, "device")), "cpu")
    arguments = []
    for each in _arguments(given):  # tensors without their memory
        form = each.value
        if isinstance(form, torch.Tensor):
            form = torch.empty_strided(form.shape, form.stride(), dtype=form.dtype, device="meta")
        arguments.append(replace(each, value=form))
    apply = partial(_run_kernel, given.function, given.plan.result, arguments, device)
    return NodeFunction(name, kernel, tuple(each.label for each in arguments if each.is_input), apply)


def _run_kernel(
    run: Callable[..., Any], result: str, arguments: Sequence[_Argument], device: Any, inputs: Mapping[str, Any]
) -> dict[str, Any]:
    """Call a kernel on new memory; returns its outputs, and what it returns under the name ``result``."""
    values = [(each, each.memory(inputs, device)) for each in arguments]
    args = [value for each, value in values if not each.keyword]
    made = run(*args, **{each.keyword: value for each, value in values if each.keyword})
    written = {
        each.label.removesuffix("_before") if each.role == "in_out" else each.label: value
        for each, value in values
        if each.role != "in" and isinstance(each.value, torch.Tensor)
    }
    return {**written, result: made} if result else written


def _laid_out(form: torch.Tensor, given: torch.Tensor | None, device: Any) -> torch.Tensor:
    """New memory with the strides of ``form`` and the contents of ``given``; an expanded dimension is stored once."""
    once = [1 if stride == 0 else size for size, stride in zip(form.shape, form.stride(), strict=True)]
    made = torch.empty_strided(once, form.stride(), dtype=form.dtype, device=device)
    if given is not None:
        made.copy_(given[tuple(slice(0, size) for size in once)])
    return made.expand(form.shape)
