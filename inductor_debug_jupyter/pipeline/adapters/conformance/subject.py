"""The adapter under test: runs small functions (samples) on it and compares its outputs with eager."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters.adapter import (
    AcceleratorAdapter,
    CompilationResult,
    errors_of,
    first_line,
)
from inductor_debug_jupyter.pipeline.torch_compat.regions import compile_alone, undisturbed
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors, of_kind

Make = Callable[[int, torch.dtype], tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class Sample:
    """A function and how to make its inputs, for a size (a multiple of the alignment) and a dtype."""

    name: str
    function: Callable[..., Any]
    inputs: Make


def numbers(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Reproducible numbers of any dtype, small enough for every dtype."""
    drawn = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    if dtype is torch.bool:
        return drawn > 0
    return (drawn if dtype.is_floating_point or dtype.is_complex else (drawn * 3 + 3)).to(dtype)


def _one(n: int, dtype: torch.dtype) -> tuple[Any, ...]:
    return (numbers(n, n, dtype=dtype),)


def _two(n: int, dtype: torch.dtype) -> tuple[Any, ...]:
    return numbers(n, n, dtype=dtype), numbers(n, n, dtype=dtype, seed=1)


GRAPHS: tuple[Sample, ...] = (
    Sample("pointwise", lambda x, y: torch.relu(x) * y + 1.5, _two),
    Sample("matmul", lambda x, y: x @ y, _two),
    Sample("reduction", lambda x: x.sum(-1), _one),
    Sample("softmax", lambda x: torch.softmax(x, -1), _one),
    Sample("views", lambda x: x.t().reshape(-1)[: x.shape[0]] * 2, _one),
    Sample("several_outputs", lambda x, y: (x + y, x - y, x * 2), _two),
    Sample("no_inputs", lambda: torch.ones(8) * 3, lambda n, dtype: ()),
    Sample("scalar", lambda x: x.sum() * 2, _one),
)
"""The graphs on which every adapter is tested."""

OPS: dict[str, Sample] = {
    sample.name: sample
    for sample in (
        Sample("add", lambda x, y: x + y, _two),
        Sample("sub", lambda x, y: x - y, _two),
        Sample("mul", lambda x, y: x * y, _two),
        Sample("div", lambda x, y: x / (y + 3), _two),
        Sample("relu", torch.relu, _one),
        Sample("gelu", torch.nn.functional.gelu, _one),
        Sample("tanh", torch.tanh, _one),
        Sample("sigmoid", torch.sigmoid, _one),
        Sample("exp", torch.exp, _one),
        Sample("sqrt", lambda x: torch.sqrt(x + 2), _one),
        Sample("softmax", lambda x: torch.softmax(x, -1), _one),
        Sample("layer_norm", lambda x: torch.nn.functional.layer_norm(x, x.shape[-1:]), _one),
        Sample("mm", torch.mm, _two),
        Sample("matmul", torch.matmul, _two),
        Sample("linear", torch.nn.functional.linear, _two),
        Sample("sum", lambda x: x.sum(-1), _one),
        Sample("mean", lambda x: x.mean(-1), _one),
        Sample("clone", lambda x: x.clone(), _one),
        Sample("neg", torch.neg, _one),
        Sample("abs", torch.abs, _one),
        Sample("maximum", torch.maximum, _two),
        Sample("transpose", lambda x: x.transpose(0, 1) + 0, _one),
    )
}
"""Op → a function that calls it. An adapter's op that is missing here is reported as not tried."""


class FailsError(Exception):
    """A check fails; ``detail`` is what was seen, ``advice`` what to do."""

    def __init__(self, detail: str, advice: str) -> None:
        super().__init__(detail)
        self.detail = detail
        self.advice = advice


class DoesNotApplyError(Exception):
    """A check does not apply to this adapter; the message says why."""


def clones(values: Iterable[Any]) -> tuple[Any, ...]:
    """Copies of the tensors among the values, and the other values."""
    return tuple(each.clone() if isinstance(each, torch.Tensor) else each for each in values)


def reason_of(error: BaseException) -> str:
    """Class and first line of an error, without torch's wrapping."""
    inner = getattr(error, "inner_exception", None) or error
    return f"{type(inner).__name__}: {first_line(inner)}"


