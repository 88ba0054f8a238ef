"""Names of ops: which names mean the same op, what an op is made of, and groups of ops.

An op has many names: the user writes ``nn.Conv2d``, ``F.conv2d`` or ``torch.conv2d``, Dynamo's graph says
``torch.conv2d``, AOTAutograd's says ``aten.convolution.default``. A deny list may use any of them. Two names mean the
same op when their bare names are equal (``aten.convolution.default`` → ``convolution``) or :data:`LOWERED` relates
them.

A verdict must not depend on ``--lower``: Inductor's graph has ``erf`` where AOTAutograd's has ``gelu``. So rules judge
the op as AOTAutograd first saw it (``node.composite`` where the graph was lowered further), and :data:`DECOMPOSED` and
the profile's own table say what the op is made of.

:func:`check_ops` checks the op names that a user writes (``--deny``, a constraint, a profile) against the ops that
torch has: a misspelt name would match nothing, and "no findings" would be a false all-clear. A name may be written as a
graph or a user writes it: ``convolution``, ``aten.convolution``, ``aten::convolution.default``, ``conv2d``,
``torch.nn.functional.conv2d``, ``nn.Conv2d``, ``operator.add``, ``@matmul``. The ops of a namespace that torch does not
know yet (``my_library.op``) cannot be checked: they are accepted, with one warning. Torch is imported only when a name
is checked, so that reading options stays cheap.
"""

from __future__ import annotations

import difflib
import functools
import logging
from collections.abc import Iterable

from inductor_debug_jupyter.pipeline.errors import OptionError

DEFAULT_DENY: tuple[str, ...] = (
    # Factorizations and solvers: pivoting needs data-dependent control flow, which accelerators do not have.
    *("aten.linalg_lu", "aten.linalg_lu_factor", "aten.linalg_lu_factor_ex", "aten.linalg_lu_solve", "aten.lu_unpack"),
    *("aten.linalg_solve", "aten._linalg_solve_ex", "aten.linalg_solve_triangular", "aten.triangular_solve"),
    *("aten.linalg_inv", "aten.linalg_inv_ex", "aten._linalg_det", "aten._linalg_slogdet"),
    *("aten.linalg_cholesky", "aten.linalg_cholesky_ex", "aten.cholesky_solve", "aten.linalg_qr", "aten.geqrf"),
    *("aten.linalg_eig", "aten._linalg_eigh", "aten._linalg_svd", "aten.linalg_lstsq"),
    # Sizes that depend on values.
    *("aten.nonzero", "aten.masked_select", "aten._unique2", "aten.unique_consecutive"),
    # Sorting networks are rarely there; top-k usually is.
    "aten.sort",
)
"""The ops that ``UnsupportedOpsConstraint()`` and the ``default`` profile deny."""

LOWERED: dict[str, tuple[str, ...]] = {
    "convolution": ("conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d"),
    "_linalg_det": ("det", "linalg_det"),
    "_linalg_slogdet": ("slogdet", "logdet", "linalg_slogdet"),
    "linalg_inv_ex": ("inverse", "inv", "linalg_inv"),
    "_linalg_solve_ex": ("solve", "linalg_solve"),
    "linalg_lu_factor_ex": ("lu", "lu_factor", "linalg_lu_factor"),
    "linalg_cholesky_ex": ("cholesky", "linalg_cholesky"),
    "_linalg_svd": ("svd", "linalg_svd"),
    "_linalg_eigh": ("eigh", "linalg_eigh", "eigvalsh"),
    "native_layer_norm": ("layer_norm", "layernorm"),
    "native_group_norm": ("group_norm", "groupnorm"),
    "_softmax": ("softmax",),
    "_log_softmax": ("log_softmax",),
    "addmm": ("linear",),
    "_native_batch_norm_legit": ("batch_norm", "batchnorm1d", "batchnorm2d", "batchnorm3d"),
    "embedding": ("embedding",),
}
"""Lowered op → the names that users know it by."""

