"""The button "To namespace": a chosen node becomes the user's variables, and the pane says which."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from panel_requests import ask
from torch import nn

from inductor_debug_jupyter import DebugSession, capture
from inductor_debug_jupyter.jupyter.panel import DebugPanel, node_binder
from inductor_debug_jupyter.jupyter.panel.live_parts import LiveParts
from inductor_debug_jupyter.jupyter.panel.node_binder import NodeBinder

from .conftest import Kernel

CELL = """%%inductor_debug --as session --lower aot
net = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
out = net(torch.ones(4, 8))"""

PRESS = """panel = session.panel()
compile_id = session.captures[0].compile_id
name = [node.name for node in session.captures[0].graph("forward").calls if "addmm" in node.target][-1]
place = {"compile_id": compile_id, "stage": "forward", "node": name}
answer = panel.answer({"ask": "bind_node", "id": 1, **place})
code = panel.bound["code"]"""


@pytest.fixture
def session(fresh_dynamo: None) -> DebugSession:
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    with capture(eager=True, lower="aot", keep_inputs=True) as made:
        net(torch.ones(4, 8))
    return made


def bind(panel: DebugPanel, node: str) -> str:
    return ask(panel, "bind_node", compile_id=panel.record.captures[0].compile_id, stage="forward", node=node)


def test_the_pane_says_what_was_bound(session: DebugSession) -> None:
    namespace: dict[str, Any] = {}
    panel = DebugPanel(session.record, LiveParts(binder=NodeBinder(session, namespace)))
    assert panel.binding == {"can_bind": True, "compiled": []}, "nothing was lowered to kernels"
    assert bind(panel, "relu") == ""
    bound = panel.bound
    assert (bound["node"], bound["kernel"]) == ("relu", False)
    assert [row[0] for row in bound["rows"]] == ["relu_inputs", "relu_output", "relu"]
    assert bound["rows"][0][1] == "dict of self"
    assert "float32[4, 8]" in bound["rows"][1][1]
    assert bound["notes"] == []
    assert bound["code"] == "torch.equal(relu(**relu_inputs), relu_output)"
    assert eval(bound["code"], {"torch": torch}, namespace)


def test_a_name_of_the_users_and_a_node_that_is_not_there(session: DebugSession) -> None:
    namespace: dict[str, Any] = {"relu": "mine"}
    panel = DebugPanel(session.record, LiveParts(binder=NodeBinder(session, namespace)))
    assert bind(panel, "relu") == ""
    assert namespace["relu"] == "mine"
    assert panel.bound["notes"] == ["relu is yours and stays as it is: another name was chosen"]
    assert "has a node 'nobody'" in bind(panel, "nobody")
    assert panel.bound == {}
    assert "missing required field" in ask(panel, "bind_node", node="relu")


def test_without_ipython_nothing_is_said_to_be_bound(session: DebugSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_binder, "get_ipython", lambda: None)
    panel = DebugPanel(session.record, LiveParts(binder=NodeBinder(session)))
    assert bind(panel, "relu") == "no IPython here, so no variables to bind; session.node('relu') has the same"
    assert panel.bound == {}


def test_a_panel_of_a_record_alone_has_no_button(session: DebugSession) -> None:
    assert not DebugPanel(session.record).binding["can_bind"]


def test_in_a_real_kernel_the_next_cell_has_the_names(kernel: Kernel) -> None:
    assert not kernel.run(CELL).error
    assert kernel.value("session._calls.log.budget.limit") == str(1 << 30)
    kernel.run(PRESS)
    name = kernel.value("name").strip("'")
    assert kernel.value("type(answer).__name__") == "'Done'"
    assert kernel.value(f"torch.equal({name}(**{name}_inputs), {name}_output)") == "True"
    assert kernel.value(f"torch.equal({name}_output, out)") == "True", "eager mode's own, to the last bit"
    assert kernel.value(f"list({name}_inputs)") == "['self', 'mat1', 'mat2']"
    assert kernel.value("code") == f"'torch.equal({name}(**{name}_inputs), {name}_output)'"
    assert kernel.value("session.node('relu').into().names['function']") == "'relu'"
    assert kernel.value("relu(relu_inputs['self']).shape") == "torch.Size([4, 8])"
