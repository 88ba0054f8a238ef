"""Observe what Inductor's kernels write, while they run as they were generated and fused.

Inductor's wrapper is a Python function that calls one kernel after the other; its local names (``buf3``) are buffers,
and Inductor knows for most of them whose node's value of the post-grad graph they hold. While
:func:`observed` is active, each wrapper that is generated on this thread gets, after every kernel call, a line that
hands over the buffers that this call is the first to touch. The kernels themselves are not changed: nothing is
materialised that was not, and what was fused stays fused.

A buffer or an input that is written to more than once (a gradient that is added up in place, a running mean) is handed
over after the last write: it then holds the value of the last node that wrote to it. Buffers that hold no node's value
are not handed over. An observer with a ``before`` is also given the arguments of each call before it is made.
"""

from __future__ import annotations

import ast
import itertools
import re
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch

from inductor_debug_jupyter.pipeline.interrupts import uncut
from inductor_debug_jupyter.pipeline.torch_compat.graphs import copy_graph_module
from inductor_debug_jupyter.pipeline.torch_compat.kernel_arguments import ArgumentPlan, plan_of, written_by
from inductor_debug_jupyter.pipeline.torch_compat.patches import HookSite, around

_BUFFER = re.compile(r"buf\d+")
_ALLOCATIONS = ("empty_strided", "reinterpret_tensor", "assert_size_stride", "assert_alignment", "empty(")
_REPORT = "_inductor_debug_report"
_BEFORE = "_inductor_debug_before"


@dataclass(frozen=True, slots=True)
class KernelCall:
    """One call in a wrapper: the kernel's name, and the post-grad nodes whose values it is the first to hold.

    ``made_by`` is the index of the call whose several results this statement only takes apart; -1 for a call.
    """

    index: int
    kernel: str
    nodes: tuple[str, ...]
    origins: tuple[str, ...]
    """Every node that went into those values."""
    made_by: int = -1


@dataclass(frozen=True, eq=False)
class GeneratedGraph:
    """A post-grad graph and the calls that compute it. ``is_backward``: it is the lazily compiled half.

    ``reused`` are inputs whose memory the wrapper gives to a buffer of its own: a backward may do that with what the
    forward saved.
    """

    graph_module: torch.fx.GraphModule
    inputs: tuple[str, ...]
    calls: tuple[KernelCall, ...]
    is_backward: bool
    reused: frozenset[str] = frozenset()


class KernelObserver(Protocol):
    """Called by a generated wrapper while it runs. What it raises goes up through the model's call."""

    def generated(self, graph: GeneratedGraph) -> None:
        """A wrapper was generated."""

    def begin(self, graph: GeneratedGraph, inputs: Mapping[str, Any]) -> None:
        """The generated code is called; inputs by the names of their placeholders."""

    def after(self, graph: GeneratedGraph, call: KernelCall, values: Mapping[str, torch.Tensor]) -> None:
        """A kernel has run; node → value. The memory is the wrapper's own, and will be used again."""

    def end(self, graph: GeneratedGraph, outputs: Any) -> None:
        """The generated code returns these outputs."""


@dataclass(frozen=True, slots=True)
class GivenArguments:
    """A kernel and the arguments of a call; the memory is the wrapper's own."""

    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    plan: ArgumentPlan


@runtime_checkable
class ArgumentObserver(Protocol):
    """An observer that is also called before each kernel."""

    def before(self, graph: GeneratedGraph, call: KernelCall, given: GivenArguments) -> None:
        """A kernel is going to be called with these."""


@dataclass(frozen=True, slots=True)
class _Watched:
    observer: KernelObserver
    graph: GeneratedGraph
    names: Mapping[str, str]
    """Reported name of a value → node."""
    plans: Mapping[int, ArgumentPlan]


_watched: dict[int, _Watched] = {}
_tokens = itertools.count(1)
_active = threading.local()


