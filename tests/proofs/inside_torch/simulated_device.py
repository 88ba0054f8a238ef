"""A ``torch.compile`` backend that computes each ATen op by a function and does not say how."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func

from inductor_debug_jupyter.pipeline.torch_compat.op_interception import Compute, ComputedBy


def simulated_device(compute: Compute) -> Callable[..., Any]:
    """The backend."""

    def compiler(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            with ComputedBy(compute):
                return graph(*args)

        made: Callable[..., Any] = make_boxed_func(run)
        return made

    backend: Callable[..., Any] = aot_autograd(fw_compiler=compiler)
    return backend
