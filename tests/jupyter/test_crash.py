"""A backend that crashes, hangs or eats memory under ``--isolate``: a result in the report, and the kernel lives on."""

from __future__ import annotations

from pathlib import Path

import pytest

from .conftest import Kernel

pytestmark = pytest.mark.timeout(280)

CHIP = """
import ctypes, sys, torch

def segfaults(gm, inputs):
    def run(*args):
        print("chip: loading the third kernel", file=sys.stderr, flush=True)
        return ctypes.string_at(0)
    return run

def hangs(gm, inputs):
    ctypes.PyDLL(None).pause()

def eats_memory(gm, inputs):
    keep = [torch.ones(2 * 1024**3)]
    return lambda *args: gm(*args)
"""
SETUP = """%load_ext inductor_debug_jupyter
import os, torch
class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 8)
    def forward(self, x):
        return torch.relu(self.layer(x)) + 1
model, x, before = Small(), torch.randn(4, 8), os.getpid()
"""
CELL = "%%inductor_debug --diff --candidate chip:{} --isolate {} --lower dynamo --as session\nmodel(x).shape"


def test_the_kernel_survives_a_crash_a_hang_and_a_memory_limit(new_kernel: Kernel, tmp_path: Path) -> None:
    kernel = new_kernel
    (tmp_path / "chip.py").write_text(CHIP)
    assert not kernel.run(SETUP).error

    crash = kernel.run(CELL.format("segfaults", "--timeout 100"))
    assert (crash.results, crash.error) == (["torch.Size([4, 8])"], "")
    told = crash.displays[-2]["text/plain"]
    assert "KernelDiff: not compared" in told.splitlines()[0]
    assert "chip:segfaults died of SIGSEGV" in told
    assert "while it ran a graph of" in told
    snapshot = crash.displays[-1]["text/html"]
    assert "| chip: loading the third kernel" in snapshot
    assert "| Fatal Python error: Segmentation fault" in snapshot
    assert "died of SIGSEGV" in snapshot
    assert kernel.value("session.record.diff.crashes[0].signal") == "'SIGSEGV'"

    hang = kernel.run(CELL.format("hangs", "--timeout 4"))
    assert (hang.results, hang.error) == (["torch.Size([4, 8])"], "")
    assert "chip:hangs did not answer within 4 s and was ended while it compiled" in hang.displays[-2]["text/plain"]

    full = kernel.run(CELL.format("eats_memory", "--timeout 100 --memory-limit 2GiB"))
    assert (full.results, full.error) == (["torch.Size([4, 8])"], "")
    assert "chip:eats_memory found no memory within its limit of 2048 MiB" in full.displays[-2]["text/plain"]
    assert kernel.value("session.record.diff.crashes[0].kind") == "'out_of_memory'"

    assert kernel.value("os.getpid() == before, model(x).shape") == "(True, torch.Size([4, 8]))"
