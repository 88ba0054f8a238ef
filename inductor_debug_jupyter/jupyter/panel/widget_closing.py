"""Close a widget with everything that it is made of.

``Widget.close()`` of ipywidgets closes one comm and leaves the children, their Layout and Style models, links and the
scales of a chart in ipywidgets' registry, which keeps them for as long as the kernel lives. Here the parts are found
first: in the traits of a widget and, for widgets of this package, in its other attributes as well (charts that are not
on show just now).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import ipywidgets

_OURS = __name__.partition(".")[0]


def close_all(*roots: Any) -> None:
    """Close these widgets and all their parts; what is closed already stays closed."""
    for widget in list(_with_parts(roots)):
        ipywidgets.Widget.close(widget)


def _with_parts(roots: Iterable[Any]) -> Iterator[Any]:
    """The widgets, and every widget that one of them holds."""
    found: dict[int, Any] = {}
    waiting = list(roots)
    while waiting:
        widget = waiting.pop()
        if id(widget) in found:
            continue
        found[id(widget)] = widget
        waiting += _held_by(widget)
    return iter(found.values())


def _held_by(widget: Any) -> Iterator[Any]:
    values = list(widget._trait_values.values())  # without those that were never made: asking for them makes them
    if type(widget).__module__.startswith(f"{_OURS}."):
        values += [value for value in vars(widget).values() if _is_widgets(value)]
    for value in values:
        inner = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else (value,)
        yield from (each for each in inner if isinstance(each, ipywidgets.Widget))


def _is_widgets(value: Any) -> bool:
    """Whether it is a widget or holds nothing else; the user's namespace, say, is no part of a form."""
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        return all(isinstance(each, ipywidgets.Widget) for each in value)
    return isinstance(value, ipywidgets.Widget)
