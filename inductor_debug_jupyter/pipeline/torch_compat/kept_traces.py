"""Trace the call of a model once and keep the trace: the next time Dynamo only checks its guards.

A function of our own calls the model and is compiled with ``fullgraph=True``. It has a code object and globals of its
own, so nothing is left on the user's code, and everything is freed with the function. When its guards do not hold any
more, Dynamo traces again and calls the backend.
"""

from __future__ import annotations

import builtins
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from torch._C import _DisableAutocast

from inductor_debug_jupyter.pipeline.interrupts import uncut
from inductor_debug_jupyter.pipeline.torch_compat.instruments import unseen
from inductor_debug_jupyter.pipeline.torch_compat.regions import CompiledCallRedirect, compile_as_ours


def _call(self: Any, args: Any, kwargs: Any) -> Any:  # Dynamo names a module's parameters after this: l_self_weight
    return self(*args, **kwargs)


class KeptCall:
    """Calls models through ``backend``, which is given a graph only when there is none whose guards hold.

    torch's compiled code holds the backend and is invisible to Python's garbage collector: a backend that refers to the
    owner of this object would never be freed.
    """

    def __init__(self, backend: Callable[..., Any]) -> None:
        function = FunctionType(_call.__code__.replace(), {"__builtins__": builtins, "__name__": __name__})
        self._compiled = compile_as_ours(function, backend, fullgraph=True)
        self._redirect = CompiledCallRedirect()
        weakref.finalize(self, self._redirect.forget).atexit = False

    @contextmanager
    def calling(self, model: Any) -> Iterator[Callable[..., Any]]:
        """The function to call in place of a model inside the block.

        As in :func:`regions.undisturbed`, it draws eager mode's random numbers, and instruments are off.
        """
        from torch._inductor import config as inductor_config

        with unseen(), self._redirect.open(), inductor_config.patch(fallback_random=True):
            yield lambda *args, **kwargs: self._compiled(model, args, kwargs)


@uncut
def as_aot_runs() -> Iterator[None]:
    """Autocast off, as AOTAutograd runs its graphs: the casts are part of the graph already."""
    with _DisableAutocast():
        yield
