"""Inductor's output code → one record for each kernel, with its own source."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from inductor_debug_jupyter.pipeline.records import KernelRecord

KernelCall = tuple[str, tuple[str, ...]]
"""A kernel's name, and the post-grad nodes that this call of it computes."""


def kernels_of(output_code: str, stage: str, calls: Iterable[KernelCall]) -> tuple[KernelRecord, ...]:
    """The kernels defined in a wrapper module, then the ones of libraries that it calls.

    Inductor assigns each kernel as ``name = async_compile.<language>(…, r'''source''', …)``: the longest string
    argument is the source. The module is parsed, never run. ``calls`` are the kernels as they are called, each with
    the nodes that the call computes.
    """
    called: dict[str, list[tuple[str, ...]]] = {}
    for name, nodes in calls:
        called.setdefault(name, []).append(nodes)
    kernels = [
        KernelRecord(name, code, language, stage, tuple(called.pop(name, ())))
        for name, code, language in _definitions(output_code)
    ]
    lines = output_code.splitlines() if called else []
    for name, nodes_of_calls in called.items():
        uses = "\n".join(line.strip() for line in lines if f"{name}(" in line)
        kernels.append(KernelRecord(name, uses, "extern", stage, tuple(nodes_of_calls)))
    return tuple(kernels)


def _definitions(output_code: str) -> Iterator[tuple[str, str, str]]:
    """Name, source and language of each kernel that the module defines."""
    for statement in ast.parse(output_code).body:
        if not isinstance(statement, ast.Assign) or not isinstance(call := statement.value, ast.Call):
            continue
        function = call.func
        if not (
            isinstance(function, ast.Attribute)
            and isinstance(function.value, ast.Name)
            and function.value.id == "async_compile"
            and isinstance(name := statement.targets[0], ast.Name)
        ):
            continue
        texts = [
            node.value for node in ast.walk(call) if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ]
        language = "cpp" if function.attr.startswith("cpp") else function.attr
        yield name.id, max(texts, key=len, default="").strip("\n"), language