class AdapterUnderTest:
    """An adapter under test."""

    def __init__(self, adapter: AcceleratorAdapter) -> None:
        self.adapter = adapter
        self.results: list[CompilationResult] = []
        self.computes_right: bool | None = None

    @property
    def size(self) -> int:
        """A size that the adapter's alignment allows."""
        alignment = self.adapter.capabilities().alignment
        return alignment if alignment >= 8 else 8 * alignment

    @property
    def dtype(self) -> torch.dtype:
        """The dtype in which graphs are tested.

        Raises:
            DoesNotApplyError: it has no floating-point dtype.
        """
        dtypes = self.adapter.capabilities().dtypes
        if dtypes is None or torch.float32 in dtypes:
            return torch.float32
        floats = sorted((dtype for dtype in dtypes if dtype.is_floating_point and dtype.itemsize > 1), key=str)
        if not floats:
            raise DoesNotApplyError("it has no floating-point dtype")
        return floats[0]

    def inputs(self, sample: Sample, dtype: torch.dtype | None = None) -> tuple[Any, ...]:
        """A sample's inputs for this adapter."""
        return sample.inputs(self.size, dtype or self.dtype)

    def run(self, function: Callable[..., Any], *calls: Sequence[Any], held: bool = False) -> list[Any]:
        """Compile a function as ``torch.compile`` does, and call what comes out, once for each set of inputs.

        The outputs of each call are copied, because the next call may overwrite them; with ``held`` they are not.

        Raises:
            DoesNotApplyError: the adapter refuses the graph with good reason.
            FailsError: it refuses an op that it declares, or raises.
        """
        problems: list[Exception] = []

        def backend(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            try:
                run = self._built(gm, inputs)
            except (FailsError, DoesNotApplyError) as error:
                problems.append(error)
                return gm.forward
            return run

        outputs = []
        with undisturbed():
            compiled = compile_alone(function, backend)
            for inputs in calls:
                try:
                    output = compiled(*inputs)
                except Exception as error:
                    raise FailsError(
                        f"it compiled the graph and then raised {reason_of(error)} when it ran",
                        "what the device cannot run must be refused in compile(), by raising or by "
                        "CompilationResult(False, reason=…); what compiled must run",
                    ) from error
                if problems:
                    raise problems[0]
                outputs.append(output if held else map_tensors(torch.clone, output))
        return outputs

    def _built(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        try:
            result = self.adapter.build(gm, inputs)
        except Exception as error:
            raise FailsError(
                f"build() raised {reason_of(error)}",
                "do not override build(), or give a CompilationResult(False, reason=…) instead of raising",
            ) from error
        self.results.append(result)
        if result.run is not None:
            return result.run
        if not result.reason.strip():
            raise FailsError(
                "it refused a graph without a reason", "give CompilationResult(False, reason='which op, and why')"
            )
        if errors_of(result.findings):
            raise DoesNotApplyError(f"its own rules refuse the graph: {errors_of(result.findings)[0].title}")
        if self.adapter.capabilities().ops is not None:
            raise FailsError(
                f"get_supported_ops() has every op of this graph, and it was not compiled: {result.reason}",
                "take the op out of get_supported_ops(), or compile it",
            )
        raise DoesNotApplyError(f"refused: {result.reason}")

    def works(self, sample: Sample, dtype: torch.dtype | None = None) -> str:
        """Run a sample and compare with eager; returns one line.

        Raises:
            DoesNotApplyError: the adapter refuses the sample with good reason.
            FailsError: it does not work.
        """
        inputs = self.inputs(sample, dtype)
        (actual,) = self.run(sample.function, clones(inputs))
        return self.compare(actual, sample.function(*clones(inputs)))

    def compare(self, actual: Any, expected: Any, problem: str = "", advice: str = "") -> str:
        """One line on how two outputs agree.

        Raises:
            FailsError: they do not; ``problem`` comes before what was seen, with advice of its own.
        """
        got, wanted = of_kind(object, actual), of_kind(object, expected)
        if len(got) != len(wanted):
            raise FailsError(
                f"it gave {len(got)} outputs where the graph has {len(wanted)}",
                "the compiled function returns what the graph returns: a tuple with one entry for each output",
            )
        try:
            worst = max(map(self._compare_one, range(len(got)), got, wanted), default=0.0)
        except FailsError as error:
            if not problem:
                raise
            raise FailsError(f"{problem}: {error.detail}", advice) from None
        return f"largest error {worst:.1e}" if worst else "exact"

    def _compare_one(self, index: int, got: Any, wanted: Any) -> float:
        if not isinstance(wanted, torch.Tensor):
            if got != wanted:
                raise FailsError(f"output {index} is {got!r} instead of {wanted!r}", "pass through what is no tensor")
            return 0.0
        if not isinstance(got, torch.Tensor):
            raise FailsError(f"output {index} is a {type(got).__name__}", "return torch tensors on the inputs' device")
        if got.shape != wanted.shape:
            raise FailsError(
                f"output {index} has shape {list(got.shape)} instead of {list(wanted.shape)}",
                "cut padding off before a tensor leaves the device",
            )
        if got.dtype != wanted.dtype:
            raise FailsError(
                f"output {index} is {got.dtype} instead of {wanted.dtype}",
                "convert back to the graph's dtype when the device computes in another",
            )
        return self._compare_numbers(index, got.detach(), wanted.detach())

    def _compare_numbers(self, index: int, got: torch.Tensor, wanted: torch.Tensor) -> float:
        if not wanted.numel():
            return 0.0
        if wanted.dtype is torch.bool or not (wanted.dtype.is_floating_point or wanted.dtype.is_complex):
            if not torch.equal(got, wanted):
                raise FailsError(f"output {index} is wrong: whole numbers must be exact", _LOOK_AT_NUMBERS)
            return 0.0
        wide = torch.complex128 if wanted.dtype.is_complex else torch.float64
        error = float((got.to(wide) - wanted.to(wide)).abs().max())
        compute = self.adapter.compute_dtype or wanted.dtype
        name = str(compute).removeprefix("torch.")
        allowed = 16 * torch.finfo(compute).eps * max(1.0, float(wanted.to(wide).abs().max()))
        if not error <= allowed:
            raise FailsError(
                f"output {index} is off by {error:.1e}; {name} explains up to {allowed:.1e}",
                _LOOK_AT_NUMBERS + "; if the device computes in a narrower format, say so in compute_dtype",
            )
        return error


_LOOK_AT_NUMBERS = "compare op by op: KernelDiffHarness(model, inputs, test_backend=adapter).compare()"
