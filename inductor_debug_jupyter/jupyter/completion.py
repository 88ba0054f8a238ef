"""Tab on the magic's line: options, and the names of built-in targets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from IPython.core.completer import SimpleCompletion, context_matcher

from inductor_debug_jupyter.jupyter.magic_line import NAME
from inductor_debug_jupyter.pipeline.adapters.lookup import adapter_names
from inductor_debug_jupyter.pipeline.devices import profile_names
from inductor_debug_jupyter.pipeline.devices.dtypes import DTYPES
from inductor_debug_jupyter.pipeline.options import LOWERINGS, MAGIC_OPTIONS, OPTIONS

_VALUES: dict[str, Callable[[], tuple[str, ...]]] = {
    "--target": profile_names,
    "--lower": lambda: LOWERINGS,
    "--dtypes": lambda: tuple(DTYPES),
    "--diff": lambda: ("eager", *adapter_names()),
    "--candidate": adapter_names,
}


def completions_for(line: str) -> list[str]:
    """Completions of the last word of a magic's line."""
    words = line.split()
    typed = "" if line.endswith(" ") else words[-1]
    before = words[-1] if line.endswith(" ") else (words[-2] if len(words) > 1 else "")
    if before in _VALUES:
        return [value for value in _VALUES[before]() if value.startswith(typed)]
    flags = [flag for name in MAGIC_OPTIONS for flag in (OPTIONS[name].flag, OPTIONS[name].off_flag) if flag]
    return [flag for flag in flags if flag.startswith(typed) and flag not in words[:-1]]


@context_matcher()  # type: ignore[untyped-decorator]  # IPython has no type information
def magic_options(context: Any) -> dict[str, Any]:
    """IPython's matcher: answers only on a line that starts with the magic."""
    lines = context.full_text.split("\n")
    line = lines[context.cursor_line][: context.cursor_position]
    if not line.startswith((f"%%{NAME} ", f"%{NAME} ")):
        return {"completions": [], "suppress": False}
    return {
        "completions": [SimpleCompletion(text=text, type="option") for text in completions_for(line)],
        "matched_fragment": "" if line.endswith(" ") else line.split()[-1],
        "suppress": True,
    }
