"""The call of a model, traced once and kept: the next time Dynamo only checks its guards.

A function of our own calls the model, and it is that function which is compiled, in one graph or not at all. It has a
code object and globals of its own, so nothing is left on the user's code, and everything goes with the function.
Dynamo looks the entry up by the guards that it made itself; when they do not hold any more it traces again, and the
backend learns of it.
"""

from __future__ import annotations

import builtins
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FunctionType
from typing import Any

from torch._C import _DisableAutocast

from inductor_debug_jupyter.pipeline.torch_compat.instruments import unseen
from inductor_debug_jupyter.pipeline.torch_compat.regions import CompiledCallRedirect, compile_as_ours


def _call(self: Any, args: Any, kwargs: Any) -> Any:  # Dynamo names a module's parameters after this: l_self_weight
    return self(*args, **kwargs)


class KeptCall:
    """Calls models through ``backend``, which is given a graph only when there is none whose guards hold.

    What torch keeps of a compile holds the backend, and is not seen by Python's garbage collector: the backend must
    not hold whoever holds this.

    Args:
        backend: as ``torch.compile`` takes it.
    """

    def __init__(self, backend: Callable[..., Any]) -> None:
        function = FunctionType(_call.__code__.replace(), {"__builtins__": builtins, "__name__": __name__})
        self._compiled = compile_as_ours(function, backend, fullgraph=True)
        self._redirect = CompiledCallRedirect()
        weakref.finalize(self, self._redirect.forget).atexit = False

    @contextmanager
    def calling(self, model: Any) -> Iterator[Callable[..., Any]]:
        """The function to call in place of a model while this is open; it leaves nothing on the user's code objects.

        As in :func:`regions.undisturbed`, eager mode's random numbers are drawn and no instrument sees it.
        """
        from torch._inductor import config as inductor_config

        with unseen(), self._redirect.open(), inductor_config.patch(fallback_random=True):
            yield lambda *args, **kwargs: self._compiled(model, args, kwargs)


@contextmanager
def as_aot_runs() -> Iterator[None]:
    """As AOTAutograd has its graphs run: an autocast around is part of the graph already."""
    with _DisableAutocast():
        yield
