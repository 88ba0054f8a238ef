"""In a notebook, too, an untested torch is said once."""

from __future__ import annotations

from inductor_debug_jupyter.pipeline.torch_compat.versions import untested_reason

OLD = """
import torch
from torch.torch_version import TorchVersion
torch.__version__ = TorchVersion("2.12.0")
%load_ext inductor_debug_jupyter
"""
CELL = "%%inductor_debug --lower dynamo --as session\ntorch.nn.Linear(4, 4)(torch.ones(2, 4)).shape"


def test_the_first_cell_says_it_and_the_second_does_not(new_kernel):
    loaded, first, second = (new_kernel.run(code) for code in (OLD, CELL, CELL))
    said = [line for line in (loaded.stderr + first.stderr + second.stderr).splitlines() if "torch 2.12" in line]
    assert said == [untested_reason("2.12.0")]
    assert "torch 2.12" not in second.stderr
    assert second.results == ["torch.Size([2, 4])"]
    assert new_kernel.value("len(session.captures), session.notes") == "(1, ())"
