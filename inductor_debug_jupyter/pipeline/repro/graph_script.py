"""A live graph, its inputs and a check → one script for a reader who has torch but not this package.

The graph is written as torch.fx writes it, the names that it uses are imported, and ``failure(graph, inputs)`` returns
a description of the failure, or None if it does not show. Nothing is pickled. Exit code 0: the failure shows; 1: it
does not; 2: it cannot be run here, since a package is missing.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from string import Template
from types import ModuleType
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.capture.graphs import lines_of
from inductor_debug_jupyter.pipeline.errors import ReproError
from inductor_debug_jupyter.pipeline.harmless import one_line
from inductor_debug_jupyter.pipeline.repro.values import expression, makers_of
from inductor_debug_jupyter.pipeline.torch_compat.graphs import copied_graph, module_path_of

_SCRIPT = Template('''\
"""$title

Size: $size. Made with torch $torch_version. Needs $needs.
Exit code 0: the failure shows; 1: it does not; 2: it cannot be run here.
"""

$imports
try:
    import torch$backend
except ImportError as error:
    print(f"this cannot be run here: {error}")
    sys.exit(2)
$setup
$makers

$origins
class Graph(torch.nn.Module):
$graph

def make_inputs():
    return [
$inputs
    ]


$check

def main():
    shown = failure(Graph(), make_inputs())
    if shown is None:
        print("the failure does NOT show")
        return 1
    print("the failure shows: " + shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
''')

NEEDS_TORCH = "torch only"
OWN_CODE = "# yours:"
"""The comment before a function of the user's own that a script needs."""
ORIGIN = "your line of "
"""How the comments begin that hold lines of the user's own source."""
_KNOWN = frozenset({"inf", "nan", "NoneType", "torch", "device", "fx_pytree", "pytree"})
_NAMESPACES = frozenset({"aten", "prims", "prim", "inductor", "higher_order"})


@dataclass(frozen=True)
class FailureCheck:
    """The check of a script.

    ``source`` defines ``failure(graph, inputs)``; ``title`` is the script's first line; ``imports`` are the lines that
    ``source`` needs; ``needs`` names the packages that have to be installed; ``backend`` are the lines that import or
    define the backend.
    """

    source: str
    title: str
    imports: tuple[str, ...] = ()
    needs: str = NEEDS_TORCH
    backend: str = ""


def graph_script(
    gm: torch.fx.GraphModule,
    inputs: Sequence[Any],
    check: FailureCheck,
    *,
    size: str = "",
    exact: bool = True,
    setup: Sequence[str] = (),
) -> str:
    """The script.

    Args:
        gm: the graph.
        inputs: its inputs.
        check: decides whether the failure shows.
        size: how much of the whole graph this is, for the reader.
        exact: keep the exact values of large inputs instead of drawing them from a seed.
        setup: the caller's lines to run first, such as settings of torch.

    Raises:
        ReproError: the graph or an input cannot be written.
    """
    imports, init, forward = _graph_source(gm)
    written = "\n".join(f"{expression(value, seed, exact=exact)}," for seed, value in enumerate(inputs))
    graph = init + forward
    own = ["import sys", *check.imports, *imports, *_used(graph + written)]
    is_import = check.backend.startswith(("import ", "from ")) and "\n" not in check.backend
    imported = check.backend if is_import else ""
    own_code = f"{OWN_CODE}\n{check.backend}\n\n\n" if check.backend and not imported else ""
    script = _SCRIPT.substitute(
        title=comment(check.title),
        size=comment(size or f"{len(calls_of(gm))} ops"),
        torch_version=comment(torch.__version__),
        imports="\n".join(dict.fromkeys(sorted(own))) + "\n",
        needs=comment(check.needs),
        backend=f"\n    {imported}" if imported else "",
        setup="".join(f"\n{line}" for line in (*_names(graph + written), *setup)),
        makers=makers_of(written),
        origins="".join(f"# {line}\n" for line in _origins(gm)),
        graph=textwrap.indent(graph, "    "),
        inputs=textwrap.indent(written, "        "),
        check=own_code + check.source.strip("\n") + "\n",
    )
    try:
        compile(script, "<repro>", "exec")
    except SyntaxError as error:
        raise ReproError(f"the graph cannot be written as Python ({error.msg})") from None
    return script


