"""Graphs on the simulator: right when it is healthy, and wrong exactly where a fault says."""

import json
import subprocess
import sys

import pytest
import torch
from torch import nn

from inductor_debug_jupyter import StickAdapter
from inductor_debug_jupyter.pipeline.adapters.device_log import DeviceLog, listening
from inductor_debug_jupyter.pipeline.adapters.stick import FAULTS, Fault, parse_fault, stick128
from inductor_debug_jupyter.pipeline.errors import AdapterError, OptionError
from tests.proofs.stick_audit import Audit

pytestmark = pytest.mark.usefixtures("fresh_dynamo")


def on_device(function, *inputs, dynamic=False, **options):
    adapter = StickAdapter(**{"faults": (), "check": False, **options})
    return torch.compile(function, backend=adapter.as_backend(fallback=False), dynamic=dynamic)(*inputs)


class Net(nn.Module):
    """Sizes that fill no stick; matmuls, a normalisation, a reduction, a copy, and an in-place op."""

    def __init__(self):
        super().__init__()
        self.up = nn.Linear(70, 130)
        self.norm = nn.LayerNorm(130)
        self.down = nn.Linear(130, 3)

    def forward(self, x):
        hidden = torch.relu(self.norm(self.up(x))).clone()
        hidden.mul_(2)
        return self.down(hidden), hidden.sum(-1)


def gradients(model, outputs):
    sum((out * torch.arange(1.0, out.numel() + 1).reshape(out.shape)).sum() for out in outputs).backward()
    return [parameter.grad for parameter in model.parameters()]


# Healthy ------------------------------------------------------------------------------------------------------------


def test_without_loss_forward_and_backward_are_torchs_own():
    torch.manual_seed(0)
    model, x = Net(), torch.randn(5, 70)
    outputs = on_device(model, x, format="float32")
    found = gradients(model, outputs)
    model.zero_grad()
    expected = model(x)
    torch.testing.assert_close(outputs, expected)
    torch.testing.assert_close(found, gradients(model, expected))


def test_its_own_format_rounds_to_float16():
    torch.manual_seed(0)
    model, x = Net(), torch.randn(5, 70)
    with torch.no_grad():
        (found, _), (expected, _) = on_device(model, x), model(x)
    error = (found - expected).abs().max().item()
    assert 1e-5 < error < 2e-2
    assert torch.equal(found.half().float(), found)


def test_sizes_that_change_and_sizes_that_depend_on_values():
    adapter = StickAdapter("float32", faults=(), check=False)
    log = DeviceLog()
    with listening(log):
        scaled = torch.compile(lambda x: x * x.shape[0] + 1, backend=adapter.as_backend(fallback=False), dynamic=True)
        for size in (3, 40, 70):
            assert torch.equal(scaled(torch.ones(size)), torch.ones(size) * size + 1)
    assert [2, 32] in [kernel.spec["outputs"][0]["device_layout"] for kernel in log.kernels.values()]


def test_inputs_that_are_written_and_outputs_that_are_views():
    def step(x):
        x.add_(1)
        return x.T, x[1:], x[:, 2]

    x, y = torch.zeros(3, 4), torch.zeros(3, 4)
    found, expected = on_device(step, x, format="float32"), step(y)
    assert torch.equal(x, y)
    for ours, theirs in zip(found, expected, strict=True):
        assert torch.equal(ours, theirs)
        assert (ours.stride(), ours.storage_offset()) == (theirs.stride(), theirs.storage_offset())


def test_random_numbers_are_torchs_own():
    torch.manual_seed(3)
    found = on_device(lambda x: torch.nn.functional.dropout(x, 0.5), torch.ones(100))
    torch.manual_seed(3)
    assert torch.equal(found, torch.nn.functional.dropout(torch.ones(100), 0.5))


def test_a_graph_traced_by_hand():
    gm = torch.fx.symbolic_trace(lambda a, b: torch.relu(a @ b))
    result = StickAdapter("float32", faults=(), check=False).build(gm, [torch.ones(2, 3), torch.ones(3, 2)])
    assert torch.equal(result.run(torch.ones(2, 3), torch.ones(3, 2)), torch.full((2, 2), 3.0))
    assert [spec["op"] for spec in result.kernel_specs] == ["aten.mm.default", "aten.relu.default"]
    json.dumps(result.kernel_specs)


@pytest.mark.parametrize(
    ("function", "inputs", "sentence"),
    [
        (lambda x: x.double() + 1, [torch.ones(3)], "cannot hold float64"),
        (lambda x: x.view(torch.int32), [torch.ones(3)], "it reads bits, and float32 is held as float16"),
        (lambda x: x * 2**20, [torch.tensor([2**20])], r"aten.mul.Tensor: the int64 value 1099511627776 does not fit"),
        (lambda x: x.as_strided((2,), (1,), 2) + 1, [torch.ones(4)[:2]], "as_strided reaches elements"),
    ],
)
def test_what_cannot_run_is_refused_with_its_reason(function, inputs, sentence):
    with pytest.raises(AdapterError, match=sentence):
        on_device(function, *inputs)


