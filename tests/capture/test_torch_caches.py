"""torch's own caches: bypassed without a trace by default, respected when asked."""

from pathlib import Path

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.records import STAGES


@pytest.fixture
def inductor_cache(tmp_path, monkeypatch):
    """An empty Inductor cache of this test's own, with what C++ compiles nothing new."""
    folder = tmp_path / "inductor"
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
    torch._dynamo.reset()
    yield folder
    torch._dynamo.reset()


def entries(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for kind in ("fxgraph", "aotautograd") for p in (folder / kind).rglob("*")}


def test_fresh_sees_everything_and_writes_nothing_a_hit_says_what_it_cannot_give(inductor_cache):
    model, x = nn.Linear(4, 4), torch.ones(2, 4)

    def train(**options):
        torch._dynamo.reset()
        compiled = torch.compile(model)
        with capture(**options) as session:
            compiled(x).sum().backward()
        (captured,) = session.captures
        return captured

    cold = train()
    assert cold.stages == STAGES
    assert (cold.missing, cold.caches) == ({}, {"aot": "bypassed", "fx": "bypassed"})
    assert entries(inductor_cache) == set()

    missed = train(fresh=False)
    assert missed.stages == STAGES
    assert (missed.missing, missed.caches) == ({}, {"aot": "missed", "fx": "missed"})
    written = entries(inductor_cache)
    assert written

    hit = train(fresh=False)
    assert hit.caches == {"aot": "hit", "fx": "hit"}
    assert set(STAGES) - set(hit.stages) == {"ir_pre_fusion", "ir_post_fusion"}
    assert set(hit.missing) == {"joint", "forward", "backward", "post_grad", "ir_pre_fusion", "ir_post_fusion"}
    assert "its text but not its nodes" in hit.missing["forward"]
    assert "fresh=True" in hit.missing["ir_pre_fusion"]
    assert hit.text("forward") == cold.text("forward")
    assert [k.name for k in hit.kernels] == [k.name for k in cold.kernels if k.language == "cpp"]

    again = train()
    assert again.stages == STAGES
    assert again.missing == {}
    assert entries(inductor_cache) == written
