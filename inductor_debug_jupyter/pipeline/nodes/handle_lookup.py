"""From a node's name to its handle."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.diff.executions import EAGER, Backend, resolve_backend
from inductor_debug_jupyter.pipeline.diff.localize import INDUCTOR
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.nodes.handle import NodeHandle
from inductor_debug_jupyter.pipeline.nodes.kernels import kernel_values
from inductor_debug_jupyter.pipeline.nodes.matching import find_node
from inductor_debug_jupyter.pipeline.nodes.parts import InParts
from inductor_debug_jupyter.pipeline.nodes.reexecution import Reexecution
from inductor_debug_jupyter.pipeline.nodes.traced_calls import TracedCalls
from inductor_debug_jupyter.pipeline.nodes.values import NodeValues
from inductor_debug_jupyter.pipeline.records import CompileCapture


def node_handle(
    captures: Sequence[CompileCapture],
    calls: Callable[[], Sequence[ModelCall]],
    name: str,
    stage: str = "",
    compile_id: str = "",
    *,
    candidate: Any = None,
    gradients: Sequence[torch.Tensor] | None = None,
    traces: TracedCalls | None = None,
) -> NodeHandle:
    """A handle on a captured node. See :meth:`DebugSession.node` for the arguments.

    ``calls`` returns the kept calls; ``traces`` keeps traced calls from one handle to the next.

    Raises:
        NotFoundError: there is no such node.
        UsageError: there is no such stage or candidate.
    """
    backend = Backend(EAGER) if candidate is None else resolve_backend(candidate, "candidate")
    if backend.recording is not None:
        raise OptionError(f"candidate={candidate!r}; allowed: a backend that runs here, not a recording")
    fused = backend.name == INDUCTOR and backend.compiler is not None
    captured = find_node(captures, name, stage, compile_id, to_run=not fused)

    def fetch() -> NodeValues:
        kept = calls()
        if fused:
            return kernel_values(kept, captured, gradients)
        again = Reexecution(kept, gradients, traces=traces)
        if backend.compiler is not None:
            again = Reexecution(kept, gradients, InParts(backend), afterwards=True, traces=traces)
        return again.values([captured])[captured.stage, captured.record.name]

    return NodeHandle(captured, fetch, "" if backend.compiler is None else backend.name)
