"""What runs a call again runs it under the user's autocast: a comparison of something else would be no answer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.capture.calls import CallModes
from inductor_debug_jupyter.pipeline.session import DebugSession


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> DebugSession:
    folder: Path = tmp_path_factory.mktemp("artifacts")
    model = nn.Sequential(nn.Linear(64, 100), nn.ReLU(), nn.Linear(100, 64))
    with (
        capture(target="stick128", eager=True, lower="aot", keep_inputs=True, artifacts=str(folder)) as made,
        torch.autocast("cpu", dtype=torch.float16),
    ):
        assert model(torch.randn(64, 64)).dtype == torch.float16
    return made


def test_a_comparison_is_of_what_the_cell_ran(session: DebugSession) -> None:
    (output,) = session.diff(candidate="aot_eager").record.outputs
    assert (output.dtype, output.candidate_dtype) == ("float16", "float16")
    assert not torch.is_autocast_enabled("cpu")


def test_a_search_too(session: DebugSession) -> None:
    found = session.localize("aot_eager")
    graph = session.captures[0].graph("forward")
    assert graph is not None
    assert any("_to_copy" in node.op for node in found.nodes), "the casts are there"


def test_a_fixit_is_tried_on_the_graph_that_was_judged(session: DebugSession) -> None:
    offers = session.fixits(0)
    assert offers
    graph = offers[0].after.captures[0].graph("forward")
    assert graph is not None
    assert "float16" in {node.dtype for node in graph.calls}


def test_what_if_differs_in_what_was_asked_alone(session: DebugSession) -> None:
    trial = session.try_out(batch=128)
    assert "changes transfers and memory" in str(trial), "what is refused runs on the CPU, and has more to move"
    again = trial.session.try_out(batch=64)
    assert "changes transfers and memory" in str(again), "what came out is run the same way"


def test_what_is_on_now_is_off_where_it_was_off() -> None:
    off = CallModes.now()
    with torch.autocast("cpu", dtype=torch.float16):
        on = CallModes.now()
        with off.again():
            assert not torch.is_autocast_enabled("cpu")
        assert torch.is_autocast_enabled("cpu")
    with on.again():
        assert torch.get_autocast_dtype("cpu") == torch.float16
    assert not torch.is_autocast_enabled("cpu")