def test_a_librarys_own_op_is_refused():
    with torch.library._scoped_library("sticktest", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CompositeExplicitAutograd")
        library.impl("twice", lambda x: torch.empty_like(x), "Meta")
        with pytest.raises(AdapterError, match=r"sticktest.twice.default: the device runs aten ops"):
            on_device(lambda x: torch.ops.sticktest.twice(x), torch.ones(3))


def test_memory_that_is_only_allocated_is_poison():
    found = on_device(lambda x: (x.new_empty(5), torch.empty(3, dtype=torch.int32), x * 2), torch.ones(2))
    assert found[0].isnan().all()
    assert found[1].eq(0x55555555).all()
    assert found[2].tolist() == [2, 2]


# The first of the faults --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_faulty", [False, True])
def test_the_clone_of_65_elements(is_faulty):
    x = torch.arange(65, dtype=torch.float16)
    log = DeviceLog()
    with listening(log):
        found = on_device(lambda x: x.clone(), x, faults=["copy-first-stick"] if is_faulty else [])
    to_device, from_device = log.transfers
    assert (to_device.direction, to_device.shape, to_device.dtype) == ("copy_to_device", (65,), "float16")
    assert (to_device.device_layout, to_device.bytes) == ((2, 64), 256)
    assert from_device.direction == "copy_from_device"
    (kernel,) = log.kernels.values()
    assert kernel.op == "aten.clone.default"
    assert kernel.spec["inputs"][0]["device_layout"] == [2, 64]
    assert kernel.spec["copy_range"] == ([1, 64] if is_faulty else [2, 64])
    assert torch.equal(found[:64], x[:64])
    assert (found[64] == 64).item() is not is_faulty


def test_minus_zero_is_zero_unless_it_is_not():
    x, y = torch.tensor([-0.0, -0.0, 1.0], dtype=torch.float16), torch.tensor([0.0, -0.0, 1.0], dtype=torch.float16)
    equal = [lambda a, b: torch.eq(a, b), lambda a, b: torch.ne(a, b)]
    assert [on_device(each, x, y).tolist() for each in equal] == [[True] * 3, [False] * 3]
    wrong = [on_device(each, x, y, faults="negative-zero").tolist() for each in equal]
    assert wrong == [[False, True, True], [True, False, False]]
    assert on_device(lambda a: a == 0, x, faults="negative-zero").tolist() == [False, False, False]
    assert on_device(lambda a, b: a <= b, x, y, faults="negative-zero").tolist() == [True, True, True]


@pytest.mark.every(2)
@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: x @ w,
        lambda x, w: torch.addmm(torch.ones(8), x, w, beta=0.5, alpha=2),
        lambda x, w: torch.bmm(x[None], w[None]),
        lambda x, w: x.sum(),
        lambda x, w: x.mean(1),
        lambda x, w: torch.nn.functional.conv1d(x[:, :, None].expand(4, 2048, 3), w.T[:, :, None].contiguous()),
    ],
)
def test_sums_in_float16_are_worse_and_still_the_right_sums(function):
    torch.manual_seed(0)
    x, w = torch.rand(4, 2048).half().float(), torch.rand(2048, 8).half().float()
    exact = function(x.double(), w.double()) if "ones" not in function.__code__.co_names else function(x, w).double()
    healthy, faulty = on_device(function, x, w), on_device(function, x, w, faults="wrong-accumulation")
    good, bad = ((found.double() - exact).abs().max().item() / exact.max().item() for found in (healthy, faulty))
    assert good < 6e-4
    assert good < bad < 2e-2
    assert torch.equal(on_device(function, x, w, accumulate="float16"), faulty)
    assert torch.equal(on_device(function, x, w, faults="wrong-accumulation::float32"), healthy)


def test_a_kernel_that_reads_padding_shows():
    x = torch.ones(3, 65)
    assert on_device(lambda x: x.sum(-1), x).tolist() == [65.0] * 3
    assert on_device(lambda x: x.sum(-1), x, faults="read-padding").isnan().all()
    full = torch.ones(3, 64)
    assert on_device(lambda x: x.sum(-1), full, faults="read-padding").tolist() == [64.0] * 3
    whole = on_device(lambda x: x.sum(), torch.ones(3, dtype=torch.int8), faults="read-padding")
    assert whole == 3 + 125 * 0x55


