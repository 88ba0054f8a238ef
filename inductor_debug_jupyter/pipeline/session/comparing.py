"""Running what a cell ran once more: on two backends, stage by stage, cut down to a script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters.device_log import listening
from inductor_debug_jupyter.pipeline.bisect import bisect_stages, is_rung
from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.diff import ComparisonConfig, DiffReport, KernelDiffHarness, merged
from inductor_debug_jupyter.pipeline.diff.harness import overall_verdict
from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.interrupts import stoppable
from inductor_debug_jupyter.pipeline.minify import Differs, Minifier, backend_source
from inductor_debug_jupyter.pipeline.records import BisectRecord, LocalizationRecord
from inductor_debug_jupyter.pipeline.rerun.again import as_called
from inductor_debug_jupyter.pipeline.session.life import SessionLife
from inductor_debug_jupyter.pipeline.store import Shelf
from inductor_debug_jupyter.pipeline.torch_compat.state import changed_inductor_settings
from inductor_debug_jupyter.pipeline.what_if.baseline import has_backward


@dataclass(frozen=True, slots=True)
class Comparison:
    """What :meth:`Comparing.diff` was asked for."""

    candidate: Any
    backward: bool
    config: ComparisonConfig | None


class Comparing(SessionLife):
    """A session's comparisons."""

    _wrong_call: ModelCall | None = None
    """Which of the kept calls the last comparison found wrong first."""
    _compared: Comparison | None = None
    """The last comparison: what is looked into next is what it compared, as it was compared."""

    @stoppable
    def diff(
        self,
        reference: Any = "eager",
        candidate: Any = "inductor",
        *,
        config: ComparisonConfig | None = None,
        backward: bool = False,
        generate_visualizations: bool = False,
        isolate: bool | None = None,
        timeout: float | None = None,
        memory_limit: int | None = None,
    ) -> DiffReport:
        """Run what the cell ran twice more, on ``reference`` and on ``candidate``, and compare the outputs.

        Each is ``eager``, the name of a torch.compile backend, a backend function or an adapter. What the models print
        while they run again is not shown. With ``isolate`` the compiled sides run in processes of their own, which may
        crash; ``timeout`` limits each of their steps and ``memory_limit`` their memory. What is not said here is as on
        the magic's line.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
            CannotSendError: with ``isolate``, a backend that another process cannot import.
        """
        limits = self._limits(isolate, timeout, memory_limit)
        config = config or self._by_the_target()
        reports = []
        calls = list(self._kept_calls())
        for call in calls:
            harness = KernelDiffHarness(
                call.model,
                call.inputs,
                model_name=call.name,
                reference_backend=reference,
                test_backend=candidate,
                comparison_config=config,
                backward=backward,
                **limits,
            )
            with as_called(call), listening(self._device):
                shelf = self._shelf() if generate_visualizations else None
                reports.append(harness.compare(generate_visualizations, shelf))
        report = self._with_lost(merged(reports))
        self._compared = Comparison(candidate, backward, config)
        self._wrong_call = next((call for call, each in zip(calls, reports, strict=True) if not each.passed), None)
        self.diff_pairs = report.pairs
        self._update(diff=report.record, **self._told(self.record.notes))
        return report

    @stoppable
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

        ``candidate`` and ``backward`` are those of the last :meth:`diff` when not said, or else as on the magic's line.
        Searched is the first of the cell's models that the last :meth:`diff` found wrong, or else the first. With
        ``isolate`` the candidate runs in a process of its own, op by op: one that crashes or hangs is a culprit, and
        ``.crashes`` tells how. ``isolate`` and the limits are as in :meth:`diff`. The picture of the errors goes to the
        session's artifact folder.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
            UsageError: the candidate is eager mode.
            CannotSendError: with ``isolate``, a backend that another process cannot import.
        """
        limits = self._limits(isolate, timeout, memory_limit)
        call, others = self._call_to_search()
        last = self._last_comparison()
        harness = KernelDiffHarness(
            call.model,
            call.inputs,
            model_name=call.name,
            test_backend=last.candidate if candidate is None else candidate,
            comparison_config=last.config,
            backward=last.backward if backward is None else backward,
            **limits,
        )
        with as_called(call):
            found = harness.localize(generate_visualizations=generate_visualizations, output_dir=self._shelf())
        found = replace(found, notes=(*found.notes, *others))
        self._update(localization=found)
        return found

    @stoppable
    def bisect(
        self,
        *,
        adapter: Any = None,
        config: ComparisonConfig | None = None,
        backward: bool | None = None,
        isolate: bool | None = None,
        timeout: float | None = None,
        memory_limit: int | None = None,
    ) -> BisectRecord:
        """Which rung from eager over Dynamo, AOTAutograd and Inductor to the adapter brings an error in.

        ``adapter`` is an adapter, a backend or the name of one; when not said, the candidate of the last :meth:`diff`
        unless that is a rung already. Gradients are compared when that comparison did so or the cell went backward.
        ``isolate`` and the limits are as in :meth:`diff`. Of several models the one is looked at that :meth:`localize`
        would search; the answer names the others.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
        """
        limits = self._limits(isolate, timeout, memory_limit)
        call, others = self._call_to_search()
        last = self._last_comparison()
        with as_called(call):
            found = bisect_stages(
                call.model,
                call.inputs,
                adapter=adapter if adapter is not None or is_rung(last.candidate) else last.candidate,
                config=config or last.config,
                model_name=call.name,
                backward=self._goes_backward(call) if backward is None else backward,
                **limits,
            )
        found = replace(found, explanation=" ".join(filter(None, [found.explanation, *others])))
        self._update(bisect=found)
        return found

    @stoppable
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
        """Write the smallest standalone script in which ``candidate`` answers something else than eager.

        What is wrong is what :meth:`diff` calls wrong. ``candidate`` and ``config`` are those of the last :meth:`diff`
        when not said; gradients are looked at when that comparison did so or the cell went backward, and only where
        the outputs alone show nothing. Of several models it is made of the one that :meth:`localize` would search.

        The script needs torch, and the package of a third-party candidate, which it names; it exits with 0 when the
        difference shows. It was run in a fresh interpreter before its path is answered. Without ``path`` it goes to
        ``repros/`` in the session's artifact folder. ``setup`` are lines of Python that it runs first.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
            UsageError: nothing is wrong, or not on a single graph.
            ReproError: the graph or the candidate cannot go into a script, or the script does not fail alone.
        """
        limits = self._limits(isolate, timeout, memory_limit)
        call, _ = self._call_to_search()
        last = self._last_comparison()
        candidate = last.candidate if candidate is None else candidate
        goes_backward = self._goes_backward(call) if backward is None else backward
        lines = [*changed_inductor_settings(), *setup]
        with as_called(call):
            for gradients in (False, True) if goes_backward else (False,):
                fails = Differs(candidate, backward=gradients, config=config or last.config, **limits)
                minifier = Minifier.of_model(call.model, call.inputs, fails=fails, setup=lines)
                whole = minifier.whole()
                if whole.fails:
                    break
            else:
                unseen = "" if goes_backward else "; gradients were not compared, backward=True does so"
                raise UsageError(f"nothing to reproduce: {whole.reason}{unseen}")
            backend_source(candidate)  # one that no script can import is told before the search, which may take long
            minifier.minify()
            written = minifier.generate_repro_script(self._shelf() if path is None else path)
        self._update(repros=(*self.record.repros, str(written)))
        return written

    def _with_lost(self, report: DiffReport) -> DiffReport:
        """The report, which is not complete and so no pass where a call of the cell could not be run again."""
        if not (lost := self._lost_calls()):
            return report
        verdict = overall_verdict(report.outputs, complete=False)
        notes = (*report.record.notes, *(f"not compared: {why}" for why in lost))
        return DiffReport(replace(report.record, verdict=verdict, notes=notes), report.pairs)

    def _last_comparison(self) -> Comparison:
        """The last comparison, or what the magic's line asks for."""
        if self._compared is not None:
            return self._compared
        return Comparison(self.settings["candidate"], bool(self.settings["backward"]), self._by_the_target())

    def _by_the_target(self) -> ComparisonConfig:
        """The usual way to compare; a target that says what it holds float32 in is judged by that format."""
        return ComparisonConfig(numerics=self.profile.narrow.get("float32"))

    def _goes_backward(self, call: ModelCall) -> bool:
        """Whether gradients belong to the answer: the last comparison had them, or the cell itself went backward.

        The cell did when the model's parameters hold gradients, or when a backward was captured of a model in training
        mode or of a function.
        """
        if self._last_comparison().backward:
            return True
        module = call.model if isinstance(call.model, torch.nn.Module) else None
        if module is not None and any(parameter.grad is not None for parameter in module.parameters()):
            return True
        return has_backward(self.record.captures) and (module is None or module.training)

    def _call_to_search(self) -> tuple[ModelCall, list[str]]:
        """The call that the last comparison found wrong first, or else the first one; a note on those it is not."""
        calls = self._kept_calls()
        call = next((each for each in calls if each is self._wrong_call), calls[0])
        others = [f"{each.name} {number}" for number, each in enumerate(calls, 1) if each is not call]
        notes = [f"Not looked at: {', '.join(others)}."] if others else []
        return call, [*notes, *(f"Not looked at: {why}." for why in self._lost_calls())]

    def _shelf(self) -> Shelf:
        return Shelf(self._store(), self._id)

    def _limits(self, isolate: bool | None, timeout: float | None, memory_limit: int | None) -> dict[str, Any]:
        """What was said here, else on the magic's line; a memory limit of the environment needs a process to limit."""
        isolate = bool(self.settings["isolate"]) if isolate is None else isolate
        if memory_limit is None and isolate:
            memory_limit = self.settings["memory_limit"]
        timeout = self.settings["timeout"] if timeout is None else timeout
        return {"isolate": isolate, "timeout": timeout, "memory_limit": memory_limit}
