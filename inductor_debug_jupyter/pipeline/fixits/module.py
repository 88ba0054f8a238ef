"""The fixed model: the original, compiled with a rewriting backend; it is called, trained and captured like any other.

A patch writes it into the user's cell as one line: ``net = fixed(net, pad={784: 832})``.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.errors import OptionError, UsageError
from inductor_debug_jupyter.pipeline.fixits.backend import Backend, RewritingBackend, op_by_op
from inductor_debug_jupyter.pipeline.fixits.rewrite import Rewrite
from inductor_debug_jupyter.pipeline.torch_compat.regions import (
    compile_without_recompile_limit,
    registered_backend,
    uncompiled,
)

_DTYPES = sorted(name for name in dir(torch) if isinstance(getattr(torch, name), torch.dtype))


def fixed(
    model: Callable[..., Any],
    *,
    pad: Mapping[int, int] | None = None,
    pad_products: Mapping[int, int] | None = None,
    cast: Mapping[str, str] | None = None,
    channels_last: bool = False,
    contiguous: Iterable[str] = (),
    decompose: Iterable[str] = (),
    backend: str | Backend | None = None,
) -> Any:
    """A model that computes what the original does, through a graph that is rewritten for a target.

    It shares the original's parameters: training one trains the other. Each new combination of input sizes, strides,
    dtypes and modes is traced and rewritten when it first comes, however many there are: torch's limits on recompiles
    do not apply. At every call, shapes and dtypes of the results are compared with the original's: a call that cannot
    be computed right is a ``RewriteError``. Fixing a fixed model adds to what it has; fixing it with the same again
    returns it.

    Args:
        model: a module or function; one that ``torch.compile`` made is taken as what it was made from.
        pad: size → the size to pad it to, wherever it is: ``{784: 832}``.
        pad_products: likewise, but only what products and convolutions read; what they make is cut at once.
        cast: dtype → the dtype to compute in: ``{"float64": "float32"}``.
        channels_last: lay images and the weights that convolve them out with channels innermost.
        contiguous: copy what these ops read row by row: ``"encoder.layer.*.attention:bmm"``, module path and op.
        decompose: take these ops apart, as torch does: ``"gelu"``.
        backend: what compiles the rewritten graph, by the name that ``torch.compile`` knows or as a function; without
            one each op runs as in eager mode.

    Raises:
        OptionError: a value is not allowed; it says which are.
        UsageError: torch knows no backend of that name.
    """
    rewrite = Rewrite(
        _sizes("pad", pad),
        _sizes("pad_products", pad_products),
        _casts(cast),
        channels_last,
        _names("contiguous", contiguous),
        _names("decompose", decompose),
    )
    return rewritten_model(model, rewrite, _backend(backend))


def rewritten_model(model: Callable[..., Any], rewrite: Rewrite, then: Backend | None = None) -> Any:
    """:func:`fixed`, given a rewrite."""
    if (before := _made.get(model)) is not None:
        then = then or before.then
        if before.rewrite | rewrite == before.rewrite and then is before.then:
            return model
        rewrite = before.rewrite | rewrite
    plain, backend = uncompiled(model), RewritingBackend(rewrite, then or op_by_op)
    kept = _kept_with(plain)
    for each in kept:
        if _made[each].rewrite == rewrite and _made[each].then is backend.then:
            return each
    made = compile_without_recompile_limit(plain, backend)
    _made[made] = backend
    kept.append(made)
    return made


class _Kept(list[Any]):
    """The fixed models of one model, kept on it: a training step that calls ``fixed`` must not compile each time.

    They are freed with the model; a copy of the model starts without any.
    """

    def __deepcopy__(self, memo: Any) -> _Kept:
        return _Kept()

    def __copy__(self) -> _Kept:
        return _Kept()

    def __reduce__(self) -> tuple[type[_Kept], tuple[()]]:
        return _Kept, ()


def _kept_with(model: Callable[..., Any]) -> _Kept:
    """The fixed models kept on a model; a list that nobody keeps if the model cannot have attributes."""
    attributes = getattr(model, "__dict__", None)
    kept: _Kept = attributes.setdefault("_inductor_debug_fixed", _Kept()) if isinstance(attributes, dict) else _Kept()
    return kept


_made: weakref.WeakKeyDictionary[Callable[..., Any], RewritingBackend] = weakref.WeakKeyDictionary()
"""Every fixed model, with its backend."""


def _backend(backend: str | Backend | None) -> Backend | None:
    if not isinstance(backend, str):
        return backend
    try:
        return registered_backend(backend)
    except Exception as error:  # torch has an exception of its own for it
        raise UsageError(f"backend={backend!r}: torch.compile knows no such backend ({error})") from None


def _sizes(name: str, given: Mapping[int, int] | None) -> dict[int, int]:
    for size, to in (given or {}).items():
        if not (type(size) is int and type(to) is int and 0 < size < to):
            raise OptionError(f"{name}={{{size!r}: {to!r}}}; allowed: a size above 0 and a larger one")
    return dict(given or {})


def _casts(given: Mapping[str, str] | None) -> dict[str, str]:
    casts = {str(key).removeprefix("torch."): str(to).removeprefix("torch.") for key, to in (given or {}).items()}
    for name in (*casts, *casts.values()):
        if name not in _DTYPES:
            raise OptionError(f"cast: {name!r} is no dtype; allowed: {', '.join(_DTYPES)}")
    return casts


def _names(name: str, given: Iterable[str]) -> frozenset[str]:
    names = [given] if isinstance(given, str) else list(given)
    for each in names:
        if not isinstance(each, str) or not each:
            raise OptionError(f"{name}: {each!r} is not allowed; allowed: names of ops")
    return frozenset(names)
