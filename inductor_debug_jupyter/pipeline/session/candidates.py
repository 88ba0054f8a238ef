"""A candidate backend beside the reference: what a cell ran is run again, compared, searched, cut down to a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters.device_log import DeviceLog, listening
from inductor_debug_jupyter.pipeline.bisect import bisect_stages, is_rung
from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.capture.kept_calls import KeptCalls
from inductor_debug_jupyter.pipeline.devices import JudgingContext
from inductor_debug_jupyter.pipeline.diff import ComparisonConfig, DiffReport, KernelDiffHarness, merged
from inductor_debug_jupyter.pipeline.diff.localize import INDUCTOR
from inductor_debug_jupyter.pipeline.diff.report import overall_verdict
from inductor_debug_jupyter.pipeline.diff.slices import LivePairs
from inductor_debug_jupyter.pipeline.errors import NothingFailsError, UsageError
from inductor_debug_jupyter.pipeline.minify import Minifier, MinimalRepro, Trial, minifier_of
from inductor_debug_jupyter.pipeline.numerics.tokens import tokens_of
from inductor_debug_jupyter.pipeline.records import (
    BisectRecord,
    LocalizationRecord,
    TokenDiff,
)
from inductor_debug_jupyter.pipeline.rerun.again import as_called
from inductor_debug_jupyter.pipeline.session.current_record import CurrentRecord
from inductor_debug_jupyter.pipeline.settings import Settings, in_force
from inductor_debug_jupyter.pipeline.store import Shelf
from inductor_debug_jupyter.pipeline.torch_compat.state import changed_inductor_settings
from inductor_debug_jupyter.pipeline.what_if.baseline import has_backward


@dataclass(frozen=True, slots=True)
class Comparison:
    """How two backends are compared; what is None is as in the last comparison, or else as on the magic's line.

    ``isolate``, ``timeout`` and ``memory_limit`` are not taken over from the last comparison.
    """

    candidate: Any = None
    backward: bool | None = None
    config: ComparisonConfig | None = None
    isolate: bool | None = None
    timeout: float | None = None
    memory_limit: int | None = None

    def limits(self, settings: Settings) -> dict[str, Any]:
        """The user's values, else the settings; a memory limit of the environment holds only with ``isolate``."""
        isolate = bool(settings["isolate"]) if self.isolate is None else self.isolate
        memory_limit = settings["memory_limit"] if self.memory_limit is None and isolate else self.memory_limit
        timeout = settings["timeout"] if self.timeout is None else self.timeout
        return {"isolate": isolate, "timeout": timeout, "memory_limit": memory_limit}


def _over_calls(calls: Sequence[ModelCall], reports: Sequence[DiffReport], *, tokens: bool) -> DiffReport:
    """One report of several, with the call that the error begins in, and with ``tokens`` the next tokens."""
    report = merged(reports)
    record = replace(report.record, begins_in=_begins_in(calls, reports))
    if tokens:
        found = _tokens_of(calls, reports)
        note = "no output is logits (batch, positions, vocabulary): no tokens were compared"
        record = replace(record, tokens=found, notes=record.notes if found else (*record.notes, note))
    return replace(report, record=record)


def _begins_in(calls: Sequence[ModelCall], reports: Sequence[DiffReport]) -> tuple[int, int] | None:
    """Which call of its model is the first wrong one, and of how many; None for one call, or if none is wrong."""
    first = next((call for call, each in zip(calls, reports, strict=True) if each.verdict == "mismatch"), None)
    own = [call for call in calls if first is not None and call.held() is first.held()]
    return (own.index(first) + 1, len(own)) if first is not None and len(own) > 1 else None


def _tokens_of(calls: Sequence[ModelCall], reports: Sequence[DiffReport]) -> tuple[TokenDiff, ...]:
    """The logits of each call as next tokens, called as in a report of several calls."""
    found = []
    for number, (call, report) in enumerate(zip(calls, reports, strict=True), 1):
        if (one := tokens_of(report, call.inputs)) is not None:
            found.append(
                replace(one, path=f"{report.record.model} {number}: {one.path}" if len(calls) > 1 else one.path)
            )
    return tuple(found)


