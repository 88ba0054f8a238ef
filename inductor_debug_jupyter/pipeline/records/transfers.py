"""Tensors that went to a device or came back, and the kernels that ran there, as an adapter reports them.

A transfer is one tensor on its way between host and device; a kernel spec is what the
adapter's compiler wrote for one kernel, as JSON of the adapter's own making under ``spec``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records.in_words import InWords

Direction = Literal["copy_to_device", "copy_from_device"]

_RANGES: Final = ("copy_range", "accumulate", "work_division")
"""The keys of a spec that its line shows; the JSON has all of them."""


@dataclass(frozen=True, slots=True)
class Transfer(InWords):
    """One tensor that went to a device or came back.

    Args:
        direction: ``copy_to_device`` or ``copy_from_device``.
        name: the graph's name for it.
        shape: as the host sees it.
        dtype: as the host sees it.
        device_layout: its sizes in device memory, padding included.
        device_dtype: its dtype there.
        bytes: how many bytes it takes there, padding included.
        host_bytes: how many it takes on the host.
        adapter: whose device.
        graph: ``forward``, ``backward``, or whatever the adapter calls the graph.
        compile_id: the compile (``0/0``) that the graph belongs to; empty when unknown.
        values: the first values, as text; empty unless ``transfers=values``.
    """

    direction: Direction
    name: str
    shape: tuple[int, ...]
    dtype: str
    device_layout: tuple[int, ...]
    device_dtype: str = ""
    bytes: int = 0
    host_bytes: int = 0
    adapter: str = ""
    graph: str = ""
    compile_id: str = ""
    values: str = ""

    def __str__(self) -> str:
        """``copy_to_device: shape=[65] dtype=float16 device_layout=[2, 64] device_dtype=float16 bytes=256 name=x``."""
        parts = [
            f"{plain(self.direction)}: shape={list(self.shape)}",
            f"dtype={plain(self.dtype)}",
            f"device_layout={list(self.device_layout)}",
            f"device_dtype={plain(self.device_dtype)}" if self.device_dtype else "",
            f"bytes={self.bytes}",
            f"name={plain(self.name)}" if self.name else "",
            _where(self),
            f"values={plain(self.values)}" if self.values else "",
        ]
        return " ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class KernelSpec(InWords):
    """One kernel that an adapter made, with the spec that its compiler wrote."""

    op: str
    node: str = ""
    adapter: str = ""
    graph: str = ""
    compile_id: str = ""
    spec: dict[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        """``kernel: op=aten.clone.default node=clone copy_range=[2, 64] …``."""
        parts = [f"kernel: op={plain(self.op)}", f"node={plain(self.node)}" if self.node else ""]
        for side in ("inputs", "outputs"):
            if found := layouts(self.spec.get(side)):
                parts.append(f"{side}={plain(found)}")
        parts += [f"{key}={plain(_short(self.spec[key]))}" for key in _RANGES if key in self.spec]
        return " ".join(filter(None, [*parts, _where(self)]))


def spec_lines(spec: Mapping[str, Any]) -> list[str]:
    """A spec in words: a line for each operand, and one for each other entry but the op, its node and its graph."""
    lines = []
    for key, value in spec.items():
        several = isinstance(value, list | tuple) and any(isinstance(each, dict) for each in value)
        for each in value if several else [value] if key not in {"op", "node", "graph"} else []:
            lines.append(plain(f"{key}: {_in_words(each)}"))
    return lines


def _in_words(value: Any) -> str:
    """A value of a spec: ``cores 4, dimension rows`` for a dict, in parentheses where it stands inside of another."""
    if isinstance(value, dict):
        return ", ".join(
            f"{key} ({_in_words(each)})" if isinstance(each, dict) else f"{key} {_in_words(each)}"
            for key, each in value.items()
        )
    if isinstance(value, list | tuple):
        return f"[{', '.join(f'({_in_words(each)})' if isinstance(each, dict) else _in_words(each) for each in value)}]"
    return str(value)


def _where(event: Transfer | KernelSpec) -> str:
    parts = plain(" ".join(filter(None, [event.adapter, event.compile_id, event.graph])))
    return f"({parts})" if parts else ""


def layouts(operands: Any) -> str:
    """The range or layout of each operand in a kernel's spec; an operand that is no dict as text."""
    if not isinstance(operands, list | tuple):
        return ""
    return " ".join(
        str(each.get("range", each.get("device_layout", "?"))) if isinstance(each, dict) else str(each)
        for each in operands
    )


def _short(value: Any) -> str:
    return f"({_in_words(value)})" if isinstance(value, dict) else str(value)
