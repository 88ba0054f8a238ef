"""A function that was compiled before is captured with its own mode, options, dynamic and fullgraph."""

import pytest
import torch
import torch._inductor.config as inductor_config

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.torch_compat import hooks

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def double(x):
    return torch.relu(x) * 2


@pytest.fixture
def settings_seen(monkeypatch):
    """Inductor's settings at the moment it generates code; the code is not compiled, which would take seconds."""
    seen = []
    original = hooks.IrSnapshot.of

    def of(nodes):
        seen.append((inductor_config.max_autotune, inductor_config.max_fusion_size))
        return original(nodes)

    monkeypatch.setattr(hooks.IrSnapshot, "of", of)
    with hooks.code_generation_only():
        yield seen


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ({"mode": "max-autotune-no-cudagraphs"}, (True, 64)),
        ({"options": {"max_fusion_size": 7}}, (False, 7)),
        ({}, (False, 64)),
    ],
    ids=["mode", "options", "neither"],
)
def test_mode_and_options(how, expected, settings_seen):
    compiled = torch.compile(double, **how)
    for _ in range(2):  # the second time it is one that was compiled before
        settings_seen.clear()
        with capture() as session, pytest.raises(AssertionError, match="generated to be read"):
            compiled(torch.ones(3))
        assert settings_seen
        assert set(settings_seen) == {expected}
        assert "code" in session.captures[0].stages


def test_dynamic():
    compiled = torch.compile(double, backend="aot_eager", dynamic=True)
    compiled(torch.ones(3))
    with capture() as session:
        compiled(torch.ones(3))
    shape = session.captures[0].graph("forward").calls[0].shape
    assert isinstance(shape[0], str)
    assert shape[0] in session.captures[0].graph("forward").symbols


def test_fullgraph():
    def printing(x):
        print(end="")
        return x * 2

    with capture() as loose:
        torch.compile(printing, backend="eager")(torch.ones(3))
    assert len(loose.graph_breaks) == 1
    torch._dynamo.reset()
    whole = torch.compile(double, backend="eager", fullgraph=True)
    whole(torch.ones(3))
    with capture() as session:
        whole(torch.ones(3))
    assert len(session.captures) == 1
    with pytest.raises(torch._dynamo.exc.Unsupported), capture():
        torch.compile(printing, backend="eager", fullgraph=True)(torch.ones(3))