class Candidates:
    """The comparisons of one session with candidate backends: the answers go into its record.

    Args:
        context: its settings say what is compared when the user does not.
        record: where the answers go.
        calls: what is run again.
        device: hears what adapters report meanwhile.
    """

    def __init__(self, context: JudgingContext, record: CurrentRecord, calls: KeptCalls, device: DeviceLog) -> None:
        self._context = context
        self._record = record
        self._calls = calls
        self._device = device
        self._last: Comparison | None = None
        self._wrong_call: ModelCall | None = None
        """The first of the kept calls that the last comparison found wrong."""
        self.pairs = LivePairs()
        """The worst outputs' tensors of the last comparison, for the panel."""

    def diff(
        self,
        reference: Any = None,
        candidate: Any = None,
        *,
        config: ComparisonConfig | None = None,
        backward: bool | None = None,
        generate_visualizations: bool = False,
        isolate: bool | None = None,
        timeout: float | None = None,
        memory_limit: int | None = None,
        tokens: bool | None = None,
    ) -> DiffReport:
        """Run what the cell ran twice more, on ``reference`` and on ``candidate``, and compare the outputs.

        Each is ``eager``, the name of a torch.compile backend, a backend function or an adapter. What the models print
        while they run again is not shown. With ``isolate`` the compiled sides run in processes of their own, which may
        crash; ``timeout`` limits each of their steps and ``memory_limit`` their memory. With ``tokens`` logits are
        compared as next tokens too. Compared is the first call of each model, or those that ``capture(calls=)`` or
        ``--calls`` kept; ``.record.begins_in`` says in which of them an error begins. What is None is as on the
        magic's line, or else ``eager`` against ``inductor``, without gradients.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
            CannotSendError: with ``isolate``, a backend that another process cannot import.
        """
        settings = self._context.settings
        reference = settings["diff"] or "eager" if reference is None else reference
        given = Comparison(
            settings["candidate"] if candidate is None else candidate,
            bool(settings["backward"]) if backward is None else backward,
            config or self._by_the_target(candidate or settings["candidate"]),
            isolate,
            timeout,
            memory_limit,
        )
        shelf = self._shelf() if generate_visualizations else None
        calls, notes = list(self._calls.compared()), self._record.now.notes
        with_tokens = bool(settings["tokens"]) if tokens is None else tokens
        reports = []
        for call in calls:
            harness = self._harness(call, given, reference)
            with as_called(call), listening(self._device), in_force(settings):
                reports.append(harness.compare(generate_visualizations, shelf))
        report = self._with_lost(_over_calls(calls, reports, tokens=with_tokens))
        self._last = given
        self._wrong_call = next((call for call, each in zip(calls, reports, strict=True) if not each.passed), None)
        self.pairs = report.pairs
        self._record.update(diff=report.record, **self._device.fields(notes))
        return report

    def localize(
        self,
        candidate: Any = None,
        *,
        backward: bool | None = None,
        generate_visualizations: bool = False,
        isolate: bool | None = None,
        timeout: float | None = None,
        memory_limit: int | None = None,
    ) -> LocalizationRecord:
        """Find which op, kernel, module and line is wrong on ``candidate``; ``.culprits``.

        ``candidate`` and ``backward`` are those of the last :meth:`diff` when None, or else as on the magic's line.
        Searched is the first of the cell's models that the last :meth:`diff` found wrong, or else the first. With
        ``isolate`` the candidate runs in a process of its own, op by op: one that crashes or hangs is a culprit, and
        ``.crashes`` has how it ended. ``isolate`` and the limits are as in :meth:`diff`. The picture of the errors goes
        to the session's artifact folder.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
            UsageError: the candidate is eager mode.
            CannotSendError: with ``isolate``, a backend that another process cannot import.
        """
        given = Comparison(candidate, backward, None, isolate, timeout, memory_limit)
        shelf = self._shelf()
        call, others = self.call_to_search()
        harness = self._harness(call, self._as_last(given))
        with as_called(call), in_force(self._context.settings):
            found = harness.localize(generate_visualizations=generate_visualizations, output_dir=shelf)
        found = replace(found, notes=(*found.notes, *others))
        self._record.update(localization=found)
        return found

    def bisect(
        self,
        *,
        adapter: Any = None,
        beside: Any = None,
        config: ComparisonConfig | None = None,
        backward: bool | None = None,
        isolate: bool | None = None,
        timeout: float | None = None,
        memory_limit: int | None = None,
    ) -> BisectRecord:
        """Which rung from eager over Dynamo, AOTAutograd and Inductor to the adapter brings an error in.

        ``adapter`` is an adapter, a backend or the name of one; by default the candidate of the last :meth:`diff`
        unless that is a rung already. Gradients are compared when that comparison did so or the cell went backward.
        ``beside`` is another way to the same device, such as a vendor's reference path: the answer says whether the bug
        is in the adapter's front end or behind both.
        ``isolate`` and the limits are as in :meth:`diff`. Of several models the one is looked at that :meth:`localize`
        would search; the answer names the others.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
        """
        given = Comparison(adapter, backward, config, isolate, timeout, memory_limit)
        call, others = self.call_to_search()
        last, goes_backward = self._as_last(given), self.goes_backward(call, given)
        with as_called(call), in_force(self._context.settings):
            found = bisect_stages(
                call.model,
                call.inputs,
                adapter=adapter if adapter is not None or is_rung(last.candidate) else last.candidate,
                config=last.config,
                model_name=call.name,
                backward=goes_backward,
                beside=beside,
                **given.limits(self._context.settings),
            )
        found = replace(found, explanation=" ".join(filter(None, [found.explanation, *others])))
        self._record.update(bisect=found)
        return found

    def reproduce(
        self,
        candidate: Any = None,
        path: str | Path | None = None,
        *,
        backward: bool | None = None,
        config: ComparisonConfig | None = None,
        setup: Sequence[str] = (),
        isolate: bool | None = None,
        timeout: float | None = None,
        memory_limit: int | None = None,
    ) -> Path:
        """Write the smallest standalone script that shows how ``candidate`` fails: :meth:`minify`, and its path.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
            UsageError: nothing is wrong.
            ReproError: as for :meth:`minify`.
        """
        limits: dict[str, Any] = {"isolate": isolate, "timeout": timeout, "memory_limit": memory_limit}
        found = self.minify(candidate, path=path, backward=backward, config=config, setup=setup, **limits)
        assert found.path is not None
        return found.path

    def minify(
        self,
        candidate: Any = None,
        *,
        error: Any = None,
        fails: Any = None,
        path: str | Path | None = None,
        backward: bool | None = None,
        config: ComparisonConfig | None = None,
        setup: Sequence[str] = (),
        seconds: float | None = None,
        evaluations: int | None = None,
        on_progress: Any = None,
        isolate: bool | None = None,
        timeout: float | None = None,
        memory_limit: int | None = None,
    ) -> MinimalRepro:
        """Reduce what fails to the smallest graph, and write the standalone script that shows it.

        What fails is how ``candidate`` does: wrong numbers as :meth:`diff` calls them, an exception, a crash, or a
        hang. A third-party candidate that is given by name runs in a process of its own, unless ``isolate=False``;
        ``timeout`` is when a step of it hangs. Or it is ``error``, an exception or one of :attr:`findings`, or
        ``fails(gm, inputs)``. ``candidate`` and ``config`` are those of the last :meth:`diff` by default; gradients
        are looked at when that comparison did so or the cell went backward, and only where the outputs alone show
        nothing. Of several models the one is taken that :meth:`localize` would search.

        The search ends after ``seconds`` or ``evaluations``; one that was interrupted goes on where it was at the
        next call. ``on_progress`` is called with how far it is. The script needs torch, and the package of a
        third-party candidate, which it names. It was run in a fresh interpreter before it is answered. Without
        ``path`` it goes to ``repros/`` in the session's artifact folder. ``setup`` are lines that it runs first.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
            UsageError: nothing is wrong, or every graph fails, also one without ops.
            ReproError: the graph or the candidate cannot go into a script, or the script does not fail alone;
                :class:`FlakyFailureError` when the failure comes and goes.
        """
        call, _ = self.call_to_search()
        given = Comparison(candidate, backward, config, isolate, timeout, memory_limit)
        limits = {"seconds": seconds, "max_evaluations": evaluations, "on_progress": on_progress}
        options = {name: value for name, value in limits.items() if value is not None}
        lines = [*changed_inductor_settings(), *setup]
        with as_called(call), in_force(self._context.settings):
            if error is not None or fails is not None:
                rules, target = self._context.rules, self._context.settings["target"]
                options |= {"fails": fails, "rules": rules, "target": target, "setup": lines}
                if candidate is not None and fails is None:
                    options["backend"] = candidate
                minifier = Minifier.of_model(call.model, call.inputs, error, **options)
            else:
                minifier = self._minifier(call, given, {**options, "setup": lines})
            found = minifier.written(self._shelf() if path is None else path)
        self._record.update(repros=(*self._record.now.repros, str(found.path)), minimal=found.record)
        return found

    def _minifier(self, call: ModelCall, given: Comparison, options: dict[str, Any]) -> Minifier:
        """The minifier of whatever fails on the candidate: without gradients, with them, with symbolic sizes."""
        last, goes_backward = self._as_last(given), self.goes_backward(call, given)
        limits = given.limits(self._context.settings)
        searched = self._record.now.localization
        culprits = searched.culprits if searched is not None and searched.candidate == last.candidate else ()
        trial = Trial(
            last.candidate,
            config=last.config,
            isolate=limits["isolate"] or given.isolate,
            timeout=limits["timeout"],
            memory_limit=limits["memory_limit"],
            culprits=culprits,
        )
        trials = [trial, *([replace(trial, backward=True)] if goes_backward else [])]
        if any(graph.symbols for capture in self._record.now.captures for graph in capture.graphs.values()):
            trials += [replace(each, open_sizes=True) for each in trials]
        reasons = []
        for each in trials:
            try:
                return minifier_of(call.model, call.inputs, each, journals=self._journals(), **options)
            except NothingFailsError as error:
                reasons.append(str(error))
        unseen = "" if goes_backward else "; gradients were not compared, backward=True does so"
        raise UsageError(f"{reasons[0]}{unseen}")

    def _journals(self) -> Path:
        """The folder where a reduction that was interrupted is kept."""
        return self._record.store().folder / "unfinished"

    def _with_lost(self, report: DiffReport) -> DiffReport:
        """The report, which is not complete and so no pass where a call of the cell could not be run again."""
        if not (lost := self._calls.lost()):
            return report
        verdict = overall_verdict(report.outputs, complete=False)
        notes = (*report.record.notes, *(f"not compared: {why}" for why in lost))
        return DiffReport(replace(report.record, verdict=verdict, notes=notes), report.pairs)

    def _as_last(self, given: Comparison) -> Comparison:
        """The comparison with its open fields filled from the last one, or from the magic's line."""
        settings = self._context.settings
        candidate = settings["candidate"]
        last = self._last or Comparison(candidate, bool(settings["backward"]), self._by_the_target(candidate))
        return replace(
            given,
            candidate=last.candidate if given.candidate is None else given.candidate,
            backward=last.backward if given.backward is None else given.backward,
            config=given.config or last.config,
        )

    def _by_the_target(self, candidate: Any) -> ComparisonConfig:
        """The tolerances of the magic's line; a target that says in which format it holds float32 is judged by that.

        Inductor computes as torch does, whatever the target is.
        """
        settings = self._context.settings
        by_target = None if candidate == INDUCTOR else self._context.profile.narrow.get("float32")
        return ComparisonConfig(
            atol=settings["atol"],
            rtol=settings["rtol"],
            numerics=settings["numerics"] or by_target,
            require=settings["require"],
        )

    def goes_backward(self, call: ModelCall, given: Comparison | None = None) -> bool:
        """Whether gradients belong to the answer: the user or the last comparison says so, or the cell went backward.

        The cell did when the model's parameters hold gradients, or when a backward was captured of a model in training
        mode or of a function.
        """
        given = given or Comparison()
        if given.backward is not None or self._as_last(given).backward:
            return bool(self._as_last(given).backward)
        module = call.model if isinstance(call.model, torch.nn.Module) else None
        if module is not None and any(parameter.grad is not None for parameter in module.parameters()):
            return True
        return has_backward(self._record.now.captures) and (module is None or module.training)

    def call_to_search(self) -> tuple[ModelCall, list[str]]:
        """The call that the last comparison found wrong first, or else the first one; a note on those it is not."""
        calls = self._calls.compared()
        call = next((each for each in calls if each is self._wrong_call), calls[0])
        others = [f"{each.name} {number}" for number, each in enumerate(calls, 1) if each is not call]
        notes = [f"Not looked at: {', '.join(others)}."] if others else []
        return call, [*notes, *(f"Not looked at: {why}." for why in self._calls.lost())]

    def _shelf(self) -> Shelf:
        return Shelf(self._record.store(), self._record.now.id)

    def _harness(self, call: ModelCall, given: Comparison, reference: Any = "eager") -> KernelDiffHarness:
        return KernelDiffHarness(
            call.model,
            call.inputs,
            model_name=call.name,
            reference_backend=reference,
            test_backend=given.candidate,
            comparison_config=given.config,
            backward=bool(given.backward),
            **given.limits(self._context.settings),
        )
