"""Restore what a compile changes for the whole process: the environment, the recursion limit, counters and more.

A user who did not ask for a compile must not find one in Dynamo's counters and compile times, nor Inductor's cache
folder in ``os.environ``, nor a higher recursion limit, nor a warning of the compiler's on the page.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import sys
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from inductor_debug_jupyter.pipeline.interrupts import uncut
from inductor_debug_jupyter.pipeline.torch_compat.tracing_state import tracing_state_kept

_DYNAMO_BOOKS = (
    "counters",
    "compilation_time_metrics",
    "cumulative_time_spent_ns",
    "_compilation_metrics",
    "guard_failures",
    "graph_break_reasons",
)
"""Containers of ``torch._dynamo.utils`` in which Dynamo counts compiles and times them."""

_IGNORE_ALL = ("ignore", re.compile(r"(?s).*"), Warning, None, 0)
"""A filter equal to no other: those of ``simplefilter`` have no pattern."""


@uncut
def process_state_kept() -> Iterator[None]:
    """Restore the process's state after compiles inside the block, and drop their warnings.

    What torch's tracers changed is restored after an error: else they have done so themselves.
    """
    with ExitStack() as stack:
        stack.callback(_environment())
        stack.callback(sys.setrecursionlimit, sys.getrecursionlimit())
        stack.callback(_dynamo_books())
        stack.callback(_inductor_numbers())
        stack.callback(_no_warnings())
        stack.callback(_shown_warnings())
        stack.callback(_multiprocessing())
        stack.enter_context(tracing_state_kept())
        yield


def _environment() -> Callable[[], None]:
    before = dict(os.environ)

    def put_back() -> None:
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
        for name, value in before.items():
            if os.environ.get(name) != value:
                os.environ[name] = value

    return put_back


def _dynamo_books() -> Callable[[], None]:
    """The containers keep their identity: the user may hold ``counters["stats"]``."""
    from torch._dynamo import utils

    books = [getattr(utils, name) for name in _DYNAMO_BOOKS if hasattr(utils, name)]
    before = [(book, _copied(book)) for book in books]

    def put_back() -> None:
        for book, contents in before:
            _write(book, contents)

    return put_back


def _copied(book: Any) -> Any:
    """A copy of a container, and of the containers in a dict."""
    if isinstance(book, dict):
        return {key: _copied(value) for key, value in book.items()}
    return list(book) if isinstance(book, list | deque) else book


def _write(book: Any, contents: Any) -> None:
    """Make ``book`` equal to ``contents``, and likewise the containers in it, without replacing any container."""
    if not isinstance(book, dict):
        if list(book) != contents:
            book.clear()
            book.extend(contents)
        return
    for key in book.keys() - contents.keys():
        del book[key]
    for key, value in contents.items():
        if isinstance(value, dict | list) and key in book:
            _write(book[key], value)
        else:
            book[key] = value


def _inductor_numbers() -> Callable[[], None]:
    """Restore the counters of ``torch._inductor.metrics``, if it is loaded."""
    metrics = sys.modules.get("torch._inductor.metrics")
    before = {name: value for name, value in getattr(metrics, "__dict__", {}).items() if type(value) is int}

    def put_back() -> None:
        for name, value in before.items():
            setattr(metrics, name, value)

    return put_back


def _multiprocessing() -> Callable[[], None]:
    """The start method for processes stays open where the user has not set one, and no thread is started.

    ``torch.fx`` makes a tqdm bar that is not shown; tqdm then starts a thread, and its lock settles the start method:
    a user who sets it later would get an error.
    """
    chosen: Any = multiprocessing.get_start_method(allow_none=True)
    bars = getattr(sys.modules.get("tqdm.std"), "tqdm", None)
    interval = getattr(bars, "monitor_interval", 0)
    if bars is not None:
        bars.monitor_interval = 0

    def put_back() -> None:
        if bars is not None:
            bars.monitor_interval = interval
        if chosen is None:
            multiprocessing.set_start_method(None, force=True)

    return put_back


def _shown_warnings() -> Callable[[], None]:
    """Warnings that Python has shown, and shows once, are not shown again.

    Each module has a registry of them, which counts for one version of the filters. torch changes the filters while it
    compiles, and changes them back: registries that were valid before are made valid again.
    """
    before = _version_of_filters()

    def put_back() -> None:
        if (now := _version_of_filters()) == before:
            return
        for module in list(sys.modules.values()):
            registry = getattr(module, "__dict__", {}).get("__warningregistry__")
            if registry and registry.get("version") == before:
                registry["version"] = now

    return put_back


def _version_of_filters() -> Any:
    """How often the filters of :mod:`warnings` were changed, read from a warning that our own filter drops."""
    registry: dict[Any, Any] = {}
    warnings.warn_explicit("asked for the version", UserWarning, "", 1, registry=registry)
    return registry.get("version")


def _no_warnings() -> Callable[[], None]:
    """Drop warnings, by a filter of ours in the list that :mod:`warnings` uses.

    Not ``warnings.catch_warnings``: each change by the functions of :mod:`warnings` makes Python forget which warnings
    it has shown already, and the user would be shown them again. Other threads change the list too: only our own entry
    is taken out.
    """
    filters: Any = warnings.filters
    filters.insert(0, _IGNORE_ALL)

    def put_back() -> None:
        if _IGNORE_ALL in filters:  # unless warnings.resetwarnings was called meanwhile
            filters.remove(_IGNORE_ALL)

    return put_back
