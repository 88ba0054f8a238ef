"""Read nodes, fake tensors and placeholders of an FX graph: everything about torch's ``meta`` in one place."""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from types import FunctionType
from typing import Any

import torch
import torch.utils._pytree as pytree

_LOCAL_ROOT = re.compile(r"^L\['\w+'\]\.?|^self\.?|^G\['\w+'\]\.?")
_MODULES = re.compile(r"\._modules\['(.*?)'\]|\._(?:parameters|buffers)\['(.*?)'\]")


SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)


def example_value(value: Any) -> Any:
    """A symbolic number's value in the example, without adding a guard; None when it depends on data."""
    return value.node.hint if isinstance(value, SYMBOLIC) else value


def node_value(node: torch.fx.Node) -> Any:
    """The fake value of a node: AOT graphs keep it in ``val``, Dynamo graphs in ``example_value``."""
    meta = node.meta
    return meta["val"] if "val" in meta else meta.get("example_value")


def has_value(node: torch.fx.Node) -> bool:
    """Whether torch kept a value for the node (which may be None: some ops return nothing)."""
    return "val" in node.meta or "example_value" in node.meta


def tensors_of(value: Any) -> list[torch.Tensor]:
    """Every tensor in a node's value."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def storage_of(tensor: torch.Tensor) -> tuple[int, int | None]:
    """The memory of a fake tensor: an id that views share (-1 when unknown), and its bytes (None when symbolic)."""
    if tensor.layout is not torch.strided:
        return -1, None
    try:
        storage = tensor.untyped_storage()
    except NotImplementedError:  # inside vmap a tensor stands for many
        return -1, None
    size = storage.nbytes()
    return storage._cdata, plain if isinstance(plain := plain_size(size), int) else None


def strides_of(tensor: torch.Tensor) -> tuple[int | str, ...] | None:
    """Strides, or None for layouts that have none."""
    if tensor.layout is not torch.strided:
        return None
    return tuple(map(plain_size, tensor.stride()))


def plain_size(size: int | torch.SymInt) -> int | str:
    """A size as a number where it can have no other value, and as an expression where it is open.

    With ``dynamic=True`` a size that a guard has fixed since stays a ``SymInt``, whose expression is a number.
    """
    if isinstance(size, int):
        return size
    number = size.node.maybe_as_int()
    return str(size) if number is None else int(number)


def target_name(node: torch.fx.Node) -> str:
    """A readable, stable name of what a node calls: ``aten.addmm.default``, ``torch.conv2d``, ``relu``."""
    target = node.target
    if isinstance(target, str):
        return target
    if isinstance(target, (torch._ops.OpOverload, torch._ops.OpOverloadPacket)):
        return str(target)
    module = getattr(target, "__module__", None) or ""
    name = getattr(target, "__name__", None) or str(target)
    if module in {"", "builtins"} or module.startswith("torch._C"):
        module = "torch"
    return f"{module.removeprefix('_')}.{name}"


def opaque_calls(graph_module: torch.fx.GraphModule) -> tuple[str, ...]:
    """The user's own functions that a Dynamo graph calls as if they were ops (``torch._dynamo.allow_in_graph``)."""
    return tuple(
        dict.fromkeys(
            target_name(node)
            for node in graph_module.graph.nodes
            if node.op == "call_function" and _is_opaque(node.target)
        )
    )


def _is_opaque(target: Any) -> bool:
    if isinstance(target, torch._ops.HigherOrderOperator):
        return str(target.__name__) in {"flat_apply", "invoke_leaf_function"}
    if not isinstance(target, FunctionType):
        return False
    return target.__name__.startswith("flat_apply") or (target.__module__ or "").partition(".")[0] != "torch"


def modules_of(node: torch.fx.Node) -> list[tuple[str, str]]:
    """Path and class name of the modules that a node is in, outermost first; a backward node has its forward's."""
    stack = node.meta.get("nn_module_stack") or node.meta.get("fwd_nn_module_stack") or {}
    return [(readable_path(str(path)), _class_name(kind)) for path, kind in stack.values()]


def module_path_of(node: torch.fx.Node) -> str:
    """Path of the innermost module that a node is in, or an empty string."""
    around = modules_of(node)
    return around[-1][0] if around else ""


