"""What a capture compiled is taken out of the process, whatever else torch was doing."""

from __future__ import annotations

import logging
import weakref
from functools import partial

import pytest
import torch
from torch._dynamo.guards import CheckFunctionManager

from inductor_debug_jupyter import capture


class Doubled(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


@pytest.mark.usefixtures("fresh_dynamo")
def test_guards_that_torch_did_not_finish_building_stop_nothing(caplog: pytest.LogCaptureFixture):
    """Ctrl-C may strike while torch builds guards; the finalizer of such a half-built one stays registered."""
    half_built = CheckFunctionManager.__new__(CheckFunctionManager)
    finalizer = weakref.finalize(half_built, partial(half_built.invalidate, None))
    try:
        with caplog.at_level(logging.DEBUG, "inductor_debug_jupyter"), capture(eager=True, lower="dynamo") as session:
            Doubled()(torch.ones(2))
    finally:
        finalizer.detach()
    assert len(session.captures) == 1
    assert not [name for name in globals() if name.startswith(("__compiled_fn", "__resume"))]
    assert "stay" not in caplog.text
