"""The fixed model, and the backend for ``torch.compile`` behind it, which runs a rewritten graph.

Dynamo's graph is traced to ATen ops and interpreted once more with the rewrite in force. The graph traced from that
goes through AOTAutograd, which derives the backward from the rewritten forward, so only the forward is rewritten. The
host pads and casts inputs and weights before the graph, and cuts and casts back the results after it, as a device's
driver lays tensors out on the way in.

A rewritten graph is a *program* for one signature of inputs: the sizes to pad and to cut are numbers in it. Where
Dynamo left sizes open, one program is made for each signature that comes. Where it did not, Dynamo compiles again, and
a call that its guards let through with another signature is an error.

The fixed model is the original, compiled with that backend; it is called, trained and captured like any other. A patch
writes it into the user's cell as one line: ``net = fixed(net, pad={784: 832})``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.errors import InductorDebugError, OptionError, RewriteError, UsageError
from inductor_debug_jupyter.pipeline.fixits.border import Border, Result
from inductor_debug_jupyter.pipeline.fixits.original import Original, Signature, fake_results, signature
from inductor_debug_jupyter.pipeline.fixits.rewrite import Rewrite
from inductor_debug_jupyter.pipeline.fixits.rewriting import Rewriting, Waste
from inductor_debug_jupyter.pipeline.torch_compat.aten_tracing import (
    GRAPH_BREAKS,
    fake_inputs_of_fixed_size,
    has_open_sizes,
    traced_aten,
)
from inductor_debug_jupyter.pipeline.torch_compat.graphs import example_value, placeholder_roles
from inductor_debug_jupyter.pipeline.torch_compat.hooks import notify_rewritten
from inductor_debug_jupyter.pipeline.torch_compat.lowering import compile_with_aot
from inductor_debug_jupyter.pipeline.torch_compat.regions import (
    compile_without_recompile_limit,
    registered_backend,
    uncompiled,
)

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
                message, cause = str(error), error.__cause__

                def refuse(*_: Any) -> Any:
                    raise RewriteError(message) from cause

                return refuse
        return programs.call


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
            graph_module, border, original, results, moved = self._rewritten(args)
        except RewriteError as error:
            raise RewriteError(_first_line(error)) from error.__cause__
        except InductorDebugError:
            raise
        except GRAPH_BREAKS:
            raise
        except Exception as error:
            raise RewriteError(f"the graph cannot be rewritten for these inputs: {_first_line(error)}") from error
        inputs = fake_inputs_of_fixed_size(border.inward(list(args)), border.written)
        made = _Program(self._backend.then(graph_module, inputs), border, original, results, moved)
        self._made[signature(args)] = made
        return made

    def _rewritten(
        self, args: Sequence[Any]
    ) -> tuple[torch.fx.GraphModule, Border, Original, tuple[Result, ...], tuple[bool, ...]]:
        """The rewritten graph, and what the host does before and after it: the other fields of a :class:`_Program`."""
        rewrite, graph_module = self._backend.rewrite, self._graph_module
        given = [value.detach() if isinstance(value, torch.Tensor) else value for value in args]
        # Inside vmap tensors hide their batch dimension.
        has_vmap = any("_vmap_" in getattr(node.target, "__name__", "") for node in graph_module.graph.nodes)
        # Ops to keep precise are named as they are below autograd: pow for a square.
        plain = traced_aten(torch.fx.Interpreter(graph_module).run, given, lower=has_vmap or bool(rewrite.precise))
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
        return rewritten, border, original, rewriting.results, moved

    def _other_signature(self, args: Sequence[Any]) -> str:
        """The first input that differs from those that the only program was made for."""
        (known,) = self._made or [()]
        for (_, name), now, before in zip(self._roles, signature(args), known, strict=False):
            if now != before:
                return f"{name} is {_described(now)}, and this graph was made for {_described(before)}: it was not run"
        return "the graph was made for other inputs: it was not run"


@dataclass(frozen=True)
class _Program:
    """A compiled rewritten graph, and what the host does before and after it."""

    run: Callable[..., Any]
    border: Border
    original: Original
    results: tuple[Result, ...]
    moved: tuple[bool, ...]

    def __call__(self, args: Sequence[Any]) -> tuple[Any, ...]:
        """Run on the user's inputs; the results have the original's shapes, dtypes, strides and aliases."""
        inward = self.border.inward(args)
        self.border.refuse_overlaps(args, inward)
        results = self.run(*inward)
        self.border.write_back(args, inward)
        copied = {number for number, (arg, given) in enumerate(zip(args, inward, strict=True)) if arg is not given}
        made = self.original.laid_out(self.border.outward(results, self.results), args, copied, self.moved)
        self.original.check(made)
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


_DTYPES = sorted(name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype))


def fixed(
    model: Callable[..., Any],
    *,
    pad: Mapping[int, int] | None = None,
    pad_products: Mapping[int, int] | None = None,
    cast: Mapping[str, str] | None = None,
    channels_last: bool = False,
    contiguous: Iterable[str] = (),
    decompose: Iterable[str] = (),
    keep_precise: Iterable[str] = (),
    backend: str | Backend | None = None,
) -> Any:
    """A model that computes what the original does, through a graph that is rewritten for a target.

    It shares the original's parameters: training one trains the other. Each new combination of input sizes, strides,
    dtypes and modes is traced and rewritten when it first comes, however many there are: torch's limits on recompiles
    do not apply. At every call, shapes and dtypes of the results are compared with the original's: a call that cannot
    be computed right is a ``RewriteError``. Fixing a fixed model adds to what it has; fixing it with the same again
    returns it.

    Args:
        model: a module or function; one that ``torch.compile`` made is taken as what it was made from.
        pad: size → the size to pad it to, wherever it is: ``{784: 832}``.
        pad_products: likewise, but only what products and convolutions read; what they make is cut at once.
        cast: dtype → the dtype to compute in: ``{"float64": "float32"}``.
        channels_last: lay images and the weights that convolve them out with channels innermost.
        contiguous: copy what these ops read row by row: ``"encoder.layer.*.attention:bmm"``, module path and op.
        decompose: take these ops apart, as torch does: ``"gelu"``.
        keep_precise: compute these ops in float32 where the others are in float16 or bfloat16, by ``cast`` or because
            the model is: ``"encoder.layer.*.attention:softmax"``, module path and op; ``":add#2"`` is the second one
            outside of any module. ``session.prescribe()`` names those that matter. A name that no op has does nothing.
        backend: what compiles the rewritten graph, by the name that ``torch.compile`` knows or as a function; without
            one each op runs as in eager mode.

    Raises:
        OptionError: a value is not allowed; it says which are.
        UsageError: torch knows no backend of that name.
    """
    rewrite = Rewrite(
        _sizes("pad", pad),
        _sizes("pad_products", pad_products),
        _casts(cast),
        channels_last,
        _names("contiguous", contiguous),
        _names("decompose", decompose),
        _names("keep_precise", keep_precise),
    )
    return rewritten_model(model, rewrite, _backend(backend))


def rewritten_model(model: Callable[..., Any], rewrite: Rewrite, then: Backend | None = None) -> Any:
    """:func:`fixed`, given a rewrite."""
    if (before := _made.get(model)) is not None:
        then = then or before.then
        if before.rewrite | rewrite == before.rewrite and then is before.then:
            return model
        rewrite = before.rewrite | rewrite
    plain, backend = uncompiled(model), RewritingBackend(rewrite, then or op_by_op)
    attributes = getattr(plain, "__dict__", None)  # a model that cannot have attributes keeps none
    kept: _Kept = attributes.setdefault("_inductor_debug_fixed", _Kept()) if isinstance(attributes, dict) else _Kept()
    for each in kept:
        if _made[each].rewrite == rewrite and _made[each].then is backend.then:
            return each
    made = compile_without_recompile_limit(plain, backend)
    _made[made] = backend
    kept.append(made)
    return made


class _Kept(list[Any]):
    """The fixed models of one model, kept on it: a training step that calls ``fixed`` must not compile each time.

    They are freed with the model; a copy of the model starts without any.
    """

    def __deepcopy__(self, memo: Any) -> _Kept:
        return _Kept()

    def __copy__(self) -> _Kept:
        return _Kept()

    def __reduce__(self) -> tuple[type[_Kept], tuple[()]]:
        return _Kept, ()


_made: weakref.WeakKeyDictionary[Callable[..., Any], RewritingBackend] = weakref.WeakKeyDictionary()
"""Every fixed model, with its backend."""


def _backend(backend: str | Backend | None) -> Backend | None:
    if not isinstance(backend, str):
        return backend
    try:
        return registered_backend(backend)
    except Exception as error:  # torch has an exception of its own for it
        raise UsageError(f"backend={backend!r}: torch.compile knows no such backend ({error})") from None


def _sizes(name: str, given: Mapping[int, int] | None) -> dict[int, int]:
    for size, to in (given or {}).items():
        if not (type(size) is int and type(to) is int and 0 < size < to):
            raise OptionError(f"{name}={{{size!r}: {to!r}}}; allowed: a size above 0 and a larger one")
    return dict(given or {})


def _casts(given: Mapping[str, str] | None) -> dict[str, str]:
    casts = {str(key).removeprefix("torch."): str(to).removeprefix("torch.") for key, to in (given or {}).items()}
    for name in (*casts, *casts.values()):
        if name not in _DTYPES:
            raise OptionError(f"cast: {name!r} is no dtype; allowed: {', '.join(_DTYPES)}")
    return casts


def _names(name: str, given: Iterable[str]) -> frozenset[str]:
    names = [given] if isinstance(given, str) else list(given)
    for each in names:
        if not isinstance(each, str) or not each:
            raise OptionError(f"{name}: {each!r} is not allowed; allowed: names of ops")
    return frozenset(names)
