"""What a session found, read from its record."""

from __future__ import annotations

from typing import Any

from inductor_debug_jupyter.pipeline.drawing.graph_view import GraphViews
from inductor_debug_jupyter.pipeline.guards.changed_inputs import ChangedInputs
from inductor_debug_jupyter.pipeline.guards.would_recompile import RecompileAnswer, ask_recorder
from inductor_debug_jupyter.pipeline.records import (
    CompileCapture,
    CoverageRecord,
    GraphBreak,
    Guard,
    KernelSpec,
    MemoryRecord,
    Note,
    Recompile,
    Transfer,
    Violation,
)
from inductor_debug_jupyter.pipeline.session.life import SessionLife
from inductor_debug_jupyter.pipeline.views import bisect, diff, localization, memory  # noqa: F401 - as they say records
from inductor_debug_jupyter.pipeline.views.provenance import Provenance, ProvenanceTrace


class Found(SessionLife):
    """What a session answers about what it captured."""

    _views: GraphViews | None = None

    @property
    def id(self) -> str:
        """The session's id, as ``inductor-debug list`` shows it."""
        return self._id

    @property
    def captures(self) -> tuple[CompileCapture, ...]:
        """One capture for each compile id."""
        return self.record.captures

    @property
    def findings(self) -> tuple[Violation, ...]:
        """What the target refuses, worst first."""
        return self.record.findings

    @property
    def graph_breaks(self) -> tuple[GraphBreak, ...]:
        """Distinct graph breaks."""
        return self.record.graph_breaks

    @property
    def recompiles(self) -> tuple[Recompile, ...]:
        """Recompiles, in order."""
        return self.record.recompiles

    @property
    def guards(self) -> tuple[Guard, ...]:
        """What must hold for the compiled graphs to be used again."""
        return self.record.guards

    @property
    def notes(self) -> tuple[Note, ...]:
        """What to know about the capture itself."""
        return self.record.notes

    @property
    def transfers(self) -> tuple[Transfer, ...]:
        """What adapters sent to their device and got back, in order."""
        return self.record.transfers

    @property
    def kernel_specs(self) -> tuple[KernelSpec, ...]:
        """The kernels that adapters made, each with its spec."""
        return self.record.kernel_specs

    @property
    def peak_memory(self) -> int | None:
        """The most bytes alive at once in any captured graph; None when a size is symbolic."""
        return self.record.peak_memory

    @property
    def coverage(self) -> CoverageRecord | None:
        """Every op on the target: supported, decomposable, falling back or refused, with segments and transfers."""
        return self.record.coverage

    @property
    def memory(self) -> tuple[MemoryRecord, ...]:
        """Memory over time of each captured AOT graph, with the tensors that are alive at its peak."""
        return self.record.memory

    @property
    def graph_views(self) -> GraphViews:
        """The captured graphs as the Graph tab shows them: ``.of(stage="forward").expand("encoder.layer.3")``."""
        record = self.record
        if self._views is None or not self._views.shows(record):
            self._views = GraphViews(record)
        return self._views

    def trace(
        self,
        *,
        line: int | None = None,
        node: str | None = None,
        kernel: str | None = None,
        label: str = "",
        stage: str = "",
    ) -> ProvenanceTrace:
        """What a source line, a node or a kernel became, and where it comes from: line ↔ graph nodes ↔ kernels.

        Give exactly one. ``label`` (``In [4]``, or a file) says which file a line number is meant in, ``stage`` in
        which graph a node is meant when several have one of that name.

        Raises:
            UsageError: not exactly one of the three was given.
            NotFoundError: there is no such line, node or kernel.
        """
        return Provenance(self.record).trace(line=line, node=node, kernel=kernel, label=label, stage=stage)

    def would_recompile(self, *args: Any, **kwargs: Any) -> RecompileAnswer:
        """Whether a call with these inputs would compile again: yes, no or unknown, with the guard and the values.

        The model does not run. For what you compiled, your own cache is asked as it is now; for plain modules, what
        this session captured. Where several functions were called, see :meth:`would_recompile_of`.

        Raises:
            NotFoundError: nothing compiled was called, or the session was loaded from a file, which has no live guards.
            UsageError: several functions were called, or this one does not take these inputs.
        """
        return ask_recorder(self._recorder, None, args, kwargs)

    def would_recompile_of(self, target: Any, /, *args: Any, **kwargs: Any) -> RecompileAnswer:
        """:meth:`would_recompile` of one of several: ``target`` is its name, the function or the module."""
        return ask_recorder(self._recorder, target, args, kwargs)

    @property
    def what_if(self) -> ChangedInputs:
        """The first call of each compiled function with other inputs: ``session.what_if.ask({"n": "3"})``."""
        return ChangedInputs(self._recorder)
