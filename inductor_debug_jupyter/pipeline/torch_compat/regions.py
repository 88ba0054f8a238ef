"""Run compiled code in a cache region of its own: a capture sees a compile, the user's caches stay as they are.

torch keeps compiled code in lists on the Python code object, one list a *region* (``isolate_recompiles``), and looks
an entry up by region, guards and backend object. Beside the lists stand the sizes seen so far (they decide which
dimensions become dynamic) and whether the code is to be skipped for good. During a capture:

- a function that the user compiled before is called with a clone of its own callback (same mode, options, fullgraph),
  whose backend is a new object, in a new region: torch finds nothing, compiles again, and the capture sees it. The
  user's entries, and the number of recompiles they have left, are not touched;
- a plain module is compiled in a region of its own, with a callback of ours;
- a function that was never compiled is left alone: its compile is the user's own and stays theirs, as without us.

The hook is ``eval_frame._callback_from_stance``, which every compiled function calls for its callback at each call.
"""

from __future__ import annotations

import copy
import functools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from types import CodeType, FunctionType
from typing import Any

import torch
import torch._dynamo.config as dynamo_config
from torch._C._dynamo.eval_frame import get_eval_frame_isolate_recompiles_id, set_eval_frame_isolate_recompiles_id
from torch._dynamo import convert_frame, eval_frame, exc, external_utils, pgo, trace_rules
from torch._dynamo.types import ConvertFrameReturn

from inductor_debug_jupyter.pipeline.interrupts import never_swallowed, uncut
from inductor_debug_jupyter.pipeline.torch_compat.compile_cleanup import CompileCleanup
from inductor_debug_jupyter.pipeline.torch_compat.instruments import (
    active_instrument,
    python_tracers,
    records_off,
    unseen,
)
from inductor_debug_jupyter.pipeline.torch_compat.patches import HookSite
from inductor_debug_jupyter.pipeline.torch_compat.process_state import process_state_kept
from inductor_debug_jupyter.pipeline.torch_compat.stack_levels import copy_not_counted, not_counted
from inductor_debug_jupyter.pipeline.torch_compat.tracing_state import TracingState


class _IsolatedCallback(convert_frame.CatchErrorsWrapper):
    """Compiles frames without leaving a trace on the user's code objects, in Dynamo's counters or in a profile.

    The sizes seen are kept here, starting from what torch knows already; a frame that cannot be compiled is remembered
    here instead of being marked for good. Code objects are told apart by identity, as torch does: a cell that is run
    again makes code that is equal to the earlier one's.
    """

    def __init__(self, callback: Any, hooks: Any, cleanup: CompileCleanup) -> None:
        super().__init__(callback, hooks)
        self._frame_states: dict[int, tuple[CodeType, dict[str, Any]]] = {}
        self._sizes_seen: Any = None
        self._given_up: dict[int, CodeType] = {}
        self._cleanup = cleanup

    def __call__(self, frame: Any, cache_entry: Any, frame_state: dict[str, Any]) -> ConvertFrameReturn:
        if id(frame.f_code) in self._given_up:
            return ConvertFrameReturn(apply_to_code=False)
        before = TracingState()
        try:
            with never_swallowed():
                return self._compiled(frame, cache_entry)
        except KeyboardInterrupt as error:
            # A traceback that is kept would keep blocks open that have yet to restore something.
            before.restore_after(error)
            raise

    def _compiled(self, frame: Any, cache_entry: Any) -> ConvertFrameReturn:
        code = frame.f_code
        with self._own_sizes(), records_off(), process_state_kept(), self._cleanup.recording(frame):
            _, state = self._frame_states.setdefault(id(code), (code, {}))
            result = super().__call__(frame, cache_entry, state)
            self._cleanup.add(code, result.guarded_code)
        if result.guarded_code is None and not trace_rules.check(code):
            self._given_up[id(code)] = code
            result.apply_to_code = False
        return result

    @uncut
    def _own_sizes(self) -> Iterator[None]:
        """Replace torch's process-wide table of sizes by a copy while we compile."""
        with convert_frame.compile_lock:
            original = pgo.get_code_state()
            if self._sizes_seen is None:
                self._sizes_seen = copy.deepcopy(original)
            pgo._CODE_STATE = self._sizes_seen
            try:
                yield
            finally:
                pgo._CODE_STATE = original


