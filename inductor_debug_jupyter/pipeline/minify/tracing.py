"""A model → the one graph that Dynamo makes of it, to be reduced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from inductor_debug_jupyter.pipeline.errors import UsageError
from inductor_debug_jupyter.pipeline.minify.predicates import first_line
from inductor_debug_jupyter.pipeline.rerun.copies import random_state_kept
from inductor_debug_jupyter.pipeline.torch_compat.regions import compile_whole, undisturbed


def dynamo_graph(model: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[torch.fx.GraphModule, tuple[Any, ...]]:
    """The graph of a model and that graph's inputs, with the model's parameters among them.

    The model is traced and not run. The user's own compiles of it, and torch's count of recompiles, do not change.

    Raises:
        UsageError: Dynamo breaks the graph, or sees none.
    """
    seen: list[tuple[torch.fx.GraphModule, tuple[Any, ...]]] = []

    def keep(gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def run(*values: Any) -> Any:
            seen.append((gm, values))
            raise _SeenError

        return run

    def call(*call_args: Any, **call_kwargs: Any) -> Any:
        return model(*call_args, **call_kwargs)

    try:
        with undisturbed(), random_state_kept():
            compile_whole(call, keep)(*args, **kwargs)
    except _SeenError:
        pass
    except Exception as error:
        raise UsageError(f"no single graph of this model: {type(error).__name__}: {first_line(error)}") from error
    if not seen:
        raise UsageError("no graph of this model: it computes nothing with tensors")
    return seen[0]


class _SeenError(Exception):
    """Raised instead of running the graph."""