DECOMPOSED: dict[str, tuple[str, ...]] = {
    "gelu": ("erf", "mul", "add"),
    "gelu_backward": ("erf", "exp", "mul", "add"),
    "gelu_tanh": ("tanh", "mul", "add"),
    "gelu_backward_tanh": ("tanh", "mul", "sub", "add"),
    "silu": ("sigmoid", "mul"),
    "silu_backward": ("sigmoid", "mul", "sub", "add"),
    "hardswish": ("clamp", "mul", "div", "add"),
    "hardsigmoid": ("clamp", "div", "add"),
    "elu": ("exp", "where", "mul"),
    "softplus": ("exp", "log1p", "where", "mul", "div"),
    "_softmax": ("amax", "sub", "exp", "sum", "div"),
    "_softmax_backward_data": ("mul", "sum", "sub"),
    "_log_softmax": ("amax", "sub", "exp", "sum", "log"),
    "_log_softmax_backward_data": ("exp", "sum", "mul", "sub"),
    "native_layer_norm": ("var_mean", "add", "rsqrt", "sub", "mul"),
    "native_layer_norm_backward": ("sum", "sub", "mul", "div"),
    "native_group_norm": ("var_mean", "add", "rsqrt", "sub", "mul"),
    "_native_batch_norm_legit_no_training": ("add", "rsqrt", "sub", "mul"),
    "addcmul": ("mul", "add"),
    "addcdiv": ("div", "add"),
    "lerp": ("sub", "mul", "add"),
    "baddbmm": ("bmm", "add"),
    "rsub": ("sub",),
    "square": ("pow",),
    "threshold_backward": ("le", "where"),
    "native_dropout": ("rand", "gt", "mul"),
    "native_dropout_backward": ("mul",),
    "embedding_dense_backward": ("index_put",),
    "std": ("var", "sqrt"),
    "logsumexp": ("amax", "sub", "exp", "sum", "log", "add"),
    "_scaled_dot_product_flash_attention_for_cpu": ("bmm", "mul", "amax", "sub", "exp", "sum", "div"),
}
"""Op → its parts, for targets that do not have the op itself. A profile's ``[ops.decompose]`` adds to
it and overrides it; only the arithmetic counts, not views and copies."""

VARIANTS = {"gelu": "tanh", "gelu_backward": "tanh"}
"""Ops with a variant: ``gelu`` with ``tanh`` among its arguments (or, where it was lowered, among its parts) is
``gelu_tanh``."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


VIEWS = _words(
    """
    view reshape _unsafe_view permute t transpose expand unsqueeze squeeze slice select getitem detach alias as_strided
    split split_with_sizes chunk clone contiguous lift_fresh lift_fresh_copy flatten unflatten view_as size sym_size
    narrow unbind diagonal unfold movedim swapaxes expand_as numel stride sym_stride sym_numel storage_offset view_dtype
    """
)
"""Ops without arithmetic: views and copies of their input, and questions about its size."""

PYTHON_NUMBERS = frozenset({"item", "scalar_tensor", "_local_scalar_dense", "_assert_scalar", "_assert_async"})
"""Ops that exchange numbers with Python, as 0-dimensional float64 tensors on the CPU."""

MATMULS = frozenset(["mm", "bmm", "addmm", "baddbmm", "matmul", "linear", "addbmm", "_int_mm"])
CONVOLUTIONS = frozenset(["convolution", "convolution_backward", "conv1d", "conv2d", "conv3d", "_convolution"])
REDUCTIONS = _words(
    """
    sum mean amax amin max min var var_mean std prod argmax argmin any all logsumexp cumsum norm softmax _softmax
    log_softmax _log_softmax layer_norm native_layer_norm native_group_norm _softmax_backward_data
    _log_softmax_backward_data native_layer_norm_backward
    """
)
OP_GROUPS: dict[str, frozenset[str]] = {"matmul": MATMULS, "convolution": CONVOLUTIONS, "reduction": REDUCTIONS}
"""Names that stand for several ops in a profile, written with an @: ``ops = ["@matmul"]``."""

_WRITTEN_AS: dict[str, frozenset[str]] = {}
for _lowered, _names in LOWERED.items():
    for _name in _names:
        _WRITTEN_AS[_name] = _WRITTEN_AS.get(_name, frozenset()) | {_lowered}


@functools.cache
def bare_name(name: str) -> str:
    """``aten.convolution.default``, ``torch.ops.aten.convolution``, ``aten::convolution`` → ``convolution``.

    An op of another library is known by its name too: ``my_library.op.default`` → ``op``.
    """
    text = name.strip().replace("::", ".").removeprefix("torch.ops.")
    parts = text.split(".")
    if parts[0] in {"aten", "prims"} and len(parts) > 1:
        return parts[1]
    if len(parts) > 2 and parts[-1] == "default":
        return parts[-2].lower()
    return parts[-1].lower()


@functools.cache
def functional_name(name: str) -> str:
    """The bare name without the underscore of an in-place op: ``aten.add_.Tensor`` → ``add``."""
    bare = bare_name(name)
    return bare[:-1] if bare.endswith("_") and not bare.endswith("__") and len(bare) > 1 else bare


def names_of(bare: str) -> frozenset[str]:
    """Every bare name that means the same op: ``conv2d`` ↔ ``convolution``."""
    return frozenset({bare, *LOWERED.get(bare, ())})


def lowered_names(bare: str) -> frozenset[str]:
    """The ops that a user's name is lowered to, and the name itself: ``conv2d`` → ``convolution``."""
    return _WRITTEN_AS.get(bare, frozenset()) | {bare}


log = logging.getLogger("inductor_debug_jupyter")

_PYTHON = frozenset(
    {"torch", "nn", "f", "functional", "operator", "tensor", "linalg", "special", "fft", "math", "builtins"}
)
"""The first parts of names that are written as Python does: ``torch.relu``, ``nn.Conv2d``."""

