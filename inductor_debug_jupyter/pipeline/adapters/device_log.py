"""Where adapters tell what goes to their device, what comes back and which kernels they made.

Whoever wants to know listens for a while: a session does while it is open. With ``INDUCTOR_DEBUG_TRANSFERS=1`` each is
also a line in the log (``=values`` adds the first values), in a script that holds no session too. Nobody listening
costs one look at a list.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from inductor_debug_jupyter.pipeline.adapters.capabilities import CompilationResult
from inductor_debug_jupyter.pipeline.records import KernelSpec, Note, Transfer
from inductor_debug_jupyter.pipeline.settings import resolve
from inductor_debug_jupyter.pipeline.torch_compat.state import current_compile_id
from inductor_debug_jupyter.pipeline.views.transfers import event_line

Event = Transfer | KernelSpec
Listener = Callable[[Event], None]
KernelKey = tuple[str, str, str, str, str]

log = logging.getLogger("inductor_debug_jupyter.transfers")

MOST_EVENTS = 20_000
"""How many transfers, and how many kernels, one :class:`DeviceLog` keeps; what is left out is counted."""

_lock = threading.Lock()
_listeners: list[Listener] = []


@dataclass
class DeviceLog:
    """Keeps what adapters tell while it listens: the first :data:`MOST_EVENTS` of each kind."""

    transfers: list[Transfer] = field(default_factory=list)
    kernels: dict[KernelKey, KernelSpec] = field(default_factory=dict)
    left_out: int = 0

    def __call__(self, event: Event) -> None:
        """Keep one event. A kernel that is told again (its graph was built again) is kept once."""
        if len(self.transfers if isinstance(event, Transfer) else self.kernels) >= MOST_EVENTS:
            self.left_out += 1
        elif isinstance(event, Transfer):
            self.transfers.append(event)
        else:
            self.kernels[(event.adapter, event.compile_id, event.graph, event.node, str(event.spec))] = event

    @property
    def told_transfers(self) -> tuple[Transfer, ...]:
        """As a record has them."""
        return tuple(self.transfers)

    @property
    def told_kernels(self) -> tuple[KernelSpec, ...]:
        """As a record has them."""
        return tuple(self.kernels.values())

    @property
    def notes(self) -> tuple[Note, ...]:
        """What was left out."""
        told = f"{self.left_out:,} transfers or kernels more were not kept: {MOST_EVENTS:,} of each are"
        return (Note("transfers", told),) if self.left_out else ()


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell ``listener`` everything that adapters do inside the block, on any thread: a backward has its own."""
    with _lock:
        _listeners.append(listener)
    try:
        yield
    finally:
        with _lock:
            _listeners.remove(listener)


def logging_mode() -> str:
    """What ``INDUCTOR_DEBUG_TRANSFERS`` (or the config file) asks for: nothing (empty), ``lines`` or ``values``."""
    return _mode(os.environ.get("INDUCTOR_DEBUG_TRANSFERS"), os.getcwd())  # noqa: PTH109 - only a key


@functools.lru_cache(maxsize=1)
def _mode(said: str | None, folder: str) -> str:
    """Looking for a config file takes longer than a small transfer: once for each variable's value and folder."""
    return str(resolve(names=["transfers"])["transfers"] or "")


def tell(event: Event) -> None:
    """Pass one transfer or kernel on to whoever listens, and to the log when it is on."""
    for listener in list(_listeners):
        listener(event)
    if logging_mode():
        log_line(event_line(event))


def log_line(text: str) -> None:
    """One line in the log, whether or not the script has set logging up."""
    _open_log()
    log.info("%s", text)


def tell_kernels(result: CompilationResult, adapter: str) -> None:
    """Tell of every kernel that came out of a compile."""
    for spec in result.kernel_specs:
        tell(kernel_of(spec, adapter=adapter, compile_id=current_compile_id() or ""))


def kernel_of(spec: Mapping[str, Any], *, adapter: str, compile_id: str = "") -> KernelSpec:
    """The record of a spec that an adapter put into its :class:`CompilationResult`."""
    return KernelSpec(
        op=str(spec.get("op", "?")),
        node=str(spec.get("node", "")),
        adapter=adapter,
        graph=str(spec.get("graph", "")),
        compile_id=compile_id,
        spec={str(key): jsonable(value) for key, value in spec.items()},
    )


def jsonable(value: Any) -> Any:
    """The value as JSON can hold it; what JSON does not know becomes its text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): jsonable(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(each) for each in value]
    return str(value)


def _open_log() -> None:
    """Make the log visible in a script that has not set logging up: whoever sets the variable wants to see lines."""
    if not log.isEnabledFor(logging.INFO):
        log.setLevel(logging.INFO)
    if not log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("[inductor_debug] %(message)s"))
        log.addHandler(handler)
