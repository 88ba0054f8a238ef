"""Records ↔ JSON.

A saved session is ``{"schema_version": N, "session": {…}}``. Older versions are upgraded step by step by
:data:`UPGRADES`; a newer one is refused with a clear error instead of being half understood.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from inductor_debug_jupyter.pipeline.errors import RecordError
from inductor_debug_jupyter.pipeline.reading import MalformedError, check_values, parsed
from inductor_debug_jupyter.pipeline.records.compile import SessionRecord
from inductor_debug_jupyter.pipeline.records.deferred_texts import DeferredTexts

SCHEMA_VERSION = 2
_LONG_NUMBER = re.compile(rb"[0-9]{19}")


def _from_version_1(session: dict[str, Any]) -> dict[str, Any]:
    """Version 1 had an empty ``seconds`` on each capture; they are derived from ``phases`` now."""
    captures = [
        {name: value for name, value in capture.items() if name != "seconds"} for capture in session.get("captures", ())
    ]
    return {**session, "captures": captures}


UPGRADES: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {1: _from_version_1}
"""Version N → a function that turns a session of version N into one of version N + 1."""


def dump_session(record: SessionRecord) -> bytes:
    """One session as JSON."""
    return msgspec.json.encode({"schema_version": SCHEMA_VERSION, "session": record}, enc_hook=_plain)


def _plain(value: Any) -> Any:
    """Convert what msgspec does not know: texts that are still to be rendered."""
    if isinstance(value, DeferredTexts):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} is no part of a record")


def load_session(data: bytes) -> SessionRecord:
    """The session that :func:`dump_session` wrote, of this or an older version.

    Raises:
        RecordError: the data is damaged, is not a session, or comes from a newer version.
    """
    raw = decoded_json(data, "saved session")
    if not isinstance(raw, dict) or not isinstance(version := raw.get("schema_version"), int):
        raise RecordError("this is not a saved session: it has no schema_version")
    if version > SCHEMA_VERSION:
        raise RecordError(
            f"this session has schema version {version}; this release reads up to {SCHEMA_VERSION}. "
            "Upgrade inductor-debug-jupyter to open it"
        )
    session: Any = raw.get("session")
    while version < SCHEMA_VERSION:
        if version not in UPGRADES:
            raise RecordError(f"sessions of schema version {version} cannot be read any more")
        try:
            session = UPGRADES[version](session)
        except (AttributeError, TypeError):
            raise RecordError(f"this saved session is damaged: it is no session of schema version {version}") from None
        version += 1
    record = converted(session, SessionRecord, "saved session")
    culprits = [culprit for found in (record.localization, record.bisect) if found for culprit in found.culprits]
    try:
        # the only fields whose values have no declared type
        check_values([*(kernel.spec for kernel in record.kernel_specs), *(culprit.spec for culprit in culprits)])
    except MalformedError as error:
        raise RecordError(f"this saved session is damaged: {error}") from None
    return record


_Record = TypeVar("_Record")


def decoded_json(data: bytes | str, what: str) -> Any:
    """JSON of a file as plain data.

    Raises:
        RecordError: it is damaged; ``what`` it should have been is named.
    """
    try:
        raw = parsed(lambda: msgspec.json.decode(data))
        if _LONG_NUMBER.search(data if isinstance(data, bytes) else data.encode()):
            check_values(raw)  # slow, so only where there may be a number of more than 63 bits
    except MalformedError as error:
        raise RecordError(f"this is not a {what} (damaged JSON: {error})") from None
    return raw


def converted(raw: Any, kind: type[_Record], what: str) -> _Record:
    """Plain data as a record.

    Raises:
        RecordError: a field is missing, or has a value that is not allowed.
    """
    try:
        return parsed(lambda: msgspec.convert(raw, kind))
    except MalformedError as error:
        raise RecordError(f"this {what} is damaged: {error}") from None
