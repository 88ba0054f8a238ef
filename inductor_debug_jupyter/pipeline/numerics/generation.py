"""Compare a loop of calls step by step: a language model that generates, a recurrent cell, the steps of a diffusion.

The loop is teacher-forced: every step's inputs, the key-value cache among them, are what the reference made of the step
before. So a step is a call like any other, compared with floors of its own, and an error is seen in the step that makes
it, not in those that inherit it. The first step that leaves its floor ends the loop, and exactly its call is searched.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.diff import ComparisonConfig, DiffReport, KernelDiffHarness
from inductor_debug_jupyter.pipeline.diff.outputs import WHOLE
from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError
from inductor_debug_jupyter.pipeline.numerics.tokens import compare_tokens
from inductor_debug_jupyter.pipeline.records import GenerationDiff, GenerationStep, TokenFlip
from inductor_debug_jupyter.pipeline.records.diff import VERDICTS
from inductor_debug_jupyter.pipeline.rerun.again import plain_model, unnoticed
from inductor_debug_jupyter.pipeline.rerun.copies import clone_inputs, random_state_kept

Advance = Callable[[Any, Any], Any]
"""What a step gave, and its inputs → the inputs of the next step."""


def compare_generation(
    model: Callable[..., Any],
    inputs: Any,
    candidate: Any = "inductor",
    steps: int = 16,
    *,
    reference: Any = "eager",
    config: ComparisonConfig | None = None,
    advance: Advance | None = None,
) -> GenerationDiff:
    """Run a model in a loop and compare each step; search the first step that is wrong.

    Args:
        model: a module or function: one of HuggingFace's, one that gives logits, or with ``advance`` any.
        inputs: those of the first step, as for :class:`KernelDiffHarness`; for a language model the prompt's tokens.
        candidate: what is compared with the reference: a backend, its name or an adapter.
        steps: how many calls, the prompt's included.
        reference: what it is compared with.
        config: what counts as equal.
        advance: outputs, inputs → the next inputs; by default the likeliest token comes next, with the cache if the
            model gives one and else behind the tokens so far.

    Raises:
        OptionError: ``steps`` is no whole number from 1 up, or a backend is not known.
        UsageError: the next step's inputs cannot be told from what the model gives.
    """
    if isinstance(steps, bool) or not isinstance(steps, int) or steps < 1:
        raise OptionError(f"steps={steps!r}; allowed: a whole number from 1 up")
    model = plain_model(model)
    options = {"reference_backend": reference, "test_backend": candidate, "comparison_config": config}
    done: list[GenerationStep] = []
    localization = None
    with torch.no_grad(), random_state_kept():
        for own, given in _calls(model, inputs, steps, advance or next_inputs):
            harness = KernelDiffHarness(own, given, **options)
            report = harness.compare()
            done.append(_step(len(done) + 1, report))
            if not report.passed:
                localization = harness.localize() if report.verdict == "mismatch" else None
                break
    return GenerationDiff(
        report.record.model,
        report.record.reference,
        report.record.candidate,
        min((each.verdict for each in done), key=VERDICTS.index),
        steps,
        tuple(done),
        None if report.passed else report.record,
        localization,
    )


def _calls(model: Callable[..., Any], inputs: Any, steps: int, advance: Advance) -> Iterator[tuple[Any, Any]]:
    """The model and the inputs of each step; a module is a copy, whose state goes from step to step."""
    own = copy.deepcopy(model) if isinstance(model, torch.nn.Module) else model
    given = clone_inputs(inputs)
    for number in range(1, steps + 1):
        yield own, given
        if number < steps:
            with unnoticed():
                outputs = _called(own, clone_inputs(given))
            given = advance(outputs, given)


def _called(model: Callable[..., Any], inputs: Any) -> Any:
    if isinstance(inputs, Mapping):
        return model(**inputs)
    return model(*inputs) if isinstance(inputs, tuple | list) else model(inputs)


def next_inputs(outputs: Any, inputs: Any) -> Any:
    """The inputs of a language model's next step: its likeliest token, and the cache or the tokens so far.

    Raises:
        UsageError: there are no logits, or no tokens that one could be added to.
    """
    path, logits = _logits(outputs)
    named = dict(inputs) if isinstance(inputs, Mapping) else {}
    (alone,) = inputs if isinstance(inputs, tuple | list) and len(inputs) == 1 else (inputs,)
    tokens = named.get("input_ids", alone)
    if path is None or not isinstance(tokens, torch.Tensor) or tokens.is_floating_point() or tokens.ndim != 2:
        raise UsageError(
            "the next step is not known: the model gives no logits (batch, positions, vocabulary), or takes no tokens "
            "(batch, positions); give advance=, a function of outputs and inputs that returns the next inputs"
        )
    chosen = logits[:, -1].argmax(-1, keepdim=True)
    cache = outputs.get("past_key_values") if isinstance(outputs, Mapping) else None
    if isinstance(named.get("attention_mask"), torch.Tensor):
        mask = named["attention_mask"]
        named["attention_mask"] = torch.cat([mask, mask.new_ones(len(mask), 1)], 1)
    if cache is not None:
        return named | {"input_ids": chosen, "past_key_values": cache, "use_cache": True}
    longer = torch.cat([tokens, chosen.to(tokens.dtype)], 1)
    return named | {"input_ids": longer} if named else (longer,)


def _logits(outputs: Any) -> tuple[str | None, Any]:
    """The path and the value of the logits among a model's outputs; no path when there are none."""
    if isinstance(outputs, Mapping):
        found = {"logits": outputs.get("logits")}
    else:
        found = {"[0]": outputs[0]} if isinstance(outputs, tuple | list) and outputs else {WHOLE: outputs}
    ((path, value),) = found.items()
    return (path, value) if isinstance(value, torch.Tensor) and value.ndim == 3 else (None, None)


def _step(number: int, report: DiffReport) -> GenerationStep:
    worst = report.outputs[0] if report.outputs else None
    reason = worst.reason if worst is not None else "; ".join(report.record.notes)
    return GenerationStep(number, report.verdict, worst.path if worst is not None else "", reason, _flips(report))


def _flips(report: DiffReport) -> tuple[TokenFlip, ...]:
    """Where the next token is another one; by rounding alone if the logits are within their floor."""
    judged = {output.path: output for output in report.outputs}
    for path in ("logits", WHOLE, "[0]"):
        pair = report.pairs.pairs.get(path)
        if pair is None or pair[0].ndim != 3 or pair[0].shape != pair[1].shape or pair[0].shape[-1] < 2:
            continue
        flips = compare_tokens(pair[0][:, -1:], pair[1][:, -1:]).flips
        at, by_rounding = pair[0].shape[1] - 1, judged[path].passed
        return tuple(
            TokenFlip((each.position[0], at), each.reference, each.candidate, each.margin, by_rounding)
            for each in flips
        )
    return ()
