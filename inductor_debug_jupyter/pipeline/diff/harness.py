"""Run a model twice, with a reference backend and with the one under test, and compare all that comes out."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.diff.candidate_arithmetic import arithmetic_of, may_be_arithmetic
from inductor_debug_jupyter.pipeline.diff.config import ComparisonConfig
from inductor_debug_jupyter.pipeline.diff.contract import Contract, Facts, is_layout
from inductor_debug_jupyter.pipeline.diff.elements import same_values
from inductor_debug_jupyter.pipeline.diff.executions import (
    Backend,
    Call,
    CompiledGraphs,
    Execution,
    isolated_backend,
    resolve_backend,
)
from inductor_debug_jupyter.pipeline.diff.localize import INDUCTOR, as_compiler, localize
from inductor_debug_jupyter.pipeline.diff.localize_layouts import search_layouts
from inductor_debug_jupyter.pipeline.diff.localize_passes import Above, search_above
from inductor_debug_jupyter.pipeline.diff.localize_random import Draws, drawn_outputs, from_elsewhere, search_random
from inductor_debug_jupyter.pipeline.diff.localize_tracing import search_tracing
from inductor_debug_jupyter.pipeline.diff.output_verdicts import judge_outputs, one_of_each_call, spread_of, with_spread
from inductor_debug_jupyter.pipeline.diff.outputs import compare_flat, held_to_gates
from inductor_debug_jupyter.pipeline.diff.pictures import draw_localization
from inductor_debug_jupyter.pipeline.diff.recording import Recording, manifest_of
from inductor_debug_jupyter.pipeline.diff.report import DiffReport, is_empty, overall_verdict
from inductor_debug_jupyter.pipeline.diff.slices import LivePairs
from inductor_debug_jupyter.pipeline.diff.stated_sums import SumsTested, says_wide_sums, try_sums
from inductor_debug_jupyter.pipeline.errors import InductorDebugError, OptionError, UsageError
from inductor_debug_jupyter.pipeline.formats.recognition import Recognition
from inductor_debug_jupyter.pipeline.records import SUMS, CrashRecord, DiffRecord, LocalizationRecord, OutputDiff
from inductor_debug_jupyter.pipeline.records.diff import worst_outputs_first
from inductor_debug_jupyter.pipeline.rerun.again import plain_model
from inductor_debug_jupyter.pipeline.rerun.time_limit import check_time_limit
from inductor_debug_jupyter.pipeline.store import Shelf
from inductor_debug_jupyter.pipeline.torch_compat.lowering import compile_as_traced, compile_to_compare

log = logging.getLogger("inductor_debug_jupyter")


class KernelDiffHarness:
    """Compares two executions of one model.

    Both start alike: equal weights and buffers, equal inputs (strides and all), the same random numbers. The user's
    module, inputs, gradients, generators and compile caches are afterwards as they were. Autocast and grad mode are
    those in which it is asked to compare.

    Args:
        model: a module or a function; one that is compiled already is taken as it was before.
        inputs: a tensor, a tuple or list of positional arguments, or a dict of keyword arguments.
        model_name: what to call it.
        reference_backend: ``"eager"``, the name of a ``torch.compile`` backend, a callable backend, an adapter, or a
            :class:`Recording` (also as a ``.safetensors`` file) of what the model gave on another machine.
        test_backend: what to compare with it; likewise.
        comparison_config: what counts as equal.
        isolate: compile and run each captured graph in a process of its own, so that a backend that crashes or hangs
            is a result and not the end of this process. ``eager`` is the model's own code and runs here.
        timeout: give up on a side after so many seconds (main thread only); it then counts as not compared. With
            ``isolate``: after so many seconds for one step of the backend (compile, run, backward); 600 when not said.
        backward: also compare the gradients of inputs and of all tensors that the model reaches and that require one.
        memory_limit: with ``isolate``, bytes that the process may have, torch included.
        kwargs: keyword arguments beside positional ``inputs``.
        repeats: call each side so often in a row, compiled once, and compare every call; the model's state goes on
            from call to call. All of it is then run once more from the start: an output on which the reference does
            not agree with itself is told from one that is wrong.

    What a side wrote to is compared too: inputs, parameters, buffers, and tensors, numbers and texts in attributes,
    globals and closures (:mod:`reachable` says how far that goes); so are strides, devices and shared memory of the
    outputs (:mod:`contract`). What a backend made of a graph is kept: a harness that compares again compiles no more.

    Raises:
        UsageError: an argument cannot be understood, or with ``isolate`` a backend cannot go to another process.
    """

    def __init__(
        self,
        model: Callable[..., Any],
        inputs: Any = (),
        model_name: str | None = None,
        reference_backend: Any = "eager",
        test_backend: Any = "inductor",
        comparison_config: ComparisonConfig | None = None,
        isolate: bool = False,
        timeout: float | None = None,
        backward: bool = False,
        *,
        memory_limit: int | None = None,
        kwargs: Mapping[str, Any] | None = None,
        repeats: int = 1,
    ) -> None:
        if isinstance(repeats, bool) or not isinstance(repeats, int) or repeats < 1:
            raise OptionError(f"repeats={repeats!r}; allowed: a whole number from 1 up")
        self.repeats = repeats
        if not isinstance(isolate, bool):
            raise OptionError(f"isolate={isolate!r}; allowed: True or False")
        check_time_limit(timeout, isolate=isolate)
        if memory_limit is not None and not isolate:
            raise UsageError("memory_limit limits a process of its own: give isolate=True as well")
        self.timeout = timeout
        self.memory_limit = memory_limit
        self.isolate = isolate
        if not callable(model):
            raise OptionError(f"model={type(model).__name__}; allowed: a torch.nn.Module or another callable")
        if comparison_config is not None and not isinstance(comparison_config, ComparisonConfig):
            raise OptionError(f"comparison_config={comparison_config!r}; allowed: a ComparisonConfig")
        model = plain_model(model)
        args, named = as_arguments(inputs, kwargs)
        self.model_name = model_name or getattr(model, "__name__", None) or type(model).__name__
        self.reference = self._backend(reference_backend, "reference_backend")
        self.candidate = self._backend(test_backend, "test_backend")
        self.config, self._unused = _as_stated(comparison_config or ComparisonConfig(), self.candidate)
        self._call = Call(model, args, named, backward, kept=CompiledGraphs(), calls=repeats)
        if self._recorded:
            self._call = replace(self._call, calls=1)
        self._arithmetic: Recognition | None = None
        self._draws: Draws | None = None
        self._sums: SumsTested | None = None

    def _backend(self, value: Any, option: str) -> Backend:
        if self.isolate:
            return isolated_backend(value, option, self.timeout, self.memory_limit)
        return resolve_backend(value, option)

    def compare(
        self, generate_visualizations: bool = False, output_dir: str | Path | Shelf | None = None
    ) -> DiffReport:
        """Run both and compare.

        Args:
            generate_visualizations: write heatmaps and a summary as PNG, and the report as JSON.
            output_dir: where to; by default ``visualizations`` and ``reports`` in the artifact folder. Given without
                pictures, only the JSON is written.
        """
        config = replace(self.config, heatmaps=self.config.heatmaps or generate_visualizations)
        report = DiffReport(*self._compare(config))
        if generate_visualizations or output_dir is not None:
            return report.with_files(output_dir, pictures=generate_visualizations)
        return report

    def quick_check(self) -> bool:
        """Whether the comparison passes. False too when nothing could be compared; the log says why."""
        record, _ = self._compare(replace(self.config, heatmaps=False))
        if record.verdict == "not_compared":
            log.warning("%s was not compared: %s", record.model, "; ".join(record.notes) or "there is no output")
        return record.passed

    def localize(
        self,
        *,
        free_running: bool = True,
        generate_visualizations: bool = False,
        output_dir: str | Path | Shelf | None = None,
    ) -> LocalizationRecord:
        """Find which op, kernel, module and line of the candidate is wrong; ``.culprits`` are those.

        With ``isolate`` the candidate compiles and runs in a process of its own. An op that crashes or hangs there is
        a culprit, ``.crashes`` says how the process ended and what it wrote last, and the search goes on behind it.
        Kernels can only be looked at in this process, so the search is then op by op on Inductor too: an error that
        only fused kernels have is not found (a note says so). ``timeout`` is for each step of the candidate's
        process; without ``isolate``, for its run on Inductor, and elsewhere for each part of the graph.

        Args:
            free_running: also run whole references beside the candidate, to tell what was only made worse later.
            generate_visualizations: draw the errors from node to node, as PNG.
            output_dir: where to; by default ``visualizations`` in the artifact folder.

        Raises:
            UsageError: the candidate is eager mode, which is what others are measured against.
        """
        if self.candidate.compiler is None:
            named = self.candidate.name
            raise UsageError(f"test_backend={named!r}; localize() needs a candidate that compiles, such as 'inductor'")
        once = replace(self._call, kept=None, calls=1)
        compared: list[DiffRecord] = []

        def whole(watched: Execution | None = None) -> DiffRecord:
            # What no op explains must not look like a pass: the outputs as a whole are judged too. Compiled anew:
            # what was compiled for an earlier run may have made the fault that only its second call has.
            if not compared:
                self._call = replace(self._call, kept=CompiledGraphs())
                config = replace(self.config, heatmaps=False, require=None)  # a missed figure is no op's fault
                compared.append(self._compare(config, watched, only_whether=True)[0])
            return compared[0]

        found, execution = localize(
            once,
            self.candidate,
            self.config,
            model_name=self.model_name,
            held_as=self.held_as or self._recognised_format,
            only_products=self.held_as is None and not self._holds_all,
            free_running=free_running,
            timeout=self._limit_here(self.candidate),
            outputs_differ=lambda: not whole().passed,
        )
        if not found.crashes:
            found = self._looked_beyond(_with_verdict(found, whole(execution)), whole(), once)
        if not generate_visualizations:
            return found
        images, notes = draw_localization(found, output_dir)
        return replace(found, images=images, notes=(*found.notes, *notes))

    def _looked_beyond(self, found: LocalizationRecord, whole: DiffRecord, once: Call) -> LocalizationRecord:
        """What is to blame where the values of the ops do not tell: layouts, random numbers, passes of Inductor's."""
        if self._draws is not None and found.verdict == "not_compared":
            return replace(found, notes=(*found.notes, *self._draws.notes))
        if found.verdict != "mismatch" or found.culprits:
            return found
        assert self.candidate.compiler is not None
        compiler = compile_to_compare if self.candidate.name == INDUCTOR else as_compiler(self.candidate.compiler)
        if self._sums is not None and self._sums.culprits:
            return replace(found, culprits=self._sums.culprits)
        searches: list[Callable[[], Above]] = []
        if any(map(is_layout, whole.outputs)) and not self.isolate:
            searches.append(lambda: search_layouts(once, self.config, compiler))
        if not all(is_layout(output) for output in whole.outputs if not output.passed):
            searches.append(lambda: self._draws or search_random(once, self.config, compiler))
            if self.candidate.name == INDUCTOR:
                searches.append(lambda: search_above(once, self.config))
        for search in searches:
            above = search()
            found = replace(found, culprits=(*found.culprits, *above.culprits), notes=(*found.notes, *above.notes))
        if not found.culprits:  # then perhaps Dynamo's graphs have the fault, from which all those started
            above = search_tracing(once, self.config)
            found = replace(found, culprits=above.culprits, notes=(*found.notes, *above.notes))
        return found

    def record(self, path: str | Path, backend: Any = None) -> Recording:
        """Run the candidate (or another ``backend``) and write what comes out, to be compared elsewhere.

        Raises:
            InductorDebugError: the model raised.
            StoreError: the file cannot be written.
        """
        side = self.candidate if backend is None else self._backend(backend, "backend")
        execution = replace(self._call, calls=1).execute(side, self.config, self._limit_here(side))
        if execution.error:
            raise InductorDebugError(f"{side.name} raised {execution.error}")
        values = {**execution.values, **_some(execution.after, execution.changed)}
        recording = Recording(values, manifest_of(self.model_name, side.name), side.name)
        recording.save(path)
        return recording

    @property
    def held_as(self) -> torch.dtype | None:
        """The format that the candidate's device holds floats in: what it says itself, else what the config says."""
        return self.candidate.held_as or self.config.held_as

    @property
    def _recognised_format(self) -> torch.dtype | None:
        """The 16-bit format of the candidate's recognised arithmetic, of all its results or of its products."""
        known = self._arithmetic.arithmetic if self._arithmetic is not None else None
        return None if known is None else known.held_as or known.multiplied_as

    @property
    def _holds_all(self) -> bool:
        """Whether the recognised arithmetic rounds every result."""
        known = self._arithmetic.arithmetic if self._arithmetic is not None else None
        return known is not None and known.held_as is not None

    @property
    def _recorded(self) -> bool:
        return self.reference.recording is not None or self.candidate.recording is not None

    def _compare(
        self, config: ComparisonConfig, watched: Execution | None = None, *, only_whether: bool = False
    ) -> tuple[DiffRecord, LivePairs]:
        """Run both and compare; ``watched`` is an execution of the candidate that there is already, of one call.

        ``only_whether`` outputs differ is asked: see :func:`judge_outputs`.
        """
        done, notes = self._executions(config, None if self.repeats > 1 else watched)
        reference, candidate = done[0], done[-1]
        outputs: tuple[OutputDiff, ...] = ()
        pairs = LivePairs()
        if not any(execution.error for execution in done):
            outputs, pairs, remarks = self._judged(reference, candidate, config, only_whether)
            notes += remarks
        elif candidate.crash is not None and len(done) == 2:
            outputs = worst_outputs_first(_partial(reference, candidate, candidate.crash, config))
        if spoiled := list(dict.fromkeys(path for execution in done for path in execution.spoiled)):
            why = f"the run wrote to the user's own {', '.join(spoiled[:5])}: something that was not reached holds it"
            notes.append(why)
            outputs = tuple(_untold(output, why) for output in outputs)
        if candidate.broken and len(done) == 2:
            outputs = (OutputDiff("graph", "mismatch", "; ".join(candidate.broken)), *outputs)
        complete = not any(execution.incomplete for execution in done)
        record = DiffRecord(
            model=self.model_name,
            reference=self.reference.name,
            candidate=self.candidate.name,
            verdict=overall_verdict(outputs, complete=complete),
            outputs=outputs,
            notes=tuple(dict.fromkeys(notes)),
            reference_seconds=reference.seconds,
            candidate_seconds=candidate.seconds if len(done) == 2 else 0.0,
            crashes=tuple(execution.crash for execution in done if execution.crash is not None),
        )
        return record, pairs

    def _executions(self, config: ComparisonConfig, watched: Execution | None) -> tuple[list[Execution], list[str]]:
        """The reference's execution and the candidate's, which is left out when the reference fails; and notes."""
        done: list[Execution] = []
        notes: list[str] = []
        for role, backend, known in (("reference", self.reference, None), ("candidate", self.candidate, watched)):
            execution = known or self._call.execute(backend, config, self._limit_here(backend))
            done.append(execution)
            notes += [f"{role} ({backend.name}): {why}" for why in execution.incomplete]
            if execution.crash is not None:
                notes.append(f"the {role}, {execution.crash.sentence}")
            elif execution.error:
                notes.append(f"the {role} ({backend.name}) raised {execution.error}")
            if execution.error:
                break
        return done, notes

    def _judged(
        self, reference: Execution, candidate: Execution, config: ComparisonConfig, only_whether: bool
    ) -> tuple[tuple[OutputDiff, ...], LivePairs, list[str]]:
        """Two executions compared: what came out, the tensors behind it, and notes.

        Rounding is asked about numbers only: what else an output must be is held against it after that.
        """
        theirs, ours, notes = self._sides(reference, candidate)
        outputs = compare_flat(theirs, ours, replace(config, require=None))
        judge = partial(
            judge_outputs,
            outputs,
            self._call,
            config,
            theirs,
            ours,
            reference_is_eager=self.reference.compiler is None and self.reference.recording is None,
            only_whether=only_whether,
        )
        outputs, remarks = judge(held_as=self.held_as)
        if found := self._recognised(outputs, theirs, ours, config):
            stated = self.config.held_as
            notes += found.notes(self.candidate.name) if stated is None else found.against(self.candidate.name, stated)
            known = None if found.wrong or stated is not None else found.arithmetic
            if known is not None and (known.held_as or known.multiplied_as):
                outputs, remarks = judge(arithmetic=known)
        outputs, drawn = self._without_own_draws(outputs, theirs, config)
        outputs = held_to_gates(outputs, theirs, ours, config)
        outputs, unsteady = self._repeated(outputs, reference, candidate, config)
        outputs, untried = self._with_stated_sums(outputs, config)
        outputs, broken = self._contract(config).applied(outputs, reference.facts, candidate.facts)
        overwritten = candidate.overwritten - reference.overwritten
        outputs = tuple(_overwritten(output) if output.path in overwritten else output for output in outputs)
        outputs = worst_outputs_first(one_of_each_call(outputs))
        pairs = LivePairs.worst(outputs, theirs, ours) if config.heatmaps else LivePairs()
        notes += [*reference.notes, *unsteady, *remarks, *untried, *drawn, *broken, *self._remarks(outputs)]
        return outputs, pairs, notes

    def _with_stated_sums(
        self, outputs: tuple[OutputDiff, ...], config: ComparisonConfig
    ) -> tuple[tuple[OutputDiff, ...], tuple[str, ...]]:
        """The outputs, and a mismatch beside them where a device does not keep sums in the format that it says; notes.

        Asked where rounding explains all, behind which such sums hide; not where the user said how far it may be off.
        """
        verdicts = {output.verdict for output in outputs}
        said = config.atol is not None or config.rtol is not None or config.max_mismatch_percentage > 0
        hides = "rounding" in verdicts and "mismatch" not in verdicts
        if said or self._recorded or not hides or not says_wide_sums(self.candidate):
            return outputs, ()
        if self._sums is None:
            once = replace(self._call, kept=None, calls=1, backward=False)
            self._sums = try_sums(once, self.candidate, config, self._limit_here(self.candidate))
        found = [OutputDiff(SUMS, "mismatch", each.reason) for each in self._sums.culprits[:1]]
        return (*found, *outputs), self._sums.notes

    def _recognised(
        self,
        outputs: Iterable[OutputDiff],
        theirs: Mapping[str, Any],
        ours: Mapping[str, Any],
        config: ComparisonConfig,
    ) -> Recognition | None:
        """The arithmetic of a candidate that does not say in which it computes, where an output looks like one.

        Where the user says so, what differs at all is looked at: the arithmetic may be another one.
        """
        if self.candidate.held_as is not None or _is_torchs(self.candidate) or self._recorded:
            return None
        stated = self.config.held_as is not None
        open_to_it = [output.path for output in outputs if output.verdict == "mismatch" or stated]
        pairs = [(theirs.get(path), ours.get(path)) for path in open_to_it]
        fits = _differ if stated else may_be_arithmetic
        if self.candidate.compiler is None or not any(fits(*pair) for pair in pairs):
            return None
        if self._arithmetic is None:
            once = replace(self._call, kept=None, calls=1, backward=False)
            self._arithmetic = arithmetic_of(once, self.candidate, config, self._limit_here(self.candidate))
        return self._arithmetic

    def _without_own_draws(
        self, outputs: tuple[OutputDiff, ...], theirs: Mapping[str, Any], config: ComparisonConfig
    ) -> tuple[tuple[OutputDiff, ...], tuple[str, ...]]:
        """The outputs, those not compared that differ only because the candidate has a generator of its own."""
        compiler = self.candidate.compiler
        if compiler is None or self.reference.compiler is not None or _is_torchs(self.candidate) or self._recorded:
            return outputs, ()
        if not (paths := drawn_outputs(outputs, self._call, config, theirs)):
            return outputs, ()
        try:
            once = replace(self._call, kept=None, calls=1)
            self._draws = self._draws or search_random(once, config, as_compiler(compiler))
        finally:
            if self.candidate.close is not None:
                self.candidate.close()
        return from_elsewhere(outputs, paths, self._draws), self._draws.notes

    def _sides(self, reference: Execution, candidate: Execution) -> tuple[dict[str, Any], dict[str, Any], list[str]]:
        """Everything to compare of the reference and of the candidate: outputs, gradients, and what either wrote to."""
        if not self._recorded:
            written = reference.changed | candidate.changed
            theirs, ours = ({**side.values, **_some(side.after, written)} for side in (reference, candidate))
            return theirs, ours, []
        notes = ["strides and shared memory were not compared: a recording does not have them"]
        if self.repeats > 1:
            notes.append("only one call was compared: a recording has no more")
        recorded = {*reference.values} if self.reference.recording is not None else {*candidate.values}
        theirs, ours = ({**side.values, **_some(side.after, recorded)} for side in (reference, candidate))
        if unknown := sorted((reference.changed | candidate.changed) - recorded):
            notes.append(f"written to, and not in the recording: {', '.join(unknown[:5])}")
        return theirs, ours, notes

    def _contract(self, config: ComparisonConfig) -> Contract:
        def traced() -> list[Mapping[str, Facts]]:
            plainly = replace(self._call, kept=None)
            backends = [Backend("traced", partial(compile_as_traced, decomposed=each)) for each in (False, True)]
            return [plainly.execute(backend, config, self.timeout).facts for backend in backends]

        elsewhere = self.candidate.isolated
        return Contract(self._call.backward, elsewhere, config.check_strides, traced)

    def _repeated(
        self, outputs: tuple[OutputDiff, ...], reference: Execution, candidate: Execution, config: ComparisonConfig
    ) -> tuple[tuple[OutputDiff, ...], list[str]]:
        """The same outputs, told which of them differ when all is run again from the start, and notes on that."""
        spreads: dict[str, dict[str, float]] = {}
        notes = []
        for role, backend, first in (
            ("reference", self.reference, reference),
            ("candidate", self.candidate, candidate),
        ):
            if self.repeats == 1 or backend.recording is not None:
                continue
            again = self._call.execute(backend, config, self._limit_here(backend))
            if again.error:
                notes.append(f"the {role} ({backend.name}) ran once, and raised the next time: {again.error}")
                continue
            spreads[role] = spread_of(first.values, again.values)
            if spread := spreads[role]:
                notes.append(f"the {role} ({backend.name}) is nondeterministic: {len(spread)} outputs differ by run")
        return tuple(with_spread(output, spreads) for output in outputs), notes

    def _limit_here(self, backend: Backend) -> float | None:
        """A process of its own keeps its own time; a signal could not end a step there."""
        return None if self.isolate and backend.compiler is not None else self.timeout

    def _remarks(self, outputs: tuple[OutputDiff, ...]) -> list[str]:
        remarks = list(self._unused)
        if not outputs:
            remarks.append("the model returned nothing that could be compared")
        if self.reference == self.candidate or (self.isolate and self.reference.name == self.candidate.name):
            remarks.append(f"both sides are {self.reference.name}: this only shows whether it repeats itself")
        if empty := [output.path for output in outputs if is_empty(output)]:
            remarks.append(f"without elements on both sides, and not counted: {', '.join(empty[:10])}")
        return remarks


