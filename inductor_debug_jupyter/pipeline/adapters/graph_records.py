"""One graph → records of its Dynamo, AOT forward and backward graphs, without running it.

Inside a compile the graph is lowered by AOTAutograd directly. Outside, a copy goes through ``torch.compile`` with a
backend that lowers it and then stops, because the hooks only report what happens inside a compile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.capture import Recorder
from inductor_debug_jupyter.pipeline.capture.watch import observe_lowering
from inductor_debug_jupyter.pipeline.records import CompileCapture
from inductor_debug_jupyter.pipeline.torch_compat import hooks
from inductor_debug_jupyter.pipeline.torch_compat.graphs import copy_graph_module
from inductor_debug_jupyter.pipeline.torch_compat.state import current_compile_id

log = logging.getLogger("inductor_debug_jupyter")


class _LoweredError(Exception):
    """Raised instead of running the graph, to stop after lowering."""


def capture_graph(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> tuple[CompileCapture, ...]:
    """The records of a graph and of its AOT forward and backward; failed lowering is logged as a warning."""
    recorder = Recorder()
    compile_id = current_compile_id()
    hooks.listen(recorder)
    try:
        if compile_id is not None:
            recorder.dynamo_graph(compile_id, gm, None)
            observe_lowering(recorder, "aot", gm, list(inputs))
        else:
            _compile_and_stop(recorder, gm, inputs)
    finally:
        hooks.unlisten(recorder)
    for note in recorder.notes:
        log.warning("only the Dynamo graph is checked: %s", note)
    return recorder.captures


def _compile_and_stop(recorder: Recorder, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> None:
    def look(graph: torch.fx.GraphModule, example_inputs: list[Any]) -> Callable[..., Any]:
        observe_lowering(recorder, "aot", graph, example_inputs)
        return _stop

    # A copy has code of its own: torch's limit of compiles counts by code.
    compiled = torch.compile(copy_graph_module(gm), backend=look, dynamic=False)
    try:
        compiled(*inputs)
    except _LoweredError:
        return


def _stop(*_: Any) -> Any:
    raise _LoweredError
