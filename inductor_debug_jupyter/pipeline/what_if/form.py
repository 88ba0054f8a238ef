"""The fields of the panel's what-if form: what can be changed, and its present value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.devices import DeviceProfile, profile_names
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.formats.arithmetic import NAMED
from inductor_debug_jupyter.pipeline.harmless import plain
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.torch_compat.regions import uncompiled
from inductor_debug_jupyter.pipeline.what_if.inputs import axis_of, inputs_of
from inductor_debug_jupyter.pipeline.what_if.judging import parts_of, present_ops
from inductor_debug_jupyter.pipeline.what_if.numerics import EAGER
from inductor_debug_jupyter.pipeline.what_if.request import RUN_DTYPES, SIZES
from inductor_debug_jupyter.pipeline.words import size

_WORDS = {"supported": "on the target", "decomposable": "decomposed", "fallback": "on the CPU", "refused": "refused"}


def form_view(
    record: SessionRecord, profile: DeviceProfile, calls: Sequence[ModelCall], why_not: str
) -> dict[str, Any]:
    """The fields for one session. ``why_not`` says why the model cannot run again; then only the judging can change."""
    limit = profile.peak_limit or profile.memory_limit
    return {
        "targets": list(dict.fromkeys([*profile_names(), plain(record.target)])),
        "target": plain(record.target),
        "alignment": str(profile.alignment) if profile.alignments else "none",
        "max_memory": size(limit) if limit else "none",
        "dtypes": list(RUN_DTYPES),
        "dtype": dtype_of(calls),
        "numerics": [*NAMED, EAGER],
        **{kind: _size_field(kind, calls) for kind in SIZES},
        "ops": _op_fields(record, profile),
        "why_not": plain(why_not),
    }


def dtype_of(calls: Sequence[ModelCall]) -> str:
    """The dtype of the first model: that of its first floating-point weight, else of such an input."""
    for call in calls:
        model = uncompiled(call.model)
        weights = model.parameters() if isinstance(model, torch.nn.Module) else ()
        for tensor in (*weights, *inputs_of(call).values()):
            if tensor.is_floating_point():
                return str(tensor.dtype).removeprefix("torch.")
    return ""


def _size_field(kind: str, calls: Sequence[ModelCall]) -> dict[str, Any]:
    """Present size and dimension of batch or sequence, of the first model that has one; else the first reason."""
    why = ""
    for call in calls:
        inputs = inputs_of(call)
        try:
            axis = axis_of(kind, inputs)
        except OptionError as error:
            why = why or plain(str(error))
            continue
        name, dim = next(iter(axis.items()))
        where = f"dimension {dim} of {' and '.join(axis)}"
        return {"size": int(inputs[name].shape[dim]), "where": plain(where), "why": ""}
    return {"size": None, "where": "", "why": why}


def _op_fields(record: SessionRecord, profile: DeviceProfile) -> list[dict[str, Any]]:
    """Each op's calls, where it runs now, and its known parts; ops that do not run on the target come first."""
    status: dict[str, str] = {}
    for graph in record.coverage.graphs if record.coverage else ():
        for row in graph.rows:  # worst first
            status.setdefault(row.op, row.status)
    rank = ["refused", "fallback", "decomposable", "supported"]
    fields = []
    for op, number in present_ops(record.captures).items():
        became = status.get(op) or next((each for name, each in status.items() if name.startswith(f"{op}_")), "")
        fields.append((rank.index(became) if became in rank else len(rank), -number, op, became))
    return [
        {"op": plain(op), "count": -number, "now": _WORDS.get(became, ""), "parts": ", ".join(parts_of(op, profile))}
        for _, number, op, became in sorted(fields)
    ]
