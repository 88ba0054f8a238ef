"""Ask whether the first recorded call would recompile if some of its inputs were changed."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from inductor_debug_jupyter.pipeline.capture.recorder import Recorder
from inductor_debug_jupyter.pipeline.guards.would_recompile import RecompileAnswer, chosen_function, would_recompile
from inductor_debug_jupyter.pipeline.torch_compat.guard_checks import CalledFunction


class ChangedInputs:
    """Asks :func:`would_recompile` about recorded calls with changed inputs."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder

    @property
    def functions(self) -> tuple[str, ...]:
        """The names of the called functions that still exist."""
        return tuple(self._labelled())

    def inputs(self, function: str | None = None) -> dict[str, str]:
        """Input → its value in the first call, as text."""
        return dict(self._recorder.called.inputs[self._chosen(function)].texts)

    def ask(
        self, changes: Mapping[str, str], *, function: str | None = None, grad: bool | None = None
    ) -> RecompileAnswer:
        """Whether the first call would recompile with these inputs changed: ``{"x": "float32[9, 4]", "n": "3"}``.

        ``grad`` turns gradients on or off for the question; None leaves the current mode.

        Raises:
            UsageError: there is no such input, or its new value cannot be read.
            NotFoundError: there is no such function.
        """
        called = self._chosen(function)
        args, kwargs = self._recorder.called.inputs[called].build(changes)
        with torch.set_grad_enabled(torch.is_grad_enabled() if grad is None else grad):
            return would_recompile(called, self._recorder.live.values(), args, kwargs)

    def _chosen(self, function: str | None) -> CalledFunction:
        labelled = self._labelled()
        if function in labelled:
            return labelled[function]
        return chosen_function(self._recorder.called.functions, function)

    def _labelled(self) -> dict[str, CalledFunction]:
        """Name → function, of those that still exist; the second of one name is ``Linear.forward (2)``."""
        labelled: dict[str, CalledFunction] = {}
        for each in self._recorder.called.functions:
            if each.is_alive():
                same = sum(other.name == each.name for other in labelled.values())
                labelled[f"{each.name} ({same + 1})" if same else each.name] = each
        return labelled
