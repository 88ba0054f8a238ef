"""``ops``: PyTorch's own operator database through ``mock_backend`` and the stick simulator, compared with eager."""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import os
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import torch

from inductor_debug_jupyter.benchmarks.command_line import one_of
from inductor_debug_jupyter.benchmarks.printing import Progress, error_line, print_line, print_table
from inductor_debug_jupyter.pipeline.adapters import StickAdapter
from inductor_debug_jupyter.pipeline.backends import mock_backend
from inductor_debug_jupyter.pipeline.backends.ledger import forget_compiles
from inductor_debug_jupyter.pipeline.errors import AdapterError, OptionError
from inductor_debug_jupyter.pipeline.options import whole_number
from inductor_debug_jupyter.pipeline.rerun.copies import clone_inputs, random_state_kept
from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors, of_kind
from tests.proofs.inside_torch.operators import (
    Operator,
    not_seeding_themselves,
    operators,
    values_may_decide_sizes,
)

_ARTIFACTS = "INDUCTOR_DEBUG_ARTIFACTS"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--samples", default="2", metavar="N|all", help="how many samples an op; default 2")
    parser.add_argument(
        "--shard", default="1/1", metavar="I/N", help="the I-th of N equal parts of the ops; default 1/1"
    )
    parser.add_argument("--only", action="append", metavar="OP", help="only ops of this name; may be repeated")
    parser.add_argument("--format", default="table", metavar="table|json", help="default table")


def run(args: argparse.Namespace) -> int:
    """Try every op of the shard, print the counts; 1 when a result is unequal."""
    limit = None if args.samples == "all" else whole_number(args.samples, "--samples", 1)
    part, parts = _shard(args.shard)
    form = one_of(args.format, "--format", ("table", "json"))
    chosen = operators()[part - 1 :: parts]
    if args.only:
        chosen = [each for each in chosen if each.name in args.only or each.name.split(".")[0] in args.only]
    if not chosen:
        named = ", ".join(args.only or ())
        raise OptionError(f"--only: {named!r} is not allowed; allowed: names of op_db in this shard, such as addmm")
    with _quiet(), Progress(len(chosen)) as progress:
        results = []
        for operator in chosen:
            progress.step(operator.name)
            results.append(try_operator(operator, limit))
    if form == "json":
        print_line(json.dumps([_row(result) for result in results], indent=1))
    else:
        _print_counts(results)
    return int(any(result.outcome(backend) == "unequal" for result in results for backend in BACKENDS))


def _shard(text: str) -> tuple[int, int]:
    part, slash, parts = text.partition("/")
    if not slash or not part.isdecimal() or not parts.isdecimal() or not 1 <= int(part) <= int(parts):
        raise OptionError(f"--shard: {text!r} is not allowed; allowed: I/N with I from 1 to N, such as 2/8")
    return int(part), int(parts)


def _row(result: OperatorResult) -> dict[str, object]:
    return {
        "op": result.name,
        "not_eager": result.not_eager,
        **{
            backend: [{"outcome": each.outcome, "reason": each.reason} for each in verdicts]
            for backend, verdicts in result.verdicts.items()
        },
    }


def _counted(counts: Mapping[str, int]) -> Iterator[str]:
    yield str(sum(number for outcome, number in counts.items() if outcome != "not run"))
    for outcome in ("equal", "refused", "unequal", "undefined"):
        yield str(counts[outcome])


def _print_counts(results: Sequence[OperatorResult]) -> None:

    columns = ("Backend", "Counted", "Tried", "Equal", "Refused", "Unequal", "Undefined by contract")
    rows = [
        (backend, what, *_counted(counts))
        for backend in BACKENDS
        for what, counts in zip(("ops", "samples"), tally(results, backend), strict=True)
    ]
    print_table(columns, rows, right=columns[2:])
    undefined = [result.name for result in results if result.outcome(BACKENDS[0]) == "undefined"]
    if undefined:
        print_line(f"Undefined by contract, so only shapes and dtypes are compared: {', '.join(undefined)}")
    if broken := [result.name for result in results if result.not_eager]:
        print_line(f"Samples that eager mode itself does not run, and so not tried: {', '.join(broken)}")
    for outcome, backend in itertools.product(("refused", "unequal"), BACKENDS):
        for result in results:
            if reason := result.first(backend, outcome):
                print_line(f"{outcome} by {backend}: {result.name} ({result.share(backend, outcome)}): {reason}")


