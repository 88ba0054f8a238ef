"""How things are said: icons, plurals, sizes, short names, and text that cannot break out of its line."""

from __future__ import annotations

import re
from typing import Final

from inductor_debug_jupyter.pipeline.records import NodeRecord, Severity, SourceLine, TensorSpec
from inductor_debug_jupyter.pipeline.words import plain as plain

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "info")
"""Worst first."""

ICONS: Final[dict[str, str]] = {"error": "✗", "warning": "⚠", "info": "ℹ"}
RANK: Final[dict[str, int]] = {severity: rank for rank, severity in enumerate(SEVERITIES)}

_BUILTIN = re.compile(r"<(?:built-in )?(?:function|method|method descriptor) '?([\w.]+)")
_OVERLOADED = re.compile(r"(?:^|\.)(?:aten|prims|inductor|quantized|higher_order|\w+_lib)\.(\w+)(?:\.\w+)?$")
_DTYPES: Final[dict[str, str]] = {
    "float64": "f64", "float32": "f32", "float16": "f16", "bfloat16": "bf16",
    "int64": "i64", "int32": "i32", "int16": "i16", "int8": "i8", "uint8": "u8", "bool": "b8",
}  # fmt: skip


def clip(text: str, width: int) -> str:
    """``text``, cut with an ellipsis when it is longer than ``width``."""
    return text if len(text) <= width else text[: width - 1] + "…"


def count(number: int, noun: str) -> str:
    """``1 graph``, ``1,200 graphs``."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size(nbytes: int) -> str:
    """``38 MiB``; three significant digits."""
    value, units = float(nbytes), ["B", "KiB", "MiB", "GiB", "TiB"]
    while value >= 1000 and len(units) > 1:
        value, units = value / 1024, units[1:]
    return f"{value:.3g} {units[0]}"


def duration(seconds: float) -> str:
    """``1.4 s`` or ``35 ms``."""
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


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
