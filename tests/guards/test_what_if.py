"""What if an input were another one: the first call, changed by text, and answered without running."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import capture
from inductor_debug_jupyter.pipeline.errors import UsageError

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def call_of(function, *args, **kwargs):
    compiled = torch.compile(function, backend="eager")
    with capture(lower="dynamo") as session:
        compiled(*args, **kwargs)
    session.keep = compiled  # the session itself keeps nothing alive
    return session


def scale(x, n, flag=True, *, batch=None):
    y = x * n
    if flag:
        y = y + 1
    if batch is not None:
        y = y + batch["bias"].sum()
    return y


def test_every_input_is_a_text_that_can_be_changed():
    x = torch.ones(3, 4).t().requires_grad_()
    session = call_of(scale, x, 2, False, batch={"bias": torch.ones(2, dtype=torch.int64)})
    assert session.what_if.functions == ("scale",)
    assert session.what_if.inputs() == {
        "x": "float32[4, 3] stride=(1, 4) requires_grad",
        "n": "2",
        "flag": "False",
        "batch['bias']": "int64[2]",
    }
    assert session.what_if.ask({}).answer == "no"
    for name, text, varies in (
        ("x", "float32[5, 3] stride=(1, 5) requires_grad", "x.shape[0]"),
        ("x", "float64[4, 3] stride=(1, 4) requires_grad", "x.dtype"),
        ("x", "float32[4, 3] stride=(1, 4)", "x.requires_grad"),
        ("x", "float32[4, 3] requires_grad", "x.stride(0)"),
        ("n", "3", "n"),
        ("flag", "True", "flag"),
        ("batch['bias']", "int64[5]", "batch['bias'].shape[0]"),
    ):
        answer = session.what_if.ask({name: text})
        assert (answer.answer, answer.varies) == ("yes", varies)
    assert session.what_if.ask({}, grad=False).varies == "grad_mode"


def test_one_tensor_passed_twice_stays_one_until_it_is_changed():
    def add(a, b):
        return a + b

    x = torch.ones(3)
    session = call_of(add, x, x)
    assert session.what_if.ask({}).answer == "no"
    assert session.what_if.ask({"b": "float32[4]"}).answer == "yes"


def test_a_marked_dimension_stays_marked():
    x = torch.ones(4, 3)
    torch._dynamo.mark_dynamic(x, 0)
    session = call_of(lambda x: x * 2, x)
    assert session.what_if.ask({"x": "float32[9, 3]"}).answer == "no"
    assert session.what_if.ask({"x": "float32[9, 4]"}).answer == "yes"


def test_modules_take_their_parameters_names():
    class Net(nn.Module):
        def forward(self, tokens, mask=None):
            return tokens + 1

    session = call_of(Net(), torch.ones(2, dtype=torch.int64))
    assert session.what_if.functions[0].endswith("Net.forward")
    assert session.what_if.inputs() == {"tokens": "int64[2]"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"y": "3"}, "'y' is no input that can be changed; inputs: x, n"),
        ({"n": "three"}, "n = 'three' is not allowed; allowed: a tensor such as"),
        ({"x": "float33[2]"}, "'float33\\[2\\]' is no tensor; allowed: float32"),
        ({"x": "3"}, "'3' is no tensor"),
        ({"x": "float32[99999999, 99999999, 99999]"}, "float32\\[99999999"),
    ],
)
def test_bad_text_gets_one_clear_line(changes, message):
    session = call_of(scale, torch.ones(4, 3), 2)
    with pytest.raises(UsageError, match=message) as error:
        session.what_if.ask(changes)
    assert "\n" not in str(error.value)


def test_what_is_neither_tensor_nor_plain_is_held_weakly():
    class Config:
        n = 2

    config = Config()
    session = call_of(lambda x, config: x * config.n, torch.ones(3), config)
    assert session.what_if.inputs() == {"x": "float32[3]"}
    assert session.what_if.ask({}).answer == "no"
    del config
    with pytest.raises(UsageError, match=r"config \(.*Config\) is gone"):
        session.what_if.ask({})
