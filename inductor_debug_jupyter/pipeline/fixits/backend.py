"""A backend for ``torch.compile`` that runs a rewritten graph.

Dynamo's graph is traced to ATen ops and interpreted once more with the rewrite in force. The graph traced from that
goes through AOTAutograd, which derives the backward from the rewritten forward, so only the forward is rewritten. The
host pads and casts inputs and weights before the graph, and cuts and casts back the results after it, as a device's
driver lays tensors out on the way in.

A rewritten graph is a *program* for one signature of inputs: the sizes to pad and to cut are numbers in it. Where
Dynamo left sizes open, one program is made for each signature that comes. Where it did not, Dynamo compiles again, and
a call that its guards let through with another signature is an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.errors import InductorDebugError, RewriteError
from inductor_debug_jupyter.pipeline.fixits.border import Border, Result
from inductor_debug_jupyter.pipeline.fixits.original import Original, Signature, fake_results, signature
from inductor_debug_jupyter.pipeline.fixits.rewrite import Rewrite
from inductor_debug_jupyter.pipeline.fixits.rewriting import Rewriting, Waste
from inductor_debug_jupyter.pipeline.torch_compat.aten_tracing import (
    GRAPH_BREAKS,
    example_value,
    fake_inputs_of_fixed_size,
    has_open_sizes,
    traced_aten,
    uses_vmap,
)
from inductor_debug_jupyter.pipeline.torch_compat.graphs import placeholder_roles
from inductor_debug_jupyter.pipeline.torch_compat.hooks import notify_rewritten
from inductor_debug_jupyter.pipeline.torch_compat.lowering import compile_with_aot

Backend = Callable[[torch.fx.GraphModule, list[Any]], Callable[..., Any]]


def op_by_op(graph_module: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """Lower a graph with AOTAutograd and run each op as eager mode does."""
    return compile_with_aot(graph_module, inputs, lambda graph, _: graph.forward)


class RewritingBackend:
    """Rewrites a graph, reports the new one to the sessions that listen, and has it compiled.

    Args:
        rewrite: the change.
        then: the backend that compiles the rewritten graph.
    """

    __name__ = "inductor_debug_rewrite"

    def __init__(self, rewrite: Rewrite, then: Backend = op_by_op) -> None:
        self.rewrite = rewrite
        self.then = then
        self.waste = Waste()

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compile a graph. A ``RewriteError`` is raised at the first call: torch would wrap or swallow it here."""
        programs = _Programs(self, graph_module)
        examples = [example_value(each) for each in example_inputs]
        if not any(each is None for each in examples):  # an input whose value is known only at run time
            try:
                programs.make(examples)
            except RewriteError as error:
                return _refusing(error)
        return programs.call


def _refusing(error: RewriteError) -> Callable[..., Any]:
    def refuse(*_: Any) -> Any:
        raise RewriteError(str(error)) from error.__cause__

    return refuse


