"""What a kernel keeps of cells that ran: ``python tests/jupyter/memory_of_cells.py --all``.

150 mixed cells under the magic in one kernel, each of 10 run again and again, so that its panel is replaced. After the
first 10 a cell may leave at most 20 kB and no widget behind. Then a loop over 8 models of 100 MB, with and without the
magic: the peak with it may be 1.2 times the plain one. Without ``--all``: 30 cells, and models of 20 MB.

Bytes are the process's own (resident, after a collection and ``malloc_trim``); beside them stand those that ``malloc``
has given out and not got back. The one is far more than the other where a compile by Inductor leaves a few bytes on
each of many pages. The same compile made by the user, in a plain cell of a kernel of its own, leaves more: ours is what
is left with the magic and not without.
"""

from __future__ import annotations

import ast
import itertools
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

SETUP = """
import ctypes, gc, os, threading, time
import torch
from torch import nn
%load_ext inductor_debug_jupyter

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

class Malloc(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]

libc = ctypes.CDLL("libc.so.6")
libc.mallinfo2.restype = Malloc

def kept():
    from ipywidgets.widgets.widget import _instances
    for _ in range(3):
        gc.collect()
    libc.malloc_trim(0)
    malloc = libc.mallinfo2()
    return resident(), len(gc.get_objects()), len(_instances), malloc.uordblks + malloc.hblkhd

class Peak:
    def __enter__(self):
        kept()
        self.before = self.most = resident()
        self.over = threading.Event()
        self.thread = threading.Thread(target=self.watch)
        self.thread.start()
        return self
    def watch(self):
        while not self.over.wait(0.002):
            self.most = max(self.most, resident())
    def __exit__(self, *_):
        self.over.set()
        self.thread.join()
        self.bytes = self.most - self.before

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(16, 32), nn.Linear(32, 8)
    def forward(self, x):
        return self.b(torch.relu(self.a(x)))

net, x = Net(), torch.randn(4, 16)
compiled = torch.compile(lambda x: torch.sin(x) + x.cos(), backend="aot_eager")
compiled(x)
"""

CELLS = {
    "a module": "%%inductor_debug --lower aot\nnet(x)",
    "forward and backward, Inductor": "%%inductor_debug\nnet(x).sum().backward()",
    "a class of its own": (
        "%%inductor_debug --lower aot\nclass Other(nn.Module):\n"
        "    def forward(self, x):\n        return x * 2 + 1\nOther()(x)"
    ),
    "compiled before": "%%inductor_debug\ncompiled(x)",
    "strict, refused": "%%inductor_debug --strict --lower aot --deny relu\nnet(x)",
    "an error": "%%inductor_debug --lower aot\nnet(x); 1 / 0",
    "--diff --as": "%%inductor_debug --lower aot --diff --candidate aot_eager --as s\nnet(x)",
    "s.panel()": "s.panel()",
    "a line": "%inductor_debug --lower dynamo net(x)",
    "--no-panel": "%%inductor_debug --no-panel --lower aot\nnet(x)",
}

PLAIN = {
    "forward and backward, Inductor": (
        "from torch._functorch import config as autograd\nfrom torch._inductor import config as inductor\n"
        "class Plain(Net):\n    def forward(self, x):\n        return super().forward(x)\n"
        "with inductor.patch(fx_graph_cache=False), autograd.patch(enable_autograd_cache=False):\n"
        "    torch.compile(Plain())(x).sum().backward()\ntorch._dynamo.reset()"
    ),
}
"""Cells that make torch compile, and what makes it compile the same without us: new code, and the graph caches off."""

LOOP = """
for _ in range(8):
    model = nn.Linear({size}, {size}, bias=False)
    model(torch.ones(1, {size}))
    del model
"""

ALLOWED_KILOBYTES, ALLOWED_PEAK = 20, 1.2


Row = tuple[str, int, int, int, int]
"""What the cell was, the kernel's bytes after it, Python's objects, the widgets, and the bytes from ``malloc``."""


def growth(kernel: Any, cells: int, texts: Mapping[str, str] = CELLS) -> list[Row]:
    """What there is after each cell."""
    rows = []
    for number in range(cells):
        name = list(texts)[number % len(texts)]
        outcome = kernel.run(texts[name], cell_id=f"cell-{name}")
        assert texts is CELLS or not outcome.error, outcome.error
        rows.append((name, *ast.literal_eval(kernel.value("kept()"))))
    return rows


def a_run(rows: Sequence[Row], name: str) -> tuple[int, float, float, float]:
    """How often a cell ran, and what a run left: kB, kB from ``malloc``, Python's objects."""
    steps = [
        (after[1] - before[1], after[4] - before[4], after[2] - before[2])
        for before, after in itertools.pairwise(rows)
        if after[0] == name
    ]
    held, given, objects = (sum(each[at] for each in steps) / len(steps) for at in range(3))
    return len(steps), held / 1000, given / 1000, objects


def peak(kernel: Any, size: int, line: str = "") -> int:
    """The bytes that a loop over 8 models of ``size`` × ``size`` floats takes at its peak."""
    kernel.run("watched = Peak(); watched.__enter__()")
    outcome = kernel.run(f"{line}\n{LOOP.format(size=size)}".lstrip("\n"))
    assert not outcome.error, outcome.error
    kernel.run("watched.__exit__()")
    return int(kernel.value("watched.bytes"))


def main(arguments: list[str]) -> int:
    """Print both tables; 1 when something is more than allowed."""
    from conftest import Kernel

    cells, size = (150, 5000) if "--all" in arguments else (30, 2240)
    kernel = Kernel(tempfile.mkdtemp())
    try:
        kernel.run(SETUP)
        plain = peak(kernel, size)
        peak(kernel, 8, "%%inductor_debug --no-panel --lower aot")  # torch's compiler is loaded here
        magic = peak(kernel, size, "%%inductor_debug --lower aot")
        rows = growth(kernel, cells)
    finally:
        kernel.close()
    kernel = Kernel(tempfile.mkdtemp())
    try:
        kernel.run(SETUP)
        without_us = growth(kernel, len(PLAIN) * cells // len(CELLS), PLAIN)[len(PLAIN) :]
    finally:
        kernel.close()
    first, last = rows[9], rows[-1]
    a_cell, widgets = (last[1] - first[1]) / (len(rows) - 10) / 1000, last[3] - first[3]
    ours = a_cell
    print(f"{'cell':32} {'runs':>5} {'kB a run':>9} {'of malloc':>10} {'plain':>7} {'of malloc':>10} {'objects':>8}")
    for name in CELLS:
        runs, held, given, objects = a_run(rows[9:], name)
        plainly = "".rjust(18)
        if name in PLAIN:
            _, without, given_without, _ = a_run(without_us, name)
            plainly = f"{without:7.1f} {given_without:10.1f}"
            ours -= max(0, min(held, without)) * runs / (len(rows) - 10)
        print(f"{name:32} {runs:5} {held:9.1f} {given:10.1f} {plainly} {objects:8.1f}")
    print(f"after the first 10 of {len(rows)} cells: {a_cell:.1f} kB a cell, {widgets} widgets more")
    print(f"without what plain cells leave as well: {ours:.1f} kB a cell")
    print(f"8 models of {size * size * 4 / 1e6:.0f} MB: {plain / 1e6:.0f} MB plain, {magic / 1e6:.0f} MB")
    return int(ours > ALLOWED_KILOBYTES or widgets != 0 or magic > ALLOWED_PEAK * plain)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
