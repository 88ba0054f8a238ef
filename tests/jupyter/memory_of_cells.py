"""What a kernel keeps of cells that ran: ``python tests/jupyter/memory_of_cells.py --all``.

150 mixed cells under the magic in one kernel, each of 10 run again and again, so that its panel is replaced. After the
first 10 a cell may leave at most 20 kB and no widget behind. Then a loop over 8 models of 100 MB, with and without the
magic: the peak with it may be 1.2 times the plain one. Without ``--all``: 30 cells, and models of 20 MB.

Bytes are the process's own (resident, after a collection and ``malloc_trim``). torch keeps about 140 kB of each compile
that a user's cell makes itself, with or without us: no such cell is among the ten.
"""

from __future__ import annotations

import ast
import itertools
import sys
import tempfile
from typing import Any

SETUP = """
import ctypes, gc, os, threading, time
import torch
from torch import nn
%load_ext inductor_debug_jupyter

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def kept():
    from ipywidgets.widgets.widget import _instances
    for _ in range(3):
        gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    return resident(), len(gc.get_objects()), len(_instances)

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

LOOP = """
for _ in range(8):
    model = nn.Linear({size}, {size}, bias=False)
    model(torch.ones(1, {size}))
    del model
"""

ALLOWED_BYTES, ALLOWED_PEAK = 20_000, 1.2


def growth(kernel: Any, cells: int) -> list[tuple[str, int, int, int]]:
    """After each cell: what it was, the kernel's bytes, Python's objects, the widgets."""
    rows = []
    for number in range(cells):
        name = list(CELLS)[number % len(CELLS)]
        kernel.run(CELLS[name], cell_id=f"cell-{name}")
        rows.append((name, *ast.literal_eval(kernel.value("kept()"))))
    return rows


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
    print(f"{'cell':32} {'runs':>5} {'kB a run':>9} {'objects a run':>14}")
    for name in CELLS:
        steps = [
            (after[1] - before[1], after[2] - before[2])
            for before, after in itertools.pairwise(rows[9:])
            if after[0] == name
        ]
        kilobytes, objects = (sum(each[at] for each in steps) / len(steps) for at in (0, 1))
        print(f"{name:32} {len(steps):5} {kilobytes / 1000:9.1f} {objects:14.1f}")
    first, last = rows[9], rows[-1]
    a_cell, widgets = (last[1] - first[1]) / (len(rows) - 10), last[3] - first[3]
    print(f"after the first 10 of {len(rows)} cells: {a_cell / 1000:.1f} kB a cell, {widgets} widgets more")
    print(f"8 models of {size * size * 4 / 1e6:.0f} MB: {plain / 1e6:.0f} MB plain, {magic / 1e6:.0f} MB")
    return int(a_cell > ALLOWED_BYTES or widgets != 0 or magic > ALLOWED_PEAK * plain)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
