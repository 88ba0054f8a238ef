"""Which call of the user's code is not in Dynamo's graphs, or computes something else there.

Every later search starts from Dynamo's graphs, so it cannot see what is wrong in them already. The model runs eagerly
while each call of a torch function notes its result and the user's line, and once more through Dynamo's graphs, whose
nodes do the same. The first call whose result no node has is to blame: those after it inherit the error.

What Dynamo leaves to Python is in no graph and is no fault. So a call is blamed only where Dynamo did trace: in a
function of which one graph has nodes, or, where there are several graphs, on a line of which they have some.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.overrides import TorchFunctionMode, resolve_name

from inductor_debug_jupyter.pipeline.capture.sources import running_lines, user_frames
from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.executions import EAGER, Backend, Call
from inductor_debug_jupyter.pipeline.diff.floors import Spread
from inductor_debug_jupyter.pipeline.diff.judging import judge
from inductor_debug_jupyter.pipeline.diff.localize_passes import Above
from inductor_debug_jupyter.pipeline.records import Culprit, SourceLine
from inductor_debug_jupyter.pipeline.torch_compat.trees import of_kind

Kind = tuple[tuple[int, ...], torch.dtype, torch.layout]
_MISSING = "Dynamo's graphs have no such value: the call was dropped, replaced or fixed while it was traced"


@dataclass(eq=False)
class _Called:
    """One call of a torch function: what it gave, and whether a later call used that."""

    name: str
    line: SourceLine
    results: list[torch.Tensor]
    copies: list[torch.Tensor]
    is_used: bool = False


class _Calls(TorchFunctionMode):
    """Notes the calls of torch functions from the user's code."""

    def __init__(self) -> None:
        super().__init__()
        self.noted: list[_Called] = []
        self._made: dict[int, _Called] = {}

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run the call and note it."""
        for value in of_kind(torch.Tensor, [*args, *(kwargs or {}).values()]):
            if (maker := self._made.get(id(value))) is not None:
                maker.is_used = True
        result = func(*args, **(kwargs or {}))
        line, _ = running_lines()
        found = of_kind(torch.Tensor, [result])
        if line is not None and found:
            called = _Called(str(resolve_name(func) or func), line, found, [value.detach().clone() for value in found])
            self.noted.append(called)
            self._made |= dict.fromkeys(map(id, found), called)  # kept alive by `results`: no id comes again
        return result


@dataclass(eq=False)
class _Traced:
    """The values of the nodes of Dynamo's graphs, and which of the user's lines and functions they come from."""

    values: dict[Kind, list[torch.Tensor]] = field(default_factory=lambda: defaultdict(list))
    lines: set[tuple[str, int]] = field(default_factory=set)
    functions: set[tuple[str, str]] = field(default_factory=set)
    graphs: int = 0

    def compiler(self, graph_module: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        """The backend that runs a graph eagerly and notes its values."""
        self.graphs += 1
        note = self._note

        class Noting(torch.fx.Interpreter):
            def run_node(self, n: torch.fx.Node) -> Any:
                result = super().run_node(n)
                note(n, result)
                return result

        return lambda *args: Noting(graph_module).run(*args)

    def _note(self, node: torch.fx.Node, result: Any) -> None:
        for file, line, function in user_frames(node.stack_trace or "")[-1:]:
            self.lines.add((file, line))
            self.functions.add((file, function))
        for value in of_kind(torch.Tensor, [result]):
            self.values[_kind(value)].append(value.detach().clone())

    def was_traced(self, line: SourceLine) -> bool:
        """Whether a call on this line should be in the graphs."""
        if self.graphs == 1:
            return (line.file, line.function) in self.functions
        return (line.file, line.line) in self.lines

    def has(self, expected: torch.Tensor) -> bool:
        """Whether a node has this value, up to rounding."""
        alike = self.values.get(_kind(expected), ())
        if any(torch.equal(value, expected) for value in alike):
            return True
        return any(not judge(value, Spread(expected)).wrong for value in alike)


def _kind(value: torch.Tensor) -> Kind:
    return tuple(value.shape), value.dtype, value.layout


def search_tracing(call: Call, config: ComparisonConfig) -> Above:
    """The first call of the model's code that Dynamo's graphs do not compute as eager mode does."""
    calls, traced = _Calls(), _Traced()
    eager = replace(call, noise=calls).execute(Backend(EAGER), config)
    graphs = call.execute(Backend("dynamo", traced.compiler), config)
    if eager.error or graphs.error:
        return Above()
    missing = [each for each in calls.noted if traced.was_traced(each.line) and not all(map(traced.has, each.copies))]
    blamed = next((each for each in missing if each.is_used), next(iter(missing), None))
    if blamed is None:
        return Above()
    return Above((Culprit(blamed.name, "not there", "dynamo", source=blamed.line, reason=_MISSING),))
