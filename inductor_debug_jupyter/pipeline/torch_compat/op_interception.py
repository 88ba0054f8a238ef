"""A dispatch mode that computes every ATen op through a function of the caller."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.utils._python_dispatch import TorchDispatchMode

Compute = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]


class ComputedBy(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is active, ``compute(op, args, kwargs)`` stands for every op; inside of it ops are torch's own."""

    supports_higher_order_operators = True

    def __init__(self, compute: Compute) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._compute = compute

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Compute one op."""
        return self._compute(func, tuple(args), dict(kwargs or {}))