class _Programs:
    """The programs of one of Dynamo's graphs, one for each signature of its inputs."""

    def __init__(self, backend: RewritingBackend, graph_module: torch.fx.GraphModule) -> None:
        self._backend = backend
        self._graph_module = graph_module
        self._roles = placeholder_roles(graph_module)
        self._is_open = has_open_sizes(graph_module)
        self._made: dict[Signature, _Program] = {}

    def call(self, *args: Any) -> Any:
        """Run the program for these inputs.

        Raises:
            RewriteError: the rewritten graph cannot compute the original's results for them.
        """
        found = self._made.get(signature(args))
        if found is None:
            if not self._is_open:
                raise RewriteError(self._other_signature(args))
            found = self.make(args)
        return found(args)

    def make(self, args: Sequence[Any]) -> _Program:
        """Make the program for the signature of these inputs.

        Raises:
            RewriteError: the graph cannot be rewritten.
        """
        try:
            program = self._rewritten(args)
        except RewriteError as error:
            raise RewriteError(_first_line(error)) from error.__cause__
        except InductorDebugError:
            raise
        except GRAPH_BREAKS:
            raise
        except Exception as error:
            raise RewriteError(f"the graph cannot be rewritten for these inputs: {_first_line(error)}") from error
        inputs = fake_inputs_of_fixed_size(program.border.inward(list(args)), program.border.written)
        made = _Program(program, self._backend.then(program.graph_module, inputs))
        self._made[signature(args)] = made
        return made

    def _rewritten(self, args: Sequence[Any]) -> _Rewritten:
        rewrite, graph_module = self._backend.rewrite, self._graph_module
        given = [value.detach() if isinstance(value, torch.Tensor) else value for value in args]
        plain = traced_aten(torch.fx.Interpreter(graph_module).run, given, lower=uses_vmap(graph_module))
        border = Border(rewrite, plain, self._roles)
        while True:
            rewriting = Rewriting(plain, rewrite, border)
            with torch.no_grad():
                inward = border.inward(given)
            rewritten = traced_aten(rewriting.run, inward, rewrite.decompose)
            if not rewriting.leave_to(border):
                break
        self._backend.waste.add(rewriting.waste)
        _name_inputs(graph_module, rewritten)
        notify_rewritten(rewritten)
        original = Original(plain)
        moved = original.moved(border.outward(fake_results(rewritten), rewriting.results))
        return _Rewritten(rewritten, border, original, rewriting.results, moved)

    def _other_signature(self, args: Sequence[Any]) -> str:
        """The first input that differs from those that the only program was made for."""
        (known,) = self._made or [()]
        for (_, name), now, before in zip(self._roles, signature(args), known, strict=False):
            if now != before:
                return f"{name} is {_described(now)}, and this graph was made for {_described(before)}: it was not run"
        return "the graph was made for other inputs: it was not run"


@dataclass(frozen=True)
class _Rewritten:
    """A rewritten graph, and what the host does before and after it."""

    graph_module: torch.fx.GraphModule
    border: Border
    original: Original
    results: tuple[Result, ...]
    moved: tuple[bool, ...]


@dataclass(frozen=True)
class _Program:
    """A compiled rewritten graph."""

    about: _Rewritten
    run: Callable[..., Any]

    def __call__(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Run on the user's inputs; the results have the original's shapes, dtypes, strides and aliases."""
        about, border = self.about, self.about.border
        inward = border.inward(args)
        border.refuse_overlaps(args, inward)
        results = self.run(*inward)
        border.write_back(args, inward)
        copied = {number for number, (arg, given) in enumerate(zip(args, inward, strict=True)) if arg is not given}
        made = about.original.laid_out(border.outward(results, about.results), args, copied, about.moved)
        about.original.check(made)
        return tuple(made)


def _first_line(error: Exception) -> str:
    """An error's own message, without the node and the stack that fx adds below it."""
    return str(error).strip().partition("\n")[0]


def _described(part: Any) -> str:
    """One input's part of a signature, for an error message."""
    shape, strides, dtype, device, grad = part if len(part) == 5 else (part[1], None, None, None, None)
    if dtype is None:
        return repr(shape)
    needs = ", requires_grad" if grad else ""
    return f"{list(shape)} {dtype} on {device} with strides {list(strides or ())}{needs}"


def _name_inputs(before: torch.fx.GraphModule, after: torch.fx.GraphModule) -> None:
    """Copy the placeholders' names and Dynamo's notes on them: findings name the placeholders."""
    olds, news = (graph.graph.find_nodes(op="placeholder") for graph in (before, after))
    for old, new in zip(olds, news, strict=True):
        new._rename(old.name)
        new.target = old.target
        for key in ("grapharg", "tensor_dict", "steal_arg"):
            if key in old.meta:
                new.meta[key] = old.meta[key]
        if hasattr(old, "_dynamo_source"):
            new._dynamo_source = old._dynamo_source
    after.recompile()