@contextmanager
def _quiet() -> Iterator[None]:
    """Nobody wants thousands of findings and deprecations; artifacts go to a folder that is removed."""
    before = os.environ.get(_ARTIFACTS)
    with tempfile.TemporaryDirectory(prefix="inductor-debug-ops-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.disable(logging.ERROR)
        os.environ[_ARTIFACTS] = folder
        try:
            yield
        finally:
            logging.disable(logging.NOTSET)
            os.environ.pop(_ARTIFACTS)
            if before is not None:
                os.environ[_ARTIFACTS] = before


# One op through the backends ------------------------------------------------------------------------------------------


BACKENDS = ("mock_backend", "stick128")

UNDEFINED = frozenset({"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"})
"""Ops whose values are undefined by contract: only shapes and dtypes are compared, and they are counted apart."""

Outcome = Literal["equal", "refused", "unequal", "undefined"]
_SEED = 7


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one sample on one backend."""

    outcome: Outcome
    reason: str = ""


@dataclass
class OperatorResult:
    """What came of one op: a verdict for each sample of each backend."""

    name: str
    verdicts: dict[str, list[Verdict]] = field(default_factory=lambda: {backend: [] for backend in BACKENDS})
    not_eager: list[str] = field(default_factory=list)
    """Why eager mode itself did not run a sample."""

    def outcome(self, backend: str) -> Outcome | Literal["not run"]:
        """The op's own: unequal when any sample is, refused when any is and none is unequal."""
        found = {verdict.outcome for verdict in self.verdicts[backend]}
        order: tuple[Outcome, ...] = ("unequal", "refused", "undefined", "equal")
        return next((outcome for outcome in order if outcome in found), "not run")

    def share(self, backend: str, outcome: str) -> str:
        """``2 of 5 samples``."""
        verdicts = self.verdicts[backend]
        return f"{sum(verdict.outcome == outcome for verdict in verdicts)} of {len(verdicts)} samples"

    def first(self, backend: str, outcome: str) -> str:
        """The reason of the first sample with that outcome."""
        return next((verdict.reason for verdict in self.verdicts[backend] if verdict.outcome == outcome), "")


def try_operator(operator: Operator, limit: int | None) -> OperatorResult:
    """Every sample of an op, or the first few, on every backend."""
    result = OperatorResult(operator.name)
    with random_state_kept(), not_seeding_themselves(), values_may_decide_sizes():
        samples = list(operator.samples(limit))
        for args, kwargs in samples:
            try:
                expected = _seeded(operator.call, args, kwargs)
            except Exception as error:
                result.not_eager.append(error_line(error))
                continue
            for backend, verdict in _compiled_verdicts(operator, args, kwargs, expected).items():
                result.verdicts[backend].append(verdict)
    return result


def tally(results: Sequence[OperatorResult], backend: str) -> tuple[Counter[str], Counter[str]]:
    """Outcome → how many ops, and → how many samples."""
    ops = Counter(str(result.outcome(backend)) for result in results)
    samples = Counter(verdict.outcome for result in results for verdict in result.verdicts[backend])
    return ops, Counter({str(outcome): number for outcome, number in samples.items()})


@dataclass
class _Both:
    """Builds every graph with both backends, and runs the one whose turn it is."""

    turn: str = BACKENDS[0]
    graphs: int = 0

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        self.graphs += 1
        stick = StickAdapter("float32", faults=(), check=False).as_backend(fallback=False)
        runs = {
            "mock_backend": mock_backend(graph_module, example_inputs, strict=False),
            "stick128": stick(graph_module, example_inputs),
        }
        return lambda *args: runs[self.turn](*args)


def _compiled_verdicts(
    operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any], expected: Any
) -> dict[str, Verdict]:
    both = _Both()
    torch.compiler.reset()
    forget_compiles()
    with ExitStack() as stack:
        stack.callback(torch.compiler.reset)
        compiled = torch.compile(_caller(operator.call), backend=both, dynamic=False)
        verdicts = {}
        for backend in BACKENDS:
            both.turn = backend
            try:
                found = _seeded(compiled, args, kwargs)
            except AdapterError as error:
                verdicts[backend] = Verdict("refused", str(error).splitlines()[0])
            except Exception as error:
                verdicts[backend] = Verdict("refused", f"torch.compile: {error_line(error)}")
            else:
                verdicts[backend] = _compared(operator, expected, found, both.graphs)
        return verdicts


def _caller(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return call


def _seeded(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What comes out, and what was made of the inputs: an op may write into them."""
    own_args, own_kwargs = _copied((args, kwargs))
    torch.manual_seed(_SEED)
    out = function(*own_args, **own_kwargs)
    return of_kind(torch.Tensor, out), of_kind(torch.Tensor, (own_args, own_kwargs)), _rest(out)


def _copied(inputs: Any) -> Any:
    try:
        return clone_inputs(inputs)
    except NotImplementedError:  # sparse tensors have no storage to copy
        return map_tensors(torch.clone, inputs)


def _rest(out: Any) -> list[Any]:
    return [each for each in of_kind(object, out) if not isinstance(each, torch.Tensor)]


def _compared(operator: Operator, expected: Any, found: Any, graphs: int) -> Verdict:
    if not graphs:
        return Verdict("refused", "Dynamo made no graph of it: the backend was given nothing")
    is_undefined = operator.name.partition(".")[0] in UNDEFINED
    try:
        if is_undefined:
            same = [(each.shape, each.dtype) for each in expected[0]] == [(each.shape, each.dtype) for each in found[0]]
            return Verdict("undefined") if same else Verdict("unequal", "other shapes or dtypes")
        torch.testing.assert_close(found[0], expected[0], equal_nan=True, check_stride=False)
        torch.testing.assert_close(found[1], expected[1], equal_nan=True, check_stride=False)
        if found[2] != expected[2]:
            return Verdict("unequal", f"{found[2]!r} instead of {expected[2]!r}")
    except (AssertionError, NotImplementedError, RuntimeError, TypeError) as error:
        return Verdict("unequal", error_line(error))
    return Verdict("equal")
