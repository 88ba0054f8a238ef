"""What a model gave on another machine, in one safetensors file: a device needs no notebook to be compared.

The file holds every tensor under its path (``logits``, ``grad:layer.weight``), and in its metadata, as JSON under
``inductor_debug``, a manifest: what was recorded, with what, and the values that are no tensors. A file without a
manifest, written by any program that can write safetensors, is read as well: its names are the paths. Tensors are read
one at a time, when they are looked at.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.outputs import compare_flat, unless_too_small
from inductor_debug_jupyter.pipeline.diff.report import DiffReport, overall_verdict
from inductor_debug_jupyter.pipeline.errors import NotFoundError, UsageError
from inductor_debug_jupyter.pipeline.harmless import quoted
from inductor_debug_jupyter.pipeline.reading import MalformedError, check_values, parsed
from inductor_debug_jupyter.pipeline.records import DiffRecord
from inductor_debug_jupyter.pipeline.records.diff import worst_outputs_first
from inductor_debug_jupyter.pipeline.store.files import explained, make_folder, replacing

MANIFEST: Final = "inductor_debug"
SUFFIX: Final = ".safetensors"
_VERSION: Final = 1
_PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Recording:
    """Outputs of one execution, by path.

    Attributes:
        values: path → tensor or plain value.
        manifest: ``model``, ``backend``, ``torch``, ``device``, ``created``.
        name: what to call it in a report; the file's name once it has one.
    """

    values: Mapping[str, Any]
    manifest: Mapping[str, Any] = field(default_factory=dict)
    name: str = "recording"

    def save(self, path: str | Path) -> Path:
        """Write it, all of it or nothing.

        Raises:
            StoreError: it cannot be written.
        """
        target = Path(path)
        tensors: dict[str, torch.Tensor] = {}
        plain: dict[str, Any] = {}
        odd: dict[str, str] = {}
        arrays: list[str] = []
        for name, value in self.values.items():
            if isinstance(value, numpy.ndarray) and value.dtype.kind in "biufc":
                arrays.append(name)
                value = torch.from_numpy(value.copy())
            if isinstance(value, torch.Tensor):
                tensors[name], kind = _storable(value)
                odd |= {name: kind} if kind else {}
            else:
                plain[name] = value if isinstance(value, _PLAIN) else repr(value)
        manifest = {"version": _VERSION, **self.manifest, "plain": plain, "complex": odd, "arrays": arrays}
        make_folder(target.parent)
        with explained("write", target), replacing(target) as unfinished:
            save_file(tensors, str(unfinished), metadata={MANIFEST: json.dumps(manifest)})
        return target

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """Open a file; its tensors are read when they are looked at.

        Raises:
            NotFoundError: there is no such file.
            UsageError: it is not a safetensors file, or one that this version cannot read.
        """
        source = Path(path)
        if not os.path.isfile(source):  # noqa: PTH113 - Path's own raises for a name that is too long
            raise NotFoundError(f"there is no recording {quoted(str(source))}")
        try:
            with safe_open(str(source), framework="pt") as opened:
                names, metadata = list(opened.keys()), (opened.metadata() or {}).get(MANIFEST, "{}")
            manifest = parsed(lambda: json.loads(metadata))
            check_values(manifest)
        except (SafetensorError, OSError, MalformedError) as error:
            reason = " ".join(str(error).split())[:300]
            raise UsageError(f"{source} is not a recording: {reason}; allowed: a safetensors file") from None
        if not isinstance(manifest, dict):
            raise UsageError(f"{source}: its manifest is {quoted(manifest)}; allowed: a table")
        if (version := manifest.get("version", _VERSION)) != _VERSION:
            raise UsageError(f"{source}: manifest version {quoted(version)}; allowed: {_VERSION}")
        plain, odd = (_table(manifest, name, source) for name in ("plain", "complex"))
        arrays = manifest.pop("arrays", [])
        if not isinstance(arrays, list) or not all(isinstance(name, str) for name in arrays):
            raise UsageError(f"{source}: arrays is {quoted(arrays)} in its manifest; allowed: a list of names")
        return cls(_Stored(source, names, plain, odd, frozenset(arrays)), manifest, source.name)


def _table(manifest: dict[str, Any], name: str, source: Path) -> dict[str, Any]:
    table = manifest.pop(name, {})
    if not isinstance(table, dict) or not all(isinstance(value, _PLAIN) for value in table.values()):
        raise UsageError(f"{source}: {name} is {quoted(table)} in its manifest; allowed: names with plain values")
    return table


def manifest_of(model: str, backend: str, device: str = "cpu") -> dict[str, str]:
    """Where and when something was recorded."""
    created = f"{datetime.now().astimezone():%Y-%m-%dT%H:%M:%S%z}"
    return {"model": model, "backend": backend, "torch": torch.__version__, "device": device, "created": created}


class _Stored(Mapping[str, Any]):
    """The values in a file."""

    def __init__(
        self,
        path: Path,
        names: list[str],
        plain: Mapping[str, Any],
        odd: Mapping[str, str],
        arrays: frozenset[str] = frozenset(),
    ) -> None:
        self._path = path
        self._arrays = arrays
        self._plain = plain
        self._odd = odd
        self._names = [*names, *plain]

    def __getitem__(self, name: str) -> Any:
        if name in self._plain:
            return self._plain[name]
        if name not in self._names:
            raise KeyError(name)
        try:
            with safe_open(str(self._path), framework="pt") as opened:
                tensor: torch.Tensor = opened.get_tensor(name)
            tensor = torch.view_as_complex(tensor) if name in self._odd else tensor
            return tensor.numpy() if name in self._arrays else tensor
        except (SafetensorError, OSError, RuntimeError, TypeError, AttributeError) as error:
            reason = " ".join(str(error).split())[:200]
            raise UsageError(f"{self._path}: {quoted(name)} cannot be read from it: {reason}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)


def _storable(tensor: torch.Tensor) -> tuple[torch.Tensor, str]:
    """A copy that the format can hold, and the dtype that it had if that is none of the format's."""
    value = tensor.detach().cpu()
    if value.is_quantized:
        value = value.dequantize()
    if value.is_complex():
        wide = value.to(torch.complex64) if value.dtype == torch.complex32 else value
        return torch.view_as_real(wide.resolve_conj()).contiguous().clone(), str(value.dtype).removeprefix("torch.")
    return value.contiguous().clone(), ""


def compare_recordings(
    reference: Recording | str | Path, candidate: Recording | str | Path, config: ComparisonConfig | None = None
) -> DiffReport:
    """Compare two recordings, path by path. There is no model to be run again: the tolerances decide.

    Where the usual absolute tolerance is too large for the values, the output counts as not compared.

    Raises:
        NotFoundError: there is no such file.
        UsageError: it is not a recording.
    """
    config = config or ComparisonConfig()
    one, other = (each if isinstance(each, Recording) else Recording.load(each) for each in (reference, candidate))
    compared = compare_flat(one.values, other.values, config)
    outputs = worst_outputs_first(tuple(unless_too_small(each, one.values.get(each.path), config) for each in compared))
    models = {str(each.manifest.get("model", "")) for each in (one, other)} - {""}
    notes = [] if len(models) < 2 else [f"the recordings are of different models: {', '.join(sorted(models))}"]
    record = DiffRecord(
        model=", ".join(sorted(models)) or "recordings",
        reference=one.name,
        candidate=other.name,
        verdict=overall_verdict(outputs),
        outputs=outputs,
        notes=tuple(notes),
    )
    return DiffReport(record)
