"""What our own compiles leave on the user's code objects and in the user's modules, and how it goes away again.

Dynamo keeps a compiled frame in a list on the code object that it was compiled from, and puts names that the compiled
code needs (``__compiled_fn_3_…``, ``__resume_at_8_2``) into the module's globals. When a capture is over nothing of
that will run again: the entries are invalidated, which frees code, graphs and guards, and the names are deleted. A
code object that the user never compiled is then exactly as before; on one that they did compile an empty entry stays.

Names such as ``__import_torch_dot_nn`` are shared between all compiles of a module and stay: they only name modules.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType
from typing import Any

from torch._C._dynamo.eval_frame import get_eval_frame_isolate_recompiles_id, reset_code
from torch._dynamo import eval_frame
from torch._dynamo.guards import DeletedGuardManagerWrapper
from torch._dynamo.utils import CleanupManager

log = logging.getLogger("inductor_debug_jupyter")

_OWN_NAMES = ("__compiled_fn_", "__resume_at_", "__builtins_dict__")
_USERS_REGION = -1


class Leftovers:
    """Notes what compiles leave behind, and takes it out."""

    def __init__(self) -> None:
        self._compiled: dict[tuple[CodeType, int], None] = {}
        self._names: list[tuple[dict[str, Any], str]] = []

    @contextmanager
    def noting(self, frame: Any) -> Iterator[None]:
        """Note what the compile of ``frame`` inside the block leaves behind."""
        names = frame.f_globals
        before = set(names)
        try:
            yield
        finally:
            self._compiled[frame.f_code, get_eval_frame_isolate_recompiles_id()] = None
            self._names += [(names, name) for name in names if name.startswith(_OWN_NAMES) and name not in before]

    def take_out(self) -> None:
        """Take everything out; what cannot be is left, since the user's run must not end here."""
        for code, region in self._compiled:
            try:
                _invalidate(code, region)
            except Exception:
                log.debug("cache entries of %s stay", code.co_name, exc_info=True)
        for names, name in self._names:
            names.pop(name, None)
        self._compiled.clear()
        self._names.clear()


def _invalidate(code: CodeType, region: int) -> None:
    for entry in eval_frame._get_cache_entries_for_region(code, region):
        manager = entry.guard_manager
        if entry.code is not None:
            _forget_names(entry.code)
        if (state := getattr(manager, "extra_state", None)) is not None:
            state.invalidate(entry, DeletedGuardManagerWrapper("the capture that compiled this is over"))
    live = eval_frame._debug_get_cache_entry_list(code)
    if all(entry.code is None for entry in live) and not eval_frame._get_cache_entries_for_region(code, _USERS_REGION):
        reset_code(code)


def _forget_names(code: CodeType) -> None:
    """Delete the compiled code's names now, rather than when Python happens to free it."""
    for hook in CleanupManager.instance.get(code, ()):
        if hook.name in hook.scope:
            hook()
    if code in CleanupManager.instance:
        CleanupManager.instance[code] = []
