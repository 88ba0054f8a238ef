"""Inductor's output code → one record for each kernel, with its own source."""

from __future__ import annotations

import ast

from inductor_debug_jupyter.pipeline.records import KernelRecord


def kernels_of(output_code: str, stage: str) -> tuple[KernelRecord, ...]:
    """The kernels defined in a wrapper module.

    Inductor assigns each kernel as ``name = async_compile.<language>(…, r'''source''', …)``: the longest string
    argument is the source. The module is parsed, never run.
    """
    kernels = []
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
        kernels.append(KernelRecord(name.id, max(texts, key=len, default="").strip("\n"), language, stage))
    return tuple(kernels)
