"""IR is rendered when somebody looks, and comes out to the letter as if it had been rendered at once."""

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.capture import compile_in_progress
from inductor_debug_jupyter.pipeline.records import DeferredTexts
from inductor_debug_jupyter.pipeline.torch_compat import hooks

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(16, 32)
        self.norm = nn.LayerNorm(32)

    def forward(self, x):
        return torch.softmax(self.norm(torch.nn.functional.gelu(self.up(x))), -1).sum(1)


@pytest.mark.every(5)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_rendered_later_is_what_torch_renders_at_once(dtype, dynamic, monkeypatch):
    at_once, of, add = {}, hooks.IrSnapshot.of, compile_in_progress.CompileInProgress.add_generated

    def torch_renders(nodes):
        snapshot = of(nodes)
        snapshot.by_torch = "\n\n\n".join(node.debug_str() for node in nodes)
        return snapshot

    def keep(self, stage, made, is_backward):
        if stage.startswith("ir_"):
            at_once[f"{stage}:backward" if is_backward else stage] = made.by_torch
        add(self, stage, made, is_backward)

    monkeypatch.setattr(hooks.IrSnapshot, "of", torch_renders)
    monkeypatch.setattr(compile_in_progress.CompileInProgress, "add_generated", keep)
    x = torch.randn(4, 6, 16, dtype=dtype)
    if dynamic:
        torch._dynamo.mark_dynamic(x, 1)
    with capture(eager=True) as session:
        Block().to(dtype)(x).float().sum().backward()
    texts = session.captures[0].texts
    assert len(at_once) == 4
    for key, text in at_once.items():
        assert texts[key] == text, key
        assert len(text) > 500
    if dtype is not torch.float32:
        assert "torch.bfloat16" in texts["ir_post_fusion"] or "torch.float16" in texts["ir_post_fusion"]


def test_nothing_is_rendered_before_somebody_looks():
    asked = []

    def render():
        asked.append(1)
        return "text"

    texts = DeferredTexts({"ir_pre_fusion": render, "code": "code"})
    assert "ir_pre_fusion" in texts
    assert list(texts) == ["ir_pre_fusion", "code"]
    assert asked == []
    assert texts["ir_pre_fusion"] == texts.get("ir_pre_fusion") == "text"
    assert asked == [1]
    assert texts == {"ir_pre_fusion": "text", "code": "code"}


def test_a_text_that_cannot_be_rendered_costs_itself_only():
    def broken():
        raise RuntimeError("no words")

    texts = DeferredTexts({"ir_pre_fusion": broken, "code": "code"})
    assert dict(texts) == {
        "ir_pre_fusion": "# ir_pre_fusion could not be rendered: RuntimeError: no words\n",
        "code": "code",
    }
