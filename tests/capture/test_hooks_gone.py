"""Remove each private torch hook in turn: the capture goes on without that part and says which part and why."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.torch_compat import hooks, module_calls, regions

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

ALL_STAGES = {
    "dynamo", "joint", "forward", "backward", "post_grad", "ir_pre_fusion", "ir_post_fusion", "code", "kernel",
}  # fmt: skip
SITES = hooks.sites()


def train_once(session_options):
    with capture(eager=True, **session_options) as session:
        out = nn.Linear(4, 4)(torch.ones(2, 4))
        out.sum().backward()
    assert out.shape == (2, 4)
    return session


def lost(site):
    """The same site under a name that no torch has."""
    *path, name = site.attribute.split(".")
    return replace(site, attribute=".".join([*path, f"{name}_of_another_torch"]))


@pytest.mark.parametrize("site", SITES, ids=[site.name.removeprefix("torch.") for site in SITES])
def test_each_hook_of_the_compiler(site, monkeypatch):
    monkeypatch.setattr(hooks, "sites", lambda: tuple(lost(each) if each is site else each for each in SITES))
    session = train_once({"lower": "aot"} if site.part in {"dynamo", "aot", "guards"} else {})
    (note,) = [note for note in session.notes if note.part == site.part]
    assert f"this torch has no {site.name}_of_another_torch" in str(note)
    if site.part == "dynamo":
        return  # nothing starts without it
    (graph,) = session.captures
    if site.attribute.startswith("log_ir_pre"):
        assert "ir_pre_fusion" not in graph.stages
        assert "this torch has no" in graph.missing["ir_pre_fusion"]
        assert "ir_post_fusion" in graph.stages
    elif site.part in {"post_grad", "code"}:
        assert graph.graph("post_grad") is not None or site.part == "post_grad"
        assert {"dynamo", "joint", "forward", "backward", "ir_pre_fusion"} <= set(graph.stages)
    elif site.part in {"kernels", "caches"}:
        assert set(graph.stages) == ALL_STAGES
    assert graph.graph("dynamo") is not None


def test_the_trace_log(monkeypatch):
    monkeypatch.setattr(hooks, "TRACE_SITE", lost(hooks.TRACE_SITE))
    session = train_once({"lower": "aot"})
    assert "trace: not captured (HookError: this torch has no torch._logging._internal.trace_log_of" in str(
        session.notes[0]
    )
    (graph,) = session.captures
    assert {"dynamo", "joint", "forward", "backward"} <= set(graph.stages)
    assert "torch.ops.aten.addmm.default" in graph.text("forward")
    assert graph.phases == ()


@pytest.mark.parametrize("index", [0, 1])
def test_the_way_to_compiled_functions(monkeypatch, index):
    sites = list(regions.SITES)
    sites[index] = lost(sites[index])
    monkeypatch.setattr(regions, "SITES", tuple(sites))
    compiled = torch.compile(nn.Linear(4, 4), backend="aot_eager")
    with capture() as session:
        compiled(torch.ones(2, 4))
    assert "already compiled functions: not captured" in str(session.notes[0])
    assert session.captures  # what is compiled now is seen all the same


@pytest.mark.parametrize("index", [0, 1])
def test_the_way_to_plain_modules(monkeypatch, index):
    sites = list(module_calls.SITES)
    sites[index] = lost(sites[index])
    monkeypatch.setattr(module_calls, "SITES", tuple(sites))
    with capture(eager=True) as session:
        out = nn.Linear(4, 4)(torch.ones(2, 4))
    assert out.shape == (2, 4)
    assert "plain modules: not captured" in str(session.notes[0])
    assert session.captures == ()
