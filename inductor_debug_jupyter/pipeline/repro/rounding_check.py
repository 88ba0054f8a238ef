"""Whether two executions of one graph differ by more than rounding explains; also the source of standalone scripts.

:data:`SOURCE` is the text of this module's functions: a script contains the very code that measured the failure when
the script was made. Reference and candidate start from the same inputs, weights and seed. Their outputs are compared,
their inputs and buffers afterwards, and with ``backward`` the gradients.

What rounding explains is measured: the reference runs a few times more with every floating input and result off by one
unit in the last place, up or down at random. How far an element moves, plus one unit in its last place, is its floor.
Each element has its own, so that a large element hides no error of a small one; a floor holds for any number format and
needs no float64 run. An element's *excess* is its error in floors. Whole numbers are equal or wrong, unless the
reference's own change as well.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch


class Jitter(torch.overrides.TorchFunctionMode):
    """Eager arithmetic in which every floating result is off by one unit in the last place, up or down at random."""

    def __init__(self, seed: int, unit: float) -> None:
        super().__init__()
        self.generator = torch.Generator().manual_seed(seed)
        self.unit = unit

    def factor(self, value: torch.Tensor) -> torch.Tensor:
        """1 plus or minus the unit, for each element."""
        unit = max(torch.finfo(value.dtype).eps, self.unit)
        signs = torch.randint(0, 2, value.shape, generator=self.generator).double().mul_(2).sub_(1)
        return (1 + unit * signs).to(value.device, value.dtype)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one op and move its results."""
        result = func(*args, **(kwargs or {}))
        given = [part for part in parts_of([args, kwargs or {}]).values() if isinstance(part, torch.Tensor)]
        in_place = getattr(func, "__name__", "").endswith("_")
        if type(result) in (tuple, list):
            return type(result)(self.moved(part, given, in_place) for part in result)
        return self.moved(result, given, in_place)

    def moved(self, value: Any, given: Sequence[torch.Tensor], in_place: bool) -> Any:
        """A result off by one unit: a new tensor, or in place if the op wrote in place; a view of an operand stays."""
        if not rounds(value):
            return value
        if any(value is part for part in given):
            if in_place:
                value.data.mul_(self.factor(value))  # past autograd, which may have saved this very result
            return value
        storages = {part.untyped_storage().data_ptr() for part in given if part.layout is torch.strided}
        return value if value.untyped_storage().data_ptr() in storages else value * self.factor(value)

    def move_memory(self, value: torch.Tensor) -> None:
        """Move a tensor's whole storage once: strides may go over an element twice."""
        with torch.no_grad():
            memory = torch.empty(0, dtype=value.dtype, device=value.device).set_(value.untyped_storage())
            memory.mul_(self.factor(memory))


def rounds(value: Any) -> bool:
    """Whether a value is a tensor of a format that arithmetic rounds in."""
    formats = (torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.complex64, torch.complex128)
    return isinstance(value, torch.Tensor) and value.layout is torch.strided and value.dtype in formats


def parts_of(value: Any, path: str = "") -> dict[str, Any]:
    """The leaves of nested lists, tuples and dicts by path."""
    if isinstance(value, dict):
        items = [(f"{path}.{key}", part) for key, part in value.items()]
    elif isinstance(value, (list, tuple)):
        items = [(f"{path}[{number}]", part) for number, part in enumerate(value)]
    else:
        return {path: value}
    return {name: leaf for inner, part in items for name, leaf in parts_of(part, inner).items()}


def execute(
    make_graph: Callable[[], torch.nn.Module],
    make_inputs: Callable[[], Sequence[Any]],
    run: Callable[[torch.nn.Module], Callable[..., Any]],
    *,
    backward: bool = False,
    autocast: Sequence[tuple[str, torch.dtype]] = (),
    jitter: tuple[int, float] | None = None,
) -> dict[str, Any]:
    """One execution from the same start; returns outputs, inputs and buffers after it, and gradients.

    ``run`` compiles the graph, or returns it as it is. ``jitter`` is the seed and the least unit of a :class:`Jitter`.
    """
    torch.manual_seed(0)
    graph, inputs = make_graph(), list(make_inputs())
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(backward))
        for kind, dtype in autocast:
            stack.enter_context(torch.autocast(kind, dtype=dtype))
        if jitter is not None:
            mode = Jitter(*jitter)
            for value in filter(rounds, inputs):
                mode.move_memory(value)
            stack.enter_context(mode)
        found = parts_of(run(graph)(*inputs), "output")
        tensors = {
            **{f"input {number}": value for number, value in enumerate(inputs)},
            **dict(graph.named_parameters()),
            **dict(graph.named_buffers()),
        }
        if backward:
            backpropagate([value for value in found.values() if isinstance(value, torch.Tensor)])
    leaves = {name: value for name, value in tensors.items() if isinstance(value, torch.Tensor)}
    found |= {name: value.detach() for name, value in leaves.items()}
    found |= {f"gradient of {name}": value.grad for name, value in leaves.items() if backward and value.requires_grad}
    return found


