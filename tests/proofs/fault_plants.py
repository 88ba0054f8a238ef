"""Faults as source code: a few lines with torch alone, run here and, in a repro, before anything else.

A vendor's fault is in what is installed, so that a repro shows it anywhere. A fault that is planted for a proof has to
come with the script: these texts are its ``setup``. :func:`planted` runs one and puts back what it changed.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch._inductor.config as inductor_config
from torch._dynamo.output_graph import OutputGraph
from torch._inductor import decomposition
from torch._inductor.codegen.cpp import CppOverrides, CppVecOverrides
from torch._inductor.lowering import lowerings

_OVERLOADS = """
def _overloads(table, packet):
    return [op for op in table if op is packet or getattr(op, "overloadpacket", None) is packet]
"""

_LOWERING = (
    _OVERLOADS
    + """
from torch._inductor.lowering import lowerings as _lowerings
def _wrong(lower):
    return lambda *args, **kwargs: _lowerings[torch.ops.aten.mul](lower(*args, **kwargs), 1.01)
for _op in _overloads(_lowerings, torch.ops.aten.{op}):
    _lowerings[_op] = _wrong(_lowerings[_op])
"""
)

_DECOMPOSITION = (
    _OVERLOADS
    + """
from torch._inductor import decomposition as _decomposition
def _wrong(decompose):
    return lambda *args, **kwargs: decompose(*args, **kwargs) * 1.01
for _op in _overloads(_decomposition.decompositions, torch.ops.aten.{op}):
    _decomposition.decompositions[_op] = _wrong(_decomposition.decompositions[_op])
_decomposition.fast_random_decomps.cache_clear()
"""
)

_PASS = """
import torch._inductor.config
def _dropping(graph):
    for node in [node for node in graph.nodes if node.target is torch.ops.aten.{op}.default]:
        node.replace_all_uses_with(node.args[0])
        graph.erase_node(node)
torch._inductor.config.{where} = _dropping
"""

_KERNEL = """
from torch._inductor.codegen.cpp import CppOverrides as _Scalar, CppVecOverrides as _Vector
def _wrong(write):
    return staticmethod(lambda x: "(" + write(x) + " * decltype(" + str(x) + ")(1.01f))")
_Scalar.{op}, _Vector.{op} = _wrong(_Scalar.{op}), _wrong(_Vector.{op})
"""

_DYNAMO = """
from torch._dynamo.output_graph import OutputGraph as _OutputGraph
def _dropping(cleanup):
    def cleanup_graph(self):
        for node in [node for node in self.graph.nodes if getattr(node.target, "__name__", node.target) == "{op}"]:
            node.replace_all_uses_with(node.args[0])
            self.graph.erase_node(node)
        return cleanup(self)
    return cleanup_graph
_OutputGraph.cleanup_graph = _dropping(_OutputGraph.cleanup_graph)
"""

_VENDOR = """
import os
import signal
import time

import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd


def _computed(*args, **kwargs):
    {does}


def _compiler(graph, _):
    for node in graph.graph.nodes:
        if node.target is torch.ops.aten.{op}.default:
            {on_node}
    graph.recompile()
    return make_boxed_func(graph.forward)


def _healthy(graph, _):
    return make_boxed_func(graph.forward)


def backend(gm, inputs):
    return aot_autograd(fw_compiler={forward}, bw_compiler={backward})(gm, inputs)
"""

_DOES = {
    "wrong": "return torch.ops.aten.{op}.default(*args, **kwargs) * 1.01",
    "crash": "os.kill(os.getpid(), signal.SIGSEGV)",
    "hang": "time.sleep(100_000)",
    "refuses": "raise AssertionError",
}


def lowering(op: str) -> str:
    """Inductor lowers an op to 1.01 times what it should be."""
    return _LOWERING.format(op=op)


def decomposed(op: str) -> str:
    """Inductor takes an op apart into 1.01 times what it should be."""
    return _DECOMPOSITION.format(op=op)


def dropped_by_pass(op: str, where: str) -> str:
    """A custom pass of Inductor (``joint_custom_pre_pass``, …) takes an op out."""
    return _PASS.format(op=op, where=where)


def kernel(op: str) -> str:
    """The generated C++ writes 1.01 times what it should be."""
    return _KERNEL.format(op=op)


def dropped_by_dynamo(op: str) -> str:
    """Dynamo takes an op out of its graph."""
    return _DYNAMO.format(op=op)


def vendor(op: str, kind: str, *, backward: bool = False) -> str:
    """A backend of its own: ``wrong``, ``crash`` or ``hang`` at an op, or one that it ``refuses`` to compile."""
    refusal = f'raise RuntimeError("acme: {op} is not supported")'
    return _VENDOR.format(
        op=op,
        does=_DOES[kind].format(op=op),
        on_node=refusal if kind == "refuses" else "node.target = _computed",
        forward="_healthy" if backward else "_compiler",
        backward="_compiler" if backward else "_healthy",
    )


_TABLES: tuple[dict[Any, Any], ...] = (lowerings, decomposition.decompositions)
_ATTRIBUTES = (
    (inductor_config, ("joint_custom_pre_pass", "post_grad_custom_post_pass")),
    (OutputGraph, ("cleanup_graph",)),
    (CppOverrides, ("erf", "tanh", "exp")),
    (CppVecOverrides, ("erf", "tanh", "exp")),
)


def _value(owner: Any, name: str) -> Any:
    """An attribute; of a class as the class has it, where a static method is one."""
    return owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)


@contextmanager
def planted(setup: str) -> Iterator[None]:
    """Run a fault's lines, and put back what they changed."""
    tables = [dict(table) for table in _TABLES]
    attributes = [(owner, name, _value(owner, name)) for owner, names in _ATTRIBUTES for name in names]
    try:
        exec(setup, {"torch": sys.modules["torch"]})
        yield
    finally:
        for table, before in zip(_TABLES, tables, strict=True):
            table.clear()
            table.update(before)
        for owner, name, was in attributes:
            setattr(owner, name, was)
        decomposition.fast_random_decomps.cache_clear()


@contextmanager
def installed(folder: Path, source: str) -> Iterator[str]:
    """A vendor's module in a folder of the import path, also for children; its name."""
    name = f"acme_{abs(hash(source)) % 10**8}"
    (folder / f"{name}.py").write_text(source)
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield name
    finally:
        sys.path.remove(str(folder))
        sys.modules.pop(name, None)
