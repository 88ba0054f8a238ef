"""Find an adapter by name, and write one as a name and arguments, from which another process builds it again.

A name is looked up in this order: an import string ``module:attribute``, an entry point that an installed package
registers in the group ``inductor_debug.adapters``, an adapter of ours, a ``torch.compile`` backend. A package
registers with::

    [project.entry-points."inductor_debug.adapters"]
    my_chip = "my_package.adapter:MyAdapter"

:class:`BackendAdapter` makes an adapter of any ``torch.compile`` backend, without code. A backend does not say what its
device can do, so graphs are not checked against it.
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
from collections.abc import Callable, Sequence
from importlib.metadata import EntryPoint
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.adapters.adapter import AcceleratorAdapter
from inductor_debug_jupyter.pipeline.errors import CannotSendError, InductorDebugError, OptionError, UsageError
from inductor_debug_jupyter.pipeline.isolation import import_path, imported
from inductor_debug_jupyter.pipeline.isolation.import_strings import is_import_string, is_there
from inductor_debug_jupyter.pipeline.isolation.installed import BACKENDS, registered
from inductor_debug_jupyter.pipeline.isolation.values import Packer, Unpacker
from inductor_debug_jupyter.pipeline.torch_compat.regions import loaded_backend, registered_backend

DYNAMO = "dynamo"
"""Our name for torch's backend "eager", which traces a graph and runs it without lowering."""