def _is_torchs(backend: Backend) -> bool:
    """Whether a backend of torch's own, which computes in the tensors' formats."""
    return backend.is_torchs or backend.name == INDUCTOR


def _as_stated(config: ComparisonConfig, candidate: Backend) -> tuple[ComparisonConfig, list[str]]:
    """The config without the format that the user states, and a note, where the candidate's own is known already."""
    stated = config.held_as
    known = "the tensors' own formats" if _is_torchs(candidate) else str(candidate.held_as).removeprefix("torch.")
    if stated is None or candidate.held_as == stated or (candidate.held_as is None and not _is_torchs(candidate)):
        return config, []
    name = str(stated).removeprefix("torch.")
    return replace(config, numerics=None), [f"numerics={name} was not used: {candidate.name} computes in {known}"]


def _differ(reference: Any, candidate: Any) -> bool:
    """Whether two tensors of floats differ somewhere."""
    are_tensors = isinstance(reference, torch.Tensor) and isinstance(candidate, torch.Tensor)
    return are_tensors and reference.is_floating_point() and not same_values(reference, candidate)


def _partial(
    reference: Execution, candidate: Execution, crash: CrashRecord, config: ComparisonConfig
) -> tuple[OutputDiff, ...]:
    """What there was before the crash, compared, and what there would have been."""
    common = {path: reference.values[path] for path in candidate.values if path in reference.values}
    lost = f"{crash.sentence}: there is nothing to compare with"
    missing = [
        OutputDiff(
            path,
            "not_compared",
            lost,
            tuple(getattr(value, "shape", ())),
            str(getattr(value, "dtype", "")).removeprefix("torch."),
        )
        for path, value in reference.values.items()
        if path not in common
    ]
    return (*compare_flat(common, {path: candidate.values[path] for path in common}, config), *missing)