CallObserver = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any], int, Any], None]
"""Called for an outermost call of a compiled function: function, args, kwargs, cache region and backend."""


class CompiledCallRedirect:
    """Sends calls of compiled functions into a region of their own.

    Args:
        on_call: called for each outermost call.
        on_refusal: called with the reason why a function is not redirected.
        here: whether calls on the calling thread are redirected; by default, those of the thread that made this.
        in_use: whether another thread may still run what was compiled: its cleanup then waits for that thread.
        on_other_thread: called with the name of a function that is called where ``here`` is false.
        every: also send calls of functions that never ran before.
    """

    def __init__(
        self,
        on_call: CallObserver | None = None,
        on_refusal: Callable[[str], None] | None = None,
        here: Callable[[], bool] | None = None,
        in_use: Callable[[], bool] = lambda: False,
        *,
        every: bool = False,
        on_other_thread: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._every = every
        self._on_call = on_call
        self._on_refusal = on_refusal
        self._here = here
        self._in_use = in_use
        self.on_other_thread = on_other_thread
        self._thread = threading.get_ident()
        self._region = next(eval_frame._next_isolate_recompiles_id)
        self._clones: dict[int, tuple[Any, _IsolatedCallback]] = {}
        self._cleanup = CompileCleanup()
        self._users_own: dict[tuple[int, int], CodeType] = {}
        """Code object (by identity) and region → the code that the user first compiles in this capture."""
        self._expected: set[tuple[int, int]] = set()
        self._pending: dict[int, tuple[str, frozenset[int]]] = {}
        """Thread → the name of a function that is called there for the first time, and its code objects."""
        self._tracers = python_tracers()

    def install(self) -> None:
        """Start redirecting.

        Raises:
            HookError: this torch has no such function.
        """
        _forget_retired()
        with ExitStack() as undo:
            for site in SITES:
                undo.callback(site.install())
            self._undo = undo.pop_all()
        self._region_before = get_eval_frame_isolate_recompiles_id()
        with _lock:
            _redirects.append(self)

    def remove(self) -> None:
        """Stop redirecting, and remove what was compiled from the user's code objects."""
        if self._pause():
            for thread in tuple(self._pending):
                self._settle(thread)
            _retired.append(self)
            _forget_retired()

    def forget(self) -> None:
        """Remove what was compiled from the user's code objects."""
        self._cleanup.clean()
        self._clones.clear()

    @uncut
    def open(self) -> Iterator[None]:
        """Redirect on this thread inside the block; what was compiled stays for the next one."""
        self._thread = threading.get_ident()
        self.install()
        try:
            yield
        finally:
            self._pause()

    def _pause(self) -> bool:
        with _lock:
            if self not in _redirects:
                return False
            _redirects.remove(self)
        self._undo.close()
        # Compiled calls restore it one after the other; those of two threads that overlap leave one of their own.
        set_eval_frame_isolate_recompiles_id(self._region_before)
        return True

    def applies(self) -> bool:
        """Whether calls on this thread are redirected."""
        return threading.get_ident() == self._thread if self._here is None else self._here()

    def look_at(self, code: CodeType) -> None:
        """Dynamo is asked to compile this on this thread: it had not given up on it before."""
        thread = threading.get_ident()
        if thread in self._pending and id(code) in self._pending[thread][1] and not trace_rules.check(code):
            del self._pending[thread]

    def _expect_look(self, function: Any, callback: Any) -> None:
        """At the first call of a function, see to it that Dynamo looks at its code.

        Code that torch has given up on, in whatever cell, runs as it is from then on, and nothing is said of it.
        """
        code = _code_of(function)
        if code is None or (id(code), id(callback)) in self._expected:
            return
        self._expected.add((id(code), id(callback)))
        codes = {id(code)}
        if isinstance(getattr(function, "__self__", None), torch.nn.Module):
            codes.add(id(torch.nn.Module._call_impl.__code__))  # Dynamo sees the forward in it where there are hooks
        self._pending[threading.get_ident()] = (_name_of(function), frozenset(codes))

    def _settle(self, thread: int) -> None:
        name, _ = self._pending.pop(thread, ("", ()))
        if name:
            self._refuse(f"{name} ran without the compiler: torch had given up on it before")

    def note_switched_off(self, callback: Any, call: dict[str, Any], *, compiles: bool) -> None:
        """Report a call of a compiled function that torch runs without compiling it, or without running its guards."""
        if not isinstance(callback, convert_frame.CatchErrorsWrapper) or call.get("prior") is not None:
            return
        if not compiles:
            name = _name_of(call["fn"], call.get("args", ()))
            self._refuse(f"{name} ran without the compiler: a stance or a setting switches it off")
        elif eval_frame._stance.skip_guard_eval_unsafe:
            self._refuse(f"{_name_of(call['fn'])} ran, and no guard was checked: skip_guard_eval_unsafe")

    def _refuse(self, why: str) -> None:
        if self._on_refusal is not None:
            self._on_refusal(why)

    def callback_for(self, callback: Any, call: dict[str, Any]) -> Any:
        """The callback to use for a call: the user's own, or our clone of it.

        ``call`` are the local names of torch's wrapper around the compiled function: ``fn``, ``args``, ``kwargs``, and
        ``prior``, the callback in force before, which is None for an outermost call.
        """
        function = call.get("fn")
        if not isinstance(callback, convert_frame.CatchErrorsWrapper):
            return callback
        backend, is_ours = eval_frame.innermost_backend(callback), _is_ours(callback)
        if self._on_call is not None and not is_ours and call.get("prior") is None and callable(function):
            region = get_eval_frame_isolate_recompiles_id()
            self._on_call(function, call.get("args", ()), call.get("kwargs", {}), region, backend)
        if call.get("prior") is None:
            self._settle(threading.get_ident())
        if not is_ours and self._stays(callback, call):
            return callback
        if id(callback) not in self._clones:
            # The callback is kept beside its clone: its id must not be given to another one.
            clone = _clone_callback(callback, self._cleanup, new_backend=not is_ours)
            self._clones.setdefault(id(callback), (callback, clone))
        if not is_ours:
            set_eval_frame_isolate_recompiles_id(self._region)
        return self._clones[id(callback)][1]

    def _stays(self, callback: Any, call: dict[str, Any]) -> bool:
        """Whether a call goes on with the user's own callback."""
        function, known = call.get("fn"), id(callback) in self._clones
        if self._is_watched(function, call, known=known):
            return True
        is_new = not known and not self._compiled_before(function)
        if not known and not is_new and self._is_full(function):
            return True
        if call.get("prior") is None:
            self._expect_look(function, callback)
        return is_new

    def _is_watched(self, function: Any, call: dict[str, Any], *, known: bool) -> bool:
        """Whether an instrument of the user's would see our compile; reported unless the call is ``known``."""
        if self._on_refusal is None:
            return False
        instrument = active_instrument((*call.get("args", ()), *call.get("kwargs", {}).values()), self._tracers)
        if instrument is None:
            return False
        if not known and self._compiled_before(function):
            self._on_refusal(f"{_name_of(function)} ran as you compiled it, and was not captured: {instrument.reason}")
        return True

    def _is_full(self, function: Any) -> bool:
        """Whether half of torch's limit of entries is used: each capture leaves an empty one on the code object."""
        code, most = _code_of(function), dynamo_config.accumulated_recompile_limit // 2
        if code is None or eval_frame._get_total_cache_entry_count(code) < most:
            return False
        if self._on_refusal is not None:
            self._on_refusal(
                f"{code.co_name} was captured so often that torch would soon refuse to compile it: it ran as you "
                "compiled it, and was not captured again. torch._dynamo.reset() makes room"
            )
        return True

    def _compiled_before(self, function: Any) -> bool:
        code = _code_of(function)
        region = get_eval_frame_isolate_recompiles_id()
        if self._every or code is None or (id(code), region) in self._users_own:
            return self._every
        if any(eval_frame._get_cache_entries_for_region(code, each) for each in {-1, region}):
            return True
        self._users_own[id(code), region] = code
        return False


_MODULE_CALLS = {"__call__", "_wrapped_call_impl", "_call_impl"}
_lock = threading.RLock()
_redirects: list[CompiledCallRedirect] = []
_retired: list[CompiledCallRedirect] = []
"""Removed, but a thread may still run what they compiled."""


def _forget_retired() -> None:
    with _lock:
        unused = [each for each in _retired if not each._in_use()]
        _retired[:] = [each for each in _retired if each not in unused]
    for each in unused:
        each.forget()


def _wrap_callback_from_stance(original: Callable[..., Any]) -> Callable[..., Any]:
    def callback_from_stance(callback: Any) -> Any:
        chosen = _own_callback(callback) if _is_ours(callback) else original(callback)
        compiles = isinstance(chosen, convert_frame.CatchErrorsWrapper) and not dynamo_config.disable
        for redirect in reversed(_redirects):
            if redirect.applies():
                call = sys._getframe(1).f_locals
                redirect.note_switched_off(callback, call, compiles=compiles)
                return redirect.callback_for(chosen, call)
        if _redirects and _is_users_call(callback, call := sys._getframe(1).f_locals):
            _redirects[-1].on_other_thread(_name_of(call["fn"]))
        return chosen

    return callback_from_stance


def _is_users_call(callback: Any, call: dict[str, Any]) -> bool:
    """Whether this is an outermost call of a function that the user compiled."""
    if not isinstance(callback, convert_frame.CatchErrorsWrapper) or call.get("prior") is not None:
        return False
    return not _is_ours(callback) and callable(call.get("fn"))


def _is_ours(callback: Any) -> bool:
    """Whether this callback of a compiled function compiles with a backend of ours."""
    if not isinstance(callback, convert_frame.CatchErrorsWrapper):
        return False
    backend = eval_frame.innermost_backend(callback)
    return bool(getattr(getattr(backend, "compiler_fn", backend), "_inductor_debug", False))


def _own_callback(callback: Any) -> Any:
    """The callback of a compile of ours: the user's stance is about their own compiles, and may switch ours off."""
    stance = eval_frame._stance
    return callback if stance.stance == "default" and not stance.skip_guard_eval_unsafe else None


def _wrap_tracker(original: Callable[..., None]) -> Callable[..., None]:
    def add(self: Any, strong_obj: CodeType) -> None:
        if self is convert_frame.input_codes:
            for redirect in tuple(_redirects):
                redirect.look_at(strong_obj)
        original(self, strong_obj)

    return add


def _name_of(function: Any, args: Sequence[Any] = ()) -> str:
    if (
        args and isinstance(args[0], torch.nn.Module) and function.__name__ in _MODULE_CALLS
    ):  # as we compile plain modules
        return type(args[0]).__name__
    owner = getattr(function, "__self__", None)
    return type(owner).__name__ if owner is not None else getattr(function, "__qualname__", type(function).__name__)


_PART = "already compiled functions"
SITES = (
    HookSite(_PART, "torch._dynamo.eval_frame", "_callback_from_stance", _wrap_callback_from_stance),
    HookSite(_PART, "torch._dynamo.convert_frame", "Tracker.add", _wrap_tracker),
)
"""The function that gives every compiled function its callback, and what lists the code that Dynamo is given."""


def _clone_callback(callback: Any, cleanup: CompileCleanup, *, new_backend: bool) -> _IsolatedCallback:
    """An isolated clone of a callback; with a new backend object no existing cache entry matches."""
    inner = callback._torchdynamo_orig_backend
    if not new_backend:
        return _IsolatedCallback(inner, callback.hooks, cleanup)
    user_backend = eval_frame.innermost_backend(callback)

    def backend(graph_module: Any, example_inputs: Any, **kwargs: Any) -> Any:
        return user_backend(graph_module, example_inputs, **kwargs)

    backend.__name__ = getattr(user_backend, "__name__", type(user_backend).__name__)
    return _IsolatedCallback(inner._clone_with_backend(backend), callback.hooks, cleanup)


def _code_of(function: Any) -> CodeType | None:
    """The code object whose cache holds a compiled function's entries: for a module, its ``forward``."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, torch.nn.Module) and function.__name__ in _MODULE_CALLS:
        function = owner.forward
    inner = eval_frame.innermost_fn(function) if callable(function) else None
    code = getattr(inner, "__code__", None)
    return code if isinstance(code, CodeType) else None


def compile_call(module: torch.nn.Module, call: Callable[..., Any], backend: Callable[..., Any]) -> Callable[..., Any]:
    """``module``'s call, compiled with ``backend`` in a region of its own; to be called with the module in front.

    It does not hold the module: one that the user deletes is gone at once. ``call`` is ``nn.Module.__call__`` as torch
    defines it. Modules whose ``forward`` is torch's own (``nn.Linear`` or ``nn.Sequential`` by itself) have no frame
    that Dynamo would look at: they get an extra one, which has the module only while it runs.
    """
    if not trace_rules.check(module.forward):
        return compile_as_ours(call, backend)
    extra: Any = _extra_frame(module)
    vars(extra).clear()  # the module's own attributes, which functools.wraps copied
    cell = extra.__closure__[extra.__code__.co_freevars.index("fn")]
    compiled = compile_as_ours(extra, backend)
    cell.cell_contents = None
    callers, lock = [0], threading.Lock()

    def enter(module: torch.nn.Module | None, change: int) -> None:
        with lock:  # threads that call the module at once share the frame, and the last one out empties it
            callers[0] += change
            cell.cell_contents = module if module is not None or callers[0] == 0 else cell.cell_contents

    @not_counted
    def run(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        enter(module, 1)
        try:
            return compiled(*args, **kwargs)
        finally:
            enter(None, -1)

    return run


def compile_as_ours(function: Callable[..., Any], backend: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """``torch.compile`` in a region of its own, with a backend that is marked as ours and that torch does not keep.

    torch keeps every backend for good, so as to reset it in ``torch._dynamo.reset()``; ours have nothing to reset.
    """
    backend._inductor_debug = True  # type: ignore[attr-defined]
    # torch.compile names Inductor's cache folder in the environment; two threads must not restore each other's changes.
    with convert_frame.compile_lock, process_state_kept():
        compiled: Callable[..., Any] = torch.compile(  # type: ignore[call-overload]  # newer than its annotations
            function, backend=backend, isolate_recompiles=True, **options
        )
    for key, kept in list(eval_frame.cached_backends.items()):
        if getattr(kept, "compiler_fn", kept) is backend:
            del eval_frame.cached_backends[key]
    return compiled if compiled is function else copy_not_counted(compiled)


def uncompiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function or module that ``torch.compile`` was given; ``function`` itself when it is not compiled."""
    if isinstance(function, eval_frame.OptimizedModule):
        inner: Callable[..., Any] = function._orig_mod
        return inner
    if isinstance(function, torch.nn.Module):
        return function
    plain: Callable[..., Any] = eval_frame.innermost_fn(function)
    return plain


def is_compiled(target: Callable[..., Any]) -> bool:
    """Whether calling ``target`` goes through the user's own ``torch.compile``."""
    if isinstance(target, torch.nn.Module):
        in_place = getattr(target, "_compiled_call_impl", None) is not None
        return in_place or isinstance(target, eval_frame.OptimizedModule)
    return eval_frame.innermost_fn(target) is not target


def registered_backend(name: str) -> Callable[..., Any]:
    """The ``torch.compile`` backend of that name."""
    from torch._dynamo.backends.registry import lookup_backend

    found: Callable[..., Any] = lookup_backend(name)
    return found


def loaded_backend(name: str) -> Callable[..., Any] | None:
    """The ``torch.compile`` backend of that name if its code is in this process already; nothing is imported."""
    from torch._dynamo.backends import registry

    found: Callable[..., Any] | None = registry._COMPILER_FNS.get(name)
    return found


def name_of_backend(backend: Any) -> str:
    """The name under which ``torch.compile`` finds a compiled function's backend; empty when it has none."""
    name = str(getattr(backend, "compiler_name", None) or "")
    if name == "inductor":
        return name
    known = loaded_backend(name)
    return name if known is not None and known is getattr(backend, "compiler_fn", None) else ""


def asks_to_trace_again(error: BaseException) -> bool:
    """Whether a backend raised Dynamo's own request to trace again, as for a float that becomes symbolic."""
    return isinstance(error, exc.RestartAnalysis)


def compile_alone(function: Callable[..., Any], backend: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function or module in a region of its own; the result is to be called in :func:`undisturbed`."""
    if isinstance(function, torch.nn.Module):
        return functools.partial(compile_call(function, torch.nn.Module.__call__, backend), function)
    if _code_of(function) is None or trace_rules.check(function):
        function = _extra_frame(function)
    return compile_as_ours(function, backend)


def _extra_frame(function: Callable[..., Any]) -> Callable[..., Any]:
    """Torch's extra frame around a callable, with code of its own.

    Torch's is shared by everything that has such a frame: one module that torch gave up on, or 256 that the user
    compiled, would be the end for all others.
    """
    extra: Any = external_utils.wrap_inline(function)
    extra.__code__ = extra.__code__.replace()
    made: Callable[..., Any] = extra
    return made


def compile_without_recompile_limit(function: Callable[..., Any], backend: Callable[..., Any]) -> Callable[..., Any]:
    """``torch.compile`` that stays, in a region of its own: it does not use up the user's recompiles.

    Every size is compiled by itself (``dynamic=False``). torch's limits on recompiles (8 a region, 256 a code object)
    are lifted while the function runs: beyond them torch would silently run the original, not the rewritten function.
    """
    without_limit = sys.maxsize
    wrapper: Any = torch._TorchCompileWrapper  # torch 2.13 does not type it
    context = torch._dynamo.optimize(
        backend=wrapper(backend, None, None, False),
        dynamic=False,
        recompile_limit=without_limit,
        isolate_recompiles=True,
    )
    if isinstance(context, eval_frame.OptimizeContext):  # nothing is compiled where the user switched Dynamo off
        context.enter_exit_hooks.append(dynamo_config._make_closure_patcher(accumulated_recompile_limit=without_limit))
    compiled: Callable[..., Any] = context(function)
    return compiled


@uncut
def undisturbed(model: Any = None) -> Iterator[None]:
    """Compiled functions called in the block leave nothing on the user's code objects.

    The user's instruments are off, and eager's random numbers are drawn: with Inductor's own generator a dropout would
    drop other elements than in eager mode. ``model`` is what is going to be compiled: see :func:`_code_of_our_own`.
    """
    from torch._inductor import config as inductor_config

    with unseen(), _code_of_our_own(model):
        redirect = CompiledCallRedirect()
        redirect.install()
        try:
            with inductor_config.patch(fallback_random=True):
                yield
        finally:
            redirect.remove()


@uncut
def _code_of_our_own(model: Any) -> Iterator[None]:
    """Run the model's functions that the user compiled from copies of their code objects.

    torch can empty a cache entry on a code object, but not remove it: on one that holds entries of the user's, which
    must stay, each of our compiles would leave an empty one, and there is a limit to their number.
    """
    modules = model.modules() if isinstance(model, torch.nn.Module) else ()
    called = (eval_frame.innermost_fn(model) if callable(model) else None, *(type(each).forward for each in modules))
    functions = {id(each): each for each in called if isinstance(each, FunctionType)}.values()
    before = [(each, each.__code__) for each in functions if eval_frame._get_total_cache_entry_count(each.__code__)]
    try:
        for function, code in before:
            function.__code__ = code.replace()
        yield
    finally:
        for function, code in before:
            function.__code__ = code