class BackendAdapter(AcceleratorAdapter):
    """A registered backend by its name, or a backend function.

    Args:
        backend: the name that ``torch.compile(backend=…)`` takes, or a function like one.

    Raises:
        OptionError: there is no such backend.
    """

    def __init__(self, backend: str | Callable[..., Any]) -> None:
        if isinstance(backend, str):
            known = backend_names()
            if backend not in known:
                raise OptionError(f"backend={backend!r}; allowed: {', '.join(known)}")
        elif not callable(backend):
            raise OptionError(f"backend={backend!r}; allowed: the name of a torch.compile backend or a function")
        self.backend = backend
        self.name = backend if isinstance(backend, str) else getattr(backend, "__name__", type(backend).__name__)
        self.description = f"the torch.compile backend {self.name}; what its device can do is unknown"

    def get_supported_dtypes(self) -> None:
        """None: torch does not know what a backend can do."""
        return

    def get_supported_ops(self) -> None:
        """None: torch does not know what a backend can do."""
        return

    def get_memory_limit(self) -> None:
        """None: torch does not know what a backend can do."""
        return

    def check(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> tuple[()]:
        """No violations: the capabilities are unknown, so nothing can be checked."""
        return ()

    def compile(self, gm: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """The function that the backend returns for the graph."""
        backend = self.backend
        if isinstance(backend, str):
            backend = registered_backend("eager" if backend == DYNAMO else backend)
        run: Callable[..., Any] = backend(gm, list(inputs))
        return run


def backend_names() -> list[str]:
    """Every backend that ``torch.compile`` knows by name, with "eager" under our name."""
    names = torch.compiler.list_backends(exclude_tags=())
    return [DYNAMO, *(name for name in names if name != "eager")]


def offered_backends() -> list[str]:
    """The backends to suggest: not those that torch has for its own tests and debugging, but for ``aot_eager``."""
    return [DYNAMO, "aot_eager", *(name for name in torch.compiler.list_backends() if name != "eager")]


GROUP = "inductor_debug.adapters"
_HERE = "inductor_debug_jupyter.pipeline.adapters"
BUILT_IN = {
    "mock": f"{_HERE}.mock:MockAcceleratorAdapter",
    "integrated_mock": f"{_HERE}.mock:IntegratedMockAdapter",
    "stick128": f"{_HERE}.stick:StickAdapter",
}
"""Adapters of ours by name. A new one is a line here."""
_PACKAGES = {"tvm": "tvm", "openxla": "torch_xla", "openxla_eval": "torch_xla"}
"""Backends that torch lists whether or not the package is there that they need."""


def find_adapter(name: str, *args: Any, origin: str = "adapter", **kwargs: Any) -> AcceleratorAdapter:
    """The adapter that a name stands for.

    Args:
        name: an import string, a registered adapter's name, or that of a ``torch.compile`` backend.
        args: what its class is called with.
        origin: the option that errors name (``--adapter``).
        kwargs: its keyword arguments.

    Raises:
        UsageError: there is none, or it cannot be built.
    """
    if ":" in name:
        return adapter_of(imported(name, origin), name, origin, args, kwargs)
    if (point := registered_adapters().get(name)) is not None:
        return adapter_of(_loaded(point, origin), name, origin, args, kwargs)
    if name in BUILT_IN:
        return adapter_of(imported(BUILT_IN[name], origin), name, origin, args, kwargs)
    check_name(name, origin)
    return BackendAdapter(name)


def _loaded(point: EntryPoint, origin: str) -> Any:
    try:
        return point.load()
    except Exception as error:  # the vendor's own code
        why = f"{type(error).__name__}: {error}"
        raise UsageError(f"{origin}: {point.name} ({point.value}) cannot be imported: {why}") from error


def check_name(name: str, origin: str, also: Sequence[str] = ()) -> None:
    """Refuse an unknown name (``also`` has more names to allow); nothing is imported.

    Raises:
        OptionError: with the nearest name.
    """
    known = [*also, *adapter_names()]
    if name in known:
        return
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    offered = ", ".join((*also, *offered_names()))
    hint = f"did you mean {near[0]}?" if near else f"allowed: {offered}, or MODULE:ATTRIBUTE"
    raise OptionError(f"{origin}={name!r}; {hint}")


def check_candidate(name: str, origin: str, *, imports: bool) -> None:
    """Refuse a backend's or an adapter's name that cannot be used, before anything runs.

    Args:
        name: a name, or ``MODULE:ATTRIBUTE``.
        origin: the option that errors name (``--candidate``).
        imports: import the module, and look whether the attribute can be a backend. Otherwise the module is only
            looked for, which runs none of its code. An attribute of ``__main__``, where a notebook's own code is, may
            still be made by the cell and is not looked for.

    Raises:
        UsageError: one line with the nearest name, or with what is wrong about the import.
    """
    if ":" not in name:
        check_name(name, origin, also=("eager",))
        if (package := _PACKAGES.get(name)) is not None and not is_there(package):
            raise UsageError(f"{origin}: {name} needs the package {package}, which is not installed")
        if imports and (point := _entry_points().get(name)) is not None:
            _loaded(point, origin)
        return
    module = name.partition(":")[0]
    if not is_import_string(name):
        raise UsageError(f"{origin}: {name!r} is not allowed; allowed: a backend's name or MODULE:ATTRIBUTE")
    if not is_there(module.partition(".")[0]):
        raise UsageError(f"{origin}: there is no module {module!r} here or among the installed ones")
    if not imports or module == "__main__":
        return
    found = imported(name, origin)
    if not isinstance(found, AcceleratorAdapter) and not callable(found):
        raise UsageError(
            f"{origin}: {name} is a {type(found).__name__}; allowed: an adapter, its class, or a backend function"
        )


def offered_names() -> tuple[str, ...]:
    """The names to suggest: adapters and backends, but not torch's testing ones and those that are not installed."""
    names = dict.fromkeys((*offered_backends(), *BUILT_IN, *registered_adapters()))
    return tuple(name for name in names if name not in _PACKAGES or is_there(_PACKAGES[name]))


def _entry_points() -> dict[str, EntryPoint]:
    """Name → entry point of the backends and adapters that installed packages register."""
    return registered(BACKENDS) | registered_adapters()


def adapter_names() -> tuple[str, ...]:
    """The names of all adapters and ``torch.compile`` backends, each once; nothing is imported."""
    return tuple(dict.fromkeys((*backend_names(), *BUILT_IN, *registered_adapters())))


def adapter_of(found: Any, name: str, origin: str, args: Any = (), kwargs: Any = None) -> AcceleratorAdapter:
    """The object of a name as an adapter: a class is called, a backend function is wrapped.

    Raises:
        UsageError: it is no adapter and no backend, or its class cannot be called.
    """
    if isinstance(found, AcceleratorAdapter):
        return found
    made = found
    if isinstance(found, type):
        try:
            made = found(*args, **(kwargs or {}))
        except InductorDebugError:
            raise
        except Exception as error:  # the vendor's own code
            raise UsageError(f"{origin}: {name}() failed: {type(error).__name__}: {error}") from error
    if isinstance(made, AcceleratorAdapter):
        return made
    if not isinstance(found, type) and callable(made):
        return BackendAdapter(made)
    raise UsageError(f"{origin}: {name} must be an AcceleratorAdapter, not a {type(made).__name__}")


def registered_adapters() -> dict[str, EntryPoint]:
    """Name → entry point of installed packages; none of them is imported."""
    return registered(GROUP)


def reference(adapter: AcceleratorAdapter | str) -> dict[str, Any]:
    """The name of an adapter, the arguments of its class, and the modules to import first.

    Raises:
        CannotSendError: another process cannot build it.
    """
    if type(adapter) is BackendAdapter:  # not a subclass, which may do more than its backend
        backend = adapter.backend
        adapter = backend if isinstance(backend, str) else import_path(backend, "backend")
    if isinstance(adapter, str):
        return {"name": adapter, "args": [], "kwargs": {}, "imports": _imports(adapter)}
    kind = type(adapter)
    path = import_path(kind, "adapter")
    args, kwargs = adapter.made_with
    packer = Packer(f"adapter: an argument of {kind.__name__}", special=_written)
    written = {
        "name": path,
        "args": [packer.pack(value) for value in args],
        "kwargs": {name: packer.pack(value) for name, value in kwargs.items()},
        "imports": [],
    }
    if packer.tensors:
        raise CannotSendError(f"adapter: an argument of {kind.__name__} is a tensor; give a number or a name instead")
    return written


def arguments(written: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """In the other process: the arguments of the class."""
    reader = Unpacker([], {}, special=_read)
    return [reader.unpack(value) for value in written["args"]], {
        name: reader.unpack(value) for name, value in written["kwargs"].items()
    }


def _imports(name: str) -> list[str]:
    """The module that registers a backend in a fresh interpreter; none for torch's own backends."""
    function = None if ":" in name else loaded_backend(name)
    module = str(getattr(function, "__module__", "") or "")
    if function is None or not module or module.split(".")[0] == "torch":
        return []
    if module == "__main__":
        raise CannotSendError(
            f"backend {name!r} was registered in this notebook or script, which another process cannot import; "
            "register it in a module (a .py file) and import that, or leave isolate out"
        )
    return [module]


def _written(value: Any) -> dict[str, Any] | None:
    """How enums and dataclasses are written; None for other values, which the packer knows."""
    if isinstance(value, enum.Enum):
        return {"enum": [import_path(type(value), "adapter"), value.name]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        packer = Packer(f"adapter: a {type(value).__name__}", special=_written)
        fields = {each.name: packer.pack(getattr(value, each.name)) for each in dataclasses.fields(value) if each.init}
        return {"made": [import_path(type(value), "adapter"), fields]}
    return None


def _read(tag: str, content: Any) -> Any:
    kind = imported(content[0], "adapter")
    if tag == "enum":
        return kind[content[1]]
    reader = Unpacker([], {}, special=_read)
    return kind(**{name: reader.unpack(value) for name, value in content[1].items()})
