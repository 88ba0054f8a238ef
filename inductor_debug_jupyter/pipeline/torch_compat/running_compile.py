"""The compile that a backend is called from: code, guards and graph breaks, for backends that install no hook.

Dynamo hands a backend a graph and nothing else. The rest is on the calling ``OutputGraph``, which is found on the
Python stack.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from torch._dynamo.output_graph import OutputGraph

from inductor_debug_jupyter.pipeline.torch_compat.guards import Frame, GuardFacts, frames_of

_RESUMED = re.compile(r"^torch_dynamo_resume_in_(?P<function>.+)_at_(?P<line>\d+)$")


@dataclass(frozen=True, slots=True)
class BreakFacts:
    """A graph break: torch's words for it (empty when only the place is known), and the stack down to it."""

    reason: str
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class RunningCompile:
    """The compile that a backend is called from."""

    code: CodeType | None
    guards: list[GuardFacts]
    breaks: list[BreakFacts]


def running_compile() -> RunningCompile | None:
    """The compile on this stack, or None when a graph was handed over by hand."""
    output_graph = _calling_output_graph()
    if output_graph is None:
        return None
    code = getattr(getattr(output_graph, "root_tx", None), "f_code", None)
    guards = [  # without code of their checks: torch writes it after the backend returns
        GuardFacts(guard.create_fn_name(), guard.name, tuple(guard.code_list or ()), frames_of(guard.user_stack))
        for guard in sorted(output_graph.guards)
    ]
    breaks = []
    if code is not None and (match := _RESUMED.match(code.co_name)) is not None:
        # The break that this code resumes after: Dynamo writes its line into the function's name.
        breaks.append(BreakFacts("", ((code.co_filename, int(match["line"]), match["function"]),)))
    reason = getattr(output_graph, "compile_subgraph_reason", None)
    if reason is not None and reason.graph_break:
        breaks.append(BreakFacts(str(reason.reason), frames_of(reason.user_stack)))
    return RunningCompile(code, guards, breaks)


def _calling_output_graph() -> Any:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, OutputGraph):
            return owner
        frame = frame.f_back
    return None
