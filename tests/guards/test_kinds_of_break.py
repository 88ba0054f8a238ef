"""Kinds of graph break that torch really has: one distinct entry each, on the user's own line, with torch's id."""

from __future__ import annotations

import copy
import ctypes
import gc
import json
import sys
import threading
import time
import warnings

import numpy as np
import pytest
import torch
from torch import nn

from inductor_debug_jupyter import capture

pytestmark = pytest.mark.usefixtures("fresh_dynamo")

BREAKS = []


def breaks_on(text, torch_id):
    """The function has one break, on the line that contains ``text``; ``torch_id`` may name two, of two torches."""

    def add(function):
        BREAKS.append((function, text, torch_id))
        return function

    return add


@breaks_on("if y.sum() > 0:", "GB0170")
def data_dependent_branch(x):
    y = x + 1
    if y.sum() > 0:
        y = y * 2
    return y


@breaks_on("while y.sum() < 10:", "GB0170")
def data_dependent_loop(x):
    y = x + 1
    while y.sum() < 10:
        y = y + 1
    return y


@breaks_on('print("here")', "GB0059")
def printing(x):
    y = x + 1
    print("here")
    return y * 2


@breaks_on('exec("1")', "GB0059")
def unsupported_builtin(x):
    y = x + 1
    exec("1")
    return y * 2


@breaks_on("factor = y.sum().item()", "GB0124")
def item(x):
    y = x + 1
    factor = y.sum().item()
    return y * factor


@breaks_on("factor = float(y.sum())", "GB0124")
def to_float(x):
    y = x + 1
    factor = float(y.sum())
    return y * factor


@breaks_on("numbers = y.tolist()", "GB0109")
def to_list(x):
    y = x + 1
    numbers = y.tolist()
    return y * numbers[0]


@breaks_on("torch._dynamo.graph_break()", "GB0025")
def asked_for(x):
    y = x + 1
    torch._dynamo.graph_break()
    return y * 2


@torch.compiler.disable
def left_alone(y):
    return y * 3


@breaks_on("y = left_alone(y)", "GB0098")
def disabled(x):
    y = x + 1
    y = left_alone(y)
    return y + 1


@breaks_on("ctypes.sizeof(ctypes.c_int)", "GB0007")
def c_extension(x):
    y = x + 1
    ctypes.sizeof(ctypes.c_int)
    return y * 2


@breaks_on("time.sleep(0)", "GB0007")
def c_function(x):
    y = x + 1
    time.sleep(0)
    return y * 2


@breaks_on("gc.collect()", "GB0007")
def garbage_collector(x):
    y = x + 1
    gc.collect()
    return y * 2


@breaks_on("sys._getframe()", "GB0007")
def frame_object(x):
    y = x + 1
    sys._getframe()
    return y * 2


@breaks_on("lock = threading.Lock()", "GB0007")
def lock(x):
    y = x + 1
    lock = threading.Lock()
    return y * 2 if lock else y


@breaks_on("torch.manual_seed(0)", "GB0007")
def seeding(x):
    y = x + 1
    torch.manual_seed(0)
    return y * 2


@breaks_on('warnings.warn("careful", stacklevel=1)', "GB0007")
def warning(x):
    y = x + 1
    warnings.warn("careful", stacklevel=1)
    return y * 2


@breaks_on("where = y.nonzero()", "GB0036")
def data_dependent_size(x):
    y = x + 1
    where = y.nonzero()
    return y * where.sum()


@breaks_on("chosen = y[y > 0]", "GB0036")
def boolean_mask(x):
    y = x + 1
    chosen = y[y > 0]
    return chosen * 2


@breaks_on("told = repr(y)", "GB0569")
def repr_of_a_tensor(x):
    y = x + 1
    told = repr(y)
    return y * 2 if told else y


@breaks_on("y.data = torch.zeros(3)", "GB0056")
def data_attribute(x):
    y = x + 1
    y.data = torch.zeros(3)
    return y * 2


@breaks_on("y.resize_(2)", "GB0126")
def resizing(x):
    y = x + 1
    y.resize_(2)
    return y * 2


@breaks_on("generator = np.random.default_rng(0)", "GB0294")
def numpy_function(x):
    y = x + 1
    generator = np.random.default_rng(0)
    return y * 2 if generator else y


@breaks_on("generator = torch.Generator()", "GB0363")
def opaque_object(x):
    y = x + 1
    generator = torch.Generator()
    return y * 2 if generator else y


@breaks_on("z = copy.deepcopy(y)", "GB4198")
def deep_copy(x):
    y = x + 1
    z = copy.deepcopy(y)
    return z * 2


@breaks_on("numbers = json.loads(text)", "GB0156 GB4818")  # the second since torch 2.15
def c_method_in_a_library(x, text="[1]"):
    y = x + 1
    numbers = json.loads(text)
    return y * numbers[0]


def breaks_of(function, *inputs):
    with warnings.catch_warnings(), capture(lower="dynamo") as session:
        warnings.simplefilter("ignore")
        torch.compile(function, backend="eager")(*inputs)
    return session.graph_breaks


@pytest.mark.parametrize(("function", "line", "torch_id"), BREAKS, ids=lambda value: getattr(value, "__name__", ""))
def test_one_distinct_entry_on_the_right_line(function, line, torch_id, capsys):
    (found,) = breaks_of(function, torch.ones(3))
    assert found.source.text.strip() == line
    assert found.source.file == __file__
    assert found.torch_id in torch_id.split()
    assert found.gb_type
    assert found.reason.startswith(found.gb_type)
    assert found.count == 1


@pytest.mark.parametrize(("function", "line", "torch_id"), BREAKS, ids=lambda value: getattr(value, "__name__", ""))
def test_inside_inlined_functions_it_is_counted_once(function, line, torch_id, capsys):
    def inner(x):
        return function(x) + 1

    class Block(nn.Module):
        def forward(self, x):
            return inner(x) * 2

    (found,) = breaks_of(Block(), torch.ones(3))
    assert (found.source.text.strip(), found.count) == (line, 1)
    assert found.torch_id in torch_id.split()


def test_there_are_twenty_kinds():
    assert len(BREAKS) >= 20
    assert len({torch_id for _, _, torch_id in BREAKS}) >= 14
