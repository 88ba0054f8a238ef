"""The JSON Schema of a saved session, for programs that read one without this package.

It is made from the record classes, so that it says what :mod:`codec` reads and writes; ``inductor-debug schema`` prints
it.
"""

from __future__ import annotations

import inspect
from typing import Any

import msgspec

from inductor_debug_jupyter.pipeline.records.codec import SCHEMA_VERSION
from inductor_debug_jupyter.pipeline.records.compile import SessionRecord


def session_schema() -> dict[str, Any]:
    """The schema of what :func:`~inductor_debug_jupyter.pipeline.records.codec.dump_session` writes (draft 2020-12)."""
    (session,), components = msgspec.json.schema_components([SessionRecord])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:inductor-debug-jupyter:session:{SCHEMA_VERSION}",
        "title": "A saved session of inductor-debug-jupyter",
        "description": "Every captured compile of one notebook cell, with block or script, and what was found in it. "
        "Fields with a default may be absent; readers ignore fields that they do not know.",
        "type": "object",
        "properties": {"schema_version": {"const": SCHEMA_VERSION}, "session": session},
        "required": ["schema_version", "session"],
        "$defs": {name: _plain(component) for name, component in components.items()},
    }


def _plain(component: Any) -> Any:
    """The component with its descriptions (docstrings) free of the source's indentation."""
    if isinstance(component, list):
        return [_plain(each) for each in component]
    if not isinstance(component, dict):
        return component
    return {
        key: inspect.cleandoc(value) if key == "description" and isinstance(value, str) else _plain(value)
        for key, value in component.items()
    }
