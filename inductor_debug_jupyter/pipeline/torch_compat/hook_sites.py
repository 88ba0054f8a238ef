"""A hook site: one private function of torch that is wrapped.

A site is data: the part of a capture that it serves, the module, and the name in it. It is looked up only when it is
installed, so that a site that a torch does not have costs that part of the capture and nothing else.
``inductor-debug doctor`` walks over the same list.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from inductor_debug_jupyter.pipeline.errors import HookError
from inductor_debug_jupyter.pipeline.torch_compat import patches


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
    wrap: patches.Wrapper

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
        patches.acquire(owner, name, self.wrap, self.part)
        return lambda: patches.release(owner, name)

    @contextmanager
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
