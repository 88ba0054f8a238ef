"""Check, without running anything, whether a call would find compiled code or compile again.

A compiled function keeps its compiled frames in a list on its code object; before each call torch runs the guards of
each entry on the frame's local names and takes the first that holds. The same is done here, by the same C++ guards:
the call's arguments are bound as Python binds them, and the guards of every entry that torch would try are run.

There are two kinds of entries. Those of functions that the user compiled are read from the user's own cache at that
moment, since that is what the next call meets. What a capture compiled for itself (plain modules, an inspection) is
thrown away when the capture ends: its guards are kept as :class:`LiveGuards`.

After a graph break torch runs a piece of Python and goes on in a *resume function*, with entries of its own. What that
piece computes is known only when it has run, so an entry that ends in a break leaves the rest unknown.
"""

from __future__ import annotations

import dis
import inspect
import weakref
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from types import CodeType, FunctionType, MethodType, SimpleNamespace
from typing import Any

import torch
from torch._dynamo import cache_size, eval_frame, external_utils, trace_rules

from inductor_debug_jupyter.pipeline.torch_compat.guard_failures import (
    FailedGuard,
    distinct_of,
    first_failure,
    scope_of,
)

_USERS_REGION = -1
_RESUME = "__resume_at_"
_COMPILED = ("__compiled_fn_", _RESUME)
_MODULE_CALLS = ("__call__", "_wrapped_call_impl", "_call_impl")


@dataclass(frozen=True, slots=True)
class LiveGuards:
    """The guards of one compiled frame, as torch checks them. ``breaks``: the graph ended in a graph break."""

    compile_id: str
    code: CodeType
    breaks: bool
    root: Any
    scope: dict[str, Any]
    distinct: tuple[str, ...] = ()
    installed: dict[str, Any] = field(default_factory=dict)
    """Names that torch put into the module's globals for these guards; they go when the compiled code goes."""

    @classmethod
    def of(
        cls, compile_id: str, code: CodeType, manager: Any, *, breaks: bool, installed: Iterable[str] = ()
    ) -> LiveGuards:
        """The guards of a ``GuardManagerWrapper``; the wrapper itself would keep the compiled code alive."""
        scope = scope_of(manager)
        names = scope.get("G", {})
        kept = {name: names[name] for name in installed if name in names and not name.startswith(_COMPILED)}
        return cls(compile_id, code, breaks, manager.root, scope, distinct_of(manager), kept)

    def failure(self, names: dict[str, Any]) -> FailedGuard | None:
        """The first check that does not hold for a frame with these local names; None when all do."""
        module = self.scope.get("G", {})
        gone = {name: value for name, value in self.installed.items() if name not in module}
        module.update(gone)
        try:
            return first_failure(self.root, names, self.scope, self.distinct)
        finally:
            for name in gone:
                module.pop(name, None)


@dataclass(frozen=True, slots=True)
class GuardVerdict:
    """The entry whose guards hold (``fits``), or the failed check of every entry, the newest first.

    ``limit`` names the recompile limit that torch has reached: it would run the function uncompiled.
    """

    fits: LiveGuards | None
    failures: tuple[tuple[LiveGuards, FailedGuard], ...] = ()
    limit: str = ""