# Exactly there, and nowhere else ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["copy-first-stick", "negative-zero", "wrong-accumulation", "read-padding"])
def test_a_fault_is_where_it_says_and_nowhere_else(name):
    def program(x, w):
        copied = (x @ w).clone()
        return copied, torch.relu(copied).sum(-1), copied == -0.0, copied * 2 + 1

    torch.manual_seed(0)
    x, w = torch.randn(3, 300), torch.randn(300, 700)
    x[0] = 0  # so that there are zeros to compare
    audit = Audit()
    on_device(program, x, w, faults=[name], watch=audit)
    expected = {
        "copy-first-stick": {"aten.clone.default"},
        "negative-zero": {"aten.eq.Scalar"},
        "wrong-accumulation": {"aten.mm.default", "aten.sum.dim_IntList"},
        "read-padding": {"aten.sum.dim_IntList"},
    }
    assert {kernel.op for kernel in audit.wrong} == expected[name]
    assert audit.launches > len(audit.wrong)


def test_a_healthy_device_has_no_wrong_kernel_in_forward_and_backward():
    torch.manual_seed(0)
    model, audit = nn.Sequential(nn.Linear(70, 70), nn.Dropout(0.5)), Audit()
    on_device(model, torch.randn(2, 70), watch=audit).sum().backward()
    assert audit.launches > 8
    assert audit.wrong == []


# How faults are said ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("copy-first-stick", Fault("copy-first-stick", ("clone", "copy", "lift_fresh_copy"))),
        ("crash:aten.mm", Fault("crash", ("mm",))),
        ("crash:aten.mm.default:SIGILL", Fault("crash", ("mm",), "SIGILL")),
        ("hang:relu:0.5", Fault("hang", ("relu",), "0.5")),
        ("wrong-accumulation:mm+addmm", Fault("wrong-accumulation", ("mm", "addmm"))),
    ],
)
def test_a_fault_by_its_text(text, fault):
    assert parse_fault(text) == fault
    assert parse_fault(str(fault)) == fault


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("copy-fist-stick", "unknown fault 'copy-fist-stick'.*did you mean copy-first-stick"),
        ("crash", "fault 'crash' on which op\\? Say one, such as crash:aten.mm"),
        ("crash:mm:SIGFOO", "'SIGFOO' is not allowed; allowed: a signal's name"),
        ("hang:mm:long", "'long' is not allowed; allowed: seconds, a number above 0"),
        ("copy-first-stick:mm", "'mm' is not allowed; allowed: clone, copy"),
        ("negative-zero:eq:1", "'1' is not allowed; allowed: no argument"),
    ],
)
def test_a_fault_that_is_none_gets_one_line(text, sentence):
    with pytest.raises(OptionError, match=sentence):
        StickAdapter(faults=[text])


def test_every_fault_is_documented():
    from inductor_debug_jupyter.pipeline.adapters.stick import faults

    assert all(f"``{name}``" in faults.__doc__ for name in FAULTS)


def test_faults_from_the_environment(monkeypatch):
    monkeypatch.setenv("INDUCTOR_DEBUG_FAULTS", "copy-first-stick,negative-zero")
    assert [fault.name for fault in StickAdapter().faults] == ["copy-first-stick", "negative-zero"]
    assert StickAdapter(faults=()).faults == ()
    assert torch.compile(lambda x: x.clone(), backend=stick128)(torch.ones(65)).isnan().any()


def test_torch_knows_it_by_name():
    x = torch.arange(65, dtype=torch.float16)
    assert torch.equal(torch.compile(lambda x: x.clone(), backend="stick128")(x), x)


def test_bad_options_get_one_line():
    with pytest.raises(OptionError, match="accumulate='int8'; allowed: float32, float16"):
        StickAdapter(accumulate="int8")
    with pytest.raises(OptionError, match="cores=0; allowed: a whole number from 1 up"):
        StickAdapter(cores=0)


# Crash and hang -----------------------------------------------------------------------------------------------------

CHILD = """
import torch
from inductor_debug_jupyter.pipeline.adapters.stick import stick128
f = torch.compile(lambda x: torch.relu(x @ x) + 1, backend=stick128)
print(f(torch.ones(2, 2)).sum().item(), flush=True)
"""


def test_a_crash_is_a_real_signal_and_the_log_names_the_kernel(monkeypatch):
    monkeypatch.setenv("INDUCTOR_DEBUG_TRANSFERS", "1")
    monkeypatch.setenv("INDUCTOR_DEBUG_FAULTS", "crash:aten.relu:SIGABRT")
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, timeout=120)
    assert done.returncode == -6
    launches = [line for line in done.stderr.splitlines() if "launch:" in line]
    assert ["mm" in launches[0], "relu" in launches[1], len(launches)] == [True, True, 2]


def test_a_hang_takes_its_time_and_can_be_interrupted(monkeypatch):
    import signal
    import time

    started = time.perf_counter()
    on_device(lambda x: torch.relu(x), torch.ones(2), faults="hang:relu:0.3")
    assert time.perf_counter() - started > 0.3

    def ring(*_):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, 3)
    try:
        with pytest.raises(KeyboardInterrupt):
            on_device(lambda x: torch.relu(x), torch.ones(2), faults="hang:relu")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
