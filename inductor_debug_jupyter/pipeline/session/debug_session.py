"""What a user holds: one :class:`DebugSession` for each cell, ``with`` block or script.

A session opens a capture, checks what was captured against a target, keeps the answer as a
:class:`~inductor_debug_jupyter.pipeline.records.SessionRecord`, and shows it. It never imports Jupyter: the jupyter
package registers how a session is displayed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from inductor_debug_jupyter.pipeline.devices import Constraint
from inductor_debug_jupyter.pipeline.errors import InductorDebugError
from inductor_debug_jupyter.pipeline.reading import LARGEST_RECORD, read_regular
from inductor_debug_jupyter.pipeline.records import SessionRecord, dump_session, load_session
from inductor_debug_jupyter.pipeline.session.comparing import Comparing
from inductor_debug_jupyter.pipeline.session.fixing import Fixing
from inductor_debug_jupyter.pipeline.session.found import Found
from inductor_debug_jupyter.pipeline.session.life import added, finished
from inductor_debug_jupyter.pipeline.session.nodes import Nodes
from inductor_debug_jupyter.pipeline.session.trying import Trying
from inductor_debug_jupyter.pipeline.settings import resolve
from inductor_debug_jupyter.pipeline.store.files import explained, write_whole
from inductor_debug_jupyter.pipeline.views.places import Lookup
from inductor_debug_jupyter.pipeline.views.text import session_text

DisplayFactory = Callable[["DebugSession"], Any]

_display_factories: list[DisplayFactory] = []


def register_display(factory: DisplayFactory) -> None:
    """Use ``factory`` for :meth:`DebugSession.panel` from now on."""
    _display_factories[:] = [factory]


def last_session() -> DebugSession | None:
    """The session that was finished last in this process."""
    last = finished[-1] if finished else None
    return last if isinstance(last, DebugSession) else None


class DebugSession(Found, Comparing, Fixing, Nodes, Trying):
    """What one cell left behind.

    Args:
        settings: the values in force (see :mod:`~inductor_debug_jupyter.pipeline.settings`).
        constraints: rules to check instead of the target's own.
        eager: also show plain module calls to the compiler.
        fresh: bypass the FX and AOT caches, so that every stage is seen.
        keep_inputs: copy the inputs of each model's first call, for :meth:`diff`, :meth:`bisect` and :meth:`node`.
        inputs_limit: the most bytes that these copies may have together, or a budget that several sessions share;
            models are then not kept alive. No limit without it, and none where the settings ask for a comparison.
        name: what to call it; the captured model's name by default.
        on_step: told what the compiler is doing, for somebody who waits.
        only: whether a model or function that is called is of interest; all are by default.

    Raises:
        UsageError: a bad setting or an unknown target, before anything is touched.
    """

    # Selecting --------------------------------------------------------------------------------------------------

    def select(
        self,
        *,
        finding: int | None = None,
        node: str | None = None,
        line: int | None = None,
        kernel: str | None = None,
        label: str = "",
    ) -> dict[str, Any]:
        """Choose a finding (counted from 0), a node or kernel by name or a source line, as a click in the panel does.

        Raises:
            UsageError: not exactly one of the four was given.
            NotFoundError: there is no such finding, node, line or kernel.
        """
        chosen = Lookup(self.record).find(finding=finding, node=node, line=line, kernel=kernel, label=label)
        self.choose(dict(chosen))
        return self.selection

    def on_select(self, observer: Callable[[dict[str, Any]], None]) -> Callable[[], None]:
        """Call ``observer`` with each new selection; the answer, when called, ends that."""
        return added(self._selection_observers, observer)

    def choose(self, selection: dict[str, Any]) -> None:
        """Take over a whole selection, as the panel sends it."""
        if selection == self.selection:
            return
        self.selection = selection
        for observer in tuple(self._selection_observers):
            observer(selection)

    # Showing and keeping ----------------------------------------------------------------------------------------

    def panel(self) -> Any:
        """The panel of this session; in a notebook it displays itself.

        Raises:
            InductorDebugError: there is no notebook to show it in.
        """
        if not _display_factories:
            raise InductorDebugError(
                "no panel here: run %load_ext inductor_debug_jupyter in a notebook, or print(session) for the text"
            )
        return _display_factories[0](self)

    def save(self, path: str | Path | None = None) -> Path:
        """Write the session as JSON; all of it or, when that fails, nothing.

        Without a path it goes to the artifact folder, where ``inductor-debug list`` finds it. What a cell left behind
        is there already; a what-if (:meth:`try_out`) is not.

        Raises:
            StoreError: it cannot be written.
        """
        if path is None:
            return self._file_away()
        target = Path(path)
        write_whole(target, dump_session(self.record))
        return target

    @classmethod
    def load(cls, path: str | Path) -> DebugSession:
        """The session that :meth:`save` wrote.

        Raises:
            StoreError: the file cannot be read.
            RecordError: it is damaged or from a newer version.
        """
        with explained("read", Path(path)):
            data = read_regular(Path(path), LARGEST_RECORD)
        return cls.of_record(load_session(data))

    @classmethod
    def of_record(cls, record: SessionRecord) -> DebugSession:
        """A session that only shows a record: it has captured already."""
        session = cls(resolve({"strict": record.strict}))
        session._record = record
        session._id = record.id
        session._loaded = True
        return session

    def __str__(self) -> str:
        return session_text(self.record)

    def __repr__(self) -> str:
        return self.__str__()


@contextmanager
def capture(
    target: str | None = None,
    strict: bool | None = None,
    lower: str | None = None,
    eager: bool = False,
    fresh: bool = True,
    constraints: Sequence[Constraint] | None = None,
    artifacts: str | None = None,
    keep_inputs: bool = False,
) -> Iterator[DebugSession]:
    """Capture everything that is compiled inside the block.

    Args:
        target: a device profile's name or file.
        strict: end in :class:`ConstraintViolationError` when the target refuses something.
        lower: how far to lower plain modules (``dynamo``, ``aot``, ``inductor``).
        eager: also compile plain module calls, and run them eagerly.
        fresh: bypass the FX and AOT caches without writing to them, so that everything is seen.
        constraints: rules to check instead of the target's own.
        artifacts: the folder for sessions, graphs and repros.
        keep_inputs: copy the inputs of each model's first call, so that ``session.diff()`` can run it again.
    """
    given = {"target": target, "strict": strict, "lower": lower, "artifacts": artifacts}
    session = DebugSession(resolve(given), constraints=constraints, eager=eager, fresh=fresh, keep_inputs=keep_inputs)
    session.open()
    try:
        yield session
    finally:
        session.close()
    if (error := session.refusal()) is not None:
        raise error
