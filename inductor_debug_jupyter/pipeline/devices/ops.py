"""Names of ops, and the rule that denies some of them.

An op has many names: the user writes ``nn.Conv2d``, ``F.conv2d`` or ``torch.conv2d``, Dynamo's graph says
``torch.conv2d``, AOTAutograd's says ``aten.convolution.default``. A deny list may use any of them. Two names meet when
their bare names are equal (``aten.convolution.default`` → ``convolution``), and :data:`LOWERED` says which ops a bare
name becomes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from inductor_debug_jupyter.pipeline.devices.constraint import Constraint, Problem
from inductor_debug_jupyter.pipeline.records import GraphRecord

DEFAULT_DENY: tuple[str, ...] = (
    # Factorizations and solvers: pivoting needs data-dependent control flow, which accelerators do not have.
    "aten.linalg_lu",
    "aten.linalg_lu_factor",
    "aten.linalg_lu_factor_ex",
    "aten.linalg_lu_solve",
    "aten.lu_unpack",
    "aten.linalg_solve",
    "aten._linalg_solve_ex",
    "aten.linalg_solve_triangular",
    "aten.triangular_solve",
    "aten.linalg_inv",
    "aten.linalg_inv_ex",
    "aten._linalg_det",
    "aten._linalg_slogdet",
    "aten.linalg_cholesky",
    "aten.linalg_cholesky_ex",
    "aten.cholesky_solve",
    "aten.linalg_qr",
    "aten.geqrf",
    "aten.linalg_eig",
    "aten._linalg_eigh",
    "aten._linalg_svd",
    "aten.linalg_lstsq",
    # Sizes that depend on values.
    "aten.nonzero",
    "aten.masked_select",
    "aten._unique2",
    "aten.unique_consecutive",
    # Sorting networks are rarely there; top-k usually is.
    "aten.sort",
)
"""What ``UnsupportedOpsConstraint()`` and the ``default`` profile deny: the LU family and the like."""

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

_WRITTEN_AS: dict[str, frozenset[str]] = {}
for _lowered, _names in LOWERED.items():
    for _name in _names:
        _WRITTEN_AS[_name] = _WRITTEN_AS.get(_name, frozenset()) | {_lowered}


def bare_name(name: str) -> str:
    """``aten.convolution.default``, ``torch.ops.aten.convolution``, ``aten::convolution`` → ``convolution``."""
    text = name.strip().replace("::", ".").removeprefix("torch.ops.")
    parts = text.split(".")
    if parts[0] in {"aten", "prims"} and len(parts) > 1:
        return parts[1]
    return parts[-1].lower()


class UnsupportedOpsConstraint(Constraint):
    """Ops that the target does not have, by any of their names; :data:`DEFAULT_DENY` when none are given."""

    rule_id = "op.unsupported"

    def __init__(self, unsupported_ops: Iterable[str] = DEFAULT_DENY) -> None:
        self.unsupported_ops = tuple(unsupported_ops)
        self._denied: dict[str, str] = {}
        for written in self.unsupported_ops:
            bare = bare_name(written)
            for name in {bare, *LOWERED.get(bare, ())}:
                self._denied.setdefault(name, written)

    def check(self, graph: GraphRecord) -> Iterator[Problem]:
        """Every node whose op, in this graph's own words, is denied."""
        for node in graph.calls:
            names = [node.target, *node.aten_ops]
            denied = next((name for name in names if bare_name(name) in self._denied), None)
            if denied is not None:
                written = self._denied[bare_name(denied)]
                yield Problem(
                    node.name,
                    f"the target has no {written}",
                    observed=denied,
                    allowed=f"any op but {written}",
                    explanation=f"{denied} is on the target's list of ops that it does not have.",
                    hints=(f"replace {bare_name(denied)} by ops that the target has, or keep this part on the CPU",),
                    evidence=f"bare(op) == {bare_name(denied)!r}",
                )

    def equivalent(self, dynamo_target: str, aot_targets: Iterable[str]) -> bool:
        """Whether a denied Dynamo op is already found in the AOT graphs under its lowered name."""
        bare = bare_name(dynamo_target)
        lowered = _WRITTEN_AS.get(bare, frozenset()) | {bare}
        return any(bare_name(target) in lowered and bare_name(target) in self._denied for target in aot_targets)
