"""Smaller inputs: fewer elements, simpler values, the usual dtype.

Each change is one test. Sizes that are equal stay equal, also among the arguments of the nodes (a ``view``), so that
matrices still fit. A change after which the graph no longer runs in eager mode is not tested, where it ran before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import torch

from inductor_debug_jupyter.pipeline.minify.evaluations import Case, Evaluations
from inductor_debug_jupyter.pipeline.repro.values import copy_of
from inductor_debug_jupyter.pipeline.torch_compat.graphs import copied_graph, module_around

MOST_TESTS: Final = 16
"""Evaluations for sizes, values and dtypes together: a small graph is worth more than small inputs."""

_NARROW = (torch.float64, torch.float16, torch.bfloat16)

Change = Callable[[torch.Tensor], torch.Tensor]


class SmallerInputs:
    """Makes the inputs of a reduced graph smaller and simpler.

    Args:
        runs_eagerly: whether the graph runs in eager mode: if so, a smaller one has to.
    """

    def __init__(self, *, runs_eagerly: bool) -> None:
        self._runs_eagerly = runs_eagerly
        self._left = MOST_TESTS

    def reduce(self, case: Case, tests: Evaluations) -> Case:
        """The case with the smallest inputs that were found."""
        if (smallest := self._all_at_once(case, tests)) is not None:
            return smallest
        for step in (self._sizes, self._values, self._dtypes):
            case = step(case, tests)
        return case

    def _all_at_once(self, case: Case, tests: Evaluations) -> Case | None:
        """Sizes of 2, values of 1 and float32, where that fails: one test instead of several."""
        floats = [at for at, value in enumerate(case.inputs) if _is_float(value) and value.numel()]
        for smaller in self._resized(case, {size: 2 for size in _sizes_of(case.inputs) if size > 2}):
            simple = _changed(smaller, floats, lambda value: torch.ones_like(value, dtype=torch.float32), "values ones")
            if self._tried(simple, tests):
                return simple
            break
        return None

    def _tried(self, case: Case, tests: Evaluations) -> bool:
        if self._left <= 0 or (not tests.knows(case.key) and tests.is_over()):
            return False
        if self._runs_eagerly and not _runs(case):
            return False
        self._left -= 1
        return tests.fails(case)

    def _sizes(self, case: Case, tests: Evaluations) -> Case:
        everything = {size: 2 for size in _sizes_of(case.inputs) if size > 2}
        for smaller in self._resized(case, everything):
            if self._tried(smaller, tests):
                return smaller
        for size in sorted(everything, reverse=True):
            while size > 1 and (found := self._halved(case, size, tests)) is not None:
                case, size = found, size // 2
        return case

    def _halved(self, case: Case, size: int, tests: Evaluations) -> Case | None:
        return next((each for each in self._resized(case, {size: size // 2}) if self._tried(each, tests)), None)

    def _resized(self, case: Case, sizes: dict[int, int]) -> Iterator[Case]:
        """The case with other sizes: of its inputs alone, and of the nodes' arguments too."""
        if not sizes:
            return
        inputs = tuple(_smaller(value, sizes) for value in case.inputs)
        described = ", ".join(f"{old} → {new}" for old, new in sorted(sizes.items()))
        yield Case(case.gm, inputs, case.kept, (*case.changes, f"sizes {described}"))
        if (gm := _with_sizes(case.gm, sizes)) is not None:
            yield Case(gm, inputs, case.kept, (*case.changes, f"sizes {described} and arguments"))

    def _values(self, case: Case, tests: Evaluations) -> Case:
        floats = [at for at, value in enumerate(case.inputs) if _is_float(value) and value.numel()]
        for name, change in _SIMPLE.items():
            changed = _changed(case, floats, change, f"values {name}")
            if floats and self._tried(changed, tests):
                return changed
        for at in floats:
            changed = _changed(case, [at], torch.ones_like, f"input {at} ones")
            if len(floats) > 1 and self._tried(changed, tests):
                case = changed
        return case

    def _dtypes(self, case: Case, tests: Evaluations) -> Case:
        others = [at for at, value in enumerate(case.inputs) if _is_float(value) and value.dtype in _NARROW]
        changed = _changed(case, others, lambda value: value.float(), "float32")
        return changed if others and self._tried(changed, tests) else case


def _counted(value: torch.Tensor) -> torch.Tensor:
    """−1, −½, 0, ½, 1, 1½, −1, … in the tensor's shape."""
    return ((torch.arange(value.numel(), device=value.device) % 6 - 2) / 2).reshape(value.shape).to(value.dtype)


_SIMPLE: dict[str, Change] = {
    "ones": torch.ones_like,
    "counted": _counted,
    "rounded": lambda value: (value.double() * 8).round().div(8).to(value.dtype),
}

ALL_REPLACED: Final = frozenset({"values ones", "values counted"})
"""The changes after which no value of the user's own floating tensors is left."""


def _changed(case: Case, places: Sequence[int], change: Change, described: str) -> Case:
    inputs = list(case.inputs)
    for at in places:
        inputs[at] = _like(inputs[at], change(inputs[at].detach()))
    return replace(case, inputs=tuple(inputs), changes=(*case.changes, described))


def _is_float(value: Any) -> bool:
    return type(value) in (torch.Tensor, torch.nn.Parameter) and value.is_floating_point()


def _sizes_of(inputs: Sequence[Any]) -> set[int]:
    return {size for value in inputs if isinstance(value, torch.Tensor) for size in value.shape}


def _smaller(value: Any, sizes: dict[int, int]) -> Any:
    """An input cut down: the first elements along each dimension, in the same order of strides."""
    if type(value) is int:
        return sizes.get(value, value)
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided or not set(value.shape) & set(sizes):
        return value
    part = value.detach()[tuple(slice(sizes.get(size, size)) for size in value.shape)]
    return _like(value, part.clone(memory_format=torch.preserve_format))


def _like(value: torch.Tensor, new: torch.Tensor) -> torch.Tensor:
    """``new`` as what ``value`` is: a parameter, or a tensor that requires a gradient."""
    if isinstance(value, torch.nn.Parameter):
        return torch.nn.Parameter(new, requires_grad=value.requires_grad)
    return new.requires_grad_(value.requires_grad)


def _with_sizes(gm: torch.fx.GraphModule, sizes: dict[int, int]) -> torch.fx.GraphModule | None:
    """The graph with other whole numbers among its nodes' arguments; None when it has none of these."""
    found: list[int] = []

    def change(value: Any) -> Any:
        if type(value) is int and value in sizes:
            found.append(value)
            return sizes[value]
        return value

    changed = copied_graph(gm)
    for node in changed.nodes:
        if node.op.startswith("call_"):
            node.args = torch.fx.node.map_aggregate(node.args, change)
            node.kwargs = torch.fx.node.map_aggregate(node.kwargs, change)
    return module_around(changed, gm) if found else None


def _runs(case: Case) -> bool:
    try:
        with torch.random.fork_rng():
            case.gm.forward(*map(copy_of, case.inputs))
    except Exception:  # the smaller inputs do not fit
        return False
    return True
