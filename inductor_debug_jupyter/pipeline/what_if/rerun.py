"""Run a kept call once more with a change, on a copy of the model, and return its outputs."""

from __future__ import annotations

from typing import Any

import torch

from inductor_debug_jupyter.pipeline.diff.executions import describe
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.rerun.again import as_called
from inductor_debug_jupyter.pipeline.rerun.copies import Memo, clone_inputs
from inductor_debug_jupyter.pipeline.rerun.running import call_from, copied_module
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors
from inductor_debug_jupyter.pipeline.what_if.inputs import ChangedCall


def run(changed: ChangedCall, *, backward: bool, seed: int | None = None) -> Any:
    """Run the call as the user's own ran, but for the change; returns its detached outputs.

    Args:
        changed: the call.
        backward: also run the backward.
        seed: the seed of torch's generators; None starts where the user's own call did.

    Raises:
        UsageError: the model cannot be copied for another dtype, or raises with these inputs.
    """
    call = changed.call
    memo: Memo = {}
    with as_called(call), copied_module(call.model, call.name, changed.dtype, memo) as model:
        if seed is not None:
            torch.manual_seed(seed)
        args, kwargs = clone_inputs(changed.inputs(), memo)
        try:
            outputs = call_from("what if", model, args, kwargs, backward=backward)
        except Exception as error:  # the user's model
            raise UsageError(f"{call.name} does not run so: {describe(error)}") from error
        return map_tensors(lambda tensor: tensor.detach(), outputs)
