"""The rules about dtypes and layouts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from inductor_debug_jupyter.pipeline.devices.constraint import Constraint, Problem, operands
from inductor_debug_jupyter.pipeline.devices.ops import bare_name
from inductor_debug_jupyter.pipeline.devices.shapes import VIEWS
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord, Severity, TensorSpec

DTYPES = [
    "float64",
    "float32",
    "float16",
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
    "complex128",
    "complex64",
    "complex32",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint64",
    "uint32",
    "uint16",
    "uint8",
    "bool",
]

_ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
}

_PYTHON_NUMBERS = frozenset({"item", "scalar_tensor"})
"""How a graph hands numbers to Python and takes them back: as 0-dimensional float64 on the CPU."""

MATMULS = frozenset(["mm", "bmm", "addmm", "baddbmm", "matmul", "linear", "addbmm", "_int_mm"])


def dtype_name(dtype: Any) -> str:
    """``torch.float16`` or ``"float16"`` → ``float16``.

    Raises:
        OptionError: there is no such dtype.
    """
    name = str(dtype).removeprefix("torch.")
    name = _ALIASES.get(name, name)
    if name not in DTYPES:
        raise OptionError(f"dtype: {str(dtype)!r} is not allowed; allowed: {', '.join(DTYPES)}")
    return name


class DtypeConstraint(Constraint):
    """The only dtypes that the target takes, as torch dtypes or as their names."""

    rule_id = "dtype.unsupported"

    def __init__(self, allowed_dtypes: Iterable[Any]) -> None:
        self.allowed_dtypes = tuple(sorted({dtype_name(dtype) for dtype in allowed_dtypes}))

    def check_node(self, node: NodeRecord, graph: GraphRecord) -> Problem | None:
        """A node that reads or makes a tensor of another dtype; handing a number to Python or back is no arithmetic."""
        if bare_name(node.target) in _PYTHON_NUMBERS:
            return None
        for each in (node, *operands(node, graph)):
            for spec in each.outputs:
                if spec.dtype not in self.allowed_dtypes:
                    return Problem(
                        node.name,
                        f"{spec.dtype} is not supported",
                        observed=spec.dtype,
                        allowed=", ".join(self.allowed_dtypes),
                        explanation="The target has no arithmetic in this dtype.",
                        hints=(f"cast to {self._nearest(spec.dtype)} before this line",),
                        evidence=f"any(t.dtype == torch.{spec.dtype} for t in tensors)",
                    )
        return None

    def _nearest(self, dtype: str) -> str:
        """The widest supported dtype of the same family, else the first supported one."""
        family = next((kind for kind in ("complex", "float", "uint", "int", "bool") if kind in dtype), "")
        ranked = [name for name in DTYPES if name in self.allowed_dtypes and family in name]
        return ranked[0] if ranked else (self.allowed_dtypes or ("a supported dtype",))[0]


class KnownTypesConstraint(Constraint):
    """Every op must say what it makes: what is unknown was not checked, and that must not look like a pass."""

    rule_id = "type.unknown"
    severity: Severity = "warning"

    def check_node(self, node: NodeRecord, graph: GraphRecord) -> Problem | None:
        """A computing node that torch kept no value for."""
        if node.typed:
            return None
        return Problem(
            node.name,
            f"nothing is known about what {bare_name(node.target)} makes",
            observed="no shape and no dtype",
            allowed="ops whose results torch can infer",
            explanation="The other rules could not look at this op, so it was not checked.",
            hints=("give a custom op a fake implementation (torch.library.register_fake)",),
        )


class LayoutConstraint(Constraint):
    """Computing ops read contiguous tensors.

    A matmul takes its operands transposed (every matrix unit does), and size-1 dimensions have no layout.
    """

    rule_id = "layout.not_contiguous"

    def __init__(self, severity: Severity = "error") -> None:
        self.severity = severity

    def check(self, graph: GraphRecord) -> Iterator[Problem]:
        """Each computing op that reads a tensor whose rows are not next to each other."""
        for node in graph.calls:
            name = bare_name(node.target)
            if name in VIEWS:
                continue
            for operand in operands(node, graph):
                spec = operand.tensor
                if spec is None or is_contiguous(spec) or (name in MATMULS and is_transposed_matrix(spec)):
                    continue
                yield Problem(
                    node.name,
                    f"{name} reads a tensor that is not contiguous",
                    observed=f"{spec} with strides {list(spec.stride or ())}",
                    allowed=f"strides {list(dense_strides(spec.shape) or ())}",
                    explanation="The target reads tensors row by row; another order needs a copy first.",
                    hints=("call .contiguous() before this line, or reorder the dimensions once, earlier",),
                    evidence=f"bare(op) == {name!r} and any(not t.is_contiguous() for t in tensors)",
                )
                break


def dense_strides(shape: tuple[int | str, ...]) -> tuple[int, ...] | None:
    """The strides of a contiguous tensor, or None when a size is symbolic."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        if isinstance(size, str):
            return None
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def is_contiguous(spec: TensorSpec) -> bool:
    """Whether a tensor's elements lie in row order.

    Dimensions of size 1 and broadcast ones (stride 0) have no order; symbolic sizes are judged by their last stride.
    """
    if spec.stride is None:
        return False
    if 0 in spec.shape:
        return True
    kept = [(size, step) for size, step in zip(spec.shape, spec.stride, strict=True) if size != 1 and step != 0]
    dense = dense_strides(tuple(size for size, _ in kept))
    if dense is None:
        return bool(not kept or kept[-1][1] == 1)
    return all(step == want for (_, step), want in zip(kept, dense, strict=True))


def is_transposed_matrix(spec: TensorSpec) -> bool:
    """Whether swapping the last two dimensions makes the tensor contiguous."""
    if spec.stride is None or len(spec.shape) < 2:
        return False

    def swap(dims: tuple[int | str, ...]) -> tuple[int | str, ...]:
        return (*dims[:-2], dims[-1], dims[-2])

    return is_contiguous(TensorSpec(swap(spec.shape), spec.dtype, swap(spec.stride)))
