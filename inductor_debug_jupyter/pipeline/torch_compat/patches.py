"""Replace an attribute and put it back, whatever happens in between.

Patches of one attribute can be nested, and need not be undone in the reverse order of their making (two captures in two
threads end in any order): each patched attribute keeps one dispatcher, which is installed with the first wrapper and
taken out with the last. Ctrl-C never strikes half-way: an attribute that is taken for restored is.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from inductor_debug_jupyter.pipeline.errors import HookError
from inductor_debug_jupyter.pipeline.interrupts import held_back

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]

_lock = threading.RLock()
_installed: dict[tuple[int, str], _Site] = {}


class _Site:
    """One patched attribute: what was there, and how many want it patched."""

    def __init__(self, owner: Any, name: str, original: Any, replacement: Any) -> None:
        self.owner = owner
        self.name = name
        self.original = original
        self.replacement = replacement
        self.users = 0


def _is_own(owner: Any, name: str) -> bool:
    return name in vars(owner) if isinstance(owner, type) else hasattr(owner, name)


def acquire(owner: Any, name: str, wrap: Wrapper, part: str) -> None:
    """Install ``wrap(original)`` at ``owner.name``, unless it is installed already.

    Raises:
        HookError: ``owner`` has no such attribute in this torch.
    """
    with held_back(undo=lambda: release(owner, name)), _lock:
        key = (id(owner), name)
        site = _installed.get(key)
        if site is None:
            if owner is None or not hasattr(owner, name):
                raise HookError(f"{part}: this torch has no {getattr(owner, '__name__', owner)}.{name}")
            original = vars(owner)[name] if _is_own(owner, name) else getattr(owner, name)
            site = _Site(owner, name, original, wrap(original))
            _installed[key] = site
            setattr(owner, name, site.replacement)
        site.users += 1


def release(owner: Any, name: str) -> None:
    """Undo one :func:`acquire`; the last one puts the original back."""
    with held_back(), _lock:
        key = (id(owner), name)
        site = _installed.get(key)
        if site is None:
            return
        site.users -= 1
        if site.users == 0:
            del _installed[key]
            setattr(owner, name, site.original)


@contextmanager
def patched(owner: Any, name: str, wrap: Wrapper, part: str) -> Iterator[None]:
    """:func:`acquire` for the length of a ``with`` block."""
    acquire(owner, name, wrap, part)
    try:
        yield
    finally:
        release(owner, name)


def installed() -> tuple[str, ...]:
    """The names that are patched right now (for tests: must be empty outside a capture)."""
    with _lock:
        return tuple(
            sorted(f"{getattr(site.owner, '__name__', site.owner)}.{site.name}" for site in _installed.values())
        )
