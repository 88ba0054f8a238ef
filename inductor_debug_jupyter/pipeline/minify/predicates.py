"""Predicates: whether a smaller graph still fails in the same way.

A predicate returns a reason, never a bare bool, and can write itself into a standalone script.
"""

from __future__ import annotations

import inspect
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters import AcceleratorAdapter, capture_graph, find_adapter
from inductor_debug_jupyter.pipeline.adapters.isolated import IsolatedAdapter
from inductor_debug_jupyter.pipeline.capture.graphs import graph_record
from inductor_debug_jupyter.pipeline.devices import Constraint, check
from inductor_debug_jupyter.pipeline.devices.ops import bare_name
from inductor_debug_jupyter.pipeline.errors import ReproError, UsageError
from inductor_debug_jupyter.pipeline.minify.backend_source import Backend, BackendSource, backend_source
from inductor_debug_jupyter.pipeline.records import CompileCapture, SourceLine, Violation
from inductor_debug_jupyter.pipeline.repro import FailureCheck, function_source, graph_script, violation_script
from inductor_debug_jupyter.pipeline.repro.rounding_check import backpropagate, parts_of


@dataclass(frozen=True, slots=True)
class Outcome:
    """Whether a graph fails, and how (or what happened instead)."""

    fails: bool
    reason: str


@dataclass(frozen=True)
class ScriptNeeds:
    """What a script needs beside the graph and its inputs; see :func:`graph_script`."""

    size: str = ""
    exact: bool = True
    setup: tuple[str, ...] = ()
    target: str = ""


