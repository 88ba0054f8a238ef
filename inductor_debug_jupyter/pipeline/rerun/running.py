"""Run a model for a capture: on a copy, from a source line of its own, and backward from whatever came out."""

from __future__ import annotations

import linecache
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError
from inductor_debug_jupyter.pipeline.rerun.again import plain_model
from inductor_debug_jupyter.pipeline.rerun.copies import Memo, own_module
from inductor_debug_jupyter.pipeline.torch_compat.trees import of_kind

_SCRIPT = "outputs = model(*args, **kwargs)\n"
_SEED = 1234


class _Function(torch.nn.Module):
    """A function as a module: modules are captured without ``torch.compile``, whose traces stay in torch."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


@contextmanager
def copied_module(model: Any, name: str, dtype: str | None, memo: Memo | None = None) -> Iterator[torch.nn.Module]:
    """An uncompiled copy of a model, cast to ``dtype`` if that is given; a function as a module of that name.

    Raises:
        UsageError: it cannot be copied, and is to be cast.
    """
    plain = plain_model(model)
    with own_module(plain, memo) as own:
        if not isinstance(own, torch.nn.Module):
            yield type(name, (_Function,), {})(own)  # captures are named after the class
            return
        if dtype is not None:
            if own is plain:
                raise UsageError(f"dtype: {name} cannot be copied, and yours is not to be cast")
            own.to(getattr(torch, dtype))
        yield own


def call_from(line: str, model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], *, backward: bool) -> Any:
    """Call a model from a source file called ``line``, and go backward from what it returns; its outputs.

    The ops of a model of torch's own layers have no line of the user's: they would have that of our caller.
    """
    names: dict[str, Any] = {"model": model, "args": args, "kwargs": kwargs}
    linecache.cache[line] = (len(_SCRIPT), None, _SCRIPT.splitlines(keepends=True), line)
    exec(compile(_SCRIPT, line, "exec"), names)  # noqa: S102 - our own line, from above
    outputs = names["outputs"]
    if backward:
        tensors = enumerate(of_kind(torch.Tensor, outputs))
        go_backward({str(position): value for position, value in tensors if value.requires_grad})
    return outputs


def go_backward(outputs: Mapping[str, torch.Tensor], given: Sequence[torch.Tensor] | None = None) -> None:
    """Go backward from outputs by path, starting from ``given``, or from fixed weights.

    These are 1 for an output that is one number, and random for any other: the sum of a softmax has no gradient at all.
    They belong to the output's path, so that a run that lost one output still starts from the others as another does.

    Raises:
        OptionError: ``given`` does not fit.
    """
    ours = [tuple(output.shape) for output in outputs.values()]
    if given is not None and ours != (theirs := [tuple(each.shape) for each in given]):
        raise OptionError(f"gradients have the shapes {theirs}; allowed: those of the outputs, {ours}")
    weights = starting_gradients(outputs) if given is None else [each.detach() for each in given]
    if outputs:
        torch.autograd.backward(list(outputs.values()), weights)


def starting_gradients(outputs: Mapping[str, torch.Tensor]) -> list[torch.Tensor]:
    """What :func:`go_backward` starts from when nothing is given."""
    return [_weight(*each) for each in outputs.items()]


def _weight(path: str, output: torch.Tensor) -> torch.Tensor:
    if not output.ndim:
        return torch.ones_like(output)
    generator = torch.Generator().manual_seed(_SEED + zlib.crc32(path.encode()))
    return torch.randn(output.shape, generator=generator).to(output)
