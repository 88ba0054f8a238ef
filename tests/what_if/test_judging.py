"""What-ifs about the judging: the same captures, judged again without a compile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import inductor_debug_jupyter.pipeline.what_if.outputs as outputs
from inductor_debug_jupyter import ShapeConstraint, capture, last_session
from inductor_debug_jupyter.pipeline.errors import NotFoundError, OptionError, ProfileError, UsageError
from inductor_debug_jupyter.pipeline.session import DebugSession
from inductor_debug_jupyter.pipeline.store import ArtifactStore

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Net(nn.Module):
    """An op that some targets lack, one that comes apart, and sizes that are no multiples of 64."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Linear(70, 80)
        self.down = nn.Linear(80, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = nn.functional.gelu(self.up(x))
        return self.down(torch.cumsum(h, 1))


def seen(**options: Any) -> DebugSession:
    torch.manual_seed(0)
    with capture(eager=True, lower="aot", **options) as session, torch.no_grad():
        Net()(torch.randn(4, 70))
    return session


def titles(findings: Any) -> list[str]:
    return sorted(finding.title for finding in findings)


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*args: object, **options: object) -> None:
        raise AssertionError("the model ran again")

    monkeypatch.setattr(outputs, "run_call", run)


@pytest.mark.usefixtures("nothing_runs")
def test_another_target_judges_the_same_captures() -> None:
    session = seen()
    assert titles(session.findings) == []
    trial = session.try_out(target="stick128")
    assert trial.title == "target default → stick128"
    assert titles(trial.changes.new) == ["70 is not a multiple of 64", "80 is not a multiple of 64"]
    assert trial.changes.gone == trial.changes.same == ()
    assert trial.session.captures is session.captures, "nothing was compiled"
    assert trial.after.target == "stick128"
    assert trial.changes.what == ("findings", "coverage", "limit"), "what is refused does not run on the target"
    assert trial.changes.figure("numbers").after == "as before: nothing ran again"
    # The same as if the cell had been captured with that target.
    assert titles(trial.session.findings) == titles(seen(target="stick128").findings)
    assert titles(session.findings) == [], "the session itself is as it was"
    assert session.trials == (trial,)


@pytest.mark.usefixtures("nothing_runs")
def test_alignment_limit_dtypes_and_deny_are_tried_alone_and_together() -> None:
    session = seen(target="stick128")
    aligned = session.try_out(alignment=10)
    assert aligned.title == "alignment 64 → 10"
    assert titles(aligned.changes.gone) == ["70 is not a multiple of 64", "80 is not a multiple of 64"]
    assert titles(aligned.changes.new) == ["64 is not a multiple of 10"]
    assert aligned.changes.figure("findings").kind == "better"
    reworded = session.try_out(alignment=128).changes
    assert sorted((before.title, after.title) for before, after in reworded.reworded) == [
        ("70 is not a multiple of 64", "70 is not a multiple of 128"),
        ("80 is not a multiple of 64", "80 is not a multiple of 128"),
    ]
    assert titles(reworded.new) == ["64 is not a multiple of 128"]
    assert reworded.figure("findings").change == "1 new, 2 in other words"
    together = session.try_out(alignment=1, max_memory="4KiB", dtypes="float16", deny=["aten.gelu"])
    rules = {finding.rule_id for finding in together.changes.new}
    assert rules == {"memory.limit", "op.unsupported"}, "float32 is kept as float16 there, so that it is taken"
    assert {finding.rule_id for finding in seen().try_out(dtypes="float16").changes.new} == {"dtype.unsupported"}
    assert together.after.memory_limit == 4096
    assert together.title == (
        "alignment 64 → 1, memory limit 119 GiB → 4 KiB, "
        "dtypes float16, float32, int64, int32, int8, uint8, bool → float16, without aten.gelu"
    )


@pytest.mark.usefixtures("nothing_runs")
def test_an_op_on_the_cpu_is_no_finding_but_a_fallback() -> None:
    session = seen(target="stick128")
    denied = session.try_out(deny=["aten.cumsum"]).session
    assert "the target has no aten.cumsum" in titles(denied.findings)
    trial = denied.try_out(fallback=["cumsum"])
    assert titles(trial.changes.gone) == ["the target has no aten.cumsum"]
    assert trial.changes.new == ()
    (entry,) = (each for each in trial.session.coverage.fallbacks if each.op == "cumsum")
    assert (entry.count, entry.reason) == (1, "it is meant for the CPU")
    # One that the target has: it leaves, and what it reads and makes has to move.
    moved = seen(target="default").try_out(fallback="gelu").changes
    assert moved.figure("on the CPU").after == "1"
    assert moved.figure("on the target").kind == "worse"
    before, after = (
        moved.figure("moved between CPU and target").before,
        moved.figure("moved between CPU and target").after,
    )
    assert (before, after) == ("0 B", "2.5 KiB"), "4 × 80 floats there, and as many back"
    assert moved.what == ("coverage", "transfers")


