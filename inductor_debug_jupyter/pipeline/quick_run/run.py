"""What the form's fields mean, and one run of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters import find_adapter
from inductor_debug_jupyter.pipeline.adapters.lookup import check_name
from inductor_debug_jupyter.pipeline.capture.structured_trace import StepObserver
from inductor_debug_jupyter.pipeline.diff import ComparisonConfig
from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError
from inductor_debug_jupyter.pipeline.harmless import Harmless
from inductor_debug_jupyter.pipeline.quick_run.models import chosen_model, given_inputs, made_inputs, rounding
from inductor_debug_jupyter.pipeline.rerun.again import unnoticed
from inductor_debug_jupyter.pipeline.rerun.copies import Memo, clone_inputs
from inductor_debug_jupyter.pipeline.rerun.running import call_from, copied_module
from inductor_debug_jupyter.pipeline.session import DebugSession
from inductor_debug_jupyter.pipeline.settings import resolve
from inductor_debug_jupyter.pipeline.torch_compat.silence import unheard


class WrongFirstElement:
    """Compiles with ``backend``, and adds 1 to the first element of the first output that has a fraction."""

    def __init__(self, backend: Callable[..., Any], name: str) -> None:
        self._backend = backend
        self.name = f"{name} with a forced failure"

    def __call__(self, graph_module: torch.fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """What ``torch.compile`` calls."""
        compiled = self._backend(graph_module, example_inputs)

        def run(*args: Any) -> Any:
            outputs = list(compiled(*args))
            for at, value in enumerate(outputs):
                if isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel():
                    wrong = torch.zeros_like(value, memory_format=torch.contiguous_format)
                    wrong.view(-1)[0] = 1
                    outputs[at] = value + wrong
                    break
            return tuple(outputs)

        return run


DTYPES = ("float32", "float16", "bfloat16", "float64")
_SEED = 0
_SETTINGS = ("target", "alignment", "max_memory", "dtypes", "deny", "artifacts")
"""The fields that are options of the magic too; one that is None is as the environment says."""


@dataclass(frozen=True)
class QuickRun(Harmless):
    """One run: a model on some inputs, captured, checked against a target, and compared with eager.

    Args:
        model: the name of a built-in model (``mlp``, ``attention``, ``convolution``), a module or a function.
        inputs: a tensor, a tuple or list of arguments, or a dict of named ones; made up when None.
        batch: how many samples of made-up inputs.
        padding: free sizes of a built-in model and of made-up inputs are rounded up to multiples of it.
        dtype: of the weights and of all inputs that have a fraction.
        atol: absolute tolerance of the comparison; by dtype when None.
        rtol: relative tolerance; likewise.
        target: a device profile's name or file.
        alignment: sizes must be multiples of it.
        max_memory: limit for each tensor and for the peak, in bytes or as text (``1GiB``).
        dtypes: the only dtypes that the target takes.
        deny: ops that the target does not have.
        backend: what is compared with eager: a ``torch.compile`` backend, an adapter or ``module:attribute``.
        backward: run and compare the backward too.
        force_failure: make the backend's first result wrong, to see what that looks like.
        artifacts: the folder for sessions, graphs and repros.

    Raises:
        UsageError: a value that is not allowed, before anything runs.
    """

    model: Any = "mlp"
    inputs: Any = None
    batch: int = 8
    padding: int = 1
    dtype: str = "float32"
    atol: float | None = None
    rtol: float | None = None
    target: str | None = None
    alignment: int | None = None
    max_memory: int | str | None = None
    dtypes: Sequence[str] | str | None = None
    deny: Sequence[str] | str | None = None
    backend: str = "inductor"
    backward: bool = False
    force_failure: bool = False
    artifacts: str | None = None

    def __post_init__(self) -> None:
        for name in ("batch", "padding"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise OptionError(f"{name}={value!r}; allowed: a whole number from 1 up")
        if self.dtype not in DTYPES:
            raise OptionError(f"dtype={self.dtype!r}; allowed: {', '.join(DTYPES)}")
        if ":" not in self.backend:
            check_name(self.backend, "backend")
        DebugSession(self._settings())  # says what is wrong with the rest
        self._config()

    def run(self, on_step: StepObserver | None = None) -> DebugSession:
        """Capture the model's call, check it, and compare it with eager. What the model prints is not shown.

        Random numbers start from the same seed each time, and the user's own go on as if nothing had been.

        Raises:
            UsageError: no input can be made up, or the model does not take the one that was.
        """
        with unnoticed(), unheard(), torch.set_grad_enabled(self.backward or torch.is_grad_enabled()):
            torch.manual_seed(_SEED)
            return self._run(on_step)

    def _run(self, on_step: StepObserver | None) -> DebugSession:
        dtype = getattr(torch, self.dtype)
        padded = rounding(self.padding)
        chosen, name = chosen_model(self.model, padded)
        memo: Memo = {}
        with copied_module(chosen, name, self.dtype, memo) as model:
            if self.inputs is None:
                args, named = made_inputs(model, name, self.batch, padded, dtype), {}
            else:
                args, named = clone_inputs(given_inputs(self.inputs, dtype), memo)
            session = DebugSession(self._settings(), eager=True, keep_inputs=True, name=name, on_step=on_step)
            session.open()
            try:
                call_from("quick run", model, args, named, backward=self.backward)
            except Exception as error:
                if self.inputs is not None:
                    raise
                shape = f"{list(args[0].shape)}: {type(error).__name__}: {error}"
                raise UsageError(f"the model did not take a made-up input of shape {shape}; give inputs=") from error
            finally:
                session.close()
        session.diff("eager", self._candidate(), config=self._config(), backward=self.backward)
        return session

    def __str__(self) -> str:
        """The call that does the same: what is as always is left out."""
        arguments = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value != field.default:
                arguments.append(f"{field.name}={value!r}" if _is_plain(value) else f"{field.name}=…")
        return f"QuickRun({', '.join(arguments)}).run()"

    def _settings(self) -> Any:
        given = {name: getattr(self, name) for name in _SETTINGS if getattr(self, name) is not None}
        return resolve({"lower": "inductor" if self.backend == "inductor" else "aot", **given})

    def _config(self) -> ComparisonConfig | None:
        tolerances = {name: getattr(self, name) for name in ("atol", "rtol") if getattr(self, name) is not None}
        return ComparisonConfig(**tolerances) if tolerances else None

    def _candidate(self) -> Any:
        if not self.force_failure:
            return self.backend
        return WrongFirstElement(find_adapter(self.backend).as_backend(fallback=False), self.backend)


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int | float | bool | None) or (
        isinstance(value, list | tuple) and all(isinstance(each, str) for each in value)
    )