class FailurePredicate(ABC):
    """Decides whether a graph fails, and writes the script that decides it elsewhere."""

    needs_roles = False
    """Whether parameters have to stay the module's own instead of becoming inputs."""
    needs_gradients = False
    """Whether new inputs have to require a gradient where their value did."""
    open_sizes = False
    """Whether sizes are symbolic when the graph is compiled."""
    keeps_inputs = False
    """Whether the inputs are what fails, and must not be made smaller."""
    confirmations = 4
    """How often the smallest failing graph has to fail again, in a row."""

    @abstractmethod
    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Outcome:
        """Test one graph. It may change the inputs: they are copies."""

    @abstractmethod
    def script(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], needs: ScriptNeeds) -> str:
        """The standalone script.

        Raises:
            ReproError: it cannot be written.
        """

    def likely(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> list[str]:
        """The nodes to test first, alone; only a guess, and mostly there is none."""
        return []

    def close(self) -> None:  # noqa: B027 - most need nothing
        """End the processes that were started to test graphs."""


def innermost(error: BaseException) -> BaseException:
    """The error that a backend raised, without torch's wrapping."""
    while isinstance(inner := getattr(error, "inner_exception", None), BaseException):
        error = inner
    return error


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    return (str(error).strip().splitlines() or [""])[0].strip()


def nodes_like(gm: torch.fx.GraphModule, op: str, name: str) -> list[str]:
    """The nodes of a graph that a node of the graph it was lowered to comes from, by op and number; a guess.

    ``relu_2`` is the third relu here as there, unless something between the two made or took one.
    """
    same = [node.name for node in graph_record("dynamo", gm).calls if bare_name(node.target) == bare_name(op)]
    number = re.search(r"_(\d+)$", name)
    at = int(number[1]) if number else 0
    return [same[at]] if at < len(same) else same


def nodes_of_line(gm: torch.fx.GraphModule, op: str, source: SourceLine | None, module_path: str) -> list[str]:
    """The nodes of a Dynamo graph that stand on the user's line in that module: those with that op, or else all."""
    here = [
        node
        for node in graph_record("dynamo", gm).calls
        if source is not None
        and node.source is not None
        and (node.source.file, node.source.line, node.module_path) == (source.file, source.line, module_path)
    ]
    same = [node for node in here if bare_name(node.target) == bare_name(op)]
    return [node.name for node in same or here]


def compiled_call(
    backend: Backend | AcceleratorAdapter, *, open_sizes: bool = False, backward: bool = False
) -> Callable[..., Any]:
    """``(gm, inputs) → outputs`` by torch.compile, and with ``backward`` the gradients too."""
    # A comparison or a reduction must never silently run eagerly.
    made = backend.as_backend(fallback=False) if isinstance(backend, AcceleratorAdapter) else backend
    if isinstance(made, str) and made not in torch.compiler.list_backends(exclude_tags=()):
        made = find_adapter(made, origin="backend").as_backend(fallback=False)

    def run(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        with torch.set_grad_enabled(backward or torch.is_grad_enabled()):
            found = torch.compile(gm, backend=made, dynamic=open_sizes)(*inputs)
            if backward:
                backpropagate([each for each in parts_of(found).values() if isinstance(each, torch.Tensor)])
        return found

    return run


def run_source(
    run: Callable[..., Any] | None,
    backend: Backend | AcceleratorAdapter | None,
    *,
    open_sizes: bool = False,
    backward: bool = False,
) -> tuple[str, BackendSource]:
    """The source of ``run(graph, inputs)`` in a script, and how it gets at the backend."""
    helpers = ""
    if run is not None:
        text, name = function_source(run, "run=")
        body, found = f"return {name}(torch.fx.symbolic_trace(graph), inputs)", BackendSource(text, name)
    elif backend is None:
        body, found = "return graph(*inputs)", BackendSource("", "")
    else:
        found = backend_source(backend)
        body = f"torch.compile(graph, backend={found.expression}, dynamic={open_sizes})(*inputs)"
        if backward:
            helpers = f"{inspect.getsource(parts_of)}\n\n{inspect.getsource(backpropagate)}\n\n"
            body = f"found = parts_of({body}).values()\n"
            body += "    backpropagate([value for value in found if isinstance(value, torch.Tensor)])"
        else:
            body = f"return {body}"
    return f"{helpers}def run(graph, inputs):\n    {body}\n", found


class RaisesSame(FailurePredicate):
    """Running the graph raises the same error: its type, the function that raises it, and its first line.

    Numbers in that line may be others: they are shapes, or count nodes. ``backend`` may be an
    :class:`IsolatedAdapter`: of errors in another process only the text is compared.
    """

    def __init__(
        self,
        error: BaseException,
        run: Callable[..., Any] | None = None,
        backend: Backend | AcceleratorAdapter | None = None,
        *,
        backward: bool = False,
        open_sizes: bool = False,
        written_as: Backend | AcceleratorAdapter | None = None,
    ) -> None:
        self.error = innermost(error)
        self.needs_gradients, self.open_sizes = backward, open_sizes
        self._run, self._backend = run, backend
        self._written_as = backend if written_as is None else written_as
        self._runner = run or _plain_call
        if run is None and backend is not None:
            self._runner = compiled_call(backend, open_sizes=open_sizes, backward=backward)

    @property
    def expected(self) -> tuple[str, str]:
        """Where the error was raised, and its type with the first line of its message."""
        return self._signature(self.error)

    def _signature(self, error: BaseException) -> tuple[str, str]:
        place, text = signature(error)
        return "another process" if isinstance(self._backend, IsolatedAdapter) else place, text

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Outcome:
        """Run the graph and compare what it raises."""
        try:
            self._runner(gm, inputs)
        except Exception as raised:
            seen = self._signature(innermost(raised))
            return Outcome(same_error(self.expected, seen), seen[1])
        return Outcome(False, "it runs")

    def script(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], needs: ScriptNeeds) -> str:
        """A script that runs the graph and compares what it raises."""
        run, found = run_source(self._run, self._written_as, open_sizes=self.open_sizes, backward=self.needs_gradients)
        functions = "\n\n".join(inspect.getsource(part) for part in (innermost, first_line, signature, same_error))
        source = f"EXPECTED = {self.expected!r}\n\n\n{functions}\n\n{run}\n{_RAISES}"
        check_ = FailureCheck(source, self.expected[1], ("import re",), found.needs, found.text)
        return graph_script(gm, inputs, check_, size=needs.size, exact=needs.exact, setup=needs.setup)

    def close(self) -> None:
        """End the process of an isolated backend."""
        if isinstance(self._backend, IsolatedAdapter):
            self._backend.close()


def _plain_call(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
    return gm(*inputs)


def signature(error: BaseException) -> tuple[str, str]:
    """The function of an installed package that raised an error (empty for any other), and its type with its line."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code if trace else None
    place = code.co_name if code is not None and "-packages" in code.co_filename else ""
    return place, f"{type(error).__name__}: {first_line(error)}"


def same_error(expected: tuple[str, str], seen: tuple[str, str]) -> bool:
    """Whether two errors are the same but for numbers; the text of one from another process contains the error's."""
    place, text, other = expected[0], *(re.sub(r"_?\d+", "", text) for text in (expected[1], seen[1]))
    if place == "another process":
        return other in text
    return text == other and (place == seen[0] or "" in (place, seen[0]))


_RAISES = """
def failure(graph, inputs):
    try:
        run(graph, inputs)
    except Exception as raised:
        seen = signature(innermost(raised))
        if same_error(EXPECTED, seen):
            return seen[1]
        print("raised instead: " + seen[1])
    return None
"""


class StillFound(FailurePredicate):
    """A rule still makes the same finding: same rule id, same title."""

    needs_roles = True
    keeps_inputs = True
    confirmations = 0
    """A rule is a plain function of the graph."""

    def __init__(self, violation: Violation, rules: Sequence[Constraint]) -> None:
        self.violation = violation
        self.rules = [rule for rule in rules if rule.rule_id == violation.rule_id]
        if not self.rules:
            known = ", ".join(sorted({rule.rule_id for rule in rules})) or "none"
            raise UsageError(
                f"no rule {violation.rule_id!r} to check against; allowed: {known}; give rules= or target="
            )

    def likely(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> list[str]:
        """The nodes of the violation's first place, by name or by the user's line.

        Only a guess to start from: the place may be in a graph that this one was lowered to.
        """
        if not self.violation.places:
            return []
        place = self.violation.places[0]
        calls = graph_record("dynamo", gm).calls
        named = [node.name for node in calls if (node.name, node.target) == (place.node, place.target)]
        return named or nodes_of_line(gm, place.target, place.source, place.module_path)

    def find(
        self, gm: torch.fx.GraphModule, inputs: Sequence[Any]
    ) -> tuple[CompileCapture | None, Violation | None, str]:
        """The same violation in a graph, with its capture; else what was found instead."""
        captures = capture_graph(gm, inputs)
        found = check(captures, self.rules)
        for violation in found:
            if (violation.rule_id, violation.title) == (self.violation.rule_id, self.violation.title):
                place = violation.places[0]
                return next(each for each in captures if each.compile_id == place.compile_id), violation, str(violation)
        return None, None, "; ".join(map(str, found)) or "the rule finds nothing"

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Outcome:
        """Check the graph with the rule; it is not run."""
        _, violation, reason = self.find(gm, inputs)
        return Outcome(violation is not None, reason)

    def script(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], needs: ScriptNeeds) -> str:
        """A script that runs the graph and looks for the violation's evidence in every op."""
        capture, violation, reason = self.find(gm, inputs)
        if capture is None or violation is None:
            raise ReproError(f"{self.violation.rule_id}: the rule does not find it in the reduced graph ({reason})")
        return violation_script(capture, violation, target=needs.target, torch_version=torch.__version__)


class CallerSays(FailurePredicate):
    """The user's own function decides: ``fails(gm, inputs) → bool`` or :class:`Outcome`."""

    def __init__(self, fails: Callable[..., Any]) -> None:
        self.fails = fails

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Outcome:
        """Call the function."""
        answer = self.fails(gm, inputs)
        return answer if isinstance(answer, Outcome) else Outcome(bool(answer), f"fails= returned {answer!r}")

    def script(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], needs: ScriptNeeds) -> str:
        """A script that calls the same function."""
        text, name = function_source(self.fails, "fails=")
        source = "def failure(graph, inputs):\n"
        source += f'    return "{name} says so" if {name}(torch.fx.symbolic_trace(graph), inputs) else None\n'
        check_ = FailureCheck(source, f"{name} says that this graph fails", backend=text)
        return graph_script(gm, inputs, check_, size=needs.size, exact=needs.exact, setup=needs.setup)