def _used(text: str) -> list[str]:
    """The imports for what the inputs are written with."""
    return ["import base64", "import zlib"] if "packed(" in text else []


def _names(text: str) -> list[str]:
    """The imports for names that code of torch.fx uses without saying so."""
    lines = {"inf": "from math import inf", "nan": "from math import nan", "device": "from torch import device"}
    return [line for name, line in lines.items() if re.search(rf"(?<![.\w]){name}\b", text)]


def _origins(gm: torch.fx.GraphModule) -> list[str]:
    """For each op the user's line that it comes from, to be read beside the graph."""
    found = []
    for node in calls_of(gm):
        line, _ = lines_of(node)
        if line is not None:
            where = f" in {path}" if (path := module_path_of(node)) else ""
            found.append(comment(f"{ORIGIN}{node.name}: {line.file}:{line.line}{where}: {line.text.strip()}"))
    return found


def calls_of(gm: torch.fx.GraphModule) -> list[torch.fx.Node]:
    """The nodes of a graph that compute something."""
    return [node for node in gm.graph.nodes if node.op.startswith("call_")]


def comment(text: str) -> str:
    """Any text as one line that is safe inside a docstring or a comment."""
    return one_line(text).replace("\\", "\\\\").replace('"', "'")


def _graph_source(gm: torch.fx.GraphModule) -> tuple[list[str], str, str]:
    """Import lines, ``__init__`` and ``forward``."""
    copy = copied_graph(gm)
    members: dict[str, str] = {}
    for node in copy.nodes:
        _check_node(node)
        node.type = None
        if node.op == "placeholder":
            node.target = node.name
        elif node.op == "call_module":
            members.setdefault(str(node.target), f"module_{len(members)}")
            node.target = members[str(node.target)]
    code = copy.python_code("self")
    imports = [_import(name, value) for name, value in code.globals.items() if name not in _KNOWN]
    if not members:
        return imports, "", code.src.lstrip("\n")
    lines = ["def __init__(self):", "    super().__init__()"]
    for target, name in members.items():
        lines += _member(name, gm.get_submodule(target))
    return imports, "\n".join(lines) + "\n\n", code.src.lstrip("\n")


def _check_node(node: torch.fx.Node) -> None:
    """Refuse nodes that cannot be written as Python, or whose names are no identifiers."""
    target = node.target
    if node.op == "get_attr":
        raise ReproError(f"{node.name}: the graph holds a part of its module, which a standalone script cannot")
    if not node.name.isidentifier() or (
        isinstance(target, str) and node.op == "call_method" and not target.isidentifier()
    ):
        raise ReproError(f"{target!r} is not a name that a script can hold")
    if not all(key.isidentifier() for key in node.kwargs):
        raise ReproError(f"{node.name}: an argument's name is not one that a script can hold")
    namespace = getattr(target, "namespace", None)
    if isinstance(namespace, str) and namespace not in _NAMESPACES:
        raise ReproError(f"{node.name}: {target} belongs to a library of ops that is not torch's own")


def _import(name: str, value: Any) -> str:
    if isinstance(value, ModuleType) and value.__name__ in {"math", "operator", "_operator", "builtins"}:
        return f"import {value.__name__} as {name}"
    raise ReproError(f"the graph uses {name}, which is not part of torch")


def _member(name: str, module: torch.nn.Module) -> list[str]:
    """The lines that make one of torch's own modules, with its parameters."""
    kind = type(module)
    if not kind.__module__.startswith("torch.nn.modules.") or getattr(torch.nn, kind.__name__, None) is not kind:
        raise ReproError(f"the graph calls a {kind.__name__}, which is not one of torch's own modules")
    made = f"torch.nn.{module!r}"
    try:
        compile(made, "<repro>", "eval")
    except SyntaxError:
        raise ReproError(f"a {kind.__name__} cannot be written as one call") from None
    lines = [f"    self.{name} = {made}"]
    if state := module.state_dict():
        entries = ",\n".join(f"{key!r}: {expression(value.detach(), 0, exact=True)}" for key, value in state.items())
        lines.append(f"    self.{name}.load_state_dict({{\n{entries}\n}})")
    if not module.training:
        lines.append(f"    self.{name}.eval()")
    return lines
