"""The conformance suite passes an adapter that keeps its word, and tells the author of one that does not what to do."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
import textwrap
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from stub_adapters import SilentAdapter

from inductor_debug_jupyter.pipeline import adapters
from inductor_debug_jupyter.pipeline.adapters import CompilationResult
from inductor_debug_jupyter.pipeline.adapters.conformance import CHECKS, run_conformance
from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError
from inductor_debug_jupyter.pipeline.records import Transfer

pytestmark = pytest.mark.usefixtures("fresh_dynamo", "vendor")


class Good(SilentAdapter):
    """Runs op by op and says what it has."""

    name = "good"

    def get_supported_dtypes(self) -> Any:
        return {torch.float32, torch.int64, torch.bool}

    def get_memory_limit(self) -> Any:
        return 2**30

    def check(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        # Looking at a graph takes a lowering: only the checks of rules need it.
        return super().check(gm, inputs) if self.is_checked else ()

    is_checked = False

    def compile(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        def run(*args: Any) -> Any:
            return self.after(torch.fx.Interpreter(gm).run(*self.before(args)))

        return CompilationResult(True, run, kernel_specs=self.specs())

    def before(self, args: Any) -> Any:
        return args

    def after(self, outputs: Any) -> Any:
        return outputs

    def specs(self) -> Any:
        return ({"op": "all of it"},)


class NoName(Good):
    name = 3  # type: ignore[assignment]


class OddDtypes(Good):
    def get_supported_dtypes(self) -> Any:
        return {"float33"}


class Moody(Good):
    def get_memory_limit(self) -> Any:
        self.asked = getattr(self, "asked", 0) + 1
        return 2**20 + self.asked


class RefusesAll(Good):
    def compile(self, gm: Any, inputs: Any) -> Any:
        return CompilationResult(False, reason="not today")


class NoReason(Good):
    def compile(self, gm: Any, inputs: Any) -> Any:
        return CompilationResult(False)


class WrongNumbers(Good):
    def after(self, outputs: Any) -> Any:
        return tuple(out + 0.01 for out in outputs)


class WrongDtype(Good):
    def after(self, outputs: Any) -> Any:
        return tuple(out.double() for out in outputs)


class KeepsPadding(Good):
    def after(self, outputs: Any) -> Any:
        return tuple(torch.nn.functional.pad(out, (0, 8)) for out in outputs)


class RunRaises(Good):
    def after(self, outputs: Any) -> Any:
        raise RuntimeError("no such kernel")


class BuildRaises(Good):
    def build(self, gm: Any, inputs: Any, *, strict: bool = False) -> Any:
        raise RuntimeError("driver not found")


class SpoilsInputs(Good):
    def after(self, outputs: Any) -> Any:
        self.args[0].fill_(7)
        return outputs

    def before(self, args: Any) -> Any:
        self.args = args
        return tuple(each.clone() for each in args)


class WorksOnCopies(Good):
    def before(self, args: Any) -> Any:
        return tuple(each.clone() if isinstance(each, torch.Tensor) else each for each in args)


class IgnoresStrides(Good):
    def before(self, args: Any) -> Any:
        return tuple(torch.as_strided(each, each.shape, torch.empty(each.shape).stride()) for each in args)


class Noisy(Good):
    def after(self, outputs: Any) -> Any:
        return tuple(out + 1e-7 * torch.rand(out.shape) for out in outputs)


class OneBuffer(Good):
    def after(self, outputs: Any) -> Any:
        if not hasattr(self, "buffer"):
            self.buffer = outputs
        return tuple(kept.copy_(out) for kept, out in zip(self.buffer, outputs, strict=True))


class NoisyInOneBuffer(OneBuffer):
    def after(self, outputs: Any) -> Any:
        return super().after(tuple(out + 1e-7 * torch.rand(out.shape) for out in outputs))


class BufferPerSize(Good):
    def after(self, outputs: Any) -> Any:
        buffers = self.__dict__.setdefault("buffers", {})
        shapes = tuple(out.shape for out in outputs)
        return tuple(kept.copy_(out) for kept, out in zip(buffers.setdefault(shapes, outputs), outputs, strict=True))


class RemembersFirst(Good):
    def after(self, outputs: Any) -> Any:
        self.first = getattr(self, "first", outputs)
        return self.first


class FixedSizes(Good):
    def compile(self, gm: Any, inputs: Any) -> Any:
        made = super().compile(gm, inputs)
        rows = next(each.shape[0] for each in inputs if isinstance(each, torch.Tensor))
        return lambda *args: tuple(out[:rows] for out in made.run(*args))


class NoGradients(Good):
    def after(self, outputs: Any) -> Any:
        return tuple(out.detach() for out in outputs)


class WrongGradients(Good):
    def after(self, outputs: Any) -> Any:
        return tuple(out.detach() * 0.5 + out * 0.5 for out in outputs)


class ClaimsDtype(Good):
    def get_supported_dtypes(self) -> Any:
        return {torch.float32, torch.float16}

    def before(self, args: Any) -> Any:
        if any(each.dtype is torch.float16 for each in args):
            raise RuntimeError("half is not wired up")
        return args


class LetsAllIn(Good):
    def rules(self) -> Any:
        return []


class ClaimsOp(Good):
    def get_supported_ops(self) -> Any:
        return {"relu", "gelu"}

    def compile(self, gm: Any, inputs: Any) -> Any:
        if any("gelu" in str(node.target) for node in gm.graph.nodes):
            return CompilationResult(False, reason="gelu is not written yet")
        return super().compile(gm, inputs)


class OddSpecs(Good):
    def specs(self) -> Any:
        return ({"op": "mm", "dtype": torch.float16},)


class SpecsWithoutOp(Good):
    def specs(self) -> Any:
        return ({"kernel": "mm"},)


class HalfTransfers(Good):
    def before(self, args: Any) -> Any:
        self.tell(Transfer("copy_to_device", "x", (8, 8), "float32", (8, 64), bytes=2048, host_bytes=256))
        return args


class TightTransfers(Good):
    def before(self, args: Any) -> Any:
        self.tell(Transfer("copy_to_device", "x", (8, 8), "float32", (1, 32), bytes=128, host_bytes=256))
        return args


@pytest.mark.parametrize(
    ("kind", "check", "seen", "advice"),
    [
        (NoName, "capabilities", "its name is 3", "set name = 'my_chip'"),
        (OddDtypes, "capabilities", "float33", "get_supported_dtypes() gives torch dtypes"),
        (Moody, "capabilities", "something else when asked again", "the same answers every time"),
        (RefusesAll, "compiles", "compiles none of the small graphs", "start with one op"),
        (NoReason, "graph.pointwise", "refused a graph without a reason", "reason="),
        (WrongNumbers, "graph.matmul", "output 0 is off by 1.0e-02; float32 explains", "compute_dtype"),
        (WrongDtype, "graph.reduction", "output 0 is torch.float64 instead of torch.float32", "convert back"),
        (KeepsPadding, "graph.views", "has shape [16] instead of [8]", "cut padding off"),
        (RunRaises, "graph.scalar", "raised RuntimeError: no such kernel when it ran", "refused in compile()"),
        (BuildRaises, "graph.pointwise", "build() raised RuntimeError: driver not found", "do not override build()"),
        (BuildRaises, "errors", "build() raised RuntimeError", "do not override build()"),
        (SpoilsInputs, "inputs.untouched", "input 0 has other values", "the inputs belong to the user"),
        (WorksOnCopies, "inputs.written", "the user's tensor did not change", "copy what the graph wrote"),
        (WorksOnCopies, "outputs.views", "has memory of its own", "return views as views"),
        (IgnoresStrides, "inputs.strides", "not contiguous are read wrongly", "tensor.stride()"),
        (Noisy, "runs.repeat", "gives other numbers each time", "the order of sums"),
        (NoisyInOneBuffer, "runs.repeat", "gives other numbers each time", "the order of sums"),
        (OneBuffer, "runs.twice", "after the second run the first run's output is wrong", "output memory of its own"),
        (RemembersFirst, "runs.twice", "the second run, on other inputs, is wrong", "do not keep values"),
        (FixedSizes, "runs.sizes", "with another size the answer is wrong", "torch.SymInt"),
        (NoGradients, "gradients", "training would silently do nothing", "trains = False"),
        (WrongGradients, "gradients", "output 0 is off by", "compare op by op"),
        (ClaimsDtype, "dtypes.claimed", "has float16, and add in it does not work", "take float16 out of"),
        (LetsAllIn, "dtypes.others", "strict mode compiles it all the same", "do not override check() or rules()"),
        (ClaimsOp, "ops.claimed", "has gelu, and it does not work", "take gelu out of get_supported_ops()"),
        (OddSpecs, "kernel_specs", "the spec of mm is no JSON", "numbers, strings and lists"),
        (HalfTransfers, "transfers", "1 tensors went to the device and 0 came back", "every one that comes back"),
        (TightTransfers, "transfers", "[8, 8] does not fit into [1, 32]", "padding included"),
        (SpecsWithoutOp, "kernel_specs", "a kernel spec is {'kernel': 'mm'}", "at least 'op'"),
    ],
)
def test_a_planted_fault_fails_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, kind: type[Good], check: str, seen: str, advice: str
) -> None:
    monkeypatch.setattr(Good, "is_checked", check.startswith(("dtypes.others", "ops")))
    (found,) = run_conformance(kind, isolate=False, checks=[check]).checks
    assert found.status == "fails", found
    assert seen in found.detail
    assert advice in found.advice


def test_outputs_in_the_same_memory_are_blamed_once() -> None:
    record = run_conformance(BufferPerSize, isolate=False, checks=["runs.repeat", "runs.twice", "runs.sizes"])
    assert [each.status for each in record.checks] == ["holds", "fails", "holds"]


def test_the_same_checks_hold_of_a_good_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Good, "is_checked", True)
    record = run_conformance(Good, isolate=False)
    assert [each for each in record.checks if each.status == "fails"] == []
    assert {each.check_id for each in record.checks if each.status == "does_not_apply"} == {"ops.claimed", "transfers"}
    assert record.passed
    assert len(record.checks) == len(CHECKS)


@pytest.mark.parametrize(
    ("how", "seconds", "seen"), [("segfault", 60, "died of SIGSEGV"), ("hang", 15, "did not answer within 15 s")]
)
def test_a_crash_fails_a_check_and_the_next_one_runs(how: str, seconds: int, seen: str) -> None:
    import vendor

    record = run_conformance(
        vendor.Faulty(vendor.Fault("matmul", how)), timeout=seconds, checks=["graph.matmul", "graph.pointwise"]
    )
    crashed, held = record.checks
    assert crashed.status == "fails"
    assert seen in crashed.detail
    assert "at operator.matmul (node matmul)" in crashed.detail
    assert ("refuse in compile()" if how == "segfault" else "a step must end") in crashed.advice
    assert crashed.crash is not None
    assert held.status == "holds", held
    assert "1 hold, 1 fail, 0 do not apply: it does not conform" in str(record)


def test_an_adapter_over_its_memory_limit_fails_the_check() -> None:
    import vendor

    eats = vendor.Faulty(vendor.Fault("matmul", "eat"))
    (found,) = run_conformance(eats, timeout=60, memory_limit=2 * 1024**3, checks=["graph.matmul"]).checks
    assert found.status == "fails"
    assert "allocate memory" in found.detail or "found no memory within its limit of 2048 MiB" in found.detail


def documented_toy() -> str:
    """The example in the documentation of ``pipeline.adapters``."""
    text = inspect.getdoc(adapters) or ""
    code = textwrap.dedent(text.split("CPU::", 1)[1].split("compiled = torch.compile", 1)[0]).strip()
    assert len(code.splitlines()) < 60
    return code + "\n"


def test_the_documented_toy_passes_by_the_command(tmp_path: Path) -> None:
    (tmp_path / "my_pkg.py").write_text(documented_toy())
    command = [sys.executable, "-m", "inductor_debug_jupyter", "conformance", "my_pkg:ToyAdapter"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert result.returncode == 0, result.stdout + result.stderr
    assert f"{len(CHECKS) - 1} hold, 0 fail, 1 do not apply: it conforms" in result.stdout


def test_the_class_for_pytest(tmp_path: Path) -> None:
    (tmp_path / "my_pkg.py").write_text(documented_toy().replace(".to(args[0].dtype)", ".to(args[0].dtype) + 1"))
    (tmp_path / "test_mine.py").write_text(
        "from inductor_debug_jupyter import AdapterConformance\n\n\n"
        "class TestMine(AdapterConformance):\n    adapter = 'my_pkg:ToyAdapter'\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_mine.py"]
    result = subprocess.run(command, capture_output=True, text=True, timeout=250)
    assert "test_conformance[graph.matmul]" in result.stdout
    assert "2 failed, 21 passed, 1 skipped" in result.stdout, result.stdout
    assert "→ compare op by op" in result.stdout


@pytest.mark.parametrize(
    ("make", "error", "named"),
    [
        (lambda: run_conformance("nobody"), OptionError, "adapter='nobody'"),
        (lambda: run_conformance("no_such:Thing"), UsageError, "there is no module 'no_such'"),
        (lambda: run_conformance(Good, checks=["gradient"]), OptionError, "checks='gradient'; allowed: capabilities"),
        (lambda: run_conformance(Good, isolate=False, memory_limit=2**32), UsageError, "memory_limit limits a process"),
        (lambda: run_conformance(int), UsageError, "must be an AcceleratorAdapter, not a int"),
    ],
)
def test_bad_arguments_are_named(make: Callable[[], Any], error: type[Exception], named: str) -> None:
    with pytest.raises(error, match=named):
        make()


def test_the_command_as_json_and_its_exit_code(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        inspect.getsource(sys.modules["vendor"]) + "\nclass Wrong(Faulty):\n    def __init__(self):\n"
        "        super().__init__(Fault('none'), offset=1.0)\n"
    )
    command = [sys.executable, "-m", "inductor_debug_jupyter", "conformance", "bad:Wrong", "--json"]
    result = subprocess.run([*command, "--check", "graph.matmul"], capture_output=True, text=True, timeout=200)
    assert (result.returncode, result.stderr) == (1, "")
    (check,) = json.loads(result.stdout)["checks"]
    assert (check["status"], check["check_id"]) == ("fails", "graph.matmul")
