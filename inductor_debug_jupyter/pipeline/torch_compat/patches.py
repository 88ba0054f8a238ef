"""Replace an attribute of torch and put it back, whatever happens in between.

Patches of one attribute can be nested, and need not be undone in the reverse order of their making (two captures in two
threads end in any order): each patched attribute keeps one dispatcher, which is installed with the first wrapper and
taken out with the last. Ctrl-C never strikes half-way: an attribute that is taken for restored is.

A :class:`HookSite` is one private function of torch that is wrapped, as data: the part of a capture that it serves, the
module, and the name in it. It is looked up only when it is installed, so that a site that a torch does not have costs
that part of the capture and nothing else. ``inductor-debug doctor`` walks over the same list.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from inductor_debug_jupyter.pipeline.errors import HookError
from inductor_debug_jupyter.pipeline.interrupts import held_back, uncut

Wrapper = Callable[[Callable[..., Any]], Callable[..., Any]]

_lock = threading.RLock()
_installed: dict[tuple[int, str], _Patched] = {}


@dataclass
class _Patched:
    """One patched attribute: what was there, what is, whether the owner only inherits it, how many want it patched."""

    owner: Any
    name: str
    original: Any
    replacement: Any
    is_inherited: bool
    users: int = 0


def around(function: Callable[..., Any]) -> Wrapper:
    """The wrapper that calls ``function(original, *args, **kwargs)`` in place of the original."""

    def wrap(original: Callable[..., Any]) -> Callable[..., Any]:
        return functools.wraps(original)(lambda *args, **kwargs: function(original, *args, **kwargs))

    return wrap


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
            original = vars(owner).get(name, getattr(owner, name))  # a static method as the class has it
            replacement = wrap(original)
            is_inherited = isinstance(owner, type) and name not in vars(owner)
            site = _installed[key] = _Patched(owner, name, original, replacement, is_inherited)
            setattr(owner, name, replacement)
        site.users += 1


def release(owner: Any, name: str) -> None:
    """Undo one :func:`acquire`; the last one puts the original back, unless the user has put something in its place."""
    with held_back(), _lock:
        key = (id(owner), name)
        site = _installed.get(key)
        if site is None:
            return
        site.users -= 1
        if site.users == 0:
            del _installed[key]
            if vars(owner).get(name) is not site.replacement:
                return
            if site.is_inherited:
                delattr(owner, name)
            else:
                setattr(owner, name, site.original)


@uncut
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


def is_patched(owner: Any, name: str) -> bool:
    """Whether that attribute is patched right now."""
    with _lock:
        return (id(owner), name) in _installed


@dataclass(frozen=True, slots=True)
class HookSite:
    """One wrapped function.

    Args:
        part: what a capture loses without it, in the words of :data:`PARTS`.
        module: the module that holds it.
        attribute: its name there, dotted for a method (``OutputGraph.call_user_compiler``).
        wrap: what to put in its place, given the original.
    """

    part: str
    module: str
    attribute: str
    wrap: Wrapper

    @property
    def name(self) -> str:
        """The full dotted name."""
        return f"{self.module}.{self.attribute}"

    def owner(self) -> tuple[Any, str]:
        """The object that holds the function, and the function's name in it.

        Raises:
            HookError: this torch does not have it.
        """
        try:
            owner: Any = importlib.import_module(self.module)
        except ImportError as error:
            raise HookError(f"this torch has no {self.module} ({error})") from None
        *path, name = self.attribute.split(".")
        for step in path:
            owner = getattr(owner, step, None)
        if owner is None or not hasattr(owner, name):
            raise HookError(f"this torch has no {self.name}")
        return owner, name

    def problem(self) -> str | None:
        """One sentence when this torch does not have it, else None."""
        try:
            self.owner()
        except HookError as error:
            return str(error)
        return None

    def install(self) -> Callable[[], None]:
        """Wrap it; returns the function that removes the wrapper.

        Raises:
            HookError: this torch does not have it.
        """
        owner, name = self.owner()
        acquire(owner, name, self.wrap, self.part)
        return lambda: release(owner, name)

    @uncut
    def installed(self, thread: threading.local, name: str, value: Any) -> Iterator[None]:
        """Wrap it while ``thread.name`` is ``value``, which the wrapper reads: other threads are not affected.

        Raises:
            HookError: this torch does not have it.
        """
        release = self.install()
        previous = getattr(thread, name, None)
        setattr(thread, name, value)
        try:
            yield
        finally:
            setattr(thread, name, previous)
            release()