class CalledFunction:
    """A compiled function that was called. It is held weakly: a session must not keep a model alive.

    Args:
        function: what the compiler was given: a function, a method or a module's call.
        region: the cache region of the call.
        backend: the compiler behind it: only its entries count. None for what a capture compiled for itself.
    """

    def __init__(self, function: Callable[..., Any], region: int = _USERS_REGION, backend: Any = None) -> None:
        self.region = region
        self.backend = backend
        target: Any = function
        code = _code(function)
        if code is not None and code.co_filename == external_utils.__file__ and "fn" in code.co_freevars:
            closure: Any = getattr(function, "__closure__", ())  # torch's extra frame around a callable without one
            target = closure[code.co_freevars.index("fn")].cell_contents
        owner = getattr(target, "__self__", None)
        if isinstance(owner, torch.nn.Module) and getattr(target, "__name__", "") in _MODULE_CALLS:
            target = owner
        self._is_module = isinstance(target, torch.nn.Module)
        self._owner = None if owner is None or inspect.ismodule(owner) or self._is_module else _weak(owner)
        self._function = _weak(getattr(target, "__func__", target))
        self.name = _name_of(target)

    def is_alive(self) -> bool:
        """Whether the user still holds the function and its owner."""
        return self._function() is not None and (self._owner is None or self._owner() is not None)

    def matches(self, target: Any) -> bool:
        """Whether ``target`` (a name, function, method or module) is this function."""
        if isinstance(target, str):
            return target in (self.name, self.name.removesuffix(".forward"), self.name.rpartition(".")[2])
        plain = target._orig_mod if isinstance(target, eval_frame.OptimizedModule) else target
        if isinstance(plain, torch.nn.Module):
            return plain in (self._function(), self._owner() if self._owner is not None else None)
        plain = eval_frame.innermost_fn(plain)
        owner = getattr(plain, "__self__", None)
        same_owner = owner is None or (self._owner is not None and self._owner() is owner)
        return same_owner and getattr(plain, "__func__", plain) is self._plain()

    def frames(self) -> tuple[Callable[..., Any], ...]:
        """The Python functions whose frame a call may be compiled in; empty when the function is gone.

        Dynamo steps over a module's ``__call__`` to its ``forward``. A callable without a frame that Dynamo would trace
        is called through an extra one, see :func:`~inductor_debug_jupyter.pipeline.torch_compat.regions.compile_alone`.
        """
        if not self.is_alive():
            return ()
        function = self._plain()
        owner = self._owner() if self._owner is not None else None
        if isinstance(function, torch.nn.Module):
            if trace_rules.check(function.forward):
                return (external_utils.wrap_inline(function),)
            return function._call_impl, eval_frame.innermost_fn(function.forward)
        whole = MethodType(function, owner) if owner is not None and _code(function) is not None else function
        if _code(whole) is None or trace_rules.check(whole):
            return (external_utils.wrap_inline(whole),)
        return (whole,)

    def _plain(self) -> Any:
        function = self._function()
        return function if function is None or self._is_module else eval_frame.innermost_fn(function)

    def parameters(self) -> tuple[str, ...]:
        """The names of the positional parameters, without ``self``."""
        frames = self.frames()
        code = _code(frames[-1]) if frames else None
        if code is None:
            return ()
        names = code.co_varnames[: code.co_argcount]
        return names[1:] if isinstance(frames[-1], MethodType) else names

    def hooked(self, kind: str) -> str | None:
        """The module's class name when hooks of that kind run around the compiled frame, else None."""
        module = self._function()
        if not isinstance(module, torch.nn.Module):
            return None
        everywhere = getattr(torch.nn.modules.module, f"_global{kind}")
        inlined = trace_rules.check(module.forward)  # then the hooks are part of what is compiled
        return type(module).__qualname__ if (getattr(module, kind) or everywhere) and not inlined else None

    def was_compiled(self, kept: Iterable[LiveGuards]) -> bool:
        """Whether the function's own frame was compiled during the capture, not only what it calls."""
        codes = {_code(frame) for frame in self.frames()}
        return any(each.code in codes for each in kept)

    def check_guards(
        self, kept: Sequence[LiveGuards], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> GuardVerdict | None:
        """Run the guards for a call with these arguments; None when no entry of the function's own frame exists.

        Raises:
            TypeError: the function does not take these arguments.
        """
        for frame in self.frames():
            code = _code(frame)
            if code is None:
                continue
            names = frame_names(frame, args, kwargs)
            entries = list(self._entries(code, kept))
            if not entries:
                continue
            failures: list[tuple[LiveGuards, FailedGuard]] = []
            for entry in entries:
                if (failure := entry.failure(names)) is None:
                    return GuardVerdict(entry)
                failures.append((entry, failure))
            return GuardVerdict(None, tuple(failures), self._limit(code, names))
        return None

    def _entries(self, code: CodeType, kept: Iterable[LiveGuards]) -> Iterable[LiveGuards]:
        """The entries that torch would try, in its order."""
        known = [each for each in kept if _is_same_frame(each.code, code)]
        if self.backend is None:
            yield from reversed(known)
            return
        breaks = {each.compile_id: each.breaks for each in known}
        for region in dict.fromkeys((self.region, _USERS_REGION)):
            for entry in filter(self._is_valid, eval_frame._get_cache_entries_for_region(code, region)):
                compile_id = str(entry.compile_id)
                has_break = breaks[compile_id] if compile_id in breaks else _seems_to_break(code, entry.code)
                yield LiveGuards.of(compile_id, code, entry.guard_manager, breaks=has_break)

    def _is_valid(self, entry: Any) -> bool:
        """Whether an entry is of this backend and not invalidated, as it is once what it was compiled for is gone."""
        if entry.code is None or getattr(entry.guard_manager, "root", None) is None:
            return False
        return bool(entry.backend is self.backend or entry.backend == self.backend)

    def _limit(self, code: CodeType, names: dict[str, Any]) -> str:
        """The recompile limit that torch has reached with this code, or an empty string."""
        if self.backend is None:
            return ""
        entries = eval_frame._get_cache_entries_for_region(code, self.region)
        frame: Any = SimpleNamespace(f_code=code, f_locals=names)
        size = cache_size.compute_cache_size(frame, entries, eval_frame._get_total_cache_entry_count(code))
        compile_id: Any = SimpleNamespace(frame_compile_id=len(entries))
        exceeded, limit = cache_size.exceeds_recompile_limit(size, compile_id)
        return limit if exceeded else ""


def frame_names(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The local names with which Python enters a function's frame: parameters as bound, and the closure's contents.

    Raises:
        TypeError: it does not take these arguments.
    """
    plain: Any = function
    if isinstance(function, MethodType):
        plain, args = function.__func__, (function.__self__, *args)
    # A copy has no __wrapped__ and no __signature__, which describe another function.
    stub = FunctionType(plain.__code__, plain.__globals__, plain.__name__, plain.__defaults__, plain.__closure__)
    stub.__kwdefaults__ = plain.__kwdefaults__
    bound = inspect.signature(stub).bind(*args, **kwargs)
    bound.apply_defaults()
    names = dict(bound.arguments)
    for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return names


def _seems_to_break(original: CodeType, compiled: CodeType) -> bool:
    """Whether compiled code that was compiled outside a capture has a graph break.

    It then calls a resume function or, where the break comes last, what the original calls: torch keeps that call with
    the original's names.
    """
    if any(name.startswith(_RESUME) for name in compiled.co_names):
        return True
    names = set(original.co_names)
    loads = {"LOAD_GLOBAL", "LOAD_NAME", "LOAD_METHOD", "LOAD_ATTR"}
    return any(each.opname in loads and each.argval in names for each in dis.get_instructions(compiled))


def _is_same_frame(compiled: CodeType, code: CodeType) -> bool:
    """Whether that is the code that was compiled. Torch's extra frame is a copy for each module that needs one."""
    return compiled is code or (compiled == code and code.co_filename == external_utils.__file__)


def _code(function: Any) -> CodeType | None:
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


def _weak(value: Any) -> Callable[[], Any]:
    """A weak reference, or a strong one to what cannot be held weakly."""
    try:
        return weakref.ref(value)
    except TypeError:
        return lambda: value


def _name_of(function: Callable[..., Any]) -> str:
    if isinstance(function, torch.fx.GraphModule):  # each has a class of its own
        return "GraphModule.forward"
    if isinstance(function, torch.nn.Module):
        return f"{type(function).__qualname__.replace('<locals>.', '')}.forward"
    return str(getattr(function, "__qualname__", type(function).__qualname__)).replace("<locals>.", "")
