"""Import strings: ``package.module:attribute`` names something that another interpreter can find too."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import sys
from importlib.machinery import PathFinder
from typing import Any

from inductor_debug_jupyter.pipeline.errors import CannotSendError, UsageError

SHAPE = "MODULE:ATTRIBUTE, such as my_package.my_module:MyAdapter"


def is_import_string(text: str) -> bool:
    """Whether a text looks like ``module:attribute``."""
    module, colon, attribute = text.partition(":")
    return bool(colon) and all(part.isidentifier() for part in (*module.split("."), *attribute.split(".")))


def imported(path: str, origin: str) -> Any:
    """The attribute that an import string names; modules of the working folder are found too.

    Args:
        path: the import string.
        origin: what to name in an error (``--adapter``).

    Raises:
        UsageError: one line that says what is missing.
    """
    if not is_import_string(path):
        raise UsageError(f"{origin}: {path!r} is not allowed; allowed: {SHAPE}")
    module_name, _, attribute = path.partition(":")
    here = os.getcwd()  # noqa: PTH109 - sys.path holds strings
    if here not in sys.path and "" not in sys.path:  # a notebook has "", which is the same folder
        sys.path.insert(0, here)
    try:
        value: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise UsageError(f"{origin}: there is no module {error.name!r} here or among the installed ones") from None
        raise UsageError(f"{origin}: {module_name} cannot be imported: {error}") from error
    except (Exception, SystemExit) as error:  # foreign code failed while it was imported
        raise UsageError(f"{origin}: {module_name} cannot be imported: {type(error).__name__}: {error}") from error
    for part in attribute.split("."):
        if not hasattr(value, part):
            near = difflib.get_close_matches(part, dir(value), n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UsageError(f"{origin}: {module_name} has no {attribute!r}{hint}")
        value = getattr(value, part)
    return value


def is_there(module: str) -> bool:
    """Whether there is a top-level module of that name, here or installed; nothing of it is run."""
    importlib.invalidate_caches()  # a notebook may have written it just now
    if module in sys.modules:
        return True
    try:
        found = importlib.util.find_spec(module)
    except (ImportError, ValueError):
        return False
    return found is not None or PathFinder.find_spec(module, [os.getcwd()]) is not None  # noqa: PTH109


def import_path(thing: Any, what: str) -> str:
    """The import string of a function or class.

    Args:
        thing: what to name.
        what: what to call it in an error (``backend``).

    Raises:
        CannotSendError: another interpreter could not import it.
    """
    name = str(getattr(thing, "__qualname__", "") or type(thing).__name__)
    module = getattr(thing, "__module__", None)
    if "<lambda>" in name:
        raise CannotSendError(f"{what}: a lambda cannot go to another process; {_ADVICE}")
    if "<locals>" in name:
        raise CannotSendError(f"{what}: {name} is defined inside a function; {_ADVICE}")
    if not module or module == "__main__":
        raise CannotSendError(f"{what}: {name} is defined in this notebook or script; {_ADVICE}")
    found: Any = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is not thing:
        raise CannotSendError(f"{what}: {module}.{name} is not what importing it would give; {_ADVICE}")
    return f"{module}:{name}"


_ADVICE = "put it into a module (a .py file) and give it as 'module:name', or leave isolate out"
