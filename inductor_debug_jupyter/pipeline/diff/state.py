"""Two executions that start alike, and leave the user's things as they were.

Each side gets its own copy of the module and of the inputs, and starts from the same state of every random number
generator; afterwards the generators are where the user left them.
"""

from __future__ import annotations

import copy
import logging
import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy
import torch

from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors

log = logging.getLogger("inductor_debug_jupyter")


@contextmanager
def random_state_kept() -> Iterator[None]:
    """Python's, numpy's and torch's generators, put back at the end."""
    python, arrays = random.getstate(), numpy.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        random.setstate(python)
        numpy.random.set_state(arrays)


def clone_inputs(inputs: Any) -> Any:
    """A deep copy that keeps strides, ``requires_grad`` and which inputs share memory; gradients do not come along.

    A tensor that was computed (not a leaf) becomes a leaf, so that its gradient can be read.
    """
    memo: dict[int, Any] = {}
    originals: list[torch.Tensor] = []
    map_tensors(originals.append, inputs)
    for tensor in originals:
        if id(tensor) not in memo:
            memo[id(tensor)] = copy.deepcopy(tensor.detach(), memo).requires_grad_(tensor.requires_grad)
    return copy.deepcopy(inputs, memo)


@contextmanager
def own_module(model: Any) -> Iterator[Any]:
    """The model to run: a deep copy of a module, without gradients. A plain function is its own copy.

    A module that refuses to be copied (``torch.nn.utils.weight_norm`` makes such) is used itself, and its parameters,
    buffers, gradients and attributes are put back afterwards.
    """
    if not isinstance(model, torch.nn.Module):
        yield model
        return
    try:
        module = copy.deepcopy(model)
    except Exception as error:  # deepcopy calls into user code
        log.debug("%s cannot be copied (%s): it is restored instead", type(model).__name__, error)
        with _module_restored(model):
            model.zero_grad(set_to_none=True)
            yield model
        return
    module.zero_grad(set_to_none=True)
    yield module


@contextmanager
def _module_restored(model: torch.nn.Module) -> Iterator[None]:
    tensors = [*model.parameters(), *model.buffers()]
    values = [tensor.detach().clone() for tensor in tensors]
    gradients = [tensor.grad for tensor in tensors]
    tables = ("_parameters", "_buffers", "_modules")
    attributes = [
        (module, dict(module.__dict__), {name: dict(module.__dict__[name]) for name in tables})
        for module in model.modules()
    ]
    try:
        yield
    finally:
        for module, names, contents in attributes:
            module.__dict__.clear()
            module.__dict__.update(names)
            for name, entries in contents.items():
                module.__dict__[name].clear()
                module.__dict__[name].update(entries)
        with torch.no_grad():
            for tensor, value, gradient in zip(tensors, values, gradients, strict=True):
                tensor.copy_(value)
                tensor.grad = gradient