@pytest.mark.usefixtures("nothing_runs")
def test_only_the_problems_of_the_op_itself_go_with_it() -> None:
    session = seen(target="stick128")
    trial = session.try_out(fallback=["addmm"])
    gone, stay = titles(trial.changes.gone), titles(trial.session.findings)
    assert gone == ["70 is not a multiple of 64"], "only the products read 70"
    assert stay == ["80 is not a multiple of 64"], "gelu and cumsum stay on the target"


@pytest.mark.usefixtures("nothing_runs")
def test_a_node_alone_on_the_cpu_and_it_is_said_which() -> None:
    session = seen()
    nodes = [node.name for node in session.captures[0].graph("forward").calls if "addmm" in node.target]
    trial = session.try_out(node=nodes[1], fallback=True)
    assert trial.title == f"node {nodes[1]} on the CPU"
    assert "of 2 nodes that are addmm; fallback=['addmm'] means all of them" in trial.notes[0]
    (entry,) = trial.session.coverage.fallbacks
    assert (entry.count, [place.node for place in entry.places]) == (1, [nodes[1]])
    segments = trial.session.coverage.graphs[0].segments
    assert [node for segment in segments if segment.side == "cpu" for node in segment.nodes if "addmm" in node] == [
        nodes[1]
    ]
    every = session.try_out(fallback=["addmm"])
    assert every.session.coverage.count("fallback") == 2
    with pytest.raises(NotFoundError, match="no judged graph has a node 'addmm_9', or what became of it"):
        session.try_out(node="addmm_9", fallback=True)
    # A node of Dynamo's graph stands for what became of it.
    captured = session.captures[0]
    linear = [
        node.name
        for node in captured.graph("dynamo").calls
        if node.name in captured.graph("forward").node(nodes[0]).origins
    ]
    traced = session.try_out(node=linear[0], graph=(captured.compile_id, "dynamo"), fallback=True)
    assert traced.title == f"node {nodes[0]} on the CPU"
    with pytest.raises(NotFoundError, match="forward has no node 'nobody'"):
        session.try_out(node="nobody", graph=(captured.compile_id, "forward"), fallback=True)
    with pytest.raises(OptionError, match="is an input or the output"):
        session.try_out(node=session.captures[0].graph("forward").nodes[0].name, fallback=True)


@pytest.mark.usefixtures("nothing_runs")
def test_decomposition_on_and_off() -> None:
    session = seen().try_out(deny=["gelu"]).session
    assert titles(session.findings) == ["the target has no gelu"]
    on = session.try_out(decompose={"gelu": True})
    assert titles(on.changes.gone) == ["the target has no gelu"]
    assert on.changes.figure("decomposed").after == "1"
    assert on.title == "gelu decomposed into erf, mul, add"
    off = on.session.try_out(decompose={"gelu": False})
    assert titles(off.changes.new) == ["the target has no gelu"]
    own = session.try_out(decompose={"gelu": ["tanh", "mul"]})
    assert own.changes.figure("decomposed").after == "1"
    gelu = next(node.name for node in session.captures[0].graph("forward").calls if "gelu" in node.target)
    assert titles(session.try_out(node=gelu, decompose=True).changes.gone) == ["the target has no gelu"]
    with pytest.raises(OptionError, match="the parts of cumsum are not known"):
        session.try_out(decompose={"cumsum": True})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({}, "nothing to try; allowed: target=, "),
        ({"target": "stik128"}, "unknown target 'stik128'; allowed: .*; did you mean stick128?"),
        ({"alignment": 0}, "alignment: '0' is not allowed; allowed: a whole number from 1 up"),
        ({"alignment": "many"}, "alignment: 'many' is not allowed"),
        ({"max_memory": "much"}, "max_memory: 'much' is not allowed"),
        ({"dtype": "int8"}, "dtype='int8'; allowed: float32, float16, bfloat16, float64"),
        ({"batch": 0}, "batch=0; allowed: a whole number from 1 up"),
        ({"batch": True}, "batch=True; allowed: a whole number from 1 up"),
        ({"batch": "64"}, "batch='64'; allowed: a whole number from 1 up"),
        ({"batch": {"x": -1}}, r"batch\['x'\]=-1; allowed: a whole number from 1 up"),
        ({"dims": {"batch": 1}, "sequence": 4}, "give batch= as well"),
        ({"dims": {"rows": 1}, "batch": 4}, "dims has 'rows'; allowed: batch, sequence"),
        ({"fallback": True}, "fallback=True; allowed: names of ops"),
        ({"fallback": ["cumsumm"]}, "no captured graph has the op 'cumsumm'; there are .*; did you mean cumsum?"),
        ({"decompose": True}, "decompose=True; allowed: "),
        ({"decompose": {"gelu": 3}}, r"decompose\['gelu'\]=3; allowed: True, False or the names of its parts"),
        ({"node": "addmm"}, "node='addmm': nothing to try"),
        ({"node": "addmm", "alignment": 3}, "node='addmm' needs fallback=True"),
    ],
)
def test_a_bad_value_is_one_line_that_names_it(changes: dict[str, Any], message: str) -> None:
    session = seen()
    with pytest.raises((OptionError, ProfileError), match=message) as raised:
        session.try_out(**changes)
    assert "\n" not in str(raised.value)
    assert session.trials == ()