def report(token: int, index: int, values: Any) -> Any:
    """Called by instrumented wrappers; ``index`` is that of a call, -1 at the beginning, -2 at the end."""
    watched = _watched.get(token)
    if watched is None:
        return values
    observer, graph = watched.observer, watched.graph
    if index == -1:
        observer.begin(graph, values)
    elif index == -2:
        observer.end(graph, values)
    else:
        found = {
            watched.names[name]: value
            for name, value in values.items()
            if isinstance(value, torch.Tensor) and name in watched.names
        }
        observer.after(graph, graph.calls[index], found)
    return values


def before(token: int, index: int, function: Callable[..., Any], args: tuple[Any, ...], kwargs: Any) -> None:
    """Called by instrumented wrappers before a kernel, if the observer has a ``before``."""
    watched = _watched.get(token)
    if watched is not None and isinstance(watched.observer, ArgumentObserver):
        given = GivenArguments(function, args, kwargs, watched.plans[index])
        watched.observer.before(watched.graph, watched.graph.calls[index], given)


@uncut
def observed(observer: KernelObserver) -> Iterator[None]:
    """Call ``observer`` for every wrapper that is generated, and then called, on this thread in the block.

    Raises:
        HookError: this torch generates code some other way.
    """
    try:
        with rewritten(lambda lowering, source: _instrumented(lowering, source, observer)):
            yield
    finally:
        for token in [token for token, watched in _watched.items() if watched.observer is observer]:
            del _watched[token]


def rewritten(rewrite: Callable[[Any, str], str]) -> AbstractContextManager[None]:
    """Every wrapper that is generated on this thread in the block is ``rewrite(lowering, source)`` instead.

    Raises:
        HookError: this torch generates code some other way.
    """
    return SITE.installed(_active, "rewrite", rewrite)


@around
def _wrap_codegen(original: Callable[..., Any], lowering: Any) -> Any:
    made = original(lowering)
    rewrite = getattr(_active, "rewrite", None)
    if rewrite is not None:
        made[0].value = rewrite(lowering, made[0].value)
    return made


SITE = HookSite("localization", "torch._inductor.graph", "GraphLowering.codegen", _wrap_codegen)
"""The function of Inductor that generates the wrapper."""


def wrapper_function(source: str) -> ast.FunctionDef | None:
    """The function of a wrapper that calls the kernels."""
    functions = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    return next((each for each in functions if each.name == "call"), None)


def _instrumented(lowering: Any, source: str, observer: KernelObserver) -> str:
    """The same source with reporting lines, and a call of ``observer.generated``."""
    function = wrapper_function(source)
    if function is None:
        return source
    wrapper = _Wrapper(lowering, source, function, with_arguments=isinstance(observer, ArgumentObserver))
    for statement in statements_of(function.body):
        wrapper.add(statement)
    graph = GeneratedGraph(
        copy_graph_module(lowering.module),
        wrapper.inputs,
        tuple(wrapper.calls),
        bool(lowering.is_backward),
        frozenset(wrapper.reused),
    )
    names = {**wrapper.holds, **{_final(name): node for name, node in wrapper.finals.items()}}
    _watched[wrapper.token] = _Watched(observer, graph, names, wrapper.plans)
    observer.generated(graph)
    return f"from {__name__} import before as {_BEFORE}, report as {_REPORT}\n" + wrapper.text()


