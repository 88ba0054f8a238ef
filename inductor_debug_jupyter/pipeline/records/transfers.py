"""Tensors that went to a device or came back, and the kernels that ran there, as an adapter reports them.

A transfer is one tensor on its way between host and device; a kernel spec is what the
adapter's compiler wrote for one kernel, as JSON of the adapter's own making under ``spec``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

Direction = Literal["copy_to_device", "copy_from_device"]


@dataclass(frozen=True, slots=True)
class Transfer:
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


@dataclass(frozen=True, slots=True)
class KernelSpec:
    """One kernel that an adapter made, with the spec that its compiler wrote."""

    op: str
    node: str = ""
    adapter: str = ""
    graph: str = ""
    compile_id: str = ""
    spec: dict[str, Any] = field(default_factory=dict)
