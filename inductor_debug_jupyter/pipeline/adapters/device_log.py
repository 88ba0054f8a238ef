"""Adapters report transfers to and from their device, and kernels, here; sessions listen while they are open.

With ``INDUCTOR_DEBUG_TRANSFERS=1`` each event is also a line in the log (``=values`` adds the first values), even in a
script without a session. Without listeners an event costs one look at an empty list.
"""

from __future__ import annotations

import functools
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from inductor_debug_jupyter.pipeline.interrupts import uncut
from inductor_debug_jupyter.pipeline.records import KernelSpec, Note, Transfer
from inductor_debug_jupyter.pipeline.settings import given_on_the_line, resolve

Event = Transfer | KernelSpec
Listener = Callable[[Event], None]
KernelKey = tuple[str, str, str, str, str]

log = logging.getLogger("inductor_debug_jupyter.transfers")

MOST_EVENTS = 20_000
"""How many transfers, and how many kernels, one :class:`DeviceLog` keeps; further ones are counted."""

_lock = threading.Lock()
_listeners: list[Listener] = []


@dataclass
class DeviceLog:
    """A listener that keeps the first :data:`MOST_EVENTS` transfers and kernels."""

    transfers: list[Transfer] = field(default_factory=list)
    kernels: dict[KernelKey, KernelSpec] = field(default_factory=dict)
    left_out: int = 0

    def __call__(self, event: Event) -> None:
        """Keep one event. A kernel that is reported again, because its graph was built again, is kept once."""
        if len(self.transfers if isinstance(event, Transfer) else self.kernels) >= MOST_EVENTS:
            self.left_out += 1
        elif isinstance(event, Transfer):
            self.transfers.append(event)
        else:
            self.kernels[(event.adapter, event.compile_id, event.graph, event.node, str(event.spec))] = event

    def fields(self, notes: Iterable[Note]) -> dict[str, Any]:
        """The events as fields of a session record, whose ``notes`` get one on events that were left out."""
        others = tuple(note for note in notes if note.part != "transfers")
        message = f"{self.left_out:,} transfers or kernels more were not kept: {MOST_EVENTS:,} of each are"
        return {
            "transfers": tuple(self.transfers),
            "kernel_specs": tuple(self.kernels.values()),
            "notes": (*others, Note("transfers", message)) if self.left_out else others,
        }


@uncut
def listening(listener: Listener) -> Iterator[None]:
    """Call ``listener`` with every event inside the block, on any thread, because a backward runs on its own."""
    with _lock:
        _listeners.append(listener)
    try:
        yield
    finally:
        with _lock:
            _listeners.remove(listener)


def logging_mode() -> str:
    """The setting ``transfers`` (line, variable or config file): empty for off, ``lines`` or ``values``."""
    if (on_the_line := given_on_the_line("transfers")) is not None:
        return str(on_the_line.value or "")
    return _mode(os.environ.get("INDUCTOR_DEBUG_TRANSFERS"), os.getcwd())  # noqa: PTH109 - only a key


@functools.lru_cache(maxsize=1)
def _mode(variable: str | None, folder: str) -> str:
    """The setting, cached by variable and folder, because finding a config file takes longer than a small transfer."""
    return str(resolve(names=["transfers"])["transfers"] or "")


def tell(event: Event) -> None:
    """Pass one transfer or kernel to all listeners, and to the log when it is on."""
    for listener in list(_listeners):
        listener(event)
    if logging_mode():
        log_line(str(event))


def log_line(text: str) -> None:
    """One line in the log, also in a script that has not set logging up, because the variable asks for lines."""
    if not log.isEnabledFor(logging.INFO):
        log.setLevel(logging.INFO)
    if not log.hasHandlers():
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("[inductor_debug] %(message)s"))
        log.addHandler(handler)
    log.info("%s", text)


def kernel_of(spec: Mapping[str, Any], adapter: str, compile_id: str = "") -> KernelSpec:
    """The record of a kernel spec from an adapter's :class:`CompilationResult`."""
    return KernelSpec(
        op=str(spec.get("op", "?")),
        node=str(spec.get("node", "")),
        adapter=adapter,
        graph=str(spec.get("graph", "")),
        compile_id=compile_id,
        spec={str(key): jsonable(value) for key, value in spec.items()},
    )


def jsonable(value: Any) -> Any:
    """The value as JSON can hold it; a value of another type becomes its text."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(key): jsonable(each) for key, each in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [jsonable(each) for each in value]
    return str(value)
