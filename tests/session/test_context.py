"""What a session was judged with travels whole: into what-ifs, their fix-its and further runs."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import ShapeConstraint, capture
from inductor_debug_jupyter.pipeline.devices import JudgingContext
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.records import KernelSpec, Transfer
from inductor_debug_jupyter.pipeline.session import DebugSession
from inductor_debug_jupyter.pipeline.settings import resolve

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(64, 70)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cumsum(nn.functional.gelu(self.up(x)), 1)


def seen(**options: Any) -> DebugSession:
    torch.manual_seed(0)
    with capture(eager=True, lower="aot", keep_inputs=True, **options) as session, torch.no_grad():
        Net()(torch.randn(4, 64))
    return session


def titles(record: Any) -> list[str]:
    return sorted(finding.title for finding in record.findings)


@pytest.mark.parametrize(
    ("change", "denied"), [({"fallback": ["cumsum"]}, "cumsum"), ({"decompose": {"gelu": True}}, "gelu")]
)
def test_fixits_of_a_what_if_are_judged_as_the_what_if_is(change: dict[str, Any], denied: str) -> None:
    session = seen(target="stick128").try_out(deny=[denied]).session
    what_if = session.try_out(**change).session
    assert titles(what_if) == ["70 is not a multiple of 64"]
    assert titles(what_if.try_fixits([]).after) == ["70 is not a multiple of 64"], "the choice is not forgotten"
    result = what_if.fix_all()
    assert [each.title for each in result.fixits] == ["pad 70 to 128 (+83%)"]
    assert result.accepted
    what_if.apply(*result.fixits)
    assert [each for each in what_if.findings if each.severity == "error"] == []


def test_a_node_on_the_cpu_is_not_silently_forgotten_by_another_run() -> None:
    what_if = seen(target="stick128").try_out(node="cumsum", fallback=True).session
    for again in (what_if.fix_all, lambda: what_if.try_fixits([]), lambda: what_if.try_out(batch=2)):
        with pytest.raises(OptionError, match="another run has graphs of its own"):
            again()


def test_an_op_stays_on_the_cpu_when_the_target_or_the_batch_changes() -> None:
    what_if = seen(target="stick128").try_out(fallback=["cumsum"]).session
    for changed in (what_if.try_out(target="default"), what_if.try_out(batch=2)):
        assert [each.op for each in changed.session.coverage.fallbacks if "meant" in each.reason] == ["cumsum"]
        assert changed.session.device_profile.cpu == what_if.device_profile.cpu


def test_rules_of_the_users_own_go_along_until_the_target_changes() -> None:
    session = seen(constraints=[ShapeConstraint(alignment=16)])
    what_if = session.try_out(fallback=["cumsum"]).session
    assert what_if.rules == session.rules
    assert titles(what_if.try_fixits([]).after) == ["70 is not a multiple of 16"]
    with pytest.raises(OptionError, match="rules of its own"):
        what_if.try_out(alignment=3)
    assert titles(what_if.try_out(target="stick128").session) == ["70 is not a multiple of 64"]


def test_nobody_changes_what_a_session_was_judged_with() -> None:
    context = JudgingContext.of(resolve({"target": "stick128", "strict": True}))
    assert context.strict
    with pytest.raises(FrozenInstanceError):
        context.profile = context.profile  # type: ignore[misc]
    session = DebugSession(context.settings)
    with pytest.raises(AttributeError):
        session.device_profile = context.profile  # type: ignore[misc]
    assert session.strict
    assert [rule.rule_id for rule in session.rules] == [rule.rule_id for rule in context.rules]


def test_a_what_if_knows_which_calls_were_kept_and_whether_inputs_would_recompile() -> None:
    """It is the same capture, judged otherwise; before, a graph without a kept call was taken for one that runs."""
    kept, gone = Net(), Net()
    torch.manual_seed(0)
    settings = resolve({"target": "stick128", "lower": "aot"})
    session = DebugSession(settings, eager=True, keep_inputs=True, inputs_limit=4 * 64 * 4)
    session.open()
    try:
        with torch.no_grad():
            kept(torch.randn(4, 64))
            gone(torch.randn(400, 64))
    finally:
        session.close()
    what_if = session.try_out(fallback=["cumsum"]).session
    assert session.fix_all().left_out == what_if.fix_all().left_out != ()
    with torch.no_grad():
        assert what_if.would_recompile_of(kept, torch.randn(4, 64)).answer == "no"


def test_a_comparison_of_a_what_if_keeps_what_adapters_reported() -> None:
    session = seen(target="stick128")
    transfer = Transfer("copy_to_device", "x", (4, 64), "float32", (4, 64), "float16", 512, 1024, "chip")
    kernel = KernelSpec("add", "add", "chip")
    record = replace(session.record, transfers=(transfer,), kernel_specs=(kernel,))
    what_if = DebugSession._of(JudgingContext.of(session.settings), record, session._calls)
    what_if.diff(candidate="aot_eager")
    assert what_if.transfers == (transfer,)
    assert what_if.kernel_specs == (kernel,)
