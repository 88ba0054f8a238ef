"""One graph → records, without running it.

In the middle of a compile the graph is lowered by AOTAutograd as it is. Outside, a copy is given to ``torch.compile``
with a backend that does the same and then stops: the hooks only tell of what happens inside a compile.
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


class _SeenError(Exception):
    """Raised in the place of the graph: it was looked at, and is not to run."""


def capture_graph(gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> tuple[CompileCapture, ...]:
    """A graph's own record, its AOT forward and its backward; where lowering fails, the log says so."""
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
    except _SeenError:
        return


def _stop(*_: Any) -> Any:
    raise _SeenError
