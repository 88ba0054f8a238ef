"""Functions have names by which another process finds them."""

from __future__ import annotations

import types

import pytest
import torch
import torch.nn.functional as F

from inductor_debug_jupyter.pipeline.torch_compat.op_names import target_at, target_path

HOMES = (torch, F, torch.fft, torch.linalg, torch.special)


@pytest.mark.parametrize("home", HOMES, ids=lambda home: home.__name__)
def test_every_function_of_torch_goes_to_another_process_and_back(home: types.ModuleType):
    """A model calls them; those that torch makes by a factory (``F.max_pool2d``) have no other name."""
    functions = {
        name: found
        for name in dir(home)
        if isinstance(found := getattr(home, name), types.FunctionType | types.BuiltinFunctionType)
        and not name.startswith("_")
        and str(found.__module__ or "torch").startswith("torch")
    }
    assert len(functions) > 10
    paths = {name: target_path(function) for name, function in functions.items()}
    assert [name for name, path in paths.items() if path is None or target_at(path) is not functions[name]] == []