def _some(values: Mapping[str, Any], paths: Iterable[str]) -> dict[str, Any]:
    wanted = set(paths)
    return {path: value for path, value in values.items() if path in wanted}


def _overwritten(output: OutputDiff) -> OutputDiff:
    why = "a later call wrote over it: the candidate uses the memory of its results again"
    return replace(output, verdict="mismatch", reason="; ".join(filter(None, [output.reason, why])))


def _untold(output: OutputDiff, why: str) -> OutputDiff:
    """An output of two runs that did not start alike: that it differs tells nothing."""
    return replace(output, verdict="not_compared", reason=why) if output.verdict == "mismatch" else output


def _with_verdict(found: LocalizationRecord, whole: DiffRecord) -> LocalizationRecord:
    """The search with the verdict on the outputs.

    An op that is wrong only inside of what is compiled with it was never seen to be wrong by itself: it is no culprit
    when rounding explains the outputs.
    """
    culprits, notes = found.culprits, [*found.notes, *differing(whole)]
    if whole.passed and (fused := [culprit for culprit in culprits if culprit.only_fused]):
        culprits = tuple(culprit for culprit in culprits if not culprit.only_fused)
        notes.append(f"{len(fused)} values are further off than rounding explains while fused, and no output shows it")
    if whole.passed and culprits:
        notes.append("each culprit is wrong by itself, and no output shows it")
    return replace(found, culprits=culprits, verdict=whole.verdict, notes=tuple(notes))


def differing(record: DiffRecord) -> list[str]:
    """Which outputs are wrong, in one line; nothing when none is."""
    wrong = [output.path for output in record.outputs if output.verdict == "mismatch"]
    more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
    return [f"outputs that differ: {', '.join(wrong[:5])}{more}"] if wrong else []


def as_arguments(inputs: Any, kwargs: Mapping[str, Any] | None = None) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Inputs as positional and named arguments: a tensor, a tuple or list of them, or a dict by name."""
    named = dict(kwargs or {})
    if isinstance(inputs, Mapping):
        if named:
            raise UsageError("inputs is a dict of keyword arguments already; leave kwargs out")
        named, inputs = dict(inputs), ()
    if wrong := [key for key in named if not isinstance(key, str)]:
        raise OptionError(f"inputs has the key {wrong[0]!r}; allowed: names of the model's arguments, as strings")
    return tuple(inputs) if isinstance(inputs, tuple | list) else (inputs,), named
