"""Running what a cell ran once more: on two backends, stage by stage, cut down to a script."""

from __future__ import annotations

import contextlib
import io
from dataclasses import replace
from pathlib import Path
from typing import Any

from inductor_debug_jupyter.pipeline.adapters.device_log import listening
from inductor_debug_jupyter.pipeline.bisect import bisect_stages
from inductor_debug_jupyter.pipeline.capture.calls import ModelCall
from inductor_debug_jupyter.pipeline.diff import ComparisonConfig, DiffReport, KernelDiffHarness, merged
from inductor_debug_jupyter.pipeline.minify import Differs, Minifier
from inductor_debug_jupyter.pipeline.records import BisectRecord, LocalizationRecord
from inductor_debug_jupyter.pipeline.session.life import SessionLife
from inductor_debug_jupyter.pipeline.store import Shelf
from inductor_debug_jupyter.pipeline.torch_compat.state import changed_inductor_settings


class Comparing(SessionLife):
    """A session's comparisons."""

    _wrong_call: ModelCall | None = None
    """Which of the kept calls the last comparison found wrong first."""

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
            with contextlib.redirect_stdout(io.StringIO()), listening(self._device), call.modes.again():
                shelf = self._shelf() if generate_visualizations else None
                reports.append(harness.compare(generate_visualizations, shelf))
        report = merged(reports)
        self._wrong_call = next((call for call, each in zip(calls, reports, strict=True) if not each.passed), None)
        self.diff_pairs = report.pairs
        self._update(diff=report.record, **self._told(self.record.notes))
        return report

    def localize(
        self,
        candidate: Any = "inductor",
        *,
        backward: bool = False,
        generate_visualizations: bool = False,
        isolate: bool | None = None,
        timeout: float | None = None,
        memory_limit: int | None = None,
    ) -> LocalizationRecord:
        """Find which op, kernel, module and line is wrong on ``candidate``; ``.culprits``.

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
        harness = KernelDiffHarness(
            call.model, call.inputs, model_name=call.name, test_backend=candidate, backward=backward, **limits
        )
        with contextlib.redirect_stdout(io.StringIO()), call.modes.again():
            found = harness.localize(generate_visualizations=generate_visualizations, output_dir=self._shelf())
        found = replace(found, notes=(*found.notes, *others))
        self._update(localization=found)
        return found

    def bisect(
        self,
        *,
        adapter: Any = None,
        config: ComparisonConfig | None = None,
        isolate: bool | None = None,
        timeout: float | None = None,
        memory_limit: int | None = None,
    ) -> BisectRecord:
        """Which rung from eager over Dynamo, AOTAutograd and Inductor to the adapter brings an error in.

        ``adapter`` is an adapter or the name of one; ``isolate`` and the limits are as in :meth:`diff`. Of several
        models the one is looked at that :meth:`localize` would search; the answer names the others.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
        """
        limits = self._limits(isolate, timeout, memory_limit)
        call, others = self._call_to_search()
        with contextlib.redirect_stdout(io.StringIO()), call.modes.again():
            found = bisect_stages(
                call.model,
                call.inputs,
                adapter=adapter,
                config=config,
                model_name=call.name,
                **limits,
            )
        found = replace(found, explanation=" ".join(filter(None, [found.explanation, *others])))
        self._update(bisect=found)
        return found

    def reproduce(self, candidate: str = "inductor", path: str | Path | None = None) -> Path:
        """Write the smallest standalone script in which ``candidate`` answers something else than eager.

        Of several models it is made of the one that :meth:`localize` would search. Without ``path`` it goes to
        ``repros/`` in the artifact folder. The script needs torch and nothing else, and exits with 0 when the
        difference shows.

        Raises:
            NotFoundError: no model call was kept (see ``keep_inputs``).
            UsageError: the difference does not show on a single graph.
        """
        call, _ = self._call_to_search()
        with contextlib.redirect_stdout(io.StringIO()), call.modes.again():
            minifier = Minifier.of_model(
                call.model, call.inputs, fails=Differs(candidate), setup=changed_inductor_settings()
            )
            minifier.minify()
            written = minifier.generate_repro_script(path)
        self._update(repros=(*self.record.repros, str(written)))
        return written

    def _call_to_search(self) -> tuple[ModelCall, list[str]]:
        """The call that the last comparison found wrong first, or else the first one; a note on those it is not."""
        calls = self._kept_calls()
        call = next((each for each in calls if each is self._wrong_call), calls[0])
        others = [f"{each.name} {number}" for number, each in enumerate(calls, 1) if each is not call]
        return call, [f"Not looked at: {', '.join(others)}."] if others else []

    def _shelf(self) -> Shelf:
        return Shelf(self._store(), self._id)

    def _limits(self, isolate: bool | None, timeout: float | None, memory_limit: int | None) -> dict[str, Any]:
        """What was said here, else on the magic's line; a memory limit of the environment needs a process to limit."""
        isolate = bool(self.settings["isolate"]) if isolate is None else isolate
        if memory_limit is None and isolate:
            memory_limit = self.settings["memory_limit"]
        timeout = self.settings["timeout"] if timeout is None else timeout
        return {"isolate": isolate, "timeout": timeout, "memory_limit": memory_limit}
