"""Where torch is wrapped: one entry for each private function that a capture looks over the shoulder of.

A site is data: the part of a capture that it serves, the module, and the name in it. It is looked up only when it is
needed, so that one that a torch does not have costs that part of the capture and nothing else: the others go on, and
the reason is said. ``inductor-debug doctor`` walks over the same list.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
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
        """Wrap it; answers with what takes the wrapper out again.

        Raises:
            HookError: this torch does not have it.
        """
        owner, name = self.owner()
        patches.acquire(owner, name, self.wrap, self.part)
        return lambda: patches.release(owner, name)
