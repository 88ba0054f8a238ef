"""Twelve ways to write the cell: outputs as without the magic, a session that captured it, nothing left patched."""

import pytest

SETUP = """
import torch
from torch import nn
torch._dynamo.reset()
torch.manual_seed(0)

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.drop = nn.Dropout(0.5)
        self.norm = nn.BatchNorm1d(16)
    def forward(self, x):
        h = self.drop(self.up(x))
        return torch.relu(self.norm(h))

class Failing(Net):
    def forward(self, x):
        y = super().forward(x)
        raise ValueError("the model's own error")

@torch.compile
def scaled(x, factor=2.0):
    return (x * factor).sum()

net, failing, x = Net(), Failing(), torch.randn(4, 8)
"""

WAYS = {
    "eager call": "torch.manual_seed(1)\nprint('before')\nnet(x)",
    "torch.compile": "compiled = torch.compile(net.eval())\ncompiled(x)",
    "decorated function from an earlier cell": "scaled(x)",
    "module.compile()": "net.eval().compile()\nnet(x)",
    "training loop": (
        "optimizer = torch.optim.SGD(net.parameters(), lr=0.1)\n"
        "for step in range(3):\n"
        "    optimizer.zero_grad()\n"
        "    loss = net(x).sum()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    print(step, loss.item())\n"
        "net.norm.num_batches_tracked, net.up.weight.sum().item()"
    ),
    "await": "import asyncio\nawait asyncio.sleep(0.01)\nnet.eval()(x)",
    "error in the model": "print('before')\nfailing(x)\nprint('never')",
    "KeyboardInterrupt": (
        "import os, signal, time\nnet.eval()(x)\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(5)\nprint('never')"
    ),
    "nested function": (
        "def outer(v):\n    def inner(w):\n        return net.eval()(w)\n    return inner(v) + 1\nouter(x)"
    ),
    "without gradients, over a list of inputs": (
        "net.eval()\nwith torch.no_grad():\n    outs = [net(v) for v in (x, x * 2)]\n[o.sum().item() for o in outs]"
    ),
    "two models": "other = Net().eval()\ntorch.manual_seed(2)\na = net(x)\nb = other(x)\n(a.sum().item(), b.shape)",
}


@pytest.mark.parametrize("way", WAYS)
def test_same_outputs_and_a_session(kernel, way):
    cell = WAYS[way]
    assert not kernel.run(SETUP).error
    # A comment in the magic's place keeps the line numbers of the two tracebacks comparable.
    plain = kernel.run(f"# without\n{cell}")
    kernel.run(SETUP)
    debugged = kernel.run(f"%%inductor_debug --no-panel --as session\n{cell}")
    assert list(debugged.visible()) == _as_if_without(plain.visible())
    assert debugged.displays == []
    assert int(kernel.value("len(session.captures)")) >= (2 if way == "two models" else 1)
    assert int(kernel.value("len(session.captures[0].graph('dynamo').calls)")) >= 2


def test_one_expression_is_a_way_too(kernel):
    assert not kernel.run(SETUP).error
    plain = kernel.run("net.eval()(x)")
    debugged = kernel.run("%inductor_debug --no-panel --as session net.eval()(x)")
    assert debugged.visible() == plain.visible()
    assert debugged.displays == []
    assert int(kernel.value("len(session.captures[0].graph('dynamo').calls)")) >= 2


def _as_if_without(visible):
    *rest, traceback = visible
    return [*rest, ["\n".join(line for line in text.splitlines() if "# without" not in line) for text in traceback]]


@pytest.mark.parametrize("way", ["eager call", "training loop"])
def test_a_second_run_of_the_cell_captures_again(kernel, way):
    kernel.run(SETUP)
    for _ in range(2):
        outcome = kernel.run(f"%%inductor_debug --no-panel --as session\n{WAYS[way]}")
        assert not outcome.error
        assert kernel.value("'backward' in session.captures[0].stages") == "True"


def test_a_function_compiled_and_called_cells_ago_is_captured_and_stays_compiled(kernel):
    kernel.run(SETUP)
    first = kernel.run("scaled(x)")
    debugged = kernel.run("%%inductor_debug --no-panel --as session\nscaled(x)")
    assert debugged.results == first.results
    assert kernel.value("session.captures[0].stages[-1]") == "'kernel'"
    with_stance = "with torch.compiler.set_stance('fail_on_recompile'):\n    print(scaled(x).item())"
    assert not kernel.run(with_stance).error
