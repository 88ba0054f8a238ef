"""An adapter or backend as a name and arguments, from which another process builds it again."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

from inductor_debug_jupyter.pipeline.adapters.adapter import AcceleratorAdapter
from inductor_debug_jupyter.pipeline.adapters.backend_adapter import BackendAdapter
from inductor_debug_jupyter.pipeline.errors import CannotSendError
from inductor_debug_jupyter.pipeline.isolation import import_path, imported
from inductor_debug_jupyter.pipeline.isolation.values import Packer, Unpacker
from inductor_debug_jupyter.pipeline.torch_compat.regions import loaded_backend


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