def _class_name(kind: object) -> str:
    name = kind if isinstance(kind, str) else getattr(kind, "__name__", str(kind))
    return name.rsplit(".", 1)[-1]


@functools.lru_cache(maxsize=4096)
def readable_path(expression: str) -> str:
    """``L['self']._modules['net']._parameters['weight']`` → ``net.weight``."""
    dotted = _MODULES.sub(lambda match: "." + (match[1] or match[2] or ""), expression)
    return _LOCAL_ROOT.sub("", dotted)


def outermost_module(graph_module: torch.fx.GraphModule) -> str:
    """Class name of the module that the graph starts in, or an empty string."""
    for node in graph_module.graph.nodes:
        if node.op.startswith("call_") and (stack := node.meta.get("nn_module_stack")):
            return _class_name(next(iter(stack.values()))[1])
    return ""


def placeholder_roles(graph_module: torch.fx.GraphModule) -> list[tuple[str, str]]:
    """Role and readable origin of each placeholder of a Dynamo graph, in order."""
    roles = []
    for node in graph_module.graph.find_nodes(op="placeholder"):
        argument = node.meta.get("grapharg")
        source = getattr(argument, "source", None) or getattr(node, "_dynamo_source", None)
        expression = str(getattr(source, "name", "")) or node.name
        if isinstance(getattr(argument, "_example", None), torch.nn.Parameter) or "_parameters[" in expression:
            role = "parameter"
        elif "_buffers[" in expression:
            role = "buffer"
        else:
            role = "input"
        match = re.fullmatch(r"L\['(\w+)'\](\[.*\])?", expression)
        roles.append((role, match[1] + (match[2] or "") if match else readable_path(expression)))
    return roles


def aot_role(node: torch.fx.Node, dynamo_roles: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Role and origin of an AOT placeholder, through torch's own descriptor of where it came from."""
    descriptor = node.meta.get("desc")
    kind = type(descriptor).__name__
    index = getattr(descriptor, "idx", None)
    if kind == "PlainAOTInput" and isinstance(index, int) and index < len(dynamo_roles):
        return dynamo_roles[index]
    if kind == "TangentAOTInput" or node.name.startswith("tangents"):
        return "tangent", node.name
    if kind in {"ParamAOTInput", "BufferAOTInput"}:
        return ("parameter" if kind.startswith("Param") else "buffer"), str(getattr(descriptor, "target", node.name))
    return ("saved" if descriptor is None else "input"), node.name


def symbol_ranges(graph_module: torch.fx.GraphModule) -> tuple[dict[str, str], dict[str, int]]:
    """Every symbol in the graph's sizes, its range and its value in the example: ``{"s0": "[2, 512]"}, {"s0": 30}``."""
    ranges: dict[str, str] = {}
    hints: dict[str, int] = {}
    for symbol, environment in _free_symbols(graph_module):
        name = str(symbol)
        if name in ranges or (bounds := environment.var_to_range.get(symbol)) is None:
            continue
        upper = "∞" if "oo" in str(bounds.upper) or int(bounds.upper) >= 2**60 else str(bounds.upper)
        ranges[name] = f"[{bounds.lower}, {upper}]"
        if (hint := getattr(environment, "backed_var_to_val", {}).get(symbol)) is not None:
            hints[name] = int(hint)
    return ranges, hints


def _free_symbols(graph_module: torch.fx.GraphModule) -> Iterator[tuple[Any, Any]]:
    leaves = pytree.tree_leaves([node_value(node) for node in graph_module.graph.nodes])
    sizes = (size for leaf in leaves for size in (leaf.shape if isinstance(leaf, torch.Tensor) else (leaf,)))
    for size in sizes:
        if isinstance(size, torch.SymInt):
            yield from ((symbol, size.node.shape_env) for symbol in size.node.expr.free_symbols)


def composite_of(node: torch.fx.Node) -> tuple[str, str]:
    """The op that a decomposition replaced by this node and others, and which call of it; empty when none did."""
    if node.target is operator.getitem and isinstance(node.args[0], torch.fx.Node):
        return composite_of(node.args[0])
    original = node.meta.get("original_aten")
    if node.op != "call_function" or original is None or str(original) == str(node.target):
        return "", ""
    origins = node.meta.get("from_node")
    return str(original), f"{node.meta.get('seq_nr', '')}/{origins[0].name if origins else ''}"


def mutated_inputs(node: torch.fx.Node) -> tuple[str, ...]:
    """The inputs that a node writes to; ``<rng>`` when it draws random numbers, ``<effect>`` for any other effect."""
    target = node.target
    if isinstance(target, torch._ops.OpOverload):
        return _written_by_schema(node, target)
    if node.op == "call_method" and isinstance(target, str) and target.endswith("_") and not target.endswith("__"):
        first = node.args[0] if node.args else None
        return (first.name,) if isinstance(first, torch.fx.Node) else ()
    if node.op == "call_function" and target is operator.setitem and isinstance(node.args[0], torch.fx.Node):
        return (node.args[0].name,)
    if node.op == "call_function" and isinstance(target, torch._ops.HigherOrderOperator):
        return ("<effect>",)
    return ()


def is_view(node: torch.fx.Node) -> bool:
    """Whether a node is a view of its input's memory, or takes one of several views."""
    if node.target is operator.getitem and isinstance(node.args[0], torch.fx.Node):
        return is_view(node.args[0])
    return isinstance(node.target, torch._ops.OpOverload) and node.target.is_view


def argument_names(node: torch.fx.Node) -> tuple[str, ...]:
    """The op's parameter names of a node's positional arguments; ``arg0`` and so on where the op has none."""
    target = node.target
    names = ["self"] if node.op == "call_method" else []
    if isinstance(target, torch._ops.OpOverload):
        names = [argument.name for argument in target._schema.arguments]
    elif callable(target):
        with contextlib.suppress(TypeError, ValueError):  # a built-in without a signature
            parameters = inspect.signature(target).parameters.values()
            names = [
                each.name for each in parameters if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}
            ]
    return tuple(names[at] if at < len(names) else f"arg{at}" for at in range(len(node.args)))