def test_nothing_captured_and_a_session_that_still_captures() -> None:
    with capture() as session, pytest.raises(UsageError, match="still capturing"):
        session.try_out(alignment=3)
    with pytest.raises(NotFoundError, match="nothing was captured"):
        session.try_out(alignment=3)


def test_a_session_with_rules_of_its_own() -> None:
    session = seen(constraints=[ShapeConstraint(alignment=16)])
    assert titles(session.findings) == ["70 is not a multiple of 16"]
    with pytest.raises(OptionError, match=r"alignment=64: this session has rules of its own .* give target= as well"):
        session.try_out(alignment=64)
    assert session.try_out(fallback=["addmm"]).changes.gone[0].title == "70 is not a multiple of 16"
    changes = session.try_out(target="stick128").changes
    assert titles(changes.new) == ["70 is not a multiple of 64", "80 is not a multiple of 64"]
    assert titles(changes.gone) == ["70 is not a multiple of 16"]


def test_it_is_a_session_that_can_be_saved_and_is_not_before_that() -> None:
    session = seen()
    trial = session.try_out(target="stick128")
    store = ArtifactStore("debug_artifacts")
    assert [saved.id for saved in store.sessions()] == [session.id]
    assert last_session() is session
    path = trial.save()
    assert path.is_file()
    assert trial.saved == path
    ids = {saved.id: saved for saved in store.sessions()}
    assert set(ids) == {session.id, trial.session.id}
    assert ids[trial.session.id].name == "Net · what if target default → stick128"
    loaded = DebugSession.load(path)
    assert titles(loaded.findings) == titles(trial.session.findings)
    assert f"of session {session.id}: target default → stick128" in str(loaded)
    other = trial.save("elsewhere.json")
    assert DebugSession.load(other).id == trial.session.id


def test_a_loaded_session_can_be_judged_again_and_says_what_its_file_lacks(tmp_path: Any) -> None:
    loaded = DebugSession.load(seen(target="stick128").save(tmp_path / "s.json"))
    trial = loaded.try_out(alignment=10)
    assert titles(trial.changes.new) == ["64 is not a multiple of 10"]
    assert trial.notes == ()
    assert trial.title == "alignment 64 → 10"
    with pytest.raises(NotFoundError, match="no model call was kept"):
        loaded.try_out(batch=3)
    judged = seen(target="stick128").record
    with_more = replace(judged, findings=judged.findings[1:])
    told = DebugSession.of_record(with_more).try_out(alignment=10).notes
    assert "judged by more than stick128 says" in told[0]
    unknown = DebugSession.of_record(replace(with_more, target="my-chip"))
    with pytest.raises(UsageError, match="the session's target 'my-chip' is not built in"):
        unknown.try_out(alignment=10)
    assert unknown.try_out(target="stick128").title == "target my-chip → stick128"


def test_the_text_and_the_dict_say_the_same() -> None:
    trial = seen().try_out(target="stick128")
    lines = str(trial).splitlines()
    assert lines[:2] == ["What if: target default → stick128", "  changes findings, coverage and limit"]
    assert lines[3].split() == ["before", "after"]
    assert any(line.split()[:6] == ["findings", "none", "2", "errors", "▲", "2"] for line in lines)
    assert "New (2)" in lines
    assert all(len(line) <= 120 for line in lines[:16])
    told = trial.to_dict()
    assert told["changes"] == ["findings", "coverage", "limit"]
    assert [each["title"] for each in told["findings"]["new"]] == [each.title for each in trial.changes.new]
    import json

    assert json.loads(json.dumps(told)) == told
