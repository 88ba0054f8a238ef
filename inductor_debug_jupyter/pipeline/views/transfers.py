"""Transfers between host and device, and the device's kernels: a summary, and rows for the Transfers tab."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence

from inductor_debug_jupyter.pipeline import words
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import KernelSpec, NodeRecord, SessionRecord, Transfer
from inductor_debug_jupyter.pipeline.records.transfers import layouts
from inductor_debug_jupyter.pipeline.views.labels import short_op
from inductor_debug_jupyter.pipeline.views.places import Lookup
from inductor_debug_jupyter.pipeline.views.view_types import Row, Selection

_FLAT_LIST = re.compile(r"\[\n\s+([^\[\]{}]*?)\n\s*\]")
_BREAK = re.compile(r"(?<=,)\n\s+")
"""In an indented JSON text line breaks stand between values only: those inside a text are escaped."""


def transfers_view(record: SessionRecord, lookup: Lookup | None = None, *, limit: int | None = None) -> Row:
    """The Transfers tab: a summary in one line, and a row for each transfer and kernel; ``left_out`` counts the rest.

    Args:
        record: the session.
        lookup: the record's lookup, where the caller has one.
        limit: at most so many transfers and so many kernels; the summary counts all.
    """
    lookup = lookup or Lookup(record)
    rows = [_transfer_row(transfer, lookup) for transfer in record.transfers[:limit]]
    kernels = [_kernel_row(kernel, lookup) for kernel in record.kernel_specs[:limit]]
    return Row(
        summary=transfers_summary(record.transfers, record.kernel_specs),
        transfers=rows,
        kernels=kernels,
        left_out=len(record.transfers) - len(rows) + len(record.kernel_specs) - len(kernels),
    )


def transfers_summary(transfers: Sequence[Transfer], kernels: Sequence[KernelSpec] = ()) -> str:
    """``3 transfers to the device (1.2 MiB), 1 back (256 B), 12 kernels``."""
    parts = []
    for direction, where in (("copy_to_device", "to the device"), ("copy_from_device", "back")):
        those = [transfer for transfer in transfers if transfer.direction == direction]
        if those:
            total = words.size(sum(transfer.bytes for transfer in those))
            parts.append(f"{words.count(len(those), 'transfer')} {where} ({total})")
    if kernels:
        parts.append(words.count(len(kernels), "kernel"))
    return ", ".join(parts)


def kernel_json(kernel: KernelSpec) -> str:
    """The spec as a JSON text, as the adapter wrote it; a list of plain values stands on one line."""
    whole = json.dumps(kernel.spec, indent=2, ensure_ascii=False)
    return _FLAT_LIST.sub(lambda found: f"[{_BREAK.sub(' ', found[1])}]", whole)


def _sizes(shape: Sequence[int]) -> str:
    return "×".join(map(str, shape))


def _transfer_row(transfer: Transfer, lookup: Lookup) -> Row:
    """One transfer: in words, its log line, size, share of padding, and the selection of the tensor's node."""
    elements, cells = math.prod(transfer.shape), math.prod(transfer.device_layout)
    waste = 1 - elements / cells if cells else 0.0
    there = f"{_sizes(transfer.device_layout)} {plain(transfer.device_dtype)}".strip()
    here = f"{_sizes(transfer.shape)} {plain(transfer.dtype)}".strip()
    ways = (here, there) if transfer.direction == "copy_to_device" else (there, here)
    parts = [plain(transfer.name), " → ".join(filter(None, ways))]
    return Row(
        line=str(transfer),
        text=" · ".join(filter(None, parts)),
        direction=transfer.direction,
        size=words.size(transfer.bytes),
        padding=f"{waste:.0%}",
        selection=_node_of(transfer, transfer.name, lookup),
    )


def _kernel_row(kernel: KernelSpec, lookup: Lookup) -> Row:
    """One kernel: in words, its log line, its spec as JSON, and the selection of its node."""
    op, reads, makes = short_op(plain(kernel.op)), *(layouts(kernel.spec.get(each)) for each in ("inputs", "outputs"))
    moved = plain(" → ".join(filter(None, [reads, makes])))
    parts = [op, "" if kernel.node == op else plain(kernel.node), moved]
    return Row(
        line=str(kernel),
        text=" · ".join(filter(None, parts)),
        spec=kernel_json(kernel),
        selection=_node_of(kernel, kernel.node, lookup),
    )


def _node_of(event: Transfer | KernelSpec, name: str, lookup: Lookup) -> Selection | None:
    """The selection of the captured node that an adapter's event names.

    The event's own graph is searched first. The event of another run (a comparison compiles again) can name a compile
    that was not captured; then a node of that name counts if it has the same op or shape, too.
    """
    if not name:
        return None
    own = (event.compile_id, event.graph)
    rank = {key: (key != own, key[0] != event.compile_id, key[1] != event.graph) for key in lookup.graphs}
    for key in sorted(lookup.graphs, key=rank.__getitem__):
        node = lookup.graphs[key].node(name)
        if node is not None and (key == own or _is_same(event, node)):
            return lookup.of_node(*key, node)
    return None


def _is_same(event: Transfer | KernelSpec, node: NodeRecord) -> bool:
    if isinstance(event, KernelSpec):
        return node.target == event.op
    return node.shape is not None and tuple(node.shape) == event.shape
