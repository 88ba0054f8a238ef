"""Source line ↔ Dynamo node ↔ AOT node ↔ kernel, both ways, the backward included."""

import inspect

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import DebugSession, capture
from inductor_debug_jupyter.pipeline.errors import NotFoundError, UsageError


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.norm = nn.LayerNorm(32)

    def forward(self, x):
        h = self.up(x)
        h = torch.relu(h) + 1
        return self.norm(h).sum()


def line_of(text):
    lines, start = inspect.getsourcelines(Net)
    return start + next(number for number, line in enumerate(lines) if text in line)


@pytest.fixture(scope="module")
def session():
    torch._dynamo.reset()
    with capture(eager=True) as session:
        Net()(torch.randn(4, 16)).backward()
    return session


def names(nodes):
    return {node.name for node in nodes}


def test_a_line_leads_to_its_nodes_and_kernels_forward_and_backward(session):
    trace = session.trace(line=line_of("self.up(x)"), label="test_provenance.py")
    assert names(trace.at("dynamo")) == {"h"}
    assert names(trace.at("forward")) == {"permute", "addmm"}
    assert {"mm", "permute_1"} <= names(trace.at("backward"))
    assert {(kernel.stage, kernel.name) for kernel in trace.kernels} >= {
        ("forward", "extern_kernels.addmm"),
        ("backward", "extern_kernels.mm"),
    }


def test_a_dynamo_node_leads_to_what_was_made_of_it(session):
    trace = session.trace(node="layer_norm")
    assert {"var_mean", "rsqrt"} <= names(trace.at("forward"))
    assert names(trace.at("backward"))
    assert {kernel.stage for kernel in trace.kernels} == {"forward", "backward"}
    assert [line.text.strip() for line in trace.lines] == ["return self.norm(h).sum()"]


def test_a_backward_node_leads_back_to_the_forward_line(session):
    trace = session.trace(node="where")
    assert names(trace.at("dynamo")) == {"relu"}
    assert [line.line for line in trace.lines] == [line_of("torch.relu(h)")]
    assert {kernel.stage for kernel in trace.kernels} == {"backward"}


def test_a_kernel_leads_back_to_its_lines_and_every_kernel_does(session):
    (captured,) = session.captures
    fused = next(k for k in captured.kernels if k.language == "cpp" and k.stage == "forward")
    trace = session.trace(kernel=fused.name)
    assert [line.line for line in trace.lines] == [line_of("torch.relu(h)"), line_of("self.norm(h)")]
    assert {"relu", "layer_norm"} <= names(trace.at("dynamo"))
    for kernel in captured.kernels:
        assert kernel.code, kernel.name
        assert kernel.calls, kernel.name
        assert session.trace(kernel=kernel.name).lines, kernel.name


def test_there_and_back_again(session):
    """What a line leads to leads back to that line."""
    trace = session.trace(line=line_of("torch.relu(h)"), label="test_provenance.py")
    for node in trace.nodes:
        back = session.trace(node=node.name, stage=node.stage)
        assert line_of("torch.relu(h)") in {line.line for line in back.lines}, node
    for kernel in trace.kernels:
        assert line_of("torch.relu(h)") in {line.line for line in session.trace(kernel=kernel.name).lines}


def test_every_post_grad_node_that_computes_is_in_a_kernel_or_a_view_of_one(session):
    (captured,) = session.captures
    for stage, side in (("post_grad", "forward"), ("post_grad:backward", "backward")):
        in_kernels = {name for k in captured.kernels if k.stage == side for name in k.nodes}
        left = [node.target for node in captured.graph(stage).calls if node.name not in in_kernels]
        assert set(left) <= {"aten.permute.default", "operator.getitem", "aten.reshape.default"}


def test_a_trace_survives_saving_and_reads_well(session, tmp_path):
    loaded = DebugSession.load(session.save(tmp_path / "session.json"))
    asked = {"line": line_of("self.up(x)"), "label": "test_provenance.py"}
    assert loaded.trace(**asked) == session.trace(**asked)
    text = str(session.trace(**asked))
    assert f"test_provenance.py, line {line_of('self.up(x)')}: h = self.up(x)" in text
    assert "forward 1 kernel: extern_kernels.addmm" in text


def test_what_is_not_there_is_said(session):
    with pytest.raises(UsageError, match="exactly one of line=, node= and kernel="):
        session.trace()
    with pytest.raises(UsageError, match="exactly one"):
        session.trace(line=1, node="relu")
    with pytest.raises(NotFoundError, match="nothing that was captured comes from line 99999"):
        session.trace(line=99999)
    with pytest.raises(NotFoundError, match="no captured graph has a computing node 'nope'"):
        session.trace(node="nope")
    with pytest.raises(NotFoundError, match="no captured kernel is called 'nope'"):
        session.trace(kernel="nope")


def test_statistics_count_ops_dtypes_and_bytes(session):
    (captured,) = session.captures
    forward = captured.graph("forward").statistics
    assert forward.ops["aten.addmm.default"] == 1
    assert forward.dtypes == {"float32": 15}
    assert forward.parameter_bytes == 4 * (16 * 32 + 32 + 32 + 32)
    assert forward.input_bytes == 4 * (4 * 16)
    assert forward.activation_bytes > 4 * 4 * 32
    backward = captured.graph("backward").statistics
    saved = [n for n in captured.graph("backward").nodes if n.role == "saved"]
    assert saved
    assert backward.saved_bytes == sum(node.tensor.nbytes for node in saved)


def test_phases_are_timed_and_nested(session):
    (captured,) = session.captures
    assert {"bytecode_tracing", "backend_compile", "GraphLowering.run", "Scheduler.codegen", "build_guards"} <= set(
        captured.seconds
    )
    whole = next(phase for phase in captured.phases if phase.name == "entire_frame_compile")
    inner = next(phase for phase in captured.phases if phase.name == "backend_compile")
    assert inner.depth > whole.depth
    assert whole.start <= inner.start
    assert inner.seconds < whole.seconds
