"""A backend or adapter → the lines that import or define it in a standalone script, and the packages it needs.

torch's own backends need torch only. A third-party one is imported by name: through its entry point, which torch finds,
from the module that registered it, or as ``module:attribute``. A plain function of a notebook is written out.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from inductor_debug_jupyter.pipeline.adapters import AcceleratorAdapter
from inductor_debug_jupyter.pipeline.adapters.lookup import (
    BUILT_IN,
    DYNAMO,
    BackendAdapter,
    backend_names,
    check_name,
    registered_adapters,
)
from inductor_debug_jupyter.pipeline.errors import CannotSendError, ReproError
from inductor_debug_jupyter.pipeline.isolation import import_path, imported
from inductor_debug_jupyter.pipeline.isolation.installed import BACKENDS, registered
from inductor_debug_jupyter.pipeline.repro import NEEDS_TORCH, function_source
from inductor_debug_jupyter.pipeline.torch_compat.regions import loaded_backend

Backend = str | Callable[..., Any]
"""The name of a torch.compile backend, or the backend itself."""


@dataclass(frozen=True, slots=True)
class BackendSource:
    """How a script imports or defines a backend.

    Attributes:
        text: the lines that import or define it; may be empty.
        expression: the ``backend`` argument of ``torch.compile``.
        needs: what must be installed or importable, in words.
    """

    text: str
    expression: str
    needs: str = NEEDS_TORCH


def backend_name(backend: Backend | AcceleratorAdapter) -> str:
    """A backend's readable name."""
    if isinstance(backend, str):
        return backend
    return str(getattr(backend, "name", None) or getattr(backend, "__name__", None) or type(backend).__name__)


def backend_source(backend: Backend | AcceleratorAdapter) -> BackendSource:
    """How a script imports or defines a backend.

    Raises:
        ReproError: the backend exists only in this process.
        OptionError: there is no backend of that name.
    """
    if type(backend) is BackendAdapter:  # a subclass may do more than its backend
        backend = backend.backend
    if isinstance(backend, str):
        return _by_name(backend)
    if isinstance(backend, AcceleratorAdapter):
        return _adapter(backend)
    if callable(backend):
        text, name = function_source(backend, "backend")
        return BackendSource(text, name, _needs_of(text))
    raise ReproError(f"a {type(backend).__name__} cannot compile a graph, so there is no script that shows its failure")


def _by_name(name: str) -> BackendSource:
    if ":" in name:
        return _imported(name)
    if name == DYNAMO:
        return BackendSource("", repr("eager"))
    if name in backend_names():
        return _registered(name)
    if name in (adapters := registered_adapters()):
        return _imported(adapters[name].value)
    if name in BUILT_IN:
        return _imported(BUILT_IN[name])
    check_name(name, "backend")
    raise ReproError(f"backend {name!r} cannot go into a standalone script")


def _registered(name: str) -> BackendSource:
    """A backend that ``torch.compile`` knows by name: torch's own, an entry point, or registered by a module."""
    function = loaded_backend(name)
    found = registered(BACKENDS).get(name)
    module = str(getattr(function, "__module__", "") or "") if function is not None else ""
    if found is not None and not module.startswith("torch."):
        return BackendSource("", repr(name), _needs(found.value.partition(":")[0], f"registers the backend {name}"))
    if not module or module.split(".")[0] == "torch":
        return BackendSource("", repr(name))
    if module == "__main__":
        text, expression = function_source(function, "backend")
        return BackendSource(text, expression, _needs_of(text))
    return BackendSource(f"import {module}", repr(name), _needs(module, f"registers the backend {name}"))


def _imported(path: str) -> BackendSource:
    """``module:attribute``: a backend function, an adapter, or an adapter's class."""
    module, _, attribute = path.partition(":")
    attribute = attribute.partition(" ")[0]
    found = imported(f"{module}:{attribute}", "backend")
    outer = attribute.partition(".")[0]
    expression = attribute
    if isinstance(found, type):
        expression = f"{attribute}()"
    if isinstance(found, AcceleratorAdapter | type):
        expression += ".as_backend(fallback=False)"
    return BackendSource(f"from {module} import {outer}", expression, _needs(module, f"has the backend {attribute}"))


def _adapter(adapter: AcceleratorAdapter) -> BackendSource:
    """An adapter: its import, and the call that makes it again."""
    try:
        module, _, name = import_path(type(adapter), "adapter").partition(":")
    except CannotSendError as error:
        raise ReproError(
            f"{error}: a standalone script has to import it".replace(", or leave isolate out", "")
        ) from None
    args, kwargs = adapter.made_with
    given = [repr(value) for value in args] + [f"{key}={value!r}" for key, value in kwargs.items()]
    call = f"{name}({', '.join(given)})"
    try:
        for value in (*args, *kwargs.values()):
            ast.literal_eval(repr(value))
    except (ValueError, SyntaxError):
        raise ReproError(
            f"the adapter {call} cannot go into a standalone script: an argument is not a literal"
        ) from None
    text = f"from {module} import {name.partition('.')[0]}"
    return BackendSource(text, f"{call}.as_backend(fallback=False)", _needs(module, f"has the adapter {name}"))


def _needs_of(text: str) -> str:
    """The packages of a function that is imported rather than written out."""
    words = text.split()
    if words[:1] != ["from"] or "def " in text:
        return NEEDS_TORCH
    return _needs(words[1], f"has the backend {words[-1]}")


def _needs(module: str, what: str) -> str:
    package = module.partition(".")[0]
    return NEEDS_TORCH if package == "torch" else f"torch and the package {package}, which {what}"