class _Wrapper:
    """The source of a wrapper while reporting lines are added, one statement after the other."""

    def __init__(self, lowering: Any, source: str, function: ast.FunctionDef, *, with_arguments: bool) -> None:
        self.token = next(_tokens)
        self.inputs = tuple(lowering.graph_input_names)
        self.holds, self.origins = _held_nodes(lowering)
        self.finals = _final_nodes(lowering)
        self.calls: list[KernelCall] = []
        self.plans: dict[int, ArgumentPlan] = {}
        self.reused: set[str] = set()
        self._source = source
        self._with_arguments = with_arguments
        self._last_writes = _last_writes(function, source, self.finals)
        self._lines = source.split("\n")
        self._ahead: dict[int, str] = {}
        self._behind: dict[int, list[str]] = {}
        self._kernel_of: dict[str, str] = {}
        self._call_of: dict[str, int] = {}

    def add(self, statement: ast.stmt) -> None:
        """Add the reporting lines of one statement."""
        if isinstance(statement, ast.Return) and statement.value is not None:
            first, end = statement.lineno - 1, statement.end_lineno or statement.lineno
            ahead, _, value = "\n".join(self._lines[first:end]).partition("return ")
            call = f"{ahead}return {_REPORT}({self.token}, -2, {value.rstrip()})"
            self._lines[first:end] = [call, *[""] * (end - first - 1)]
            return
        if isinstance(statement, ast.Expr) and _callee(statement) == "args.clear":
            self._report(statement, -1, dict(zip(self.inputs, self.inputs, strict=True)))
            return
        self.reused.update(_taken_over(statement, self.inputs))
        kernel, names = kernel_called(statement, self._kernel_of)
        new = [name for name in names if name not in self._call_of]
        self._kernel_of.update(dict.fromkeys(names, kernel))
        done = self._last_writes.get(statement, [])
        if kernel and (new or done):
            self._report_call(statement, kernel, new, done)

    def text(self) -> str:
        """The source with the reporting lines."""
        pieces: list[str] = []
        for number, line in enumerate(self._lines, 1):
            if number in self._ahead:
                pieces.append(self._ahead[number])
            pieces += [line, *self._behind.get(number, ())]
        return "\n".join(pieces)

    def _report(self, statement: ast.stmt, index: int, names: Mapping[str, str]) -> None:
        """Call :func:`report` behind a statement; ``names`` are the reported names → local names."""
        values = "{" + ", ".join(f"{reported!r}: {name}" for reported, name in names.items()) + "}"
        line = f"{' ' * statement.col_offset}{_REPORT}({self.token}, {index}, {values})"
        self._behind.setdefault(statement.end_lineno or statement.lineno, []).append(line)

    def _report_call(self, statement: ast.stmt, kernel: str, new: list[str], done: list[str]) -> None:
        """Report the buffers that a kernel call is the first to touch, and those it is the last to write to."""
        index = len(self.calls)
        nodes = (*(self.holds[name] for name in new if name in self.holds), *(self.finals[name] for name in done))
        into = dict.fromkeys((*(origin for name in new for origin in self.origins.get(name, ())), *nodes))
        self._report(statement, index, {**dict(zip(new, new, strict=True)), **{_final(name): name for name in done}})
        made_by = -1
        match statement:
            case ast.Assign(value=ast.Subscript(value=ast.Name(id=several))):  # buf10 = buf9[0]
                made_by = self._call_of.get(several, -1)
        self.calls.append(KernelCall(index, kernel, nodes, tuple(into), made_by))
        self._call_of.update(dict.fromkeys(new, index if made_by < 0 else made_by))
        planned = plan_of(statement, self._source, self.holds, new) if self._with_arguments else None
        if planned is not None:
            self.plans[index] = planned[1]
            call = planned[0]
            args = "".join(f"{ast.unparse(argument)}, " for argument in call.args)
            kwargs = ", ".join(f"{keyword.arg!r}: {ast.unparse(keyword.value)}" for keyword in call.keywords)
            given = f"{ast.unparse(call.func)}, ({args}), {{{kwargs}}}"
            self._ahead[statement.lineno] = f"{' ' * statement.col_offset}{_BEFORE}({self.token}, {index}, {given})"


def _final(name: str) -> str:
    """The reported name of a buffer after its last write."""
    return f"{name} at last"


def _last_writes(function: ast.FunctionDef, source: str, names: Collection[str]) -> dict[ast.stmt, list[str]]:
    """Statement → those of the names that it is the last to write into."""
    if not names:
        return {}
    last: dict[str, ast.stmt] = {}
    for statement in statements_of(function.body):
        last |= dict.fromkeys(written_by(statement, source).intersection(names), statement)
    found: dict[ast.stmt, list[str]] = {}
    for name, statement in last.items():
        found.setdefault(statement, []).append(name)
    return found