_warned: set[str] = set()


def check_ops(names: Iterable[str], where: str) -> None:
    """Raise when torch does not have one of these ops.

    Args:
        names: as the user wrote them.
        where: the option or argument that holds them, such as ``--deny``; the message begins with it.

    Raises:
        OptionError: torch has no op of that name.
    """
    for name in names:
        if (problem := unknown_op(name)) is not None:
            raise OptionError(f"{where}: {problem}")


def unknown_op(name: str) -> str | None:
    """One line on an op name that torch does not have, with similar names; None when torch has the op."""
    if name.startswith("@"):
        allowed = ", ".join(f"@{group}" for group in OP_GROUPS)
        near = _near(name[1:], OP_GROUPS)
        return None if name[1:] in OP_GROUPS else f"{name!r} is not a group of ops; allowed: {allowed}{near}"
    if not _is_known(name):
        _registered_ops.cache_clear()  # a library may have registered it since
    parts, registered = _parts(name), _registered_ops()
    if _is_known(name):
        return None
    if len(parts) > 1 and parts[0] in registered:
        return _not_registered(name, parts, registered[parts[0]])
    if len(parts) == 2 and parts[0] in registered["aten"]:  # not a namespace: an op with its overload
        known = _is_known(f"aten.{name}")
        return (
            f"{name!r} has no namespace; did you mean 'aten.{'.'.join(parts)}'?"
            if known
            else _not_registered(name, ["aten", *parts], registered["aten"])
        )
    if len(parts) > 1 and parts[0].lower() not in _PYTHON and all(part.isidentifier() for part in parts):
        _warn(name, parts[0])
        return None
    return f"torch has no op {name!r}{_near(bare_name(name), _bare_names())}"


def _warn(name: str, namespace: str) -> None:
    """Log, once for each name, that it could not be checked."""
    if name not in _warned:
        _warned.add(name)
        log.warning(
            "%r: torch knows no ops of %r yet, so whether there is such an op was not checked; import the library that"
            " registers it first",
            name,
            namespace,
        )


def _is_known(name: str) -> bool:
    parts, registered = _parts(name), _registered_ops()
    if len(parts) == 1 or parts[0] not in registered:
        return bare_name(name) in _bare_names() and (len(parts) == 1 or parts[0].lower() in _PYTHON)
    op, overload = parts[1], ".".join(parts[2:])
    overloads = registered[parts[0]].get(op, {"default"} if parts[0] == "aten" and op in _of_tables() else set())
    return bool(overloads) and overload in {"", "default", *overloads}


def _parts(name: str) -> list[str]:
    return name.strip().replace("::", ".").removeprefix("torch.ops.").split(".")


def _not_registered(name: str, parts: list[str], ops: dict[str, set[str]]) -> str:
    """The message for a name in a namespace that torch knows (``aten.…``): no such op, or no such overload."""
    if parts[1] not in ops:
        return f"torch has no op {name!r}{_near(parts[1], ops, prefix=f'{parts[0]}.')}"
    allowed = ", ".join(sorted(ops[parts[1]]))
    return f"{parts[0]}.{parts[1]} has no overload {'.'.join(parts[2:])!r}; allowed: {allowed}"


@functools.cache
def _registered_ops() -> dict[str, dict[str, set[str]]]:
    from inductor_debug_jupyter.pipeline.torch_compat.op_names import registered_ops

    return registered_ops()


def _bare_names() -> set[str]:
    """Every op name without namespace and overload: ``convolution``, ``conv2d``."""
    from inductor_debug_jupyter.pipeline.torch_compat.op_names import python_names

    return {*python_names(), *_of_tables(), *(op.lower() for ops in _registered_ops().values() for op in ops)}


def offered_ops() -> list[str]:
    """Names to suggest for ``--deny``: groups of ops, and torch's public aten ops without overloads."""
    public = sorted(op for op in _registered_ops()["aten"] if op[0] != "_" and not op.endswith(("_", "_out")))
    return [*(f"@{group}" for group in OP_GROUPS), *public, *(f"aten.{op}" for op in public)]


@functools.cache
def _of_tables() -> frozenset[str]:
    """The names of the tables in :mod:`ops`, some of which torch does not have: ``batchnorm2d``, ``gelu_tanh``."""
    names = {*LOWERED, *DECOMPOSED, *VIEWS, *PYTHON_NUMBERS, *(f"{op}_{word}" for op, word in VARIANTS.items())}
    return frozenset(names).union(*LOWERED.values(), *DECOMPOSED.values(), *OP_GROUPS.values())


def _near(word: str, names: Iterable[str], prefix: str = "") -> str:
    near = difflib.get_close_matches(word.lower(), list(names), n=3, cutoff=0.7)
    return f"; did you mean {', '.join(prefix + each for each in near)}?" if near else ""
