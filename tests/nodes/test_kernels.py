"""A node as Inductor computed it: the kernel that it went into, what that was given, what it wrote."""

from __future__ import annotations

import ast
from typing import Any

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import DebugSession, capture
from inductor_debug_jupyter.jupyter.panel import wire
from inductor_debug_jupyter.jupyter.panel.node_binder import NodeBinder
from inductor_debug_jupyter.pipeline.errors import NotFoundError, UsageError
from inductor_debug_jupyter.pipeline.torch_compat import patches
from inductor_debug_jupyter.pipeline.torch_compat.kernel_arguments import plan_of

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.first(x)
        return (torch.erf(hidden) * 2 + hidden).sum(-1)


X = torch.linspace(-2, 2, 128).reshape(8, 16)


@pytest.fixture(scope="module")
def session() -> DebugSession:
    torch._dynamo.reset()
    with capture(eager=True, lower="inductor", keep_inputs=True) as made:
        Net.kept = net = Net()  # type: ignore[attr-defined]
        net(X)
    return made


def test_a_fused_kernel_in_ones_hands(session: DebugSession) -> None:
    hidden = session.node("erf", candidate="inductor")
    assert hidden.kernel.startswith("cpp_fused_")
    with pytest.raises(NotFoundError, match=rf"erf lives only inside kernel {hidden.kernel}; of its \d+ nodes these"):
        hidden.run()
    (seen,) = hidden.outputs()
    assert seen in str(hidden.values.hidden)
    node = session.node(seen, candidate="inductor")
    assert node.kernel == hidden.kernel
    assert torch.allclose(node.run(), session.node(seen).run(), atol=1e-5)
    assert list(node.inputs()) == ["addmm"], "the kernel reads what the product wrote"
    function = node.as_function()
    assert torch.equal(function(**node.inputs())[seen].flatten(), node.run().flatten())
    zeros = function(torch.zeros(8, 16))[seen]
    assert torch.equal(zeros.flatten(), torch.zeros(8))
    with pytest.raises(UsageError, match=r"addmm is torch.float32\[4, 16\]; allowed: torch.float32\[8, 16\]"):
        function(torch.zeros(4, 16))
    assert patches.installed() == ()


def test_a_library_kernel_and_one_of_the_backward(session: DebugSession) -> None:
    product = session.node("addmm", candidate="inductor")
    assert "addmm" in product.kernel
    assert torch.allclose(product.run(), session.node("addmm").run(), atol=1e-5)
    made = product.as_function()(**product.inputs())
    assert torch.equal(made["addmm"], product.run())
    graph = session.captures[0].graph("backward")
    assert graph is not None
    name = next(node.name for node in graph.calls if "aten.mm" in node.target)
    backward = session.node(name, candidate="inductor")
    assert torch.allclose(backward.run(), session.node(name).run(), atol=1e-4)


def test_the_panels_other_button(session: DebugSession) -> None:
    namespace: dict[str, Any] = {}
    binder = NodeBinder(session, namespace)
    assert binder.compiled == [session.captures[0].compile_id]
    bound = binder.bind(wire.BindNode(compile_id="", stage="forward", node="addmm", kernel=True))
    assert list(namespace) == ["kernel_addmm_inputs", "kernel_addmm_output", "kernel_addmm"]
    assert bound["code"] == "kernel_addmm(**kernel_addmm_inputs)['addmm']"
    assert torch.equal(eval(bound["code"], namespace), namespace["kernel_addmm_output"])
    inside = binder.bind(wire.BindNode(compile_id="", stage="forward", node="erf", kernel=True))
    assert "kernel_erf_output" not in namespace
    assert "erf lives only inside kernel" in inside["notes"][0]


def test_roles_of_arguments() -> None:
    source = (
        "cpp_fused_add_0 = async_compile.cpp_pybinding(['float*', 'const float*', 'float*', 'const int64_t'], r'''\n"
        'extern "C"  void kernel(float* in_out_ptr0,\n const float* in_ptr0,\n float* out_ptr0, const int64_t ks0)\n'
        "''')\n"
    )
    statement = ast.parse("cpp_fused_add_0(buf2, reinterpret_tensor(primals_1, (8, 4), (4, 1), 0), buf3, s0)").body[0]
    planned = plan_of(statement, source, {"buf3": "add", "buf2": "mul"}, ["buf2", "buf3"])
    assert planned is not None
    assert planned[1].labels == ("mul", "primals_1", "add", "s0")
    assert planned[1].roles == ("in_out", "in", "out", "in")
    statement = ast.parse("extern_kernels.mm(buf1, reinterpret_tensor(arg1, (4, 2), (1, 4), 0), out=buf4)").body[0]
    planned = plan_of(statement, source, {"buf4": "mm", "buf1": "relu"}, ["buf4"])
    assert planned is not None
    assert planned[1].labels == ("relu", "arg1")
    assert planned[1].keywords == {"out": ("mm", "out")}