def has_zero_dropout(node: torch.fx.Node) -> bool:
    """Whether an op that may draw random numbers does not: attention with a dropout of 0."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload):
        return False
    for position, argument in enumerate(target._schema.arguments):
        if argument.name == "dropout_p":
            given = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name, 0.0)
            return isinstance(given, int | float) and given == 0
    return False


def _written_by_schema(node: torch.fx.Node, target: torch._ops.OpOverload) -> tuple[str, ...]:
    effects, arguments = _schema_effects(target)
    if not arguments:
        return effects
    given = [node.args[at] if at < len(node.args) else node.kwargs.get(name) for at, name in arguments]
    written = [leaf.name for leaf in pytree.tree_leaves(given) if isinstance(leaf, torch.fx.Node)]
    return (*dict.fromkeys(written), *effects)


@functools.cache
def _schema_effects(target: torch._ops.OpOverload) -> tuple[tuple[str, ...], tuple[tuple[int, str], ...]]:
    """Side effects of an op, and position and name of the arguments that it writes to."""
    effects = ("<rng>",) if torch.Tag.nondeterministic_seeded in target.tags else ()
    written = tuple(
        (position, argument.name)
        for position, argument in enumerate(target._schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    )
    if not written and not target._schema.returns:
        effects = (*effects, "<effect>")
    return effects, written


def copy_graph_module(graph_module: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A copy of the graph in a module of its own, sharing parameters: lowering changes the copy only."""
    return module_around(copied_graph(graph_module), graph_module)


