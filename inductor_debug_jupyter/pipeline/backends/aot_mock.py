"""``torch.compile(model, backend=aot_mock_backend(strict=True, constraints=[…]))``: through AOTAutograd into Inductor.

The backward is lowered together with the forward, so that the rules see both and every stage is captured before the
first call returns. In warning mode a graph that Inductor cannot compile falls back softly: that is logged, and the
graph runs eagerly.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.backends.ledger import BackendRules, process_ledger, start_record
from inductor_debug_jupyter.pipeline.backends.mock import checked
from inductor_debug_jupyter.pipeline.devices import Constraint
from inductor_debug_jupyter.pipeline.torch_compat import hooks
from inductor_debug_jupyter.pipeline.torch_compat.graphs import copy_graph_module
from inductor_debug_jupyter.pipeline.torch_compat.lowering import compile_with_inductor

log = logging.getLogger("inductor_debug_jupyter")


def aot_mock_backend(
    graph_module: torch.fx.GraphModule | None = None,
    example_inputs: Sequence[Any] = (),
    *,
    strict: bool | None = None,
    constraints: Sequence[Constraint] | None = None,
    target: str | None = None,
) -> Callable[..., Any]:
    """A backend that checks forward and backward, then compiles with Inductor.

    Call it with options to get a backend (``backend=aot_mock_backend(strict=True)``), or give it as it is
    (``backend=aot_mock_backend``).

    Args:
        graph_module: only when torch calls it as a backend.
        example_inputs: likewise.
        strict: raise when the target refuses something; ``MOCK_STRICT`` (default 1) when not said.
        constraints: rules to check instead of the target's own.
        target: a device profile; ``INDUCTOR_DEBUG_TARGET`` or ``default`` when not said.
    """

    def backend(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return _compile(graph, inputs, BackendRules(strict, constraints, target))

    if graph_module is None:
        BackendRules(strict, constraints, target)  # a bad option is told here, not in the middle of a compile
        backend.__name__ = "aot_mock_backend"
        return backend
    return backend(graph_module, example_inputs)


def _compile(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], rules: BackendRules
) -> Callable[..., Any]:
    recorder = start_record(graph_module)
    whole = copy_graph_module(graph_module)  # Inductor may change what it is given before it fails
    hooks.listen(recorder)
    try:
        compiled = compile_with_inductor(graph_module, example_inputs)
    except Exception as error:
        if rules.strict:
            raise
        reason = f"Inductor cannot compile this ({type(error).__name__}: {first_line(error)}); it runs eagerly"
        recorder.note("inductor", reason)
        log.warning("fallback: %s", reason)
        compiled = whole.forward
    finally:
        hooks.unlisten(recorder)
        ledger = process_ledger()
        record = ledger.judge(recorder, rules)
        ledger.save(rules.store())
    return checked(record, rules, compiled)


def first_line(error: BaseException) -> str:
    """What an error says, in one line."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]
