"""Names and sizes of dtypes, and the three rules about them: unsupported, narrowed and unknown ones."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from inductor_debug_jupyter.pipeline.devices.constraint import Constraint, Problem
from inductor_debug_jupyter.pipeline.devices.ops import PYTHON_NUMBERS, VIEWS, bare_name, names_of
from inductor_debug_jupyter.pipeline.errors import OptionError
from inductor_debug_jupyter.pipeline.records import GraphRecord, NodeRecord, Severity

DTYPES = [
    *("float64", "float32", "float16", "bfloat16"),
    *("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu"),
    *("complex128", "complex64", "complex32"),
    *("int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"),
]
"""Every dtype that may be named; of each family the widest first."""
_SIZES = {name: int(bits[0]) // 8 if (bits := re.search(r"\d+", name)) else 1 for name in DTYPES}

_ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "long": "int64",
    "int": "int32",
    "short": "int16",
}


def dtype_name(dtype: Any, origin: str = "dtype") -> str:
    """``torch.float16`` or ``"float16"`` → ``float16``; ``origin`` is what an error names.

    Raises:
        OptionError: there is no such dtype.
    """
    name = str(dtype).removeprefix("torch.")
    name = _ALIASES.get(name, name)
    if name not in _SIZES:
        near = difflib.get_close_matches(name, DTYPES, n=2, cutoff=0.7)
        hint = f"did you mean {' or '.join(near)}?" if near else f"allowed: {', '.join(DTYPES)}"
        raise OptionError(f"{origin}: {str(dtype)!r} is not allowed; {hint}")
    return name


def item_size(dtype: str) -> int:
    """Bytes of one element; 1 for a dtype that is not known."""
    return _SIZES.get(dtype, 1)


class DtypeConstraint(Constraint):
    """The only dtypes that the target takes, as torch dtypes or as their names.

    Args:
        allowed_dtypes: the dtypes.
        per_op: op → dtypes, for ops that take others.
    """

    rule_id = "dtype.unsupported"

    def __init__(self, allowed_dtypes: Iterable[Any], per_op: Mapping[str, Iterable[Any]] | None = None) -> None:
        self.allowed_dtypes = tuple(sorted({dtype_name(dtype) for dtype in allowed_dtypes}))
        self._per_op: dict[str, tuple[str, ...]] = {}
        for op, dtypes in (per_op or {}).items():
            allowed = tuple(sorted({dtype_name(dtype) for dtype in dtypes}))
            self._per_op.update(dict.fromkeys(names_of(bare_name(op)), allowed))

    def allowed_for(self, op: str) -> tuple[str, ...]:
        """The dtypes that one op takes, by its bare name."""
        return self._per_op.get(op, self.allowed_dtypes)

    def refused(self, node: NodeRecord, graph: GraphRecord) -> str | None:
        """The first dtype among a node's results and operands that its op does not take; None when it takes all."""
        op = bare_name(node.composite or node.target)
        if op in PYTHON_NUMBERS:
            return None
        allowed, interior, by_name = self.allowed_for(op), graph.interior, graph.by_name
        operands = (by_name[name] for name in node.inputs if name in by_name and name not in interior)
        specs = chain(node.outputs, (spec for operand in operands for spec in operand.outputs))
        return next((spec.dtype for spec in specs if spec.dtype not in allowed), None)

    def check(self, graph: GraphRecord) -> Iterator[Problem]:
        """Each op that reads or makes a tensor of another dtype; ops that hand numbers to Python are left out."""
        interior = graph.interior
        for node in graph.calls:
            if node.name in interior or (dtype := self.refused(node, graph)) is None:
                continue
            op = bare_name(node.composite or node.target)
            allowed = self.allowed_for(op)
            by_op = op in self._per_op and dtype in self.allowed_dtypes
            yield Problem(
                node.name,
                f"{dtype} is not supported" + (f" by {op}" if by_op else ""),
                observed=dtype,
                allowed=", ".join(allowed),
                explanation=f"The target has no {op if by_op else 'arithmetic'} in this dtype.",
                hints=(_instead_of(dtype, allowed),),
                evidence=f"any(t.dtype == torch.{dtype} for t in tensors)",
            )


def _instead_of(dtype: str, allowed: Iterable[str]) -> str:
    """The hint for an unsupported dtype: a cast, if there is one that keeps the values' meaning.

    A cast from complex drops the imaginary part; one to bool keeps nothing but whether a value is 0; one from a float
    to an integer keeps no fractions.
    """
    to = nearest(dtype, allowed)
    if "complex" in dtype and "complex" not in to:
        part = nearest("float32", allowed)
        return f"keep real and imaginary parts as two numbers of {part} (torch.view_as_real), or leave it to the CPU"
    if dtype != "bool" and to == "bool":
        return f"leave it to the CPU: no dtype of the target holds what {dtype} holds"
    if "float" in dtype and "int" in to:
        return "quantize the model (torch.ao.quantization), or leave it to the CPU: a plain cast drops fractions"
    return f"cast to {to} before this line"


def nearest(dtype: str, allowed: Iterable[str]) -> str:
    """The widest allowed dtype of the same family, else the widest of another, bool last."""
    allowed = tuple(allowed)
    family = next((kind for kind in ("complex", "float", "uint", "int", "bool") if kind in dtype), "")
    related = "int" if family in ("uint", "bool") else family
    known = [name for name in DTYPES if name in allowed]
    ranked = [name for name in known if family in name] or [name for name in known if related in name] or known
    return (ranked or allowed or ("a supported dtype",))[0]


class NarrowedConstraint(Constraint):
    """Integers that the target keeps in fewer bits: a value that does not fit comes back as another one.

    Narrowed floats are no finding, because rounding is expected of them; the coverage counts them.
    """

    rule_id = "dtype.narrowed"
    severity: Severity = "info"

    def __init__(self, narrow: Mapping[str, str]) -> None:
        self.narrow = {name: kept for name, kept in narrow.items() if "int" in name}

    def check(self, graph: GraphRecord) -> Iterator[Problem]:
        """Each op that makes or reads narrowed integers."""
        made = [(node.name, spec.dtype) for node in graph.nodes for spec in node.outputs if spec.dtype in self.narrow]
        narrowed = dict(reversed(made))  # node → the first narrowed dtype among its results
        for node in graph.calls if narrowed else ():
            dtype = next((narrowed[name] for name in (*node.inputs, node.name) if name in narrowed), None)
            if dtype is not None and bare_name(node.target) not in VIEWS | PYTHON_NUMBERS:
                kept = self.narrow[dtype]
                bits = item_size(kept) * 8
                yield Problem(
                    node.name,
                    f"{dtype} is kept as {kept}",
                    observed=dtype,
                    allowed=f"values from {-(2 ** (bits - 1)):,} to {2 ** (bits - 1) - 1:,}",
                    explanation=f"The target has no {dtype}: a value beyond {kept} is not the same there.",
                    hints=(f"make sure that indices and counters fit into {kept}",),
                    evidence=f"any(t.dtype == torch.{dtype} for t in tensors)",
                )


class KnownTypesConstraint(Constraint):
    """The shape and dtype of every op must be known: the other rules skip an unknown one, which is not a pass."""

    rule_id = "type.unknown"
    severity: Severity = "warning"

    def check_node(self, node: NodeRecord, graph: GraphRecord) -> Problem | None:
        """The problem of a computing node for which torch kept no example value."""
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
