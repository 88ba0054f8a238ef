"""Whatever ran before, in this cell or in earlier ones: a strict cell that must fail fails, and a fine one passes.

torch keeps much between cells: compiled code and what it gave up on, on code objects that modules share; sizes that it
has seen vary, for the whole process; stances and settings. Each of :data:`BEFORE` leaves something of it behind, in an
order that is drawn; then come cells of which the answer is known. :data:`ORDERS` has what once passed.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from inductor_debug_jupyter.jupyter import extension
from inductor_debug_jupyter.pipeline.errors import ConstraintViolationError

SETUP = """
import functools, torch
from torch import nn
bad, good, xb, xg = nn.Linear(30, 64), nn.Linear(64, 64), torch.randn(8, 30), torch.randn(8, 64)
def wide(size):
    return torch.randn(8, size)
class Twice(nn.Module):
    def forward(self, x):
        return x * 2
twice = Twice()
def double(x):
    return x * 2
before = torch.compile(double, backend="eager")
"""
STRICT = "%%inductor_debug --target stick128 --strict --no-panel --lower dynamo"

LENIENT = "%%inductor_debug --lower dynamo --no-panel"

BEFORE = {
    "sizes that vary, compiled": (
        "for size in (64, 128, 192):\n    torch.compile(nn.ReLU(), backend='eager')(wide(size))"
    ),
    "sizes that vary, plain": f"{LENIENT}\nfor size in (64, 128, 192):\n    twice(wide(size))",
    "batches that vary": (
        "for n in (8, 32):\n    torch._dynamo.reset()\n    torch.compile(good, backend='eager')(torch.randn(n, 64))"
    ),
    "an LSTM that torch gives up on": "torch.compile(nn.LSTM(4, 4), backend='eager')(torch.randn(2, 3, 4))",
    "more modules than torch compiles": (
        "with torch._dynamo.config.patch(accumulated_recompile_limit=4, recompile_limit=4):\n"
        "    for _ in range(6):\n        torch.compile(nn.Linear(8, 8), backend='eager')(torch.randn(2, 8))"
    ),
    "the same function, compiled": "before(xg)",
    "a reset": "torch._dynamo.reset()",
    "a cell that fails": f"{LENIENT}\ntwice(xb); 1 / 0",
    "a strict cell": f"{STRICT}\ntwice(xb)",
    "a stance": "with torch.compiler.set_stance('force_eager'):\n    before(xb)",
    "more modules than torch compiles, in a cell": (
        f"{LENIENT}\nwith torch._dynamo.config.patch(accumulated_recompile_limit=4):\n"
        "    for _ in range(6):\n        nn.Linear(8, 8)(torch.randn(2, 8))"
    ),
}
MUST_FAIL = {
    "a module of torch's": "bad(xb)",
    "a module": "twice(xb)",
    "a later call": "twice(xg)\ntwice(xb)",
    "a size after two others": "for size in (64, 128, 30):\n    twice(wide(size))",
    "compiled before": "before(xg)\nbefore(xb)",
    "compiled now": "torch.compile(lambda x: x * 2, backend='eager', dynamic=True)(xb)",
    "a __call__ of its own": (
        "class Mixed:\n    def __call__(self, x):\n        return x @ self.weight\n"
        "class Both(Mixed, nn.Linear):\n    pass\nBoth(64, 30)(xb)"
    ),
}
FINE = {
    "a module of torch's": "good(xg)",
    "a module": "twice(xg)",
    "batches": "for n in (8, 9, 17, 64):\n    good(torch.randn(n, 64)).sum().backward()",
}


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    torch._dynamo.reset()
    options = Config()
    options.HistoryManager.enabled = False  # its database would be shared with other processes
    running = InteractiveShell(config=options)
    extension.load(running)
    running.run_cell(SETUP)
    yield running
    extension.unload(running)
    torch._dynamo.reset()


def is_refused(shell: InteractiveShell, cell: str) -> bool:
    result = shell.run_cell(f"{STRICT}\n{cell}")
    assert result.error_before_exec is None
    assert result.error_in_exec is None or isinstance(result.error_in_exec, ConstraintViolationError)
    return result.error_in_exec is not None


@pytest.mark.parametrize("seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 16))])
def test_in_any_order(shell: InteractiveShell, seed: int) -> None:
    draw = random.Random(seed)
    cells = [
        *((name, cell, True) for name, cell in MUST_FAIL.items()),
        *((name, cell, False) for name, cell in FINE.items()),
    ]
    order = []
    for name, cell, must_fail in draw.sample(cells, len(cells)):
        for earlier in draw.sample(list(BEFORE), draw.randint(0, 2)):
            shell.run_cell(BEFORE[earlier])
            order.append(earlier)
        order.append(name)
        assert is_refused(shell, cell) == must_fail, order


ORDERS = {
    "a size of a later call, where it is open": (
        "f = torch.compile(double, dynamic=True, backend='eager')",
        "f(xg)\nf(xb)",
    ),
    "the same, made in the cell": ("", "f = torch.compile(nn.ReLU(), dynamic=True, backend='aot_eager')\nf(xg)\nf(xb)"),
    "an attribute that grows": (
        "class Holds(nn.Module):\n    def forward(self):\n        return self.held * 2\nholds = Holds()",
        "for size in (64, 128, 30):\n    holds.held = wide(size)\n    holds()",
    ),
    "a size that the data decides": (
        "class Masked(nn.Module):\n    def forward(self, x):\n        return x[:, x[0] > 0] * 2",
        "with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):\n    Masked()(torch.randn(64, 64))",
    ),
    "code equal to that of another run of the cell": (
        ["# a cell\n@torch.compile(backend='eager')\ndef f(x): return x * 2\n", "old = f\nold(xb)",
         "# a cell\n@torch.compile(backend='eager')\ndef f(x): return x * 2\n"],
        "f(xg)\nold(xb)",
    ),
    "a function that torch gave up on": (
        ("@torch.compile(backend='eager')\ndef f(x):\n    for _ in range(2):\n        print(end='')\n"
        "        y = x * 2\n    return y\nf(xb)"),
        "good(xg)\nf(xb)",
    ),
    "a module that shares what torch gave up on": (
        "torch.compile(nn.LSTM(4, 4), backend='eager')(torch.randn(2, 3, 4))\nf = torch.compile(bad, backend='eager')",
        "good(xg)\nf(xb)",
    ),
    "a region of its own beside a new function": (
        "f = torch.compile(double, backend='eager', isolate_recompiles=True)\nf(xb)", "before(xg)\nf(xb)"
    ),
    "a second call under a stance": ("", "twice(xg)\nwith torch.compiler.set_stance('force_eager'):\n    twice(xb)"),
    "a second call without guards": (
        "", "twice(xg)\nwith torch.compiler.set_stance('default', skip_guard_eval_unsafe=True):\n    twice(xb)"
    ),
    "a function that is a node": (
        ("@torch._dynamo.allow_in_graph\ndef node(x):\n    return x[:, :30] @ torch.randn(30, 64)\n"
        "class Opaque(nn.Module):\n    def forward(self, x):\n        return node(x)"),
        "Opaque()(xg)",
    ),
    "a function that is not traced": (
        ("@torch._dynamo.nonstrict_trace\ndef node(x):\n    return x[:, :30] @ torch.randn(30, 64)\n"
        "class Opaque(nn.Module):\n    def forward(self, x):\n        return node(x)"),
        "Opaque()(xg)",
    ),
    "a module that cannot be hashed": (
        ("class Equal(nn.Module):\n    def __eq__(self, other):\n        return True\n"
        "    def forward(self, x):\n        return x * 2"),
        "good(xg)\nEqual()(xb)",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ORDERS)
def test_what_once_passed(shell: InteractiveShell, name: str) -> None:
    earlier, cell = ORDERS[name]
    for each in [earlier] if isinstance(earlier, str) else earlier:
        assert shell.run_cell(each).success
    assert is_refused(shell, cell)


PASSES = {
    "batches of a compiled model": (
        "compiled = torch.compile(nn.Sequential(good, nn.ReLU()), backend='aot_eager')",
        "for n in (8, 9, 17, 33):\n    compiled(torch.randn(n, 64)).sum().backward()",
    ),
    "more modules of torch's than its limit": (
        "",
        (
            "with torch._dynamo.config.patch(accumulated_recompile_limit=8):\n"
            "    for _ in range(12):\n        nn.Linear(64, 64)(xg)"
        ),
    ),
    "sequences of any length": (
        "layer = nn.TransformerEncoderLayer(64, 1, 128, batch_first=True)",
        "for n in (64, 128, 192):\n    layer(torch.randn(2, n, 64))",
    ),
    "a compiled module with hooks": (
        "good.register_forward_hook(lambda m, i, o: o + 1)\nf = torch.compile(good, backend='eager')",
        "f(xg)",
    ),
    "a compiled function that does nothing": ("f = torch.compile(lambda x: x, backend='eager')", "good(xg)\nf(xb)"),
    "an op of the user's own": (
        (
            "@torch.library.custom_op('after_anything::twice', mutates_args=())\n"
            "def op(x: torch.Tensor) -> torch.Tensor:\n    return x * 2\nop.register_fake(torch.empty_like)\n"
            "class Calls(nn.Module):\n    def forward(self, x):\n        return op(x)"
        ),
        "Calls()(xg)",
    ),
}


@pytest.mark.parametrize("name", PASSES)
def test_what_is_fine_passes(shell: InteractiveShell, name: str) -> None:
    earlier, cell = PASSES[name]
    assert shell.run_cell(earlier).success
    assert not is_refused(shell, cell)


def test_a_stance_of_the_users_is_not_for_plain_modules(shell: InteractiveShell) -> None:
    shell.run_cell("ran = []\ndef backend(graph, _):\n    ran.append(graph)\n    return graph.forward")
    for stance in ("'default', force_backend=backend", "'fail_on_recompile'", "'default', skip_guard_eval_unsafe=True"):
        cell = f"twice(xg)\nwith torch.compiler.set_stance({stance}):\n    twice(xb)"
        assert shell.run_cell(f"{LENIENT}\n{cell}").success, stance
    assert shell.user_ns["ran"] == []
