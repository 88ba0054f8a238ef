"""Predicates: whether a smaller graph still fails in the same way.

A predicate returns a reason, never a bare bool, and can write itself into a standalone script.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from inductor_debug_jupyter.pipeline.adapters import AcceleratorAdapter, capture_graph
from inductor_debug_jupyter.pipeline.capture.graphs import graph_record
from inductor_debug_jupyter.pipeline.devices import Constraint, check
from inductor_debug_jupyter.pipeline.devices.ops import bare_name
from inductor_debug_jupyter.pipeline.errors import ReproError, UsageError
from inductor_debug_jupyter.pipeline.minify.backend_source import Backend, BackendSource, backend_source
from inductor_debug_jupyter.pipeline.records import CompileCapture, Violation
from inductor_debug_jupyter.pipeline.repro import FailureCheck, function_source, graph_script, violation_script


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


class FailurePredicate(Protocol):
    """Decides whether a graph fails, and writes the script that decides it elsewhere."""

    needs_roles: bool
    """Whether parameters have to stay the module's own instead of becoming inputs."""
    needs_gradients: bool
    """Whether new inputs have to require a gradient where their value did."""

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Outcome:
        """Test one graph. It may change the inputs: they are copies."""
        ...

    def script(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], needs: ScriptNeeds) -> str:
        """The standalone script.

        Raises:
            ReproError: it cannot be written.
        """
        ...


def innermost(error: BaseException) -> BaseException:
    """The error that a backend raised, without torch's wrapping."""
    while isinstance(inner := getattr(error, "inner_exception", None), BaseException):
        error = inner
    return error


def first_line(error: BaseException) -> str:
    """The first line of an error's message."""
    return (str(error).strip().splitlines() or [""])[0].strip()


def runner_of(run: Callable[..., Any] | None, backend: Backend | AcceleratorAdapter | None) -> Callable[..., Any]:
    """``(gm, inputs) → outputs``: a plain call, the user's function, or torch.compile."""
    if run is not None:
        return run
    if backend is None:
        return lambda gm, inputs: gm(*inputs)
    # A comparison or a reduction must never silently run eagerly.
    made = backend.as_backend(fallback=False) if isinstance(backend, AcceleratorAdapter) else backend
    return lambda gm, inputs: torch.compile(gm, backend=made, dynamic=False)(*inputs)


def _run_source(run: Callable[..., Any] | None, backend: Backend | AcceleratorAdapter | None) -> tuple[str, str]:
    """The source of :func:`runner_of` as ``run(graph, inputs)``, and the packages that it needs."""
    if run is not None:
        text, name = function_source(run, "run=")
        body = f"return {name}(torch.fx.symbolic_trace(graph), inputs)"
        found = BackendSource(text, name)
    elif backend is None:
        body, found = "return graph(*inputs)", BackendSource("", "")
    else:
        found = backend_source(backend)
        body = f"return torch.compile(graph, backend={found.expression}, dynamic=False)(*inputs)"
    return f"{found.text}\n\n\ndef run(graph, inputs):\n    {body}\n".lstrip("\n"), found.needs


class RaisesSame:
    """Running the graph raises an error of the same type with the same first line."""

    needs_roles = False
    needs_gradients = False

    def __init__(
        self,
        error: BaseException,
        run: Callable[..., Any] | None = None,
        backend: Backend | AcceleratorAdapter | None = None,
    ) -> None:
        self.error = innermost(error)
        self._run, self._backend = run, backend
        self._runner = runner_of(run, backend)

    @property
    def expected(self) -> tuple[str, str]:
        """Type and first line of the error."""
        return type(self.error).__name__, first_line(self.error)

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Outcome:
        """Run the graph and compare what it raises."""
        try:
            self._runner(gm, inputs)
        except Exception as raised:
            error = innermost(raised)
            seen = (type(error).__name__, first_line(error))
            return Outcome(type(error) is type(self.error) and seen == self.expected, f"{seen[0]}: {seen[1]}")
        return Outcome(False, "it runs")

    def script(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], needs: ScriptNeeds) -> str:
        """A script that runs the graph and compares what it raises."""
        run, needed = _run_source(self._run, self._backend)
        source = f"EXPECTED = {self.expected!r}\n\n\n{run}{_RAISES}"
        check_ = FailureCheck(source, f"{self.expected[0]}: {self.expected[1]}", needs=needed)
        return graph_script(gm, inputs, check_, size=needs.size, exact=needs.exact, setup=needs.setup)


_RAISES = """

def failure(graph, inputs):
    try:
        run(graph, inputs)
    except Exception as raised:
        error = raised
        while getattr(error, "inner_exception", None) is not None:
            error = error.inner_exception
        seen = (type(error).__name__, (str(error).strip().splitlines() or [""])[0].strip())
        if seen == EXPECTED:
            return ": ".join(seen)
        print("raised instead: " + ": ".join(seen))
    return None
"""


class StillFound:
    """A rule still makes the same finding: same rule id, same title."""

    needs_roles = True
    needs_gradients = False

    def __init__(self, violation: Violation, rules: Sequence[Constraint]) -> None:
        self.violation = violation
        self.rules = [rule for rule in rules if rule.rule_id == violation.rule_id]
        if not self.rules:
            known = ", ".join(sorted({rule.rule_id for rule in rules})) or "none"
            raise UsageError(
                f"no rule {violation.rule_id!r} to check against; allowed: {known}; give rules= or target="
            )

    def likely(self, gm: torch.fx.GraphModule) -> list[str]:
        """The nodes of the violation's first place, by name or by the user's line.

        Only a guess to start from: the place may be in a graph that this one was lowered to.
        """
        if not self.violation.places:
            return []
        place = self.violation.places[0]
        calls = graph_record("dynamo", gm).calls
        named = [node.name for node in calls if (node.name, node.target) == (place.node, place.target)]
        if named or place.source is None:
            return named
        here = (place.source.file, place.source.line, place.module_path)
        there = [
            node
            for node in calls
            if node.source is not None and (node.source.file, node.source.line, node.module_path) == here
        ]
        same_op = [node for node in there if bare_name(node.target) == bare_name(place.target)]
        return [node.name for node in same_op or there]

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


class CallerSays:
    """The user's own function decides: ``fails(gm, inputs) → bool`` or :class:`Outcome`."""

    needs_roles = False
    needs_gradients = False

    def __init__(self, fails: Callable[..., Any]) -> None:
        self.fails = fails

    def __call__(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Outcome:
        """Call the function."""
        answer = self.fails(gm, inputs)
        return answer if isinstance(answer, Outcome) else Outcome(bool(answer), f"fails= said {answer!r}")

    def script(self, gm: torch.fx.GraphModule, inputs: Sequence[Any], needs: ScriptNeeds) -> str:
        """A script that calls the same function."""
        text, name = function_source(self.fails, "fails=")
        source = f"{text}\n\n\ndef failure(graph, inputs):\n"
        source += f'    return "{name} says so" if {name}(torch.fx.symbolic_trace(graph), inputs) else None\n'
        check_ = FailureCheck(source, f"{name} says that this graph fails")
        return graph_script(gm, inputs, check_, size=needs.size, exact=needs.exact, setup=needs.setup)
