"""Tab on the magic's line: options, and their values (targets, files, variables, backends, dtypes, rules).

Values are completed behind a blank and behind ``=``; of a list (``--dtypes float16,bf``) the last item is. Only what a
user would choose is offered: torch's own testing backends are known, but not listed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from IPython.core.completer import SimpleCompletion, context_matcher

from inductor_debug_jupyter.jupyter.magic_line import NAME
from inductor_debug_jupyter.pipeline.adapters.lookup import offered_names
from inductor_debug_jupyter.pipeline.adapters.stick.faults import DEFAULT_OPS as FAULTS
from inductor_debug_jupyter.pipeline.devices import profile_names
from inductor_debug_jupyter.pipeline.devices.dtypes import DTYPES
from inductor_debug_jupyter.pipeline.devices.ops import offered_ops
from inductor_debug_jupyter.pipeline.documentation import rule_ids
from inductor_debug_jupyter.pipeline.options import GATES, LOWERINGS, MAGIC_OPTIONS, NUMERICS, OPTIONS

_COMPARE = "--compare"
_OTHER_FLAGS = ("--help", "--explain", "--last", _COMPARE)
_LISTS = {option.flag for option in OPTIONS.values() if "," in option.metavar}
_FLAGS = (
    *(flag for name in MAGIC_OPTIONS for flag in (OPTIONS[name].flag, OPTIONS[name].off_flag) if flag),
    *_OTHER_FLAGS,
)

_VALUES: dict[str, Callable[[str, Mapping[str, Any]], Iterable[str]]] = {
    "--target": lambda typed, _: (*profile_names(), *_files(typed, ".toml")),
    "--artifacts": lambda typed, _: _files(typed, None),
    "--lower": lambda *_: LOWERINGS,
    "--dtypes": lambda *_: DTYPES,
    "--deny": lambda *_: offered_ops(),
    "--diff": lambda *_: ("eager", *offered_names()),
    "--candidate": lambda *_: offered_names(),
    "--model": lambda _, variables: _models(variables),
    "--as": lambda *_: ("session",),
    "--transfers": lambda *_: ("1", "values"),
    "--explain": lambda *_: rule_ids(),
    _COMPARE: lambda _, variables: _sessions(variables),
    "--numerics": lambda *_: NUMERICS,
    "--require": lambda *_: [f"{gate}=" for gate in GATES],
    "--calls": lambda *_: ("first", "last", "all"),
    "--faults": lambda *_: FAULTS,
    "--alignment": lambda *_: ("16", "32", "64", "128"),
    "--timeout": lambda *_: ("60", "300"),
    **dict.fromkeys(("--atol", "--rtol"), lambda *_: ("1e-5", "1e-4", "1e-3")),
    **dict.fromkeys(("--max-memory", "--memory-limit", "--artifacts-limit"), lambda *_: ("1GiB", "4GiB", "16GiB")),
}
"""Flag → the values to choose from, or examples of them, given what is typed and the user's variables.

Every flag that takes a value has some: where we offer none, IPython offers its own magics and keywords.
"""


def completions_for(line: str, variables: Mapping[str, Any]) -> tuple[str, list[str]]:
    """What of a magic's line is replaced, and by what."""
    words = line.split()
    typed = "" if line[-1:].isspace() else words[-1]
    flag, is_joined, value = typed.partition("=")
    if not is_joined:
        flag, value = words[-1 if not typed else -2], typed
    if _COMPARE in words[:-1] and not typed.startswith("--"):
        return _values(_COMPARE, typed, variables)  # it takes two
    if flag in _VALUES and not value.startswith("--"):
        return _values(flag, value, variables)
    if not typed and _takes_a_word(flag):
        return "", []
    return typed, [each for each in _FLAGS if each.startswith(typed) and each not in words[:-1]]


def _values(flag: str, typed: str, variables: Mapping[str, Any]) -> tuple[str, list[str]]:
    """The values of a flag; of a list, the last item is completed and those before it are not offered again."""
    *before, typed = typed.split(",") if flag in _LISTS else [typed]
    return typed, [each for each in _VALUES[flag](typed, variables) if each.startswith(typed) and each not in before]


def _takes_a_word(flag: str) -> bool:
    """Whether a value must follow, so that another flag would be wrong."""
    option = next((each for each in OPTIONS.values() if each.flag == flag), None)
    return option is not None and not option.is_switch and option.bare is None


def _files(typed: str, suffix: str | None) -> list[str]:
    """Folders, and the files with that suffix, that begin as what is typed."""
    folder = Path(os.path.expanduser(os.path.dirname(typed) or "."))  # noqa: PTH111, PTH120 - of a part of a path
    head = typed[: len(typed) - len(os.path.basename(typed))]  # noqa: PTH119
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return []
    names = [
        f"{entry.name}/" if entry.is_dir() else entry.name
        for entry in entries
        if entry.is_dir() or (suffix is not None and entry.name.endswith(suffix))
    ]
    shown = [name for name in names if not name.startswith((".", "__")) or os.path.basename(typed)]  # noqa: PTH119
    return [head + name for name in shown]


def _sessions(variables: Mapping[str, Any]) -> list[str]:
    """The user's variables that hold a session, and the last run."""
    from inductor_debug_jupyter.pipeline.session import DebugSession

    held = [name for name, value in list(variables.items()) if isinstance(value, DebugSession)]
    return [*sorted(name for name in held if not name.startswith("_")), "last"]


def _models(variables: Mapping[str, Any]) -> list[str]:
    """The user's variables that hold a model, or a function of their own."""
    import torch

    main = variables.get("__name__")

    def is_model(value: Any) -> bool:
        function = callable(value) and not isinstance(value, type) and getattr(value, "__module__", "") == main
        return isinstance(value, torch.nn.Module) or function

    return sorted(name for name, value in list(variables.items()) if not name.startswith("_") and is_model(value))


@context_matcher()  # type: ignore[untyped-decorator]  # IPython has no type information
def magic_options(context: Any) -> dict[str, Any]:
    """IPython's matcher: answers only on a line that starts with the magic, and leaves an expression to IPython."""
    from IPython import get_ipython

    lines = context.full_text.split("\n")
    line = lines[context.cursor_line][: context.cursor_position]
    if not line.startswith((f"%%{NAME} ", f"%{NAME} ")):
        return {"completions": [], "suppress": False}
    shell = get_ipython()
    typed, found = completions_for(line, {} if shell is None else shell.user_ns)
    if not found and not line.startswith("%%"):
        return {"completions": [], "suppress": False}
    return {
        "completions": [SimpleCompletion(text=text, type="option") for text in found],
        "matched_fragment": typed,
        "suppress": True,
    }
