"""``torch.compile(model, backend=mock_backend)``: validate what the target would refuse, then run eagerly.

The graph is traced by AOTAutograd, forward and backward, so that rules see aten ops; it is then run as Dynamo
captured it. In strict mode a refused graph is replaced by a function that raises when it is called: torch wraps
errors of a backend and swallows them under ``suppress_errors``; an error of the compiled function reaches the user as
it is.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.backends.ledger import BackendRules, process_ledger, start_record
from inductor_debug_jupyter.pipeline.backends.strict import refusal
from inductor_debug_jupyter.pipeline.capture.watch import observe_lowering
from inductor_debug_jupyter.pipeline.devices import Constraint, check
from inductor_debug_jupyter.pipeline.records import SessionRecord
from inductor_debug_jupyter.pipeline.torch_compat import hooks
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
        strict: raise when the target refuses something; ``MOCK_STRICT`` (default 1) when not said.
        constraints: rules to check instead of the target's own.
        target: a device profile; ``INDUCTOR_DEBUG_TARGET`` or ``default`` when not said.
    """
    rules = BackendRules(strict, constraints, target)
    recorder = start_record(graph_module)
    hooks.listen(recorder)
    try:
        observe_lowering(recorder, "aot", graph_module, list(example_inputs))
    finally:
        hooks.unlisten(recorder)
    ledger = process_ledger()
    record = ledger.judge(recorder, rules)
    ledger.save(rules.store())
    return checked(record, rules, graph_module.forward)


def checked(record: SessionRecord, rules: BackendRules, run: Callable[..., Any]) -> Callable[..., Any]:
    """``run``, or in strict mode a function that raises what the target refuses."""
    if not rules.strict:
        for violation in record.findings:
            log.warning("%s", violation)
        for entry in record.coverage.fallbacks if record.coverage else ():
            log.warning("fallback: %s", fallback_line(entry))
        return run
    if refusal(record, rules.usable_store()) is None:
        return run

    def refused(*args: Any, **kwargs: Any) -> Any:
        """Torch keeps this function: the user may have changed ``MOCK_*`` since it was compiled."""
        now = rules.read_again()
        if not now.strict:
            return run(*args, **kwargs)
        error = refusal(replace(record, findings=check(record.captures, now.context.rules)), now.usable_store())
        if error is None:
            return run(*args, **kwargs)
        raise error

    return refused
