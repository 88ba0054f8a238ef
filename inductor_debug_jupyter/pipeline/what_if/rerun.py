"""Run a kept call once more, on a copy of the model, from the generators' present state.

The user's weights, buffers, gradients, inputs and generators do not change. The call is made from a source line of its
own: the ops of a model that consists of torch's layers only would otherwise have the line of our caller.
"""

from __future__ import annotations

import linecache
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.diff.executions import describe
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.rerun.state import clone_inputs, own_module, random_state_kept
from inductor_debug_jupyter.pipeline.torch_compat.instruments import unseen
from inductor_debug_jupyter.pipeline.torch_compat.regions import uncompiled
from inductor_debug_jupyter.pipeline.torch_compat.silence import unheard
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors, of_kind
from inductor_debug_jupyter.pipeline.what_if.inputs import ChangedCall

_FILE = "what if"
_SCRIPT = "outputs = model(*args, **kwargs)\n"
_CALL = compile(_SCRIPT, _FILE, "exec")


class _Function(torch.nn.Module):
    """A function as a module: modules are captured without ``torch.compile``, whose traces stay in torch."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


def run(changed: ChangedCall, *, grad: bool, backward: bool, seed: int | None = None) -> Any:
    """Run the call; returns its detached outputs.

    Args:
        changed: the call.
        grad: whether gradients are on.
        backward: also run the backward, from the sum of the outputs.
        seed: the seed of torch's generators; None keeps their present state.

    Raises:
        UsageError: the model cannot be copied for another dtype, or raises with these inputs.
    """
    with ExitStack() as stack:
        stack.enter_context(unseen())
        stack.enter_context(random_state_kept())
        if seed is not None:
            torch.manual_seed(seed)
        stack.enter_context(unheard())
        stack.enter_context(torch.inference_mode(False))
        stack.enter_context(torch.set_grad_enabled(grad))
        model = stack.enter_context(_model_of(changed))
        args, kwargs = clone_inputs(changed.inputs())
        names: dict[str, Any] = {"model": model, "args": args, "kwargs": kwargs}
        linecache.cache[_FILE] = (len(_SCRIPT), None, _SCRIPT.splitlines(keepends=True), _FILE)
        try:
            exec(_CALL, names)  # noqa: S102 - our own line, from above
            if backward:
                _backward(names["outputs"])
        except Exception as error:  # the user's model
            raise UsageError(f"{changed.call.name} does not run so: {describe(error)}") from error
        return map_tensors(lambda tensor: tensor.detach(), names["outputs"])


@contextmanager
def _model_of(changed: ChangedCall) -> Iterator[torch.nn.Module]:
    """An uncompiled copy of the model in the changed dtype; a function as a module."""
    plain = uncompiled(changed.call.model)
    with own_module(plain) as model:
        if not isinstance(model, torch.nn.Module):
            yield type(changed.call.name, (_Function,), {})(model)  # captures are named after the class
            return
        if changed.dtype is not None:
            if model is plain:
                raise UsageError(f"dtype: {changed.call.name} cannot be copied, and yours is not to be cast")
            model.to(getattr(torch, changed.dtype))
        yield model


def _backward(outputs: Any) -> None:
    sums = [value.sum() for value in of_kind(torch.Tensor, outputs) if value.requires_grad]
    if sums:
        torch.autograd.backward(sums)
