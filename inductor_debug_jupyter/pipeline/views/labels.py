"""What nodes, ops, tensors and lines are called: as short as people say it."""

from __future__ import annotations

import re
from typing import Final

from inductor_debug_jupyter.pipeline.records import NodeRecord, SourceLine, TensorSpec

_BUILTIN = re.compile(r"<(?:built-in )?(?:function|method|method descriptor) '?([\w.]+)")

_OVERLOADED = re.compile(r"(?:^|\.)(?:aten|prims|inductor|quantized|higher_order|\w+_lib)\.(\w+)(?:\.\w+)?$")

_DTYPES: Final[dict[str, str]] = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16",
    "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "bool",
}  # fmt: skip


def label_of(line: SourceLine) -> str:
    """What a person calls the file of that line."""
    return line.label or line.file


def short_op(target: str, module_type: str = "") -> str:
    """The op as people say it: ``aten.addmm.default`` → ``addmm``, ``torch.nn.functional.gelu`` → ``gelu``."""
    if builtin := _BUILTIN.search(target):
        return builtin.group(1).rpartition(".")[2]
    if overloaded := _OVERLOADED.search(target):
        return overloaded.group(1)
    last = target.rpartition(".")[2]
    return module_type if last.isdigit() and module_type else last or target


def short_tensor(tensor: TensorSpec) -> str:
    """Shape and dtype in as few characters as can be: ``8×784 f16``; a scalar is just its dtype."""
    dtype = tensor.dtype.removeprefix("torch.")
    return f"{'×'.join(map(str, tensor.shape))} {_DTYPES.get(dtype, dtype)}".strip()


def op_of(node: NodeRecord) -> str:
    """The node's short op name; inputs, attributes and the output go by their own name."""
    return short_op(node.target, node.module_type) if node.is_call else node.name