def backpropagate(results: Sequence[torch.Tensor]) -> None:
    """Run the backward from random gradients, the same in every execution."""
    random = torch.Generator().manual_seed(1234)
    weights = [torch.randn(each.shape, generator=random) if each.ndim else torch.ones(()) for each in results]
    weighted = zip(results, weights, strict=True)
    pairs = [(each, weight.to(each)) for each, weight in weighted if each.requires_grad]
    if pairs:
        torch.autograd.backward([each for each, _ in pairs], [weight for _, weight in pairs])


def excess(reference: Any, candidate: Any, moved: Sequence[Any]) -> tuple[float, str]:
    """The largest error of one value in floors, and a sentence on it; ``moved`` are the reference's jittered values."""
    if not isinstance(reference, torch.Tensor) or not isinstance(candidate, torch.Tensor):
        if type(reference) is type(candidate) and repr(reference) == repr(candidate):
            return 0.0, ""
        return math.inf, f"eager has a {type(reference).__name__}, the candidate a {type(candidate).__name__}"
    kinds = [(str(each.dtype), list(each.shape)) for each in (reference, candidate)]
    if kinds[0] != kinds[1]:
        return math.inf, "eager has {} {}, the candidate {} {}".format(*kinds[0], *kinds[1])
    if not reference.numel():
        return 0.0, ""
    ours, theirs, *others = (plain_numbers(each) for each in (candidate, reference, *moved))
    others = [each for each in others if each.shape == theirs.shape]
    is_float = rounds(reference)
    ratio = in_floors(ours, theirs, others, reference.dtype) if is_float else in_changes(ours, theirs, others)
    ratio = ratio.reshape(-1)
    largest, place = float(ratio.max()), int(ratio.argmax())
    wanted, found = theirs.reshape(-1)[place].item(), ours.reshape(-1)[place].item()
    wrong = int((ratio > 0).sum())
    return largest, f"element {place}: eager {wanted:.9g}, the candidate {found:.9g}; {wrong} of {len(ratio)} differ"


def in_floors(
    ours: torch.Tensor, theirs: torch.Tensor, others: Sequence[torch.Tensor], dtype: torch.dtype
) -> torch.Tensor:
    """Each element's error in floors; 0 where the reference's own jitter makes it finite or infinite."""
    limits = torch.finfo(dtype)
    floor = theirs.abs() * limits.eps + limits.tiny
    unknown = torch.zeros_like(theirs, dtype=torch.bool)
    for other in others:
        floor = floor.maximum((other - theirs).abs() + theirs.abs() * limits.eps)
        unknown |= other.isfinite() != theirs.isfinite()
    same = (ours == theirs) | (ours.isnan() & theirs.isnan()) | unknown
    ratio = ((ours - theirs).abs() / floor).nan_to_num(nan=math.inf, posinf=math.inf)
    return ratio.masked_fill(same, 0.0)


def in_changes(ours: torch.Tensor, theirs: torch.Tensor, others: Sequence[torch.Tensor]) -> torch.Tensor:
    """Infinite where a whole number or truth value is another; 0 where the reference's own changes with jitter."""
    same = ours == theirs
    for other in others:
        same |= other != theirs
    return torch.full(theirs.shape, math.inf, dtype=torch.float64).masked_fill(same, 0.0)


def plain_numbers(value: torch.Tensor) -> torch.Tensor:
    """A tensor as float64 on the CPU; whole numbers and truth values in their dtype, complex numbers as pairs."""
    value = value.detach().cpu()
    if value.is_complex():
        return torch.view_as_real(value.resolve_conj()).double()
    return value.double() if value.is_floating_point() else value


def worst_excess(
    make_graph: Callable[[], torch.nn.Module],
    make_inputs: Callable[[], Sequence[Any]],
    compiled: Callable[[torch.nn.Module], Callable[..., Any]],
    *,
    backward: bool = False,
    autocast: Sequence[tuple[str, torch.dtype]] = (),
    unit: float = 0.0,
) -> tuple[float, str]:
    """Run the graph eagerly and compiled; returns the largest excess of all values, and a sentence on it.

    ``unit`` is the least relative rounding error of an op: that of the device's format where it is the coarser one.
    """

    def run(how: Callable[..., Any], jitter: tuple[int, float] | None = None) -> dict[str, Any]:
        return execute(make_graph, make_inputs, how, backward=backward, autocast=autocast, jitter=jitter)

    def eagerly(graph: torch.nn.Module) -> torch.nn.Module:
        return graph

    reference, candidate = run(eagerly), run(compiled)
    moved = [run(eagerly, (seed, unit)) for seed in range(1, 7)]
    worst, message = 0.0, "all values agree"
    for path in {**reference, **candidate}:
        found, sentence = excess(reference.get(path), candidate.get(path), [each.get(path) for each in moved])
        if found > worst:
            worst, message = found, f"{path}, {sentence}"
    return worst, message


SOURCE: Final = "\n\n".join(
    inspect.getsource(part)
    for part in (
        *(Jitter, rounds, parts_of, execute, backpropagate, excess, in_floors, in_changes, plain_numbers, worst_excess),
    )
)
"""The text for a script; it needs ``torch`` and :data:`IMPORTS`."""
IMPORTS: Final = (
    "import contextlib",
    "import math",
    "from collections.abc import Callable, Sequence",
    "from typing import Any",
)
