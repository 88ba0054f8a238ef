"""The checks. Each takes the adapter under test and returns one line on what it saw, or raises why it fails."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import torch

from inductor_debug_jupyter.pipeline.adapters import device_log
from inductor_debug_jupyter.pipeline.adapters.conformance.subject import (
    GRAPHS,
    OPS,
    AdapterUnderTest,
    DoesNotApplyError,
    FailsError,
    clones,
    numbers,
)
from inductor_debug_jupyter.pipeline.devices.dtypes import dtype_name
from inductor_debug_jupyter.pipeline.devices.ops import bare_name

_BY_NAME = {sample.name: sample for sample in GRAPHS}


@dataclass(frozen=True, slots=True)
class ConformanceCheck:
    """One check: its id, what it tests, and the function that tests it."""

    check_id: str
    title: str
    look: Callable[[AdapterUnderTest], str]


def _capabilities(subject: AdapterUnderTest) -> str:
    adapter = subject.adapter
    try:
        declared, again = adapter.capabilities(), adapter.capabilities()
    except Exception as error:
        raise FailsError(
            f"it does not say what it can do: {type(error).__name__}: {error}",
            "get_supported_dtypes() gives torch dtypes, get_supported_ops() names, get_memory_limit() bytes; "
            "each may give None for 'I do not say'",
        ) from error
    if not isinstance(declared.name, str) or not declared.name.strip():
        raise FailsError(f"its name is {declared.name!r}", "set name = 'my_chip' on the class")
    if bad := [op for op in declared.ops or () if not isinstance(op, str) or not op.strip()]:
        raise FailsError(f"get_supported_ops() has {bad[0]!r}", "give names, such as 'mm' or 'aten.mm'")
    if declared != again:
        raise FailsError(
            "it says something else when asked again", "give the same answers every time: findings depend on them"
        )
    return str(declared)


def _needs_right_numbers(subject: AdapterUnderTest) -> None:
    """Skip a check that reads wrong numbers as a sign of something else, when the plain numbers are wrong, too."""
    if subject.computes_right is None:
        try:
            subject.works(_BY_NAME["pointwise"])
        except FailsError:
            subject.computes_right = False
        else:
            subject.computes_right = True
    if not subject.computes_right:
        raise DoesNotApplyError("the numbers are wrong already in the plain case: see graph.pointwise")


def _compiles_something(subject: AdapterUnderTest) -> str:
    refusals = []
    for sample in (_BY_NAME["pointwise"], _BY_NAME["matmul"], _BY_NAME["reduction"], OPS["clone"]):
        try:
            subject.run(sample.function, subject.inputs(sample))
        except DoesNotApplyError as error:
            refusals.append(str(error))
        else:
            return f"{sample.name} compiles"
    raise FailsError(
        f"it compiles none of the small graphs; the first: {refusals[0]}",
        "start with one op: compile() may return torch.fx.Interpreter(gm).run",
    )


def _inputs_untouched(subject: AdapterUnderTest) -> str:
    sample = _BY_NAME["pointwise"]
    inputs = subject.inputs(sample)
    given = clones(inputs)
    subject.run(sample.function, given)
    if wrong := [index for index, each in enumerate(given) if not torch.equal(each, inputs[index])]:
        raise FailsError(
            f"input {wrong[0]} has other values after the run, and the graph does not write to it",
            "compute into memory of the device's own: the inputs belong to the user",
        )
    return "inputs are as they were"


def _writes_inputs(subject: AdapterUnderTest) -> str:
    def function(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    before = subject.inputs(OPS["clone"])
    given, eager = clones(before), clones(before)
    expected = function(*eager)
    (actual,) = subject.run(function, given)
    if torch.equal(given[0], before[0]):
        raise FailsError(
            "the graph adds 1 to its input in place, and the user's tensor did not change",
            "copy what the graph wrote to an input back into it, or let AOTAutograd make it explicit: "
            "torch._dynamo.backends.common.aot_autograd",
        )
    return subject.compare((given[0], actual), (eager[0], expected))


def _strides(subject: AdapterUnderTest) -> str:
    _needs_right_numbers(subject)
    n = subject.size
    given = (numbers(n, n, dtype=subject.dtype).t(), numbers(n, 2 * n, dtype=subject.dtype)[:, ::2])
    sample = _BY_NAME["pointwise"]
    (actual,) = subject.run(sample.function, given)
    return subject.compare(
        actual,
        sample.function(*given),
        "inputs that are not contiguous are read wrongly",
        "look at tensor.stride(), or call .contiguous() before you hand memory to the device",
    )


def _aliases(subject: AdapterUnderTest) -> str:
    (x,) = clones(subject.inputs(OPS["clone"]))
    ((view, _),) = subject.run(lambda x: (x.t(), x + 1), (x,), held=True)
    with torch.no_grad():
        x[0, 0] = 5
    if view[0, 0] != 5:
        raise FailsError(
            "an output that is a view of an input has memory of its own",
            "return views as views (AOTAutograd does it for you), or the user's later writes get lost",
        )
    return "a view of an input stays one"


def _repeats(subject: AdapterUnderTest) -> str:
    sample = _BY_NAME["matmul"]
    inputs = subject.inputs(sample)
    first, second, third = subject.run(sample.function, *(clones(inputs) for _ in range(3)))
    if not (torch.equal(first, second) and torch.equal(first, third)):
        raise FailsError(
            "the same graph on the same inputs gives other numbers each time",
            "make the order of sums fixed, or no comparison with eager will mean anything",
        )
    return "3 runs, the same bits"


def _runs_twice(subject: AdapterUnderTest) -> str:
    _needs_right_numbers(subject)
    sample = _BY_NAME["pointwise"]
    one = subject.inputs(sample)
    other = tuple(each + 1 for each in one)
    first, second = subject.run(sample.function, clones(one), clones(other), held=True)
    subject.compare(
        second,
        sample.function(*other),
        "the second run, on other inputs, is wrong",
        "do not keep values of the example inputs or of the first run in what compile() returns",
    )
    subject.compare(
        first,
        sample.function(*one),
        "after the second run the first run's output is wrong",
        "give each run output memory of its own: the user still holds the first",
    )
    return "each run has its own values"


def _dynamic_sizes(subject: AdapterUnderTest) -> str:
    _needs_right_numbers(subject)
    n = subject.size
    sets = [(numbers(n * k, n, dtype=subject.dtype),) for k in (2, 3, 4)]

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x) * 2

    for actual, inputs in zip(subject.run(function, *map(clones, sets)), sets, strict=True):
        subject.compare(
            actual,
            function(*inputs),
            "with another size the answer is wrong",
            "sizes may be symbols (torch.SymInt) in the graph: read them from the inputs of each run, or refuse graphs "
            "that have any",
        )
    return "3 sizes"


def _gradients(subject: AdapterUnderTest) -> str:
    if not subject.adapter.trains:
        raise DoesNotApplyError("it says trains = False")

    def function(x: torch.Tensor) -> torch.Tensor:
        return (torch.tanh(x) * x).sum()

    (given,) = clones(subject.inputs(OPS["clone"]))
    eager = given.clone().requires_grad_()
    function(eager).backward()  # type: ignore[no-untyped-call]
    given.requires_grad_()
    (loss,) = subject.run(function, (given,))
    if not loss.requires_grad:
        raise FailsError(
            "the output of a graph whose inputs require gradients has none: training would silently do nothing",
            "run torch ops, wrap the compile in AOTAutograd, or say trains = False",
        )
    try:
        loss.backward()
    except Exception as error:
        raise FailsError(
            f"the backward raised {type(error).__name__}: {error}",
            "refuse in compile() what has no backward, or say trains = False",
        ) from error
    if given.grad is None:
        raise FailsError("the input has no gradient after backward()", "wrap the compile in AOTAutograd")
    return subject.compare(given.grad, eager.grad)


def _errors_are_results(subject: AdapterUnderTest) -> str:
    gm = torch.fx.symbolic_trace(lambda x: torch.linalg.eigvals(x))
    x = numbers(subject.size, subject.size, dtype=subject.dtype)
    try:
        result = subject.adapter.build(gm, [x], strict=True)
    except Exception as error:
        raise FailsError(
            f"build() raised {type(error).__name__}: {error}",
            "do not override build(); raise in compile(), which becomes a CompilationResult with a reason",
        ) from error
    if result.run is None and not result.reason.strip():
        raise FailsError("it refused a graph without a reason", "give CompilationResult(False, reason='which op, why')")
    return "an odd graph compiles" if result.run is not None else f"refused: {result.reason}"


def _dtypes(subject: AdapterUnderTest) -> frozenset[torch.dtype]:
    dtypes = subject.adapter.capabilities().dtypes
    if dtypes is None:
        raise DoesNotApplyError("it does not say which dtypes it has")
    return dtypes


def _claimed_dtypes(subject: AdapterUnderTest) -> str:
    dtypes = _dtypes(subject)
    for dtype in sorted(dtypes, key=str):
        sample = OPS["clone"] if dtype.itemsize == 1 or dtype.is_complex else OPS["add"]
        try:
            subject.works(sample, dtype)
        except (FailsError, DoesNotApplyError) as error:
            raise FailsError(
                f"get_supported_dtypes() has {dtype_name(dtype)}, and {sample.name} in it does not work: {error}",
                f"take {dtype_name(dtype)} out of get_supported_dtypes(), or make {sample.name} work in it",
            ) from None
    return f"{len(dtypes)} tried"


def _other_dtypes(subject: AdapterUnderTest) -> str:
    dtypes = _dtypes(subject)
    others = [each for each in (torch.float64, torch.complex64, torch.int16) if each not in dtypes]
    if not others:
        raise DoesNotApplyError("it says it has all of them")
    gm = torch.fx.symbolic_trace(lambda x: x + x)
    result = subject.adapter.build(gm, [numbers(subject.size, subject.size, dtype=others[0])], strict=True)
    if result.run is not None:
        raise FailsError(
            f"{dtype_name(others[0])} is not among its dtypes, and strict mode compiles it all the same",
            "do not override check() or rules() without the dtype rule, or add the dtype to get_supported_dtypes()",
        )
    return f"{dtype_name(others[0])} is refused"


def _claimed_ops(subject: AdapterUnderTest) -> str:
    ops = subject.adapter.capabilities().ops
    if ops is None:
        raise DoesNotApplyError("it does not say which ops it has")
    tried, untried = [], []
    for op in sorted(ops):
        sample = OPS.get(bare_name(op))
        if sample is None:
            untried.append(op)
            continue
        try:
            subject.works(sample)
        except (FailsError, DoesNotApplyError) as error:
            raise FailsError(
                f"get_supported_ops() has {op}, and it does not work: {error}",
                f"take {op} out of get_supported_ops(), or fix it",
            ) from None
        tried.append(op)
    return f"{len(tried)} tried" + (f"; not tried: {', '.join(untried)}" if untried else "")


def _kernel_specs(subject: AdapterUnderTest) -> str:
    subject.results.clear()
    for sample in (_BY_NAME["pointwise"], _BY_NAME["matmul"]):
        subject.run(sample.function, subject.inputs(sample))
    specs = [spec for result in subject.results for spec in result.kernel_specs]
    if not specs:
        raise DoesNotApplyError("it gives none")
    for spec in specs:
        if not isinstance(spec, Mapping) or not isinstance(spec.get("op"), str):
            raise FailsError(f"a kernel spec is {spec!r:.80}", "a spec is a mapping with at least 'op', a name")
        try:
            json.dumps(dict(spec))
        except (TypeError, ValueError) as error:
            raise FailsError(
                f"the spec of {spec['op']} is no JSON: {error}", "put numbers, strings and lists into specs"
            ) from None
    return f"{len(specs)} specs"


def _transfers(subject: AdapterUnderTest) -> str:
    log = device_log.DeviceLog()
    sample = _BY_NAME["matmul"]
    inputs = subject.inputs(sample)
    with device_log.listening(log):
        subject.run(sample.function, inputs)
    if not log.transfers:
        raise DoesNotApplyError("it tells of none")
    for transfer in log.transfers:
        where = f"{transfer.direction} of {transfer.name}"
        if math.prod(transfer.device_layout) < math.prod(transfer.shape):
            raise FailsError(
                f"{where}: {list(transfer.shape)} does not fit into {list(transfer.device_layout)} on the device",
                "device_layout is the tensor's size over there, padding included",
            )
        if transfer.bytes <= 0:
            raise FailsError(f"{where}: {transfer.bytes} bytes", "say how many bytes the tensor takes on the device")
    sent = sum(transfer.direction == "copy_to_device" for transfer in log.transfers)
    if sent < len(inputs) or sent == len(log.transfers):
        raise FailsError(
            f"{sent} tensors went to the device and {len(log.transfers) - sent} came back; the graph has "
            f"{len(inputs)} inputs and an output",
            "tell of every tensor that goes there and of every one that comes back, or of none",
        )
    return f"{sent} to the device, {len(log.transfers) - sent} back"


CHECKS: tuple[ConformanceCheck, ...] = (
    ConformanceCheck("capabilities", "says what it can do", _capabilities),
    ConformanceCheck("compiles", "compiles at least one small graph", _compiles_something),
    *(
        ConformanceCheck(
            f"graph.{sample.name}",
            f"computes the right numbers ({sample.name.replace('_', ' ')})",
            partial(AdapterUnderTest.works, sample=sample),
        )
        for sample in GRAPHS
    ),
    ConformanceCheck("inputs.untouched", "leaves its inputs alone", _inputs_untouched),
    ConformanceCheck("inputs.written", "writes to an input that the graph writes to", _writes_inputs),
    ConformanceCheck("inputs.strides", "reads inputs that are not contiguous", _strides),
    ConformanceCheck("outputs.views", "gives views as views", _aliases),
    ConformanceCheck("runs.repeat", "gives the same bits each time", _repeats),
    ConformanceCheck("runs.twice", "keeps runs apart", _runs_twice),
    ConformanceCheck("runs.sizes", "takes other sizes", _dynamic_sizes),
    ConformanceCheck("gradients", "lets gradients through", _gradients),
    ConformanceCheck("errors", "refuses with a reason instead of raising", _errors_are_results),
    ConformanceCheck("dtypes.claimed", "has the dtypes that it says it has", _claimed_dtypes),
    ConformanceCheck("dtypes.others", "refuses other dtypes in strict mode", _other_dtypes),
    ConformanceCheck("ops.claimed", "has the ops that it says it has", _claimed_ops),
    ConformanceCheck("kernel_specs", "kernel specs can be read", _kernel_specs),
    ConformanceCheck("transfers", "transfers add up", _transfers),
)
"""Every check, in the order of the report. A new one is a function and a line here."""