def statements_of(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Every plain statement, also those in ``with`` blocks (device guards), in order."""
    for statement in body:
        if isinstance(statement, ast.With):
            yield from statements_of(statement.body)
        else:
            yield statement


def _taken_over(statement: ast.stmt, inputs: tuple[str, ...]) -> set[str]:
    """The inputs whose memory becomes a buffer: ``buf3 = primals_7; del primals_7  # reuse``, also reinterpreted."""
    if not isinstance(statement, ast.Assign):
        return set()
    value = statement.value
    is_view = isinstance(value, ast.Call) and ast.unparse(value.func).startswith("reinterpret_tensor")
    if not (isinstance(value, ast.Name) or is_view):
        return set()
    return {node.id for node in ast.walk(value) if isinstance(node, ast.Name)} & set(inputs)


def kernel_called(statement: ast.stmt, made_by: Mapping[str, str]) -> tuple[str, list[str]]:
    """The kernel that a statement calls (empty for none), and the buffers in the statement."""
    if not isinstance(statement, ast.Expr | ast.Assign):
        return "", []
    value = statement.value
    names = [node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and _BUFFER.fullmatch(node.id)]
    if isinstance(statement, ast.Assign) and isinstance(value, ast.Subscript):  # buf10 = buf9[0]: one result of several
        return made_by.get(names[-1], "") if names else "", names[:1]
    if not (callee := _callee(statement)) or callee.startswith(_ALLOCATIONS):
        return "", []
    return callee, list(dict.fromkeys(names))


def _callee(statement: ast.Expr | ast.Assign) -> str:
    return ast.unparse(statement.value.func) if isinstance(statement.value, ast.Call) else ""


def _held_nodes(lowering: Any) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Buffer → the node whose value it holds, and buffer → every node that went into it.

    A buffer whose every reader is in its own kernel is never stored, though the kernel may be given memory for it.
    """
    holds: dict[str, str] = {}
    origins: dict[str, tuple[str, ...]] = {}
    mutated = {name for buffer in (*lowering.buffers, *lowering.operations) for name in _mutated(buffer)}
    never_stored = {*lowering.removed_buffers, *lowering.inplaced_to_remove}
    for buffer in lowering.buffers:
        name, node = buffer.get_name(), getattr(buffer, "origin_node", None)
        origins[name] = tuple(each.name for each in getattr(buffer, "origins", ()))
        if node is not None and name not in mutated | never_stored and node.op == "call_function":
            holds[name] = node.name
    return holds, origins


def _final_nodes(lowering: Any) -> dict[str, str]:
    """Buffer or input that is written to again → the node whose value it holds in the end."""
    order = {node.name: number for number, node in enumerate(lowering.module.graph.nodes)}
    real: dict[str, str] = {}
    finals: dict[str, str] = {}
    for buffer in lowering.buffers:
        mutated = _mutated(buffer)
        origins = sorted(
            (each for each in getattr(buffer, "origins", ()) if each.name in order), key=lambda each: order[each.name]
        )
        if len(mutated) != 1:
            for name in mutated:
                finals.pop(real.get(name, name), None)
            continue
        name = real[buffer.get_name()] = real.get(mutated[0], mutated[0])
        finals.pop(name, None)
        if origins and (node := _value_written(origins[-1])) is not None:
            finals[name] = node.name
    return finals


def _value_written(node: torch.fx.Node) -> torch.fx.Node | None:
    """The node whose value is in memory after one that writes there: ``copy_`` writes its second argument."""
    if "copy_" in node.name and len(node.args) > 1:
        source = node.args[1]
        return source if isinstance(source, torch.fx.Node) and source.op == "call_function" else None
    return node


def _mutated(buffer: Any) -> list[str]:
    """The buffers and inputs that a buffer's operation writes into again."""
    names = getattr(buffer, "get_mutation_names", None)
    return list(names()) if callable(names) else []
