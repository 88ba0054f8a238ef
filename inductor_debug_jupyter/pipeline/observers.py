"""Callbacks on an event, which can be removed again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Observers:
    """Callbacks on one event, called in the order in which they were added."""

    def __init__(self) -> None:
        self._observers: dict[object, Callable[..., None]] = {}

    def add(self, observer: Callable[..., None]) -> Callable[[], None]:
        """Add an observer; the answer takes it out again, also when it is called twice."""
        key = object()
        self._observers[key] = observer

        def leave() -> None:
            self._observers.pop(key, None)

        return leave

    def tell(self, *news: Any) -> None:
        """Call every observer that has not left; the first error is raised when all of them have been called."""
        errors: list[Exception] = []
        for key in tuple(self._observers):
            try:
                if (observer := self._observers.get(key)) is not None:
                    observer(*news)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]
