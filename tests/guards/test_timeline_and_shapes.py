"""The timeline of compiles, recompile storms, and which sizes were left open by which line."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import GuardInspector, capture
from inductor_debug_jupyter.cli.main import main
from inductor_debug_jupyter.pipeline.views.guards import guards_data, guards_text, guards_view

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


class Step(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0

    def forward(self, x):
        return x * (self.step + 1)


def stormy(steps=5):
    net = Step()
    compiled = torch.compile(net, backend="eager")
    with capture(lower="dynamo") as session:
        for step in range(steps):
            net.step = step
            compiled(torch.ones(3))
    return session


def test_a_storm_is_named_with_what_varies_and_the_fix():
    (storm,) = guards_view(stormy().record)["storms"]
    assert (storm["name"], storm["varies"], storm["count"]) == ("Step.forward", "self.step", 4)
    assert storm["values"] == ["0", "1", "2", "3", "4"]
    assert storm["seconds"] > 0
    assert storm["text"].startswith("Step.forward compiled again 4 times because self.step varies: 0, 1, 2, 3, 4 (")
    assert "register_buffer('step'" in storm["hint"]


def test_a_storm_that_hits_torchs_limit_says_so(caplog):
    with torch._dynamo.config.patch(recompile_limit=4):
        session = stormy(7)
    (storm,) = guards_view(session.record)["storms"]
    assert "torch stopped compiling it" in storm["text"]
    assert [item.made for item in session.recompiles][-1] is False
    assert guards_view(session.record)["timeline"][-1]["kind"] == "refused"


def test_two_recompiles_are_no_storm():
    assert guards_view(stormy(3).record)["storms"] == []


def test_the_timeline_has_every_compile_with_its_call_and_cost(capsys):
    @torch.compile(backend="eager")
    def split(x):
        y = x + 1
        print("between")
        return y * 2

    with capture(lower="dynamo") as session:
        split(torch.ones(3))
        split(torch.ones(3))
        split(torch.ones(5))
    bars = guards_view(session.record)["timeline"]
    assert [(bar["kind"], bar["call"]) for bar in bars] == [
        ("first", 1),
        ("resumed", 1),
        ("recompile", 3),
        ("recompile", 3),
    ]
    assert all(bar["seconds"] > 0 for bar in bars)
    assert bars[2]["why"].startswith("x.shape[0] was 3, now 5")
    assert bars[2]["selection"]["line"] == session.recompiles[0].source.line


def test_open_sizes_have_their_range_and_the_line_that_constrained_them():
    @torch.compile(backend="eager", dynamic=True)
    def shaped(x, y):
        if x.shape[0] > 5:
            x = x * 2
        return x.view(2, -1), y + 1

    with capture(lower="dynamo") as session:
        shaped(torch.ones(8), torch.ones(4, 3))
    rows = {row["stands_for"]: row for row in guards_view(session.record)["symbols"]}
    x = rows["x.size()[0]"]
    assert (x["range"], x["value"]) == ("[6, ∞]", "8")
    told = "; ".join(x["constraints"])
    assert "x.size()[0] % 2) == 0" in told
    assert any("6 <= x.size()[0]" in each and "test_timeline_and_shapes.py, line" in each for each in x["constraints"])
    assert {"y.size()[0]", "y.size()[1]"} <= set(rows)
    assert f"{session.record.symbols[0].compile_id} " in guards_text(session.record)


def test_a_size_that_was_given_up_says_by_which_line():
    @torch.compile(backend="eager", dynamic=True)
    def fixed(x):
        if x.shape[0] == 8:
            return x * 2
        return x

    with capture(lower="dynamo") as session:
        fixed(torch.ones(8, 3))
    (row,) = [each for each in guards_view(session.record)["symbols"] if each["stands_for"] == "x.size()[0]"]
    assert row["fixed"] == "8"
    assert row["code"] == "if x.shape[0] == 8:"


def test_what_only_data_tells_is_a_symbol_too():
    def counted(x):
        return x * x.sum().item()

    with torch._dynamo.config.patch(capture_scalar_outputs=True), capture(lower="dynamo") as session:
        torch.compile(counted, backend="eager")(torch.ones(4, dtype=torch.int64))
    (row,) = [each for each in guards_view(session.record)["symbols"] if each["symbol"].startswith("u")]
    assert row["stands_for"] == "what the data tells"
    assert row["code"] == "return x * x.sum().item()"


def test_text_and_json_say_the_same_on_the_command_line(capsys):
    session = stormy()
    told = json.loads(json.dumps(guards_data(session.record)))
    assert [item["varies"] for item in told["recompiles"]] == ["self.step"] * 4
    assert told["recompiles"][0]["kind"] == "attribute"
    assert next(g["value"] for g in told["guards"] if g["expression"] == "L['self'].step") == "0"
    assert main(["analyze", "--type", "guards", "--format", "json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["session"] == session.id
    assert printed["storms"] == told["storms"]
    assert main(["analyze", "--type", "guards"]) == 0
    assert "Recompile storms (1)" in capsys.readouterr().out


def test_an_inspection_tells_the_same():
    net = Step()
    report = GuardInspector(lambda x, n: net(x) * n).inspect_calls((torch.ones(2), 1.5), (torch.ones(2), 2.5))
    told = json.loads(json.dumps(report.to_dict()))
    (recompile,) = told["recompiles"]
    assert (recompile["old"], recompile["new"], recompile["call"], recompile["varies"]) == ("1.5", "2.5", 2, "n")
    assert "x.shape" not in recompile["hint"]
    assert [bar["kind"] for bar in told["timeline"]] == ["first", "recompile"]


def test_nested_compiled_functions_are_one_graph():
    inner = torch.compile(lambda x: x * 2, backend="eager")
    outer = torch.compile(lambda x: inner(x) + 1, backend="eager")
    with capture(lower="dynamo") as session:
        outer(torch.ones(3))
    assert len(session.captures) == 1
    assert session.would_recompile(torch.ones(3)).answer == "no"
    assert session.would_recompile(torch.ones(4)).answer == "yes"
