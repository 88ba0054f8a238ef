"""Run eager code as if every op wrote its result in a narrower format."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from inductor_debug_jupyter.pipeline.torch_compat.trees import map_tensors


class RoundedResults(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is active, ``narrow`` is applied to what each op writes; forward and backward alike.

    Args:
        narrow: values → the values that the format can hold, in the same dtype.
    """

    def __init__(self, narrow: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._narrow = narrow

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """A view writes nothing: what it shows was rounded when it was written."""
        result = func(*args, **(kwargs or {}))
        if func.is_view:
            return result

        def round_in_place(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.copy_(self._narrow(tensor)) if tensor.is_floating_point() else tensor

        return map_tensors(round_in_place, result)
