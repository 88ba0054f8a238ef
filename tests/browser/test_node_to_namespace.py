"""A click on a node, a click on a button: its tensors are in the next cell's hands."""

from __future__ import annotations

import pytest

from .jupyterlab import LabPage

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

CELLS = [
    "%load_ext inductor_debug_jupyter\nimport torch\nfrom torch import nn\nrelu = 'mine'",
    """%%inductor_debug --as session --lower aot
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2))
out = net(torch.ones(4, 8))""",
]


def test_a_node_goes_to_the_namespace(lab: LabPage) -> None:
    panel = lab.panel_of("node/node.ipynb", CELLS, tab="graph")
    panel.locator("[data-idj='graph'] svg").wait_for()
    lab.python("session.select(node='relu')['node']")
    button = panel.locator("[data-idj='bind']")
    button.wait_for()
    button.focus()
    lab.page.keyboard.press("Enter")
    code = panel.locator("[data-idj='bound-code']")
    code.wait_for(timeout=60_000)
    assert code.text_content() == "torch.equal(relu_v2(**relu_v2_inputs), relu_v2_output)"
    told = panel.locator("[data-idj='bound']").text_content() or ""
    assert "relu is yours and stays as it is" in told
    assert "float32[4, 8]" in told
    assert panel.locator("[data-idj='bind']").evaluate("button => button === document.activeElement")
    assert lab.python("[relu, torch.equal(relu_v2(**relu_v2_inputs), relu_v2_output)]") == ["mine", True]
    lab.screenshot("node-to-namespace")
    lab.assert_clean()


FUSED = [
    "%load_ext inductor_debug_jupyter\nimport torch\nfrom torch import nn\nkernel_relu = 'mine'",
    """%%inductor_debug --as session
net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).requires_grad_(False)
out = net(torch.ones(4, 8))""",
]


def test_its_kernel_goes_to_the_namespace(lab: LabPage) -> None:
    """The other button, where Inductor compiled: the kernel that the node went into."""
    panel = lab.panel_of("node/kernel.ipynb", FUSED, tab="graph", seconds=250)
    panel.locator("[data-idj='graph'] svg").wait_for()
    lab.python("session.select(node='relu')['node']")
    button = panel.locator("[data-idj='bind-kernel']")
    button.wait_for()
    assert button.text_content() == "Its kernel"
    button.focus()
    lab.page.keyboard.press("Enter")
    code = panel.locator("[data-idj='bound-code']")
    code.wait_for(timeout=120_000)
    assert code.text_content() == "kernel_relu_v2(**kernel_relu_v2_inputs)['relu']"
    told = panel.locator("[data-idj='bound']").text_content() or ""
    assert "kernel_relu is yours and stays as it is" in told
    assert "computed by kernel cpp_fused" in told
    assert "float32[4, 8]" in told
    assert button.evaluate("button => button === document.activeElement")
    right = """[
        kernel_relu,
        torch.equal(kernel_relu_v2(**kernel_relu_v2_inputs)['relu'], kernel_relu_v2_output),
        torch.allclose(kernel_relu_v2_output, net[:2](torch.ones(4, 8)), atol=1e-6),
    ]"""
    assert lab.python(right) == ["mine", True, True]
    lab.screenshot("kernel-to-namespace")
    lab.assert_clean()