def module_around(graph: torch.fx.Graph, original: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """A module for a changed copy of a graph, with the parameters and the meta data of the original's."""
    made = torch.fx.GraphModule(original, graph)
    made.meta.update(original.meta)
    for name in ("_param_name_to_source", "_source_to_user_stacks"):
        if hasattr(original, name):
            setattr(made, name, getattr(original, name))
    return made


def copied_graph(graph_module: torch.fx.GraphModule) -> torch.fx.Graph:
    """A copy of the graph alone. Making a module around it compiles its code, which takes longer than the copy."""
    graph = torch.fx.Graph()
    graph.output(graph.graph_copy(graph_module.graph, {}))
    for old, new in zip(graph_module.graph.nodes, graph.nodes, strict=True):
        new.name = old.name
        new.meta = dict(old.meta)
        if hasattr(old, "_dynamo_source"):
            new._dynamo_source = old._dynamo_source
    return graph


def deferred_graph_text(graph_module: torch.fx.GraphModule) -> Callable[[], str]:
    """Copy the graph as it is now; the function that is returned renders it.

    The module around the copy is made only when rendering: making one compiles the graph's code, which costs more than
    the copy.
    """
    graph = copied_graph(graph_module)
    held = {
        str(node.target): attrgetter(str(node.target))(graph_module)
        for node in graph.nodes
        if node.op in {"get_attr", "call_module"}
    }
    name = type(graph_module).__name__

    def text() -> str:
        module = torch.fx.GraphModule(held, graph, class_name=name)
        return str(module.print_readable(print_output=False, include_stride=True, include_device=True))

    return text


def origins_by_sequence(graph_module: torch.fx.GraphModule) -> dict[int, tuple[str, ...]]:
    """Sequence number → the Dynamo nodes behind the forward ops that have it.

    AOTAutograd notes on each forward op the Dynamo node that it was traced from, and gives a backward op the sequence
    number of the forward op whose gradient it computes.
    """
    found: dict[int, dict[str, None]] = {}
    for node in graph_module.graph.nodes:
        number = node.meta.get("seq_nr")
        if number is not None:
            found.setdefault(number, {}).update(dict.fromkeys(_traced_from(node)))
    return {number: tuple(names) for number, names in found.items() if names}


def origins_of(node: torch.fx.Node, by_sequence: Mapping[int, tuple[str, ...]]) -> tuple[str, ...]:
    """The Dynamo nodes that a node of a later graph was made from."""
    if not node.op.startswith("call_"):
        return ()
    return _traced_from(node) or by_sequence.get(node.meta.get("seq_nr", -1), ())


def _traced_from(node: torch.fx.Node) -> tuple[str, ...]:
    """The nodes at the start of a node's chain of origins: those of the graph that the backend was given, Dynamo's."""
    names: dict[str, None] = {}
    for source in node.meta.get("from_node") or ():
        while source.from_node:
            source = source.from_node[0]
        names[str(source.name)] = None
    return tuple(names)


def computes_nothing(graph_module: torch.fx.GraphModule | None) -> bool:
    """Whether all that a graph does is to make tensors without values: what Inductor leaves on the meta device."""
    calls = [node.target for node in graph_module.graph.nodes if node.op == "call_function"] if graph_module else []
    return bool(calls) and set(calls) == {torch.ops.aten.empty_strided.default}


def is_aten(target: Any) -> bool:
    """Whether a node calls an op of torch itself (``aten`` or ``prims``), and not a library's, Python or a subgraph."""
    return isinstance(target, torch._ops.OpOverload) and target.namespace in {"aten", "prims"}


def writes_into_operands(target: Any) -> bool:
    """Whether an op changes what it is given."""
    return isinstance(target, torch._ops.OpOverload) and bool(target._schema.is_mutable)


def effects_as_ops(graph_module: torch.fx.GraphModule) -> None:
    """Replace ``with_effects(token, op, *args) -> (token, *results)`` by the plain call of ``op``.

    AOTAutograd threads the token through ops with effects (checks that raise) to keep their order; a graph that is run
    node by node does not need it.
    """
    graph = graph_module.graph
    for node in list(graph.nodes):
        if getattr(node.target, "__name__", "") != "with_effects":
            continue
        token, op, *args = node.args
        with graph.inserting_before(node):
            call = graph.call_function(op, tuple(args), dict(node.kwargs))
        _, *values = node.meta.get("val", (None,))
        returns = len(op._schema.returns)
        call.meta = {**node.meta, "val": values[0] if returns == 1 else tuple(values) if returns else None}
        for user in list(node.users):
            index = user.args[1]
            if index == 0:
                user.replace_all_uses_with(token)
                graph.erase_node(user)
            elif returns <= 1:
                user.replace_all_uses_with(call)
                graph.erase_node(user)
            else:
                user.args = (call, index - 1)
        graph.erase_node(node)
    graph_module.recompile()
