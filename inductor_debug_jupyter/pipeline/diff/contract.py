"""What a tensor is beside its values, and what of that the candidate must keep.

- Its device, and whether it requires a gradient (asked only of a run with a backward).
- Which other outputs, inputs and tensors of the model it shares memory with: a write to one shows in the other.
- Its strides, in dimensions of more than one element: ``view`` fails or not by them. Gradients are not held to any.

Torch's own backends keep all of it: over 109 small models (convolutions channels-last, attention, slices, transposes,
in-place ops, linear algebra), with and without gradients, ``eager``, ``aot_eager`` and Inductor of torch 2.13 differ
from eager mode in nothing but the strides of two. AOTAutograd makes a ``scatter_`` a ``scatter``, which is laid out
otherwise; Inductor decomposes a ``cat`` of channels-last tensors, and its decomposition is contiguous. Such strides are
known before any backend runs, from the tensors that AOTAutograd traces with. So strides that differ from the
reference's are a mismatch unless they are those of the traced graph, without or with Inductor's decompositions: then
they are a note.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.diff.outputs import is_gradient
from inductor_debug_jupyter.pipeline.records import OutputDiff

_STRIDES: Final = "the strides differ"
_SHARES: Final = "shares memory with"


@dataclass(frozen=True, slots=True)
class Facts:
    """One tensor of an execution, as it was right after the forward.

    Attributes:
        shape: its sizes.
        strides: in elements.
        device: where it is.
        requires_grad: whether a gradient flows through it.
        shares: the paths of what has the same memory.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: str
    requires_grad: bool
    shares: frozenset[str] = frozenset()

    @property
    def visible_strides(self) -> tuple[int | None, ...] | None:
        """The strides that can be told from outside: with one element or none there is nowhere to step to.

        None for a tensor that has no strides, or no elements.
        """
        if 0 in self.shape or len(self.shape) != len(self.strides):
            return None
        return tuple(stride if size > 1 else None for size, stride in zip(self.shape, self.strides, strict=True))


def is_layout(output: OutputDiff) -> bool:
    """Whether an output is wrong by its strides, or by the memory that it shares."""
    return output.verdict == "mismatch" and (_STRIDES in output.reason or _SHARES in output.reason)


def facts_of(values: Mapping[str, Any]) -> dict[str, Facts]:
    """The facts of every tensor among these."""
    tensors = {path: value for path, value in values.items() if isinstance(value, torch.Tensor)}
    memory: dict[str, tuple[str, int]] = {}
    together: dict[tuple[str, int], set[str]] = defaultdict(set)
    for path, tensor in tensors.items():
        if (place := _memory(tensor)) is not None:
            memory[path] = place
            together[place].add(path)
    return {
        path: Facts(
            tuple(map(int, tensor.shape)),
            tuple(tensor.stride()) if is_dense(tensor) else (),
            str(tensor.device),
            tensor.requires_grad,
            frozenset(together[memory[path]] - {path}) if path in memory else frozenset(),
        )
        for path, tensor in tensors.items()
    }


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether the elements are in one block of memory, and can be read there."""
    return tensor.layout is torch.strided and not tensor.is_meta and not tensor.is_quantized and not tensor.is_nested


def _memory(tensor: torch.Tensor) -> tuple[str, int] | None:
    """Where the memory of a tensor starts; None when it has none that can be told."""
    if not is_dense(tensor) or not tensor.numel():
        return None
    try:
        start = tensor.untyped_storage().data_ptr()
    except (NotImplementedError, RuntimeError):  # a tensor subclass without a storage of its own
        return None
    return (str(tensor.device), start) if start else None


@dataclass(frozen=True, slots=True)
class Contract:
    """Holds a candidate's outputs to what the reference's are.

    Attributes:
        backward: whether both sides ran with gradients.
        elsewhere: whether the candidate's outputs come from another process: their strides and shared memory are then
            those of the copies, and tell nothing.
        strides: whether the candidate must keep them.
        traced: the facts of what torch's tracing alone makes of the model, once or more.
    """

    backward: bool
    elsewhere: bool
    strides: bool
    traced: Callable[[], Sequence[Mapping[str, Facts]]]

    def applied(
        self, outputs: Iterable[OutputDiff], reference: Mapping[str, Facts], candidate: Mapping[str, Facts]
    ) -> tuple[tuple[OutputDiff, ...], list[str]]:
        """The same outputs, those that break the contract as mismatches, and notes."""
        judged, notes, moved = [], [], {}
        for output in outputs:
            one, other = reference.get(output.path), candidate.get(output.path)
            if one is None or other is None or is_gradient(output.path):
                judged.append(output)
                continue
            reasons = [*self._kept(one, other), *([] if self.elsewhere else _sharing(one, other, candidate))]
            if self.strides and not self.elsewhere and _are_laid_out_differently(one, other):
                moved[output.path] = (one, other)
            judged.append(_broken(output, reasons))
        if moved:
            traced = self.traced()
            for position, output in enumerate(judged):
                if output.path in moved:
                    judged[position], note = _restrided(output, *moved[output.path], traced)
                    notes += note
        if self.elsewhere:
            notes.append(
                "strides and shared memory were not compared: the candidate's outputs are from another process"
            )
        return tuple(judged), notes

    def _kept(self, reference: Facts, candidate: Facts) -> list[str]:
        reasons = []
        if reference.device != candidate.device:
            reasons.append(f"the devices differ: {reference.device} against {candidate.device}")
        if self.backward and reference.requires_grad != candidate.requires_grad:
            role, lacking = ("reference", "candidate") if reference.requires_grad else ("candidate", "reference")
            reasons.append(f"the {role} can go backward from it, the {lacking} cannot: there it is detached")
        return reasons


def _are_laid_out_differently(reference: Facts, candidate: Facts) -> bool:
    strides = reference.visible_strides, candidate.visible_strides
    return reference.shape == candidate.shape and None not in strides and strides[0] != strides[1]


def _sharing(reference: Facts, candidate: Facts, known: Mapping[str, Facts]) -> list[str]:
    reasons = []
    lost = sorted(path for path in reference.shares - candidate.shares if path in known)
    if lost:
        reasons.append(f"the reference's {_SHARES} {', '.join(lost[:3])}, the candidate's does not")
    if gained := sorted(candidate.shares - reference.shares):
        reasons.append(f"the candidate's {_SHARES} {', '.join(gained[:3])}, the reference's does not")
    return reasons


def _broken(output: OutputDiff, reasons: Sequence[str]) -> OutputDiff:
    if not reasons:
        return output
    before = [output.reason] if output.verdict == "mismatch" and output.reason else []
    return replace(output, verdict="mismatch", reason="; ".join([*before, *reasons]))


def _restrided(
    output: OutputDiff, reference: Facts, candidate: Facts, traced: Sequence[Mapping[str, Facts]]
) -> tuple[OutputDiff, list[str]]:
    differ = f"{list(reference.strides)} against {list(candidate.strides)}"
    for facts in traced:
        known = facts.get(output.path)
        if known is not None and known.visible_strides == candidate.visible_strides:
            return output, [f"{output.path}: the strides differ, {differ}, but torch's own tracing gives these"]
    return _broken(output, [f"{_STRIDES}: {differ}"]), []
