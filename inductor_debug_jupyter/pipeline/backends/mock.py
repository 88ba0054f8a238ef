"""Backends that check a graph against a target before it runs: ``torch.compile(model, backend=mock_backend)``.

:func:`mock_backend` traces the graph with AOTAutograd, forward and backward, so that rules see aten ops, and runs it as
Dynamo captured it. :func:`aot_mock_backend` compiles it with Inductor; the backward is lowered together with the
forward, so that the rules see both and every stage is captured before the first call returns.

In strict mode a refused graph is replaced by a function that raises when it is called: torch wraps errors of a backend
and swallows them under ``suppress_errors``; an error of the compiled function reaches the user as it is. In warning
mode a graph that Inductor cannot compile falls back softly: that is logged, and the graph runs eagerly.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.backends.ledger import BackendRules, process_ledger, start_record
from inductor_debug_jupyter.pipeline.backends.strict import refusal
from inductor_debug_jupyter.pipeline.capture import Recorder
from inductor_debug_jupyter.pipeline.capture.watch import observe_lowering
from inductor_debug_jupyter.pipeline.devices import Constraint, check
from inductor_debug_jupyter.pipeline.errors import in_a_line
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.torch_compat import hooks
from inductor_debug_jupyter.pipeline.torch_compat.graphs import copy_graph_module
from inductor_debug_jupyter.pipeline.torch_compat.lowering import compile_with_inductor
from inductor_debug_jupyter.pipeline.views.placement import fallback_line

log = logging.getLogger("inductor_debug_jupyter")


def mock_backend(
    graph_module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    strict: bool | None = None,
    constraints: Sequence[Constraint] | None = None,
    target: str | None = None,
) -> Callable[..., Any]:
    """Check a graph against the target, then run it eagerly.

    Args:
        graph_module: what Dynamo captured.
        example_inputs: its inputs.
        strict: raise when the target refuses something; ``MOCK_STRICT`` (default 1) when None.
        constraints: rules to check instead of the target's own.
        target: a device profile; ``INDUCTOR_DEBUG_TARGET`` or ``default`` when None.
    """

    def lower(recorder: Recorder) -> Callable[..., Any]:
        observe_lowering(recorder, "aot", graph_module, list(example_inputs))
        return graph_module.forward

    return _checked(graph_module, BackendRules(strict, constraints, target), lower)


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
        strict: raise when the target refuses something; ``MOCK_STRICT`` (default 1) when None.
        constraints: rules to check instead of the target's own.
        target: a device profile; ``INDUCTOR_DEBUG_TARGET`` or ``default`` when None.
    """
    if graph_module is not None:
        return _inductor(graph_module, example_inputs, BackendRules(strict, constraints, target))
    BackendRules(strict, constraints, target)  # a bad option raises here, not in the middle of a compile

    def backend(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        return _inductor(graph, inputs, BackendRules(strict, constraints, target))

    backend.__name__ = "aot_mock_backend"
    return backend


def _inductor(
    graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any], rules: BackendRules
) -> Callable[..., Any]:
    def lower(recorder: Recorder) -> Callable[..., Any]:
        whole = copy_graph_module(graph_module)  # Inductor may change what it is given before it fails
        try:
            return compile_with_inductor(graph_module, example_inputs)
        except Exception as error:
            if rules.strict:
                raise
            reason = f"Inductor cannot compile this ({in_a_line(error)}); it runs eagerly"
            recorder.note("inductor", reason)
            log.warning("fallback: %s", reason)
            return whole.forward

    return _checked(graph_module, rules, lower)


def _checked(
    graph_module: torch.fx.GraphModule, rules: BackendRules, lower: Callable[[Recorder], Callable[..., Any]]
) -> Callable[..., Any]:
    """What ``lower`` returns for the graph, or in strict mode a function that raises what the target refuses."""
    recorder = start_record(graph_module)
    hooks.listen(recorder)
    try:
        run = lower(recorder)
    finally:
        hooks.unlisten(recorder)
        ledger = process_ledger()
        record = ledger.judge(recorder, rules)
        ledger.save(rules.store())
    if not rules.strict:
        for violation in record.findings:
            log.warning("%s", violation)
        for entry in record.coverage.fallbacks if record.coverage else ():
            log.warning("fallback: %s", fallback_line(entry))
        return run
    return run if refusal(record, rules.usable_store()) is None else _refused(record, rules, run)


def _refused(record: SessionRecord, rules: BackendRules, run: Callable[..., Any]) -> Callable[..., Any]:
    def refused(*args: Any, **kwargs: Any) -> Any:
        """Torch keeps this function: the user may have changed ``MOCK_*`` since it was compiled."""
        now = rules.read_again()
        if now.strict:
            findings = check(record.captures, now.context.rules)
            if (error := refusal(replace(record, findings=findings), now.usable_store())) is not None:
                raise error
        return run(*args, **kwargs)

    return refused
