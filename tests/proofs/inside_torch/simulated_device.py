"""A ``torch.compile`` backend that computes in a given arithmetic and does not say so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo.backends.common import aot_autograd
from torch._functorch._aot_autograd.utils import make_boxed_func

from inductor_debug_jupyter.pipeline.formats.arithmetic import Arithmetic
from inductor_debug_jupyter.pipeline.torch_compat.op_interception import ComputedBy


def simulated_device(arithmetic: Arithmetic) -> Callable[..., Any]:
    """The backend."""

    def compiler(graph: torch.fx.GraphModule, _: Any) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            with ComputedBy(arithmetic.compute):
                return graph(*args)

        made: Callable[..., Any] = make_boxed_func(run)
        return made

    backend: Callable[..., Any] = aot_autograd(fw_compiler=compiler)
    return backend
